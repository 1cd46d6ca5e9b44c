//! What operators see.

use std::sync::Arc;
use std::time::Duration;

use drover::config::PolicySet;
use drover::decision::Policy;
use drover::proto::hit::Content;
use drover::proto::{
    AcquireRebuildRequest, Cause, DescribeKeyRequest, DescribeKeyResponse, ListLeasesRequest, ListNamespacesRequest,
};
use prost::Message as _;

use crate::statuses::fields;
use crate::support::{Drover, ask, ended, failed, lease, length, span, token, until, wait};

async fn describe(drover: &Drover, key: &str) -> DescribeKeyResponse {
    let request = DescribeKeyRequest {
        namespace: "shop".to_owned(),
        key: key.to_owned(),
    };
    drover
        .admin()
        .await
        .describe_key(request)
        .await
        .expect("an answer")
        .into_inner()
}

#[tokio::test]
async fn a_key_is_described_without_its_bytes_and_its_lease_s_secret() {
    let drover = Drover::start().await.at_one_replica().await;
    assert_eq!(
        describe(&drover, "item").await,
        DescribeKeyResponse::default(),
        "nothing known is no error"
    );
    let version = drover.fill("item", "the-secret-bytes").await;
    let force = AcquireRebuildRequest {
        intent: drover::proto::Intent::Force.into(),
        holder: "host-1".to_owned(),
        ..ask("item")
    };
    let rebuild = drover.granted(force.clone()).await;
    let waiting = drover.park(AcquireRebuildRequest { wait: None, ..force }).await;
    let known = describe(&drover, "item").await;
    let current = known.current.clone().expect("a value");
    assert_eq!(
        (current.version, current.content),
        (version, Some(Content::Omitted(drover::proto::Omitted {})))
    );
    assert_eq!(known.waiters, 1);
    let held = known.lease.clone().expect("a lease");
    assert_eq!(
        (held.holder.as_str(), held.fencing_token, held.cause()),
        ("host-1", token(&rebuild), Cause::Forced)
    );
    let wire = known.encode_to_vec();
    let has = |text: &str| wire.windows(text.len()).any(|window| window == text.as_bytes());
    let id = lease(&rebuild).lease_id;
    assert!(has("host-1") && !has("the-secret-bytes") && !has(&id));
    assert!(
        !has(id.rsplit('-').next().expect("a part")),
        "not the random part alone either: {id}"
    );
    waiting.abort();
    drover.accept(ended("item", &rebuild, failed("down"))).await;
    until(|| drover.parked() == 0).await;
    let known = describe(&drover, "item").await;
    assert_eq!(
        (known.backoff.expect("a pause").message.as_str(), known.lease),
        ("down", None)
    );
    drover.end().await;
}

#[tokio::test]
async fn live_leases_are_listed_page_by_page_the_longest_held_first() {
    let drover = Drover::start().await;
    let keys: Vec<String> = (0..25).map(|at| format!("item/{at}\n\0")).collect();
    for key in &keys {
        drover.granted(ask(key)).await;
    }
    let elsewhere = AcquireRebuildRequest {
        namespace: "elsewhere".to_owned(),
        ..ask("item")
    };
    drover.granted(elsewhere).await;
    let waiting = drover.park(wait(&keys[0])).await;
    let mut admin = drover.admin().await;
    let (mut seen, mut page_token, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let request = ListLeasesRequest {
            namespace: "shop".to_owned(),
            page_size: 10,
            page_token,
        };
        let page = admin.list_leases(request).await.expect("a page").into_inner();
        assert!(page.leases.len() <= 10);
        seen.extend(page.leases);
        pages += 1;
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, 3);
    assert_eq!(seen.iter().map(|lease| lease.key.clone()).collect::<Vec<_>>(), keys);
    assert_eq!((seen[0].waiters, seen[1].waiters), (1, 0));
    assert!(
        seen.iter()
            .all(|lease| !length(&lease.ttl).is_zero() && lease.holder == "holder")
    );
    let all = admin
        .list_leases(ListLeasesRequest::default())
        .await
        .expect("a page")
        .into_inner();
    assert_eq!(all.leases.len(), 26, "an empty namespace is all of them");
    for page_token in ["garbage", "bA", "\u{1F980}"] {
        let request = ListLeasesRequest {
            page_token: page_token.to_owned(),
            ..ListLeasesRequest::default()
        };
        assert_eq!(
            fields(&admin.list_leases(request).await.expect_err("garbage")),
            ["page_token"]
        );
    }
    waiting.abort();
    drop(admin);
    drover.end().await;
}

#[tokio::test]
async fn namespaces_are_listed_with_counts_and_a_policy_that_a_file_could_have() {
    let special = Policy {
        fresh_ttl: Duration::from_millis(1_500),
        ..Policy::default()
    };
    let drover = Drover::under(PolicySet {
        namespaces: [("configured".to_owned(), Arc::new(special))].into(),
        ..PolicySet::default()
    })
    .await
    .at_one_replica()
    .await;
    let rebuild = drover.granted(ask("item")).await;
    let waiting = drover
        .park(AcquireRebuildRequest {
            wait: span(9_000),
            ..ask("item")
        })
        .await;
    drover.fill("other", "value").await;
    let mut admin = drover.admin().await;
    let list = admin
        .list_namespaces(ListNamespacesRequest::default())
        .await
        .expect("a page")
        .into_inner();
    let names: Vec<&str> = list.namespaces.iter().map(|info| info.namespace.as_str()).collect();
    assert_eq!(names, ["configured", "shop"]);
    let shop = &list.namespaces[1];
    assert_eq!(
        (shop.entries, shop.leases, shop.waiters, shop.circuit_open),
        (2, 1, 1, false)
    );
    for info in &list.namespaces {
        let policy: toml::Table = toml::from_str(&info.policy).expect("TOML");
        assert!(
            policy.contains_key("fresh_ttl") && policy.contains_key("backoff"),
            "{policy:?}"
        );
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("drover.toml");
        std::fs::write(
            &file,
            info.policy
                .lines()
                .fold("[defaults]\n".to_owned(), |all, line| all + line + "\n"),
        )
        .expect("written");
        let checked = std::process::Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["config", "check"])
            .arg(&file)
            .output();
        let checked = checked.expect("it runs");
        assert!(
            checked.status.success(),
            "{}\n{}",
            info.policy,
            String::from_utf8_lossy(&checked.stderr)
        );
    }
    assert!(list.namespaces[0].policy.contains("\"1s 500ms\""), "{list:?}");
    waiting.abort();
    drover
        .accept(ended("item", &rebuild, crate::support::abandoned()))
        .await;
    drop(admin);
    drover.end().await;
}
