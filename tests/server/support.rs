//! What the tests share: a server on free ports, a client, a key.

use drover::config::Settings;
use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::coordinator_service_client::CoordinatorServiceClient;
use drover::proto::report_value_request::Outcome;
use drover::proto::{AcquireRebuildRequest, AcquireRebuildResponse, Rebuild, ReportValueRequest};
use drover::server::{Running, start};
use tonic::transport::Channel;

pub type Client = CoordinatorServiceClient<Channel>;

pub async fn server() -> Running {
    start(Settings::ephemeral()).await.expect("free ports")
}

pub async fn channel(running: &Running) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", running.grpc)).expect("an address");
    endpoint.connect().await.expect("it listens")
}

pub async fn client(running: &Running) -> Client {
    Client::new(channel(running).await)
}

pub fn ask(holder: &str, wait_seconds: i64) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        namespace: "shop".to_owned(),
        key: "item".to_owned(),
        holder: holder.to_owned(),
        wait: Some(prost_types::Duration {
            seconds: wait_seconds,
            nanos: 0,
        }),
        ..AcquireRebuildRequest::default()
    }
}

pub fn report(rebuild: &Rebuild, value: &'static str) -> ReportValueRequest {
    ReportValueRequest {
        namespace: "shop".to_owned(),
        key: "item".to_owned(),
        lease_id: rebuild.lease.clone().unwrap_or_default().lease_id,
        outcome: Some(Outcome::Value(value.into())),
        rebuild_cost: Some(prost_types::Duration {
            seconds: 0,
            nanos: 20_000_000,
        }),
        ..ReportValueRequest::default()
    }
}

pub fn granted(response: AcquireRebuildResponse) -> Rebuild {
    match response.decision {
        Some(Decision::Rebuild(rebuild)) => rebuild,
        other => panic!("no rebuild but {other:?}"),
    }
}

/// Lets everything else run until it is so. Without time: a test that would wait for ever is ended by whoever runs it.
pub async fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        tokio::task::yield_now().await;
    }
}
