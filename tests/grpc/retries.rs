//! A question asked again with its `request_id`.

use std::time::Instant;

use drover::decision::Policy;
use drover::proto::AcquireRebuildRequest;

use crate::support::{
    Drover, abandoned, ask, busy, ended, got, granted, hit, lease, length, report, text, token, until, wait,
};

fn named(request: AcquireRebuildRequest, holder: &str, id: &str) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        holder: holder.to_owned(),
        request_id: id.to_owned(),
        ..request
    }
}

#[tokio::test]
async fn a_retry_gets_the_same_lease_with_the_time_that_is_left() {
    let drover = Drover::start().await;
    let first = drover.granted(named(ask("item"), "a", "1")).await;
    let granted = Instant::now();
    // Some time passes.
    drover.granted(ask("another")).await;
    let passed = granted.elapsed();
    let again = drover.granted(named(ask("item"), "a", "1")).await;
    assert_eq!(lease(&first).lease_id, lease(&again).lease_id);
    assert_eq!(first.cause(), again.cause());
    // Each is told no more than is left, and how much less depends on its call's way to the store.
    let whole = Policy::default().lease_ttl;
    assert!(
        length(&lease(&again).ttl) <= whole - passed,
        "{again:?} after {passed:?}"
    );
    drover.accept(report("item", &again, "value")).await;
    drover.end().await;
}

#[tokio::test]
async fn neither_another_id_nor_another_holder_nor_another_key_is_a_retry() {
    let drover = Drover::start().await;
    let first = drover.granted(named(ask("item"), "a", "1")).await;
    busy(drover.ask(named(ask("item"), "a", "2")).await);
    busy(drover.ask(named(ask("item"), "b", "1")).await);
    busy(drover.ask(named(ask("item"), "a", "")).await);
    let other = drover.granted(named(ask("other"), "a", "1")).await;
    assert_ne!(lease(&first).lease_id, lease(&other).lease_id);
    drover.end().await;
}

#[tokio::test]
async fn once_the_lease_is_over_a_retry_counts_as_new() {
    let drover = Drover::start().await;
    let first = drover.granted(named(ask("item"), "a", "1")).await;
    drover.accept(ended("item", &first, abandoned())).await;
    let again = drover.granted(named(ask("item"), "a", "1")).await;
    assert!(token(&again) > token(&first));
    drover.accept(report("item", &again, "value")).await;
    assert_eq!(text(&drover.hit(named(ask("item"), "a", "1")).await), "value");
    drover.end().await;
}

#[tokio::test]
async fn a_retry_of_a_parked_question_takes_its_place() {
    let drover = Drover::start().await.at_one_replica().await;
    let holder = drover.granted(ask("item")).await;
    let first = drover.park(named(wait("item"), "a", "1")).await;
    let behind = drover.park(wait("item")).await;
    let retry = drover.asking(named(wait("item"), "a", "1"));
    busy(got(first).await);
    assert_eq!(drover.parked(), 2);
    drover.accept(ended("item", &holder, abandoned())).await;
    let rebuild = granted(got(retry).await);
    drover.accept(report("item", &rebuild, "value")).await;
    assert_eq!(text(&hit(got(behind).await)), "value");
    drover.end().await;
}

/// Clients that count their questions from 1 use the same ids.
#[tokio::test]
async fn the_same_id_of_another_holder_does_not_hide_a_parked_question_from_its_retry() {
    let drover = Drover::start().await.at_one_replica().await;
    let holder = drover.granted(ask("item")).await;
    let first = drover.park(named(wait("item"), "a", "1")).await;
    let other = drover.park(named(wait("item"), "b", "1")).await;
    let retry = drover.asking(named(wait("item"), "a", "1"));
    until(|| first.is_finished() || drover.parked() > 2).await;
    assert_eq!(drover.parked(), 2, "the retry stands in the place of the first try");
    busy(got(first).await);
    drover.accept(report("item", &holder, "value")).await;
    for asking in [other, retry] {
        assert_eq!(text(&hit(got(asking).await)), "value");
    }
    drover.end().await;
}
