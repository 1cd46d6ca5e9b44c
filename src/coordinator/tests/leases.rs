//! Leases, and what invalidations do to them.

use tokio::time::advance;

use super::*;
use crate::decision::{LostReason, Rejection};
use crate::store::faulty::{Call, Fault, Faulty};

#[tokio::test(start_paused = true)]
async fn an_invalidation_revokes_the_lease_refuses_its_report_and_promotes_one() {
    for target in [Target::Key(key()), Target::Tag("t".into()), Target::Everything] {
        let replica = replica();
        let tags: Arc<[Tag]> = ["t".into()].into();
        let first = replica.ask(question_with(|ask| ask.tags = Some(tags.clone()))).await;
        let (oldest, other) = (replica.park(question()).await, replica.park(question()).await);
        let invalidated = replica.invalidate(target.clone(), Mode::Drop).await;
        assert_eq!(invalidated.leases_revoked, 1, "{target:?}");
        let reported = replica.report(rebuild(&first).lease, value()).await;
        assert_eq!(
            reported.answer,
            ReportAnswer::Rejected(Rejection::Invalidated),
            "{target:?}"
        );
        assert_eq!(
            replica.renew(rebuild(&first).lease, seconds(5)).await.lost,
            Some(LostReason::Invalidated)
        );
        rebuild(&ended(oldest).await);
        assert!(!other.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_that_names_a_tag_invalidated_since_its_grant_is_refused_and_frees_the_key() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let waiting = replica.park(question()).await;
    replica.invalidate(Target::Tag("t".into()), Mode::Drop).await;
    assert!(!waiting.is_finished(), "nobody knows of the tag yet");
    let reported = replica
        .report_with(rebuild(&first).lease, value(), |report| report.tags = vec!["t".into()])
        .await;
    assert_eq!(reported.answer, ReportAnswer::Rejected(Rejection::Invalidated));
    rebuild(&ended(waiting).await);
}

#[tokio::test(start_paused = true)]
async fn an_invalidated_value_is_not_served_again() {
    for (target, mode) in [
        (Target::Key(key()), Mode::Drop),
        (Target::Tag("t".into()), Mode::Drop),
        (Target::Everything, Mode::Drop),
    ] {
        let replica = replica();
        let first = replica.ask(question()).await;
        replica
            .report_with(rebuild(&first).lease, value(), |report| report.tags = vec!["t".into()])
            .await;
        assert!(hit(&replica.ask(question()).await).fresh);
        replica.invalidate(target, mode).await;
        let next = replica.ask(question()).await;
        assert_eq!(
            (rebuild(&next).cause, &rebuild(&next).fallback),
            (Cause::Invalidated, &None)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_soft_invalidation_leaves_the_value_as_a_fallback() {
    let replica = replica();
    let first = replica.ask(question()).await;
    replica.report(rebuild(&first).lease, value()).await;
    replica.invalidate(Target::Key(key()), Mode::Expire).await;
    let next = replica.ask(question()).await;
    let fallback = rebuild(&next).fallback.as_ref().expect("stale, but there");
    assert!(!fallback.fresh);
    assert_eq!(next.bytes.as_deref(), Some(&b"value"[..]));
    assert!(!hit(&replica.ask(question()).await).fresh);
}

#[tokio::test(start_paused = true)]
async fn a_late_report_counts_until_somebody_else_has_been_granted() {
    let replica = replica();
    let first = replica.ask(question()).await;
    advance(seconds(30)).await;
    assert!(accepted(&replica.report(rebuild(&first).lease, value()).await));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_never_revives_a_lease_and_never_goes_past_the_longest_hold() {
    let replica = Replica::with(Policy {
        max_hold: seconds(15),
        ..Policy::default()
    });
    let first = replica.ask(question()).await;
    advance(seconds(8)).await;
    let renewed = replica.renew(rebuild(&first).lease, seconds(10)).await;
    assert_eq!((renewed.lost, renewed.ttl), (None, seconds(7)));
    assert_eq!(
        replica.renew(rebuild(&first).lease, seconds(10)).await.lost,
        Some(LostReason::MaxHold)
    );
    advance(seconds(7)).await;
    assert_eq!(
        replica.renew(rebuild(&first).lease, seconds(10)).await.lost,
        Some(LostReason::Expired)
    );
}

#[tokio::test(start_paused = true)]
async fn a_retry_of_a_granted_question_gets_the_same_lease() {
    let replica = replica();
    let named = || question_with(|ask| ask.request_id = "q1".into());
    let first = replica.ask(named()).await;
    advance(seconds(4)).await;
    let again = replica.ask(named()).await;
    assert_eq!(rebuild(&again).lease, rebuild(&first).lease);
    assert_eq!(rebuild(&again).ttl, seconds(6));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_report_gets_its_first_answer() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let lease = rebuild(&first).lease;
    let once = replica.report(lease, value()).await;
    assert_eq!(replica.report(lease, value()).await.answer, once.answer);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_large_ends_the_lease_as_a_failure() {
    let replica = Replica::with(Policy {
        max_value_bytes: 4,
        ..Policy::default()
    });
    let first = replica.ask(question()).await;
    let report = Report {
        lease: rebuild(&first).lease,
        outcome: value(),
        cost: None,
        tags: Vec::new(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    let request = ReportValue {
        key: key(),
        report,
        bytes: Some(Arc::from(&b"value"[..])),
    };
    let refused = Err(Error::ValueTooLarge { size: 5, max: 4 });
    assert_eq!(replica.0.report(request.clone()).await.map(|_| ()), refused);
    assert!(matches!(replica.ask(question()).await.answer, Answer::KeepOff(_)));
    assert_eq!(
        replica.0.report(request).await.map(|_| ()),
        refused,
        "the same when it is repeated"
    );
}

#[tokio::test(start_paused = true)]
async fn a_report_with_too_many_tags_is_refused_and_leaves_the_lease() {
    let replica = replica();
    let tags: Arc<[Tag]> = (0..10).map(|n| format!("a{n}").into()).collect();
    let first = replica.ask(question_with(|ask| ask.tags = Some(tags))).await;
    let report = |count: usize| Report {
        lease: rebuild(&first).lease,
        outcome: value(),
        cost: None,
        tags: (0..count).map(|n| format!("b{n}").into()).collect(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    let send = |count| {
        replica.0.report(ReportValue {
            key: key(),
            report: report(count),
            bytes: Some(Arc::from(&b"v"[..])),
        })
    };
    assert!(matches!(send(7).await, Err(Error::InvalidField { field: "tags", .. })));
    assert!(accepted(&send(6).await.expect("the store answers")));
}

#[tokio::test(start_paused = true)]
async fn numbers_far_ahead_of_the_store_s_time_are_refused_by_name() {
    let replica = replica();
    let far = crate::decision::Seq(1 << 60);
    let token = question_with(|ask| ask.min_token = far);
    let version = question_with(|ask| ask.newer_than = far);
    for (request, name) in [(token, "min_fencing_token"), (version, "newer_than")] {
        let refused = replica.0.acquire(&request).await;
        assert!(
            matches!(refused, Err(Error::InvalidField { field, .. }) if field == name),
            "{refused:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_lease_that_was_touched_while_its_report_was_refused_is_revoked_all_the_same() {
    let store = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = Replica::over(store.clone(), Policy::default(), 100);
    let named = || question_with(|ask| ask.request_id = "q1".into());
    let first = replica.ask(named()).await;
    let waiting = replica.park(question()).await;
    replica.invalidate(Target::Tag("t".into()), Mode::Drop).await;
    store.script(Call::Commit, Fault::Late(Duration::from_millis(10)));
    let report = ReportValue {
        key: key(),
        report: Report {
            lease: rebuild(&first).lease,
            outcome: value(),
            cost: None,
            tags: vec!["t".into()],
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        },
        bytes: Some(Arc::from(&b"value"[..])),
    };
    let coordinator = replica.0.clone();
    let reporting = tokio::spawn(async move { coordinator.report(report).await });
    settle().await;
    // A retry of the holder's question is told of the lease, for which the entry is written anew.
    assert_eq!(rebuild(&replica.ask(named()).await).lease, rebuild(&first).lease);
    let reported = reporting.await.expect("no panic").expect("the store answers");
    assert_eq!(reported.answer, ReportAnswer::Rejected(Rejection::Invalidated));
    rebuild(&ended(waiting).await);
}
