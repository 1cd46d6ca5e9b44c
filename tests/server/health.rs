use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::support::{channel, server};

#[tokio::test]
async fn the_health_of_each_service_is_known_and_of_no_other() {
    let running = server().await;
    let mut health = HealthClient::new(channel(&running).await);
    for service in ["", "drover.v1.CoordinatorService", "drover.v1.AdminService"] {
        let request = HealthCheckRequest {
            service: service.to_owned(),
        };
        let answer = health.check(request).await.expect("known").into_inner();
        assert_eq!(answer.status().as_str_name(), "SERVING", "{service}");
    }
    let request = HealthCheckRequest {
        service: "drover.v1.Nobody".to_owned(),
    };
    assert_eq!(health.check(request).await.expect_err("unknown").code(), Code::NotFound);
    running.stop().await;
}

#[tokio::test]
async fn reflection_knows_the_services_and_the_health() {
    let running = server().await;
    let mut reflection = ServerReflectionClient::new(channel(&running).await);
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = reflection
        .server_reflection_info(tokio_stream::iter([request]))
        .await
        .expect("served")
        .into_inner();
    let answer = answers.message().await.expect("no error").expect("an answer");
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let mut names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    for name in [
        "drover.v1.AdminService",
        "drover.v1.CoordinatorService",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    drop(answers);
    running.stop().await;
}
