//! Health, and reflection of both versions.

use prost::Message as _;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use crate::support::{Drover, connect};

#[tokio::test]
async fn a_watcher_of_the_health_hears_of_the_drain() {
    let drover = Drover::start().await;
    let mut health = HealthClient::new(connect(&drover.running).await);
    let request = HealthCheckRequest {
        service: "drover.v1.CoordinatorService".to_owned(),
    };
    let mut watching = health.watch(request).await.expect("served").into_inner();
    let serving = watching.message().await.expect("no error").expect("an answer");
    assert_eq!(serving.status().as_str_name(), "SERVING");
    drover.drain().await;
    let leaving = watching.message().await.expect("no error").expect("an answer");
    assert_eq!(leaving.status().as_str_name(), "NOT_SERVING");
    drop((watching, health));
    drover.end().await;
}

#[tokio::test]
async fn both_reflections_describe_every_call() {
    let drover = Drover::start().await;
    let symbol = "drover.v1.CoordinatorService".to_owned();

    let request = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1::server_reflection_request::MessageRequest::FileContainingSymbol(
            symbol.clone(),
        )),
    };
    let mut client = v1::server_reflection_client::ServerReflectionClient::new(connect(&drover.running).await);
    let answers = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .expect("served");
    let answer = answers
        .into_inner()
        .message()
        .await
        .expect("no error")
        .expect("an answer");
    let Some(v1::server_reflection_response::MessageResponse::FileDescriptorResponse(new)) = answer.message_response
    else {
        panic!("{answer:?}");
    };

    let request = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::FileContainingSymbol(symbol)),
    };
    let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(connect(&drover.running).await);
    let answers = client
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .expect("served");
    let answer = answers
        .into_inner()
        .message()
        .await
        .expect("no error")
        .expect("an answer");
    let Some(v1alpha::server_reflection_response::MessageResponse::FileDescriptorResponse(old)) =
        answer.message_response
    else {
        panic!("{answer:?}");
    };

    assert_eq!(new.file_descriptor_proto, old.file_descriptor_proto);
    let file = prost_types::FileDescriptorProto::decode(&new.file_descriptor_proto[0][..]).expect("a file");
    let calls: Vec<&str> = file.service[0].method.iter().map(|method| method.name()).collect();
    for call in [
        "AcquireRebuild",
        "RenewLease",
        "ReportValue",
        "Invalidate",
        "Watch",
        "PullRefreshes",
        "ScheduleRefresh",
    ] {
        assert!(calls.contains(&call), "{call} in {calls:?}");
    }
    drop(client);
    drover.end().await;
}
