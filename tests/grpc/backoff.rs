//! Nobody may rebuild for a while after a failure.

use std::time::Duration;

use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::report_value_request::Outcome;
use drover::proto::{AcquireRebuildRequest, Failure, Intent};

use crate::support::{
    Drover, ask, drop_everything, drop_keys, ended, eventually, failed, got, keep_off, length, report, span, text, wait,
};

#[tokio::test]
async fn those_who_wait_and_those_who_come_keep_off_each_for_a_little_else() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let mut pauses = std::collections::HashSet::new();
    let mut parked = Vec::new();
    for _ in 0..20 {
        parked.push(drover.park(wait("item")).await);
    }
    drover
        .accept(ended("item", &rebuild, failed("the origin is down")))
        .await;
    for asking in parked {
        let pause = keep_off(got(asking).await);
        assert_eq!(
            (pause.failures, pause.message.as_str(), pause.circuit_open),
            (1, "the origin is down", false)
        );
        let after = length(&pause.retry_after);
        assert!(
            after > Duration::from_millis(300) && after <= Duration::from_millis(1_100),
            "{after:?}"
        );
        pauses.insert(after);
    }
    assert!(pauses.len() > 10, "they do not come back together: {pauses:?}");
    drover.end().await;
}

#[tokio::test]
async fn no_intent_overrides_it_and_no_invalidation_clears_it() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let outcome = Outcome::Failure(Failure {
        message: "m".repeat(2_000),
        retry_after: span(20_000),
    });
    drover.accept(ended("item", &rebuild, outcome)).await;
    for intent in [Intent::Unspecified, Intent::Early, Intent::Force, Intent::Read] {
        for request in [drop_keys(&["item"]), drop_everything()] {
            let asked = AcquireRebuildRequest {
                intent: intent.into(),
                newer_than: 7,
                ..wait("item")
            };
            let pause = keep_off(drover.ask(asked).await);
            assert_eq!(pause.message.len(), 1_024, "longer text is cut");
            let after = length(&pause.retry_after);
            assert!(
                after > Duration::from_secs(15) && after <= Duration::from_secs(22),
                "{intent:?}: {after:?}"
            );
            drover.invalidate(request).await;
        }
    }
    drover.end().await;
}

#[tokio::test]
async fn a_pause_is_at_most_the_policy_s_longest_and_then_one_may_try_again() {
    let drover = Drover::with(|policy| {
        policy.backoff.base = Duration::from_millis(50);
        policy.backoff.max = Duration::from_millis(100);
    })
    .await;
    for failures in 1..=3 {
        let rebuild = eventually(async || match drover.ask(ask("item")).await {
            Decision::Rebuild(rebuild) => Some(rebuild),
            other => {
                assert!(matches!(other, Decision::Backoff(_)), "{other:?}");
                None
            }
        })
        .await;
        let outcome = Outcome::Failure(Failure {
            message: String::new(),
            retry_after: span(3_600_000),
        });
        drover.accept(ended("item", &rebuild, outcome)).await;
        let pause = keep_off(drover.ask(ask("item")).await);
        assert_eq!(pause.failures, failures);
        assert!(length(&pause.retry_after) <= Duration::from_millis(110), "{pause:?}");
    }
    let rebuild = eventually(async || match drover.ask(ask("item")).await {
        Decision::Rebuild(rebuild) => Some(rebuild),
        _ => None,
    })
    .await;
    drover.accept(report("item", &rebuild, "at last")).await;
    drover.invalidate(drop_keys(&["item"])).await;
    let rebuild = drover.granted(ask("item")).await;
    drover.accept(ended("item", &rebuild, failed("again"))).await;
    assert_eq!(
        keep_off(drover.ask(ask("item")).await).failures,
        1,
        "a success ends the row"
    );
    drover.end().await;
}

#[tokio::test]
async fn a_fresh_value_is_served_through_it() {
    let drover = Drover::start().await;
    drover.fill("item", "value").await;
    let early = AcquireRebuildRequest {
        intent: Intent::Early.into(),
        ..ask("item")
    };
    let rebuild = drover.granted(early.clone()).await;
    drover.accept(ended("item", &rebuild, failed("down"))).await;
    assert_eq!(text(&drover.hit(early).await), "value");
    assert_eq!(text(&drover.hit(ask("item")).await), "value");
    drover.end().await;
}
