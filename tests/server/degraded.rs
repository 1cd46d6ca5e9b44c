//! A store that is lost while the server runs, and comes back: as callers see it.

use std::sync::Arc;
use std::time::Duration;

use drover::config::{PolicySet, Settings};
use drover::decision::{Policy, StoreDown};
use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::hit::Content;
use drover::proto::watch_request::Kind;
use drover::proto::watch_response::Event;
use drover::proto::{
    InvalidateRequest, Rejection, RenewLeaseRequest, ResetReason, Subscribe, WatchRequest, WatchResponse,
};
use drover::server::{Phase, Running, start_with_store};
use drover::store::faulty::Faulty;
use drover::store::memory::{Limits, Memory};
use tokio_stream::StreamExt as _;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::support::{Client, ask, client, granted, report, until};

async fn losable(store_down: StoreDown) -> (Running, Client, Arc<Faulty>) {
    let policy = Policy {
        store_down,
        ..Policy::default()
    };
    let settings = Settings {
        policies: PolicySet {
            defaults: Arc::new(policy),
            ..PolicySet::default()
        },
        ..Settings::ephemeral()
    };
    let store = Faulty::new(Memory::new(Limits::default()), 1);
    let running = start_with_store(settings, store.clone()).await.expect("free ports");
    let client = client(&running).await;
    (running, client, store)
}

fn is_unavailable(status: &Status) {
    let reason = status.metadata().get("drover-reason").map(|reason| reason.as_bytes());
    assert_eq!(
        (status.code(), reason),
        (Code::Unavailable, Some(&b"STORE_UNAVAILABLE"[..]))
    );
    assert!(status.get_error_details().retry_info().is_some());
    assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));
}

async fn watch(client: &mut Client) -> Result<Streaming<WatchResponse>, Status> {
    let subscribe = WatchRequest {
        kind: Some(Kind::Subscribe(Subscribe {
            namespaces: vec!["shop".to_owned()],
            ..Subscribe::default()
        })),
    };
    // It stays open for as long as the test reads.
    let requests = tokio_stream::once(subscribe).chain(tokio_stream::pending());
    Ok(client.watch(requests).await?.into_inner())
}

async fn next(events: &mut Streaming<WatchResponse>) -> Event {
    let told = events.next().await.expect("it goes on").expect("no error");
    told.event.expect("an event")
}

fn drop_key() -> InvalidateRequest {
    InvalidateRequest {
        namespace: "shop".to_owned(),
        keys: vec!["item".to_owned()],
        ..InvalidateRequest::default()
    }
}

#[tokio::test]
async fn degraded_answers_are_marked_and_have_no_numbers() {
    let (running, mut client, store) = losable(StoreDown::Local).await;
    let shared = granted(client.acquire_rebuild(ask("a", 0)).await.expect("up").into_inner());
    assert!(shared.lease.as_ref().is_some_and(|lease| lease.fencing_token > 0));
    store.go_down();

    let answer = client
        .acquire_rebuild(ask("b", 0))
        .await
        .expect("decided alone")
        .into_inner();
    assert!(answer.degraded);
    let alone = granted(answer);
    let lease = alone.lease.clone().expect("a lease");
    assert_eq!(lease.fencing_token, 0);
    assert!(lease.lease_id.starts_with('d') && lease.lease_id.len() <= 128);
    let planned = alone.planned_expiry.and_then(|life| life.fresh_for);
    assert!(planned.is_some_and(|fresh| fresh.seconds <= 5));

    let reported = client
        .report_value(report(&alone, "value"))
        .await
        .expect("taken")
        .into_inner();
    assert!(reported.accepted && reported.degraded);
    assert_eq!(reported.version, 0);
    let answer = client
        .acquire_rebuild(ask("c", 0))
        .await
        .expect("decided alone")
        .into_inner();
    assert!(answer.degraded);
    let Some(Decision::Hit(hit)) = answer.decision else {
        panic!("expected a hit: {answer:?}")
    };
    assert_eq!((hit.version, hit.content), (0, Some(Content::Value("value".into()))));

    // What belongs to the store waits for it, and what is said of all replicas is never degraded.
    is_unavailable(&client.report_value(report(&shared, "value")).await.expect_err("lost"));
    let renewal = RenewLeaseRequest {
        namespace: "shop".to_owned(),
        key: "item".to_owned(),
        lease_id: shared.lease.clone().unwrap_or_default().lease_id,
        ttl: None,
    };
    is_unavailable(&client.renew_lease(renewal).await.expect_err("lost"));
    is_unavailable(&client.invalidate(drop_key()).await.expect_err("lost"));
    assert_eq!(running.phase(), Phase::Serving, "it serves while degraded");

    store.come_up();
    let late = client
        .report_value(report(&alone, "value"))
        .await
        .expect("up")
        .into_inner();
    assert!(!late.accepted && !late.degraded);
    assert_eq!(late.rejection(), Rejection::UnknownLease);
    let accepted = client
        .report_value(report(&shared, "value"))
        .await
        .expect("up")
        .into_inner();
    assert!(accepted.accepted && !accepted.degraded && accepted.version > 0);
    running.stop().await;
}

