//! Reports that come late, twice, or from somebody else.

use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::{AcquireRebuildRequest, Intent, Lease, Rejection, ReportValueRequest};

use crate::support::{
    Drover, ask, drop_everything, drop_keys, ended, eventually, failed, granted, hit, lease, report, span, text, token,
    words,
};

fn short(key: &str) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        lease_ttl: span(100),
        ..ask(key)
    }
}

#[tokio::test]
async fn a_report_after_the_lease_s_time_counts_while_nobody_has_taken_over() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(short("item")).await;
    let reader = AcquireRebuildRequest {
        intent: Intent::Read.into(),
        ..ask("item")
    };
    eventually(async || matches!(drover.ask(reader.clone()).await, Decision::Miss(_)).then_some(())).await;
    drover.accept(report("item", &rebuild, "late")).await;
    assert_eq!(text(&drover.hit(ask("item")).await), "late");
    drover.end().await;
}

#[tokio::test]
async fn a_report_after_a_takeover_is_superseded_before_and_after_the_new_value() {
    let drover = Drover::start().await;
    let old = drover.granted(short("item")).await;
    let new = eventually(async || match drover.ask(ask("item")).await {
        Decision::Rebuild(rebuild) => Some(rebuild),
        _ => None,
    })
    .await;
    assert_eq!(drover.refuse(report("item", &old, "old")).await, Rejection::Superseded);
    drover.accept(report("item", &new, "new")).await;
    assert_eq!(drover.refuse(report("item", &old, "old")).await, Rejection::Superseded);
    assert_eq!(text(&drover.hit(ask("item")).await), "new");
    drover.end().await;
}

#[tokio::test]
async fn a_report_after_an_invalidation_is_refused_whoever_comes_between() {
    let drover = Drover::start().await;
    let mut other = drover.another().await;
    for (key, request) in [("by-key", drop_keys(&["by-key"])), ("by-all", drop_everything())] {
        let old = drover.granted(ask(key)).await;
        other.invalidate(request).await.expect("done");
        assert_eq!(
            drover.refuse(report(key, &old, "old")).await,
            Rejection::Invalidated,
            "{key}"
        );
        let new = drover.granted(ask(key)).await;
        let again = drover.refuse(report(key, &old, "old")).await;
        assert!(
            matches!(again, Rejection::Invalidated | Rejection::Superseded),
            "{again:?}"
        );
        drover.accept(report(key, &new, "new")).await;
        let again = drover.refuse(report(key, &old, "old")).await;
        assert!(
            matches!(again, Rejection::Invalidated | Rejection::Superseded),
            "{again:?}"
        );
        assert_eq!(text(&drover.hit(ask(key)).await), "new");
    }
    drover.end().await;
}

#[tokio::test]
async fn a_repeated_report_gets_its_first_answer_and_another_outcome_is_refused() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let first = drover.report(report("item", &rebuild, "first")).await;
    for again in [report("item", &rebuild, "first"), report("item", &rebuild, "second")] {
        let again = drover.report(again).await;
        assert_eq!((again.accepted, again.version), (true, first.version));
    }
    let other = drover.report(ended("item", &rebuild, failed("no"))).await;
    assert_eq!((other.accepted, other.rejection()), (false, Rejection::UnknownLease));
    assert_eq!(text(&drover.hit(ask("item")).await), "first");
    drover.end().await;
}

#[tokio::test]
async fn a_repeated_report_after_an_invalidation_brings_nothing_back() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    drover.accept(report("item", &rebuild, "value")).await;
    drover.invalidate(drop_keys(&["item"])).await;
    drover.report(report("item", &rebuild, "value")).await;
    granted(drover.ask(ask("item")).await);
    drover.end().await;
}

#[tokio::test]
async fn a_forged_report_changes_nothing() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let id = lease(&rebuild).lease_id;
    let (head, last) = id.split_at(id.len() - 1);
    let forged = |lease_id: String| {
        let mut forged = rebuild.clone();
        forged.lease = Some(Lease {
            lease_id,
            ..lease(&rebuild)
        });
        forged
    };
    let near = forged(format!("{head}{}", if last == "0" { "1" } else { "0" }));
    assert_eq!(
        drover.refuse(report("item", &near, "forged")).await,
        Rejection::UnknownLease
    );
    let far = forged("l9999999999999999-ffffffffffffffff".to_owned());
    assert_eq!(
        drover.refuse(report("item", &far, "forged")).await,
        Rejection::UnknownLease
    );
    assert_eq!(
        drover.refuse(report("other", &rebuild, "misplaced")).await,
        Rejection::UnknownLease
    );
    let elsewhere = ReportValueRequest {
        namespace: "elsewhere".to_owned(),
        ..report("item", &rebuild, "misplaced")
    };
    assert_eq!(drover.refuse(elsewhere).await, Rejection::UnknownLease);
    drover.accept(report("item", &rebuild, "true")).await;
    assert_eq!(text(&hit(drover.ask(ask("item")).await)), "true");
    drover.end().await;
}

#[tokio::test]
async fn a_report_without_an_outcome_leaves_the_lease_alive() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let nothing = ReportValueRequest {
        outcome: None,
        tags: words(&["a"]),
        ..report("item", &rebuild, "")
    };
    let status = drover
        .calls
        .clone()
        .report_value(nothing)
        .await
        .expect_err("nothing is said");
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    drover.accept(report("item", &rebuild, "value")).await;
    drover.end().await;
}

#[tokio::test]
async fn tokens_stay_above_what_the_caller_has_seen() {
    let drover = Drover::start().await;
    let first = drover.granted(ask("first")).await;
    let ahead = token(&first) + 23 * 3_600 * 1_000_000;
    let asked = |key: &str, min| AcquireRebuildRequest {
        min_fencing_token: min,
        ..ask(key)
    };
    let second = drover.granted(asked("second", ahead)).await;
    assert!(token(&second) > ahead);
    // It is also what orders invalidations, so these go on working ahead of time.
    drover.accept(report("second", &second, "value")).await;
    drover.invalidate(drop_keys(&["second"])).await;
    let behind = granted(drover.ask(asked("second", 1)).await);
    assert!(token(&behind) > token(&second), "the sequence never goes back");
    for far in [token(&first) + 25 * 3_600 * 1_000_000, i64::MAX] {
        let status = drover
            .calls
            .clone()
            .acquire_rebuild(asked("fourth", far))
            .await
            .expect_err("too far");
        assert_eq!(crate::statuses::fields(&status), ["min_fencing_token"]);
    }
    drover.end().await;
}
