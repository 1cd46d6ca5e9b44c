//! Each limit of a request, broken alone, over the wire: the field is named. (What is just allowed, and every corner, is tested beside
//! the checks themselves.)

use drover::proto::report_value_request::Outcome;
use drover::proto::watch_request::Kind;
use drover::proto::{
    Ack, AcquireRebuildRequest, DescribeKeyRequest, External, InvalidateRequest, KeyHits, Lifetimes, ListLeasesRequest,
    ListNamespacesRequest, RenewLeaseRequest, ReportValueRequest, ScheduleRefreshRequest, Subscribe,
};
use prost_types::Duration;

use crate::statuses::fields;
use crate::support::{Drover, ask, drop_everything, drop_keys};
use crate::watching::{Watcher, subscribe};

fn many(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("t{at}")).collect()
}

fn bad_spans() -> [Duration; 6] {
    let span = |seconds, nanos| Duration { seconds, nanos };
    [
        span(-1, 0),
        span(0, -1),
        span(1, -1),
        span(-1, 1),
        span(30 * 24 * 3_600, 1),
        span(0, 1_000_000_000),
    ]
}

fn reporting() -> ReportValueRequest {
    ReportValueRequest {
        namespace: "shop".to_owned(),
        key: "item".to_owned(),
        lease_id: "l1-0000000000000001".to_owned(),
        outcome: Some(Outcome::Value("value".into())),
        ..ReportValueRequest::default()
    }
}

#[tokio::test]
async fn of_acquire() {
    let drover = Drover::start().await;
    type Break = Box<dyn Fn(&mut AcquireRebuildRequest)>;
    let mut cases: Vec<(&str, Break)> = vec![
        ("namespace", Box::new(|it| it.namespace = String::new())),
        ("namespace", Box::new(|it| it.namespace = "a/b".to_owned())),
        ("namespace", Box::new(|it| it.namespace = "Shop".to_owned())),
        ("namespace", Box::new(|it| it.namespace = "-a".to_owned())),
        ("namespace", Box::new(|it| it.namespace = "a".repeat(65))),
        ("key", Box::new(|it| it.key = String::new())),
        ("key", Box::new(|it| it.key = "k".repeat(1_025))),
        ("holder", Box::new(|it| it.holder = "h".repeat(257))),
        ("request_id", Box::new(|it| it.request_id = "r".repeat(65))),
        ("request_id", Box::new(|it| it.request_id = "é".to_owned())),
        ("intent", Box::new(|it| it.intent = 99)),
        ("intent", Box::new(|it| it.intent = -1)),
        ("known_version", Box::new(|it| it.known_version = -1)),
        ("newer_than", Box::new(|it| it.newer_than = -1)),
        ("hits", Box::new(|it| it.hits = -1)),
        ("min_fencing_token", Box::new(|it| it.min_fencing_token = -1)),
        ("min_fencing_token", Box::new(|it| it.min_fencing_token = i64::MAX)),
        ("tags", Box::new(|it| it.tags = many(17))),
        ("tags[1]", Box::new(|it| it.tags = vec!["a".to_owned(), String::new()])),
        ("tags[0]", Box::new(|it| it.tags = vec!["t".repeat(257)])),
    ];
    for span in bad_spans() {
        cases.push(("wait", Box::new(move |it| it.wait = Some(span))));
        cases.push(("lease_ttl", Box::new(move |it| it.lease_ttl = Some(span))));
    }
    for (field, change) in cases {
        let mut request = ask("item");
        change(&mut request);
        let status = drover.calls.clone().acquire_rebuild(request).await.expect_err(field);
        assert_eq!(fields(&status), [field]);
    }
    drover.granted(ask("item")).await;
    drover.end().await;
}

#[tokio::test]
async fn of_report_and_renew() {
    let drover = Drover::start().await;
    type Break = Box<dyn Fn(&mut ReportValueRequest)>;
    let external = |length| {
        Some(Outcome::External(External {
            locator: "l".repeat(length),
        }))
    };
    let mut cases: Vec<(&str, Break)> = vec![
        ("namespace", Box::new(|it| it.namespace.clear())),
        ("key", Box::new(|it| it.key.clear())),
        ("lease_id", Box::new(|it| it.lease_id.clear())),
        ("lease_id", Box::new(|it| it.lease_id = "l".repeat(129))),
        ("lease_id", Box::new(|it| it.lease_id = "\u{7f}".to_owned())),
        ("outcome", Box::new(|it| it.outcome = None)),
        ("external.locator", Box::new(move |it| it.outcome = external(1_025))),
        ("tags", Box::new(|it| it.tags = many(17))),
        (
            "do_not_store",
            Box::new(move |it| {
                it.outcome = external(1);
                it.do_not_store = true;
            }),
        ),
    ];
    for span in bad_spans() {
        let lifetimes = Lifetimes::default;
        cases.push(("rebuild_cost", Box::new(move |it| it.rebuild_cost = Some(span))));
        let fresh_ttl = Some(span);
        cases.push((
            "ttl.fresh_ttl",
            Box::new(move |it| {
                it.ttl = Some(Lifetimes {
                    fresh_ttl,
                    ..lifetimes()
                })
            }),
        ));
        let stale_if_error = Some(span);
        cases.push((
            "ttl.stale_if_error",
            Box::new(move |it| {
                it.ttl = Some(Lifetimes {
                    stale_if_error,
                    ..lifetimes()
                })
            }),
        ));
        cases.push((
            "failure.retry_after",
            Box::new(move |it| {
                it.outcome = Some(Outcome::Failure(drover::proto::Failure {
                    message: String::new(),
                    retry_after: Some(span),
                }));
            }),
        ));
    }
    for (field, change) in cases {
        let mut request = reporting();
        change(&mut request);
        let status = drover.calls.clone().report_value(request).await.expect_err(field);
        assert_eq!(fields(&status), [field]);
    }
    for span in bad_spans() {
        let request = RenewLeaseRequest {
            namespace: "shop".to_owned(),
            key: "item".to_owned(),
            lease_id: "l1-0000000000000001".to_owned(),
            ttl: Some(span),
        };
        let status = drover
            .calls
            .clone()
            .renew_lease(request)
            .await
            .expect_err("a bad length");
        assert_eq!(fields(&status), ["ttl"]);
    }
    drover.end().await;
}