#[tokio::test]
async fn with_refuse_a_lost_store_is_an_error_at_once_also_for_those_who_are_parked() {
    let (running, mut client, store) = losable(StoreDown::Refuse).await;
    let held = granted(client.acquire_rebuild(ask("a", 0)).await.expect("up").into_inner());
    let mut other = client.clone();
    let loses = async {
        until(|| running.parked() == 1).await;
        store.go_down();
    };
    let (parked, ()) = tokio::join!(other.acquire_rebuild(ask("b", 10)), loses);
    is_unavailable(&parked.expect_err("lost"));
    is_unavailable(&client.acquire_rebuild(ask("c", 10)).await.expect_err("lost"));
    store.come_up();
    let reported = client
        .report_value(report(&held, "value"))
        .await
        .expect("up")
        .into_inner();
    assert!(reported.accepted);
    running.stop().await;
}

#[tokio::test]
async fn watchers_are_reset_when_the_store_is_lost_and_when_it_is_back_and_new_ones_are_refused_meanwhile() {
    let (running, mut client, store) = losable(StoreDown::Local).await;
    let mut events = watch(&mut client).await.expect("up");
    assert!(matches!(next(&mut events).await, Event::Started(_)));
    store.go_down();
    let Event::Reset(lost) = next(&mut events).await else {
        panic!("expected a reset")
    };
    assert_eq!(lost.reason(), ResetReason::LogLost);
    let refused = match watch(&mut client).await {
        Ok(mut events) => events.next().await.expect("an end").expect_err("lost"),
        Err(status) => status,
    };
    is_unavailable(&refused);
    store.come_up();
    let Event::Reset(back) = next(&mut events).await else {
        panic!("expected a reset")
    };
    assert_eq!(back.reason(), ResetReason::DegradedEnded);
    drop(events);
    running.stop().await;
}

#[tokio::test]
async fn a_server_whose_store_has_never_answered_is_not_serving_and_decides_alone_for_those_who_ask() {
    let store = Faulty::new(Memory::new(Limits::default()), 1);
    store.go_down();
    let running = start_with_store(Settings::ephemeral(), store.clone())
        .await
        .expect("free ports");
    assert_eq!(running.phase(), Phase::Starting);
    let mut client = client(&running).await;
    let answer = client
        .acquire_rebuild(ask("a", 0))
        .await
        .expect("decided alone")
        .into_inner();
    assert!(answer.degraded);
    store.come_up();
    tokio::time::timeout(Duration::from_secs(10), until(|| running.phase() == Phase::Serving))
        .await
        .expect("it serves once the store has answered");
    running.stop().await;
}
