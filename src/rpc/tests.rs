//! The services as a server has them, without a network: bytes in, bytes and trailers out.

use std::convert::Infallible;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use prost::Message;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::{ServiceBuilder, ServiceExt as _, service_fn};

use super::*;
use crate::config::Policies;
use crate::coordinator::Dice;
use crate::fanout::{Hub, HubLimits};
use crate::proto;
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::report_value_request::Outcome;
use crate::store::Store as _;
use crate::store::memory::{Limits, Memory};

const COORDINATOR: &str = "drover.v1.CoordinatorService";
const ADMIN: &str = "drover.v1.AdminService";

fn replica() -> Front {
    let store = Memory::new(Limits::default());
    let hub = Hub::new(store.feed(), HubLimits::default());
    services(
        Coordinator::new(store, Policies::default(), hub, Dice::seeded(1), 1_000),
        crate::metrics::Metrics::detached(),
        tonic::service::Routes::default(),
    )
}

/// A message with the five bytes that gRPC puts before it.
fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("a small message"));
    frame.put_slice(message);
    frame.freeze()
}

fn request(service: &str, call: &str, body: Bytes) -> http::Request<Body> {
    http::Request::post(format!("/{service}/{call}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Full::new(body)))
        .expect("a valid request")
}

/// The answer of a unary call: its message, or its status.
async fn answer<T: Message + Default>(response: http::Response<Body>) -> Result<T, Status> {
    let (head, body) = response.into_parts();
    if let Some(status) = Status::from_header_map(&head.headers) {
        return Err(status);
    }
    let body = body.collect().await.expect("a whole body");
    let status = body.trailers().and_then(Status::from_header_map);
    match status {
        Some(status) if status.code() != Code::Ok => Err(status),
        _ => Ok(T::decode(body.to_bytes().slice(5..)).expect("a message of the type")),
    }
}

async fn call<T: Message + Default>(
    routes: &Front,
    service: &str,
    call: &str,
    message: &impl Message,
) -> Result<T, Status> {
    let request = request(service, call, framed(&message.encode_to_vec()));
    answer(routes.clone().oneshot(request).await.expect("infallible")).await
}

fn question() -> proto::AcquireRebuildRequest {
    proto::AcquireRebuildRequest {
        namespace: "shop".to_owned(),
        key: "product:1".to_owned(),
        tags: vec!["products".to_owned()],
        ..Default::default()
    }
}

fn reason(status: &Status) -> Option<String> {
    status.get_error_details().error_info().map(|info| info.reason.clone())
}

#[tokio::test(start_paused = true)]
async fn a_key_is_rebuilt_reported_served_and_made_old_over_the_wire() {
    let routes = replica();
    let acquired: proto::AcquireRebuildResponse = call(&routes, COORDINATOR, "AcquireRebuild", &question())
        .await
        .expect("an answer");
    let Some(Decision::Rebuild(granted)) = acquired.decision else {
        panic!("{acquired:?}")
    };
    let lease = granted.lease.expect("a lease");
    let renewal = proto::RenewLeaseRequest {
        namespace: "shop".to_owned(),
        key: "product:1".to_owned(),
        lease_id: lease.lease_id.clone(),
        ttl: None,
    };
    let renewed: proto::RenewLeaseResponse = call(&routes, COORDINATOR, "RenewLease", &renewal)
        .await
        .expect("an answer");
    assert!(renewed.renewed);
    let all = proto::ListLeasesRequest::default();
    let listed: proto::ListLeasesResponse = call(&routes, ADMIN, "ListLeases", &all).await.expect("an answer");
    assert_eq!(listed.leases[0].fencing_token, lease.fencing_token);
    let report = proto::ReportValueRequest {
        namespace: "shop".to_owned(),
        key: "product:1".to_owned(),
        lease_id: lease.lease_id,
        outcome: Some(Outcome::Value(Bytes::from_static(b"tea"))),
        ..Default::default()
    };
    let reported: proto::ReportValueResponse = call(&routes, COORDINATOR, "ReportValue", &report)
        .await
        .expect("an answer");
    assert!(reported.accepted);
    assert_eq!(reported.version, lease.fencing_token);
    let acquired: proto::AcquireRebuildResponse = call(&routes, COORDINATOR, "AcquireRebuild", &question())
        .await
        .expect("an answer");
    let Some(Decision::Hit(hit)) = acquired.decision else {
        panic!("{acquired:?}")
    };
    assert_eq!(
        hit.content,
        Some(proto::hit::Content::Value(Bytes::from_static(b"tea")))
    );
    assert_eq!(hit.tags, ["products"]);
    let invalidation = proto::InvalidateRequest {
        namespace: "shop".to_owned(),
        tags: vec!["products".to_owned()],
        ..Default::default()
    };
    let invalidated: proto::InvalidateResponse = call(&routes, COORDINATOR, "Invalidate", &invalidation)
        .await
        .expect("an answer");
    assert!(invalidated.invalidated[0].version > hit.version);
    let which = proto::DescribeKeyRequest {
        namespace: "shop".to_owned(),
        key: "product:1".to_owned(),
    };
    let known: proto::DescribeKeyResponse = call(&routes, ADMIN, "DescribeKey", &which).await.expect("an answer");
    assert_eq!((known.current, known.lease), (None, None));
    let all = proto::ListNamespacesRequest::default();
    let listed: proto::ListNamespacesResponse = call(&routes, ADMIN, "ListNamespaces", &all).await.expect("an answer");
    assert_eq!(listed.namespaces[0].namespace, "shop");
    assert!(listed.namespaces[0].policy.contains("fresh_ttl"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_field_is_named_in_details_and_trailers() {
    let bad = proto::AcquireRebuildRequest {
        key: String::new(),
        ..question()
    };
    let status = call::<proto::AcquireRebuildResponse>(&replica(), COORDINATOR, "AcquireRebuild", &bad)
        .await
        .expect_err("an empty key");
    assert_eq!(
        (status.code(), reason(&status).as_deref()),
        (Code::InvalidArgument, Some("INVALID_FIELD"))
    );
    let details = status.get_error_details();
    let refused = details.bad_request().expect("a bad request");
    assert_eq!(refused.field_violations[0].field, "key");
    let trailer = status.metadata().get(super::status::REASON_TRAILER);
    assert_eq!(trailer.and_then(|text| text.to_str().ok()), Some("INVALID_FIELD"));
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_no_message_are_the_callers_mistake() {
    // Field 2, two bytes that are not UTF-8.
    let request = request(COORDINATOR, "AcquireRebuild", framed(&[0x12, 2, 0xff, 0xfe]));
    let response = replica().oneshot(request).await.expect("infallible");
    let status = answer::<proto::AcquireRebuildResponse>(response)
        .await
        .expect_err("not UTF-8");
    assert_eq!(
        (status.code(), reason(&status).as_deref()),
        (Code::InvalidArgument, Some("INVALID_FIELD"))
    );
    assert!(status.message().contains("key"), "{}", status.message());
}

#[tokio::test(start_paused = true)]
async fn a_message_over_the_limit_is_refused() {
    let huge = proto::ReportValueRequest {
        outcome: Some(Outcome::Value(Bytes::from(vec![0; MAX_MESSAGE_BYTES]))),
        ..Default::default()
    };
    let status = call::<proto::ReportValueResponse>(&replica(), COORDINATOR, "ReportValue", &huge)
        .await
        .expect_err("too large");
    assert_eq!(status.code(), Code::OutOfRange);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_is_answered_before_its_deadline() {
    let routes = replica();
    let _held: proto::AcquireRebuildResponse = call(&routes, COORDINATOR, "AcquireRebuild", &question())
        .await
        .expect("a lease");
    let mut waiting = request(COORDINATOR, "AcquireRebuild", framed(&question().encode_to_vec()));
    waiting
        .headers_mut()
        .insert("grpc-timeout", http::HeaderValue::from_static("2S"));
    let begin = tokio::time::Instant::now();
    let response = routes.oneshot(waiting).await.expect("infallible");
    let acquired: proto::AcquireRebuildResponse = answer(response).await.expect("an answer, no error");
    let Some(Decision::Busy(busy)) = acquired.decision else {
        panic!("{acquired:?}")
    };
    assert_eq!(busy.cause(), proto::BusyCause::WaitElapsed);
    // The timer's resolution is a millisecond.
    let took = begin.elapsed().as_millis();
    assert!((1_900..=1_902).contains(&took), "{took} ms");
}

#[tokio::test]
async fn a_panic_is_told_as_a_bug() {
    let broken =
        service_fn(async |_: http::Request<Body>| -> Result<http::Response<Body>, Infallible> { panic!("on purpose") });
    let service = ServiceBuilder::new().layer(catch_panics()).service(broken);
    let response = service
        .oneshot(request(COORDINATOR, "Any", Bytes::new()))
        .await
        .expect("infallible");
    let status = Status::from_header_map(response.headers()).expect("a status");
    assert_eq!(
        (status.code(), reason(&status).as_deref()),
        (Code::Internal, Some("INTERNAL"))
    );
    assert!(!status.message().contains("purpose"));
}