#[tokio::test]
async fn of_invalidate_and_schedule() {
    let drover = Drover::start().await;
    type Break = Box<dyn Fn(&mut InvalidateRequest)>;
    let mut cases: Vec<(&str, Break)> = vec![
        ("namespace", Box::new(|it| it.namespace.clear())),
        ("keys", Box::new(|it| it.keys.clear())),
        ("keys", Box::new(|it| it.keys = many(1_001))),
        ("tags", Box::new(|it| it.tags = many(1_000))),
        ("keys[0]", Box::new(|it| it.keys[0].clear())),
        ("tags[0]", Box::new(|it| it.tags = vec!["t".repeat(257)])),
        ("everything", Box::new(|it| it.everything = true)),
        ("mode", Box::new(|it| it.mode = 3)),
        ("reason", Box::new(|it| it.reason = "r".repeat(257))),
    ];
    for span in bad_spans() {
        cases.push((
            "wait_for_watchers",
            Box::new(move |it| it.wait_for_watchers = Some(span)),
        ));
        cases.push(("settle", Box::new(move |it| it.settle = Some(span))));
    }
    for (field, change) in cases {
        let mut request = drop_keys(&["item"]);
        change(&mut request);
        let status = drover.calls.clone().invalidate(request).await.expect_err(field);
        assert_eq!(fields(&status), [field]);
    }
    for (field, keys, span) in [
        ("keys", many(10_001), None),
        ("keys", vec!["k".repeat(1_024); 2_049], None),
        ("keys[0]", vec!["k".repeat(1_025)], None),
        ("spread_over", many(1), Some(bad_spans()[4])),
    ] {
        let request = ScheduleRefreshRequest {
            namespace: "shop".to_owned(),
            keys,
            spread_over: span,
            only_if_missing: false,
        };
        let status = drover.calls.clone().schedule_refresh(request).await.expect_err(field);
        assert_eq!(fields(&status), [field]);
    }
    drover.invalidate(drop_everything()).await;
    drover.end().await;
}

#[tokio::test]
async fn of_watch() {
    let drover = Drover::start().await;
    type Break = Box<dyn Fn(&mut Subscribe)>;
    let cases: Vec<(&str, Break)> = vec![
        ("subscribe.namespaces", Box::new(|it| it.namespaces.clear())),
        ("subscribe.namespaces", Box::new(|it| it.namespaces = many(65))),
        (
            "subscribe.namespaces[1]",
            Box::new(|it| it.namespaces.push("NO".to_owned())),
        ),
        ("subscribe.key_prefixes", Box::new(|it| it.key_prefixes = many(101))),
        (
            "subscribe.key_prefixes[0]",
            Box::new(|it| it.key_prefixes = vec!["k".repeat(1_025)]),
        ),
        ("subscribe.holder", Box::new(|it| it.holder = "h".repeat(257))),
    ];
    for (field, change) in cases {
        let mut subscribe = subscribe();
        change(&mut subscribe);
        let mut watcher = Watcher::new(&drover, subscribe).await;
        assert_eq!(fields(&watcher.refused().await), [field]);
    }
    let hit = |namespace: &str, key: &str, hits| KeyHits {
        namespace: namespace.to_owned(),
        key: key.to_owned(),
        hits,
    };
    for (field, read) in [
        ("ack.hits[0].namespace", hit("NO", "item", 1)),
        ("ack.hits[0].key", hit("shop", "", 1)),
        ("ack.hits[0].hits", hit("shop", "item", -1)),
    ] {
        let mut watcher = Watcher::live(&drover, subscribe()).await;
        let cursor = watcher.cursor.clone();
        watcher
            .say(Kind::Ack(Ack {
                cursor,
                hits: vec![read],
            }))
            .await;
        assert_eq!(fields(&watcher.refused().await), [field]);
    }
    let mut watcher = Watcher::live(&drover, subscribe()).await;
    watcher.acknowledge_at(&"A".repeat(2_049)).await;
    assert_eq!(fields(&watcher.refused().await), ["ack.cursor"]);
    drover.end().await;
}

#[tokio::test]
async fn of_admin() {
    let drover = Drover::start().await;
    let mut admin = drover.admin().await;
    for (field, namespace, key) in [("namespace", "NO", "item"), ("key", "shop", "")] {
        let request = DescribeKeyRequest {
            namespace: namespace.to_owned(),
            key: key.to_owned(),
        };
        assert_eq!(fields(&admin.describe_key(request).await.expect_err(field)), [field]);
    }
    for page_size in [-1, 1_001, i32::MIN] {
        let leases = ListLeasesRequest {
            page_size,
            ..ListLeasesRequest::default()
        };
        let namespaces = ListNamespacesRequest {
            page_size,
            ..ListNamespacesRequest::default()
        };
        assert_eq!(
            fields(&admin.list_leases(leases).await.expect_err("a size")),
            ["page_size"]
        );
        assert_eq!(
            fields(&admin.list_namespaces(namespaces).await.expect_err("a size")),
            ["page_size"]
        );
    }
    drop(admin);
    drover.end().await;
}
