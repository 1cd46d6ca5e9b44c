use drover::proto::watch_request::Kind;
use drover::proto::watch_response::Event;
use drover::proto::{Subscribe, WatchRequest};
use drover::server::Phase;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::{ask, channel, client, granted, report, server, until};

#[tokio::test]
async fn a_drain_answers_who_is_parked_takes_reports_and_ends() {
    let running = server().await;
    let mut holder = client(&running).await;
    let rebuild = granted(
        holder
            .acquire_rebuild(ask("holder", 0))
            .await
            .expect("served")
            .into_inner(),
    );
    let mut waiter = client(&running).await;
    let draining = async {
        until(|| running.parked() == 1).await;
        running.drain().await;
    };
    let (parked, ()) = tokio::join!(waiter.acquire_rebuild(ask("waiter", 3_600)), draining);
    assert_eq!(running.phase(), Phase::Draining);
    let told = parked.expect_err("draining");
    assert_eq!(told.code(), Code::Unavailable);
    assert_eq!(
        told.metadata().get("drover-reason").map(|reason| reason.as_bytes()),
        Some(&b"DRAINING"[..])
    );
    assert!(told.metadata().contains_key("grpc-retry-pushback-ms"));

    let again = holder
        .acquire_rebuild(ask("late", 3_600))
        .await
        .expect_err("nobody is parked any more");
    assert_eq!(again.code(), Code::Unavailable);
    let accepted = holder
        .report_value(report(&rebuild, "value"))
        .await
        .expect("served")
        .into_inner();
    assert!(accepted.accepted, "{accepted:?}");
    running.stop().await;
    let gone = holder
        .acquire_rebuild(ask("holder", 0))
        .await
        .expect_err("nobody is there");
    assert_eq!(gone.code(), Code::Unavailable);
}

#[tokio::test]
async fn watchers_get_a_last_cursor_when_the_drain_begins() {
    let running = server().await;
    let mut watcher = client(&running).await;
    let subscribe = WatchRequest {
        kind: Some(Kind::Subscribe(Subscribe {
            namespaces: vec!["shop".to_owned()],
            ..Subscribe::default()
        })),
    };
    let mut events = watcher
        .watch(tokio_stream::iter([subscribe]))
        .await
        .expect("served")
        .into_inner();
    let first = events.next().await.expect("open").expect("no error");
    assert!(matches!(first.event, Some(Event::Started(_))), "{first:?}");
    running.drain().await;
    let last = events.next().await.expect("open").expect("no error");
    assert!(
        matches!(&last.event, Some(Event::Progress(progress)) if progress.draining),
        "{last:?}"
    );
    assert!(!last.cursor.is_empty());
    assert!(events.next().await.is_none());
    running.stop().await;
}

#[tokio::test]
async fn who_watches_the_health_hears_of_the_drain_and_does_not_hold_it_up() {
    let running = server().await;
    let mut health = HealthClient::new(channel(&running).await);
    let request = HealthCheckRequest {
        service: "drover.v1.CoordinatorService".to_owned(),
    };
    let mut statuses = health.watch(request).await.expect("served").into_inner();
    let status = |answer: Option<Result<tonic_health::pb::HealthCheckResponse, _>>| {
        answer.and_then(Result::ok).map(|answer| answer.status().as_str_name())
    };
    assert_eq!(status(statuses.next().await), Some("SERVING"));
    running.stop().await;
    assert_eq!(status(statuses.next().await), Some("NOT_SERVING"));
    assert_eq!(status(statuses.next().await), None);
}

#[tokio::test]
async fn a_server_that_is_dropped_lets_go_of_its_ports() {
    let running = server().await;
    let (grpc, http) = (running.grpc, running.http.expect("on"));
    let _idle = channel(&running).await;
    drop(running);
    for address in [grpc, http] {
        let mut bound = tokio::net::TcpListener::bind(address).await;
        while bound.is_err() {
            tokio::task::yield_now().await;
            bound = tokio::net::TcpListener::bind(address).await;
        }
    }
}
