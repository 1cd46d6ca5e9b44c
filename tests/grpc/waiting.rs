//! How long a wait lasts.

use std::time::{Duration, Instant};

use drover::proto::{AcquireRebuildRequest, BusyCause};
use tonic::{Code, Request};

use crate::support::{Drover, ask, busy, got, hit, length, report, span, text, until, wait};

#[tokio::test]
async fn a_wait_ends_by_its_own_time() {
    let drover = Drover::start().await;
    drover.granted(ask("item")).await;
    let began = Instant::now();
    let answer = drover
        .answer(AcquireRebuildRequest {
            wait: span(150),
            ..ask("item")
        })
        .await;
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(150) && took < Duration::from_secs(2),
        "{took:?}"
    );
    // The rest of the time it spent asking the store.
    let waited = length(&answer.waited);
    assert!(
        waited >= Duration::from_millis(100) && waited <= took,
        "{waited:?} of {took:?}"
    );
    assert_eq!(
        busy(answer.decision.expect("a decision")).cause(),
        BusyCause::WaitElapsed
    );
    drover.end().await;
}

#[tokio::test]
async fn a_wait_ends_by_the_policy_when_the_caller_wants_longer() {
    let drover = Drover::with(|policy| policy.max_wait = Duration::from_millis(100)).await;
    drover.granted(ask("item")).await;
    for wanted in [None, span(30 * 24 * 3_600 * 1_000)] {
        let began = Instant::now();
        busy(
            drover
                .ask(AcquireRebuildRequest {
                    wait: wanted,
                    ..ask("item")
                })
                .await,
        );
        assert!(began.elapsed() < Duration::from_secs(3));
    }
    drover.end().await;
}

#[tokio::test]
async fn a_wait_ends_before_the_deadline_of_the_call_and_never_as_deadline_exceeded() {
    let drover = Drover::start().await;
    drover.granted(ask("item")).await;
    for deadline in [400, 700] {
        let mut request = Request::new(wait("item"));
        request.set_timeout(Duration::from_millis(deadline));
        let began = Instant::now();
        let answer = drover.calls.clone().acquire_rebuild(request).await;
        let answer = answer.expect("not DEADLINE_EXCEEDED").into_inner();
        busy(answer.decision.expect("a decision"));
        assert!(
            began.elapsed() >= Duration::from_millis(deadline * 8 / 10),
            "not much too early either"
        );
    }
    drover.end().await;
}

#[tokio::test]
async fn who_cancels_leaves_alone() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let leaving = drover.park(wait("item")).await;
    let staying = drover.park(wait("item")).await;
    leaving.abort();
    until(|| drover.parked() == 1).await;
    drover.accept(report("item", &rebuild, "value")).await;
    assert_eq!(text(&hit(got(staying).await)), "value");
    let metrics = drover.metrics().await;
    let errors: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("drover_errors_total") && !line.ends_with(" 0"))
        .collect();
    assert!(errors.is_empty(), "leaving is no error: {errors:?}");
    drover.end().await;
}

#[tokio::test]
async fn a_rebuild_goes_on_when_its_holder_s_connection_is_gone() {
    let drover = Drover::start().await;
    let mut other = drover.another().await;
    let granted = other
        .acquire_rebuild(ask("item"))
        .await
        .expect("an answer")
        .into_inner();
    drop(other);
    let waiting = drover.park(wait("item")).await;
    let rebuild = crate::support::granted(granted.decision.expect("a decision"));
    drover.accept(report("item", &rebuild, "from another connection")).await;
    assert_eq!(text(&hit(got(waiting).await)), "from another connection");
    drover.end().await;
}

#[tokio::test]
async fn one_too_many_for_a_key_is_sent_away_at_once() {
    let drover = Drover::with(|policy| policy.max_waiters_per_key = 2).await;
    let drover = drover.at_one_replica().await;
    let rebuild = drover.granted(ask("item")).await;
    let parked = [drover.park(wait("item")).await, drover.park(wait("item")).await];
    assert_eq!(busy(drover.ask(wait("item")).await).cause(), BusyCause::TooManyWaiters);
    drover.accept(report("item", &rebuild, "value")).await;
    for asking in parked {
        hit(got(asking).await);
    }
    drover.end().await;
}

#[tokio::test]
async fn a_call_whose_time_is_over_already_is_answered_all_the_same_or_cancelled_by_its_caller() {
    let drover = Drover::start().await;
    drover.granted(ask("item")).await;
    let mut request = Request::new(wait("item"));
    request
        .metadata_mut()
        .insert("grpc-timeout", "0m".parse().expect("ASCII"));
    match drover.calls.clone().acquire_rebuild(request).await {
        Ok(answer) => drop(busy(answer.into_inner().decision.expect("a decision"))),
        Err(status) => assert!(
            matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded),
            "{status:?}"
        ),
    }
    until(|| drover.parked() == 0).await;
    drover.end().await;
}
