//! `wait_for_watchers`: until every local cache has forgotten.

use std::time::{Duration, Instant};

use drover::fanout::Cursor;
use drover::proto::{InvalidateRequest, Subscribe};
use tonic::Request;

use crate::support::{Drover, drop_keys, span};
use crate::watching::{Watcher, subscribe};

fn waiting(millis: u64) -> InvalidateRequest {
    InvalidateRequest {
        wait_for_watchers: span(millis),
        ..drop_keys(&["item"])
    }
}

fn named(holder: &str) -> Subscribe {
    Subscribe {
        holder: holder.to_owned(),
        ..subscribe()
    }
}

#[tokio::test]
async fn it_is_confirmed_once_all_have_acknowledged() {
    let drover = Drover::start().await;
    let mut one = Watcher::live(&drover, named("one")).await;
    let mut two = Watcher::live(&drover, named("two")).await;
    let mut looking_on = Watcher::live(
        &drover,
        Subscribe {
            observe_only: true,
            ..named("three")
        },
    )
    .await;
    let elsewhere = Watcher::live(
        &drover,
        Subscribe {
            key_prefixes: vec!["other".to_owned()],
            ..named("four")
        },
    )
    .await;
    let mut calls = drover.calls.clone();
    let invalidating = tokio::spawn(async move { calls.invalidate(waiting(20_000)).await });
    looking_on.invalidated().await;
    for watcher in [&mut one, &mut two] {
        watcher.invalidated().await;
        assert!(!invalidating.is_finished());
        watcher.acknowledge().await;
    }
    let done = invalidating.await.expect("it runs").expect("an answer").into_inner();
    assert!(done.confirmed, "{done:?}");
    assert_eq!(
        (done.watchers, done.watchers_acknowledged, done.laggards.len()),
        (2, 2, 0)
    );
    drop(elsewhere);
    drover.end().await;
}

#[tokio::test]
async fn who_does_not_acknowledge_is_named_when_the_time_is_over() {
    let drover = Drover::start().await;
    let mut good = Watcher::live(&drover, named("good")).await;
    let slow = Watcher::live(&drover, named("slow")).await;
    let mut calls = drover.calls.clone();
    let invalidating = tokio::spawn(async move { calls.invalidate(waiting(1_500)).await });
    good.invalidated().await;
    good.acknowledge().await;
    let done = invalidating.await.expect("it runs").expect("an answer").into_inner();
    assert!(!done.confirmed);
    assert_eq!(
        (done.watchers, done.watchers_acknowledged, done.laggards),
        (2, 1, vec!["slow".to_owned()])
    );
    drop(slow);
    drover.end().await;
}

#[tokio::test]
async fn an_acknowledgement_of_what_was_not_sent_counts_for_nothing() {
    let drover = Drover::start().await;
    let hasty = Watcher::live(&drover, named("hasty")).await;
    let mut future = Cursor::decode(&hasty.cursor).expect("a cursor");
    future.positions = vec![u64::MAX - 1];
    hasty.acknowledge_at(&future.encode()).await;
    let mut other_log = future;
    other_log.log ^= 1;
    hasty.acknowledge_at(&other_log.encode()).await;
    let done = drover.invalidate(waiting(200)).await;
    assert!(!done.confirmed, "{done:?}");
    assert_eq!((done.watchers, done.watchers_acknowledged), (1, 0));
    drover.end().await;
}

#[tokio::test]
async fn a_watcher_whose_stream_broke_may_still_have_copies() {
    let drover = Drover::start().await;
    drop(Watcher::live(&drover, named("gone")).await);
    let done = drover.invalidate(waiting(1_000)).await;
    assert!(!done.confirmed && done.laggards == ["gone"], "{done:?}");
    drover.end().await;
}

#[tokio::test]
async fn it_ends_before_the_deadline_of_the_call_and_is_committed_all_the_same() {
    let drover = Drover::start().await;
    drover.fill("item", "value").await;
    let watcher = Watcher::live(&drover, named("slow")).await;
    let mut request = Request::new(waiting(20_000));
    request.set_timeout(Duration::from_secs(2));
    let began = Instant::now();
    let done = drover
        .calls
        .clone()
        .invalidate(request)
        .await
        .expect("in time")
        .into_inner();
    assert!(began.elapsed() < Duration::from_secs(2) && !done.confirmed);
    drover.granted(crate::support::ask("item")).await;
    drop(watcher);
    drover.end().await;
}
