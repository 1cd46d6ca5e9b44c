use std::time::Duration;

use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::{AcquireRebuildRequest, Intent, LostReason, Rebuild, RenewLeaseRequest, RenewLeaseResponse};

use crate::support::{Drover, ask, drop_keys, eventually, lease, length, report, span, token};

async fn renew(drover: &Drover, key: &str, rebuild: &Rebuild, ttl: u64) -> RenewLeaseResponse {
    let request = RenewLeaseRequest {
        namespace: "shop".to_owned(),
        key: key.to_owned(),
        lease_id: lease(rebuild).lease_id,
        ttl: span(ttl),
    };
    drover
        .calls
        .clone()
        .renew_lease(request)
        .await
        .expect("an answer")
        .into_inner()
}

async fn lost(drover: &Drover, key: &str, rebuild: &Rebuild) -> LostReason {
    let answer = renew(drover, key, rebuild, 1_000).await;
    assert!(!answer.renewed, "{answer:?}");
    answer.lost_reason()
}

fn short(key: &str) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        lease_ttl: span(100),
        ..ask(key)
    }
}

#[tokio::test]
async fn a_renewal_counts_from_now_and_ends_at_the_longest_hold() {
    let drover = Drover::with(|policy| policy.max_hold = Duration::from_secs(20)).await;
    let rebuild = drover.granted(ask("item")).await;
    let shorter = renew(&drover, "item", &rebuild, 2_000).await;
    assert!(
        shorter.renewed && length(&shorter.ttl) <= Duration::from_secs(2),
        "{shorter:?}"
    );
    let longest = renew(&drover, "item", &rebuild, 3_600_000).await;
    assert!(longest.renewed, "{longest:?}");
    assert!(length(&longest.ttl) <= Duration::from_secs(20) && length(&longest.ttl) > Duration::from_secs(15));
    assert_eq!(longest.ttl, longest.max_hold);
    let no_more = renew(&drover, "item", &rebuild, 1_000).await;
    assert_eq!(no_more.lost_reason(), LostReason::MaxHold);
    assert!(
        !no_more.renewed && !length(&no_more.ttl).is_zero(),
        "it lives on: {no_more:?}"
    );
    drover.accept(report("item", &rebuild, "value")).await;
    drover.end().await;
}

#[tokio::test]
async fn a_lease_length_is_brought_into_the_policy_s_range() {
    let drover = Drover::with(|policy| policy.max_hold = Duration::from_secs(20)).await;
    for (key, asked, least, most) in [
        ("zero", 0, 1, 100),
        ("short", 1, 1, 100),
        ("long", 30 * 24 * 3_600_000, 19_000, 20_000),
    ] {
        let rebuild = drover
            .granted(AcquireRebuildRequest {
                lease_ttl: span(asked),
                ..ask(key)
            })
            .await;
        let ttl = length(&lease(&rebuild).ttl);
        assert!(
            ttl >= Duration::from_millis(least) && ttl <= Duration::from_millis(most),
            "{key}: {ttl:?}"
        );
        assert!(length(&lease(&rebuild).max_hold) <= Duration::from_secs(20));
    }
    drover.end().await;
}

#[tokio::test]
async fn a_lost_lease_says_how_it_was_lost_and_is_never_revived() {
    let drover = Drover::start().await;

    let reported = drover.granted(ask("reported")).await;
    drover.accept(report("reported", &reported, "value")).await;
    assert_eq!(lost(&drover, "reported", &reported).await, LostReason::Reported);

    let invalidated = drover.granted(ask("invalidated")).await;
    drover.invalidate(drop_keys(&["invalidated"])).await;
    assert_eq!(
        lost(&drover, "invalidated", &invalidated).await,
        LostReason::Invalidated
    );

    let superseded = drover.granted(short("superseded")).await;
    let newer = eventually(async || match drover.ask(ask("superseded")).await {
        Decision::Rebuild(rebuild) => Some(rebuild),
        _ => None,
    })
    .await;
    assert!(token(&newer) > token(&superseded));
    assert_eq!(lost(&drover, "superseded", &superseded).await, LostReason::Superseded);

    let expired = drover.granted(short("expired")).await;
    eventually(async || {
        let reader = AcquireRebuildRequest {
            intent: Intent::Read.into(),
            ..ask("expired")
        };
        matches!(drover.ask(reader).await, Decision::Miss(_)).then_some(())
    })
    .await;
    assert_eq!(lost(&drover, "expired", &expired).await, LostReason::Expired);
    assert_eq!(
        lost(&drover, "expired", &expired).await,
        LostReason::Expired,
        "nothing revives it"
    );
    drover.accept(report("expired", &expired, "still in time")).await;

    drover.end().await;
}

#[tokio::test]
async fn a_forged_lease_changes_nothing() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let id = lease(&rebuild).lease_id;
    let mut forged = rebuild.clone();
    let (head, last) = id.split_at(id.len() - 1);
    let other = if last == "0" { "1" } else { "0" };
    for text in [format!("{head}{other}"), "anything".to_owned(), "~".repeat(128)] {
        forged.lease = Some(drover::proto::Lease {
            lease_id: text,
            ..lease(&rebuild)
        });
        assert_eq!(lost(&drover, "item", &forged).await, LostReason::UnknownLease);
        assert_eq!(lost(&drover, "nowhere", &forged).await, LostReason::UnknownLease);
    }
    assert!(renew(&drover, "item", &rebuild, 1_000).await.renewed);
    drover.end().await;
}
