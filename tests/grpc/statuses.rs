//! What an error carries besides its code.

use drover::proto::ReportValueRequest;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::support::{Drover, ask, report};

/// The reason, the same in the details and in the plain trailer.
pub fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    let info = details
        .error_info()
        .unwrap_or_else(|| panic!("no reason in {status:?}"));
    assert_eq!(info.domain, "drover.v1");
    let trailer = status
        .metadata()
        .get("drover-reason")
        .and_then(|text| text.to_str().ok());
    assert_eq!(trailer, Some(info.reason.as_str()));
    info.reason.clone()
}

/// The fields that an INVALID_ARGUMENT names.
pub fn fields(status: &Status) -> Vec<String> {
    assert_eq!(
        (status.code(), reason(status)),
        (Code::InvalidArgument, "INVALID_FIELD".to_owned()),
        "{status:?}"
    );
    let details = status.get_error_details();
    let violations = &details.bad_request().expect("fields").field_violations;
    assert!(violations.iter().all(|violation| !violation.description.is_empty()));
    assert!(
        violations
            .iter()
            .all(|violation| status.message().contains(&violation.field)),
        "{status:?}"
    );
    violations.iter().map(|violation| violation.field.clone()).collect()
}

#[tokio::test]
async fn unavailable_carries_when_to_retry_for_programs_and_for_grpc_itself() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let waiting = drover.park(crate::support::wait("item")).await;
    drover.drain().await;
    let status = waiting.await.expect("it runs").expect_err("draining");
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::Unavailable, "DRAINING".to_owned())
    );
    let details = status.get_error_details();
    let delay = details
        .retry_info()
        .expect("when to retry")
        .retry_delay
        .expect("a length");
    let pushback = status
        .metadata()
        .get("grpc-retry-pushback-ms")
        .expect("a trailer")
        .to_str()
        .expect("text");
    assert_eq!(pushback, delay.as_millis().to_string());
    // Reports are taken until the end.
    drover.accept(report("item", &rebuild, "value")).await;
    drover.end().await;
}

#[tokio::test]
async fn at_most_ten_fields_are_named_in_their_order() {
    let drover = Drover::start().await;
    let wrong = drover::proto::AcquireRebuildRequest {
        namespace: "NO".to_owned(),
        tags: (0..40).map(|_| String::new()).collect(),
        ..ask("")
    };
    let status = drover.calls.clone().acquire_rebuild(wrong).await.expect_err("wrong");
    let named = fields(&status);
    assert_eq!(
        (named.len(), named[0].as_str(), named[1].as_str(), named[2].as_str()),
        (10, "namespace", "key", "tags[0]")
    );
    drover.end().await;
}

#[tokio::test]
async fn an_error_about_a_huge_input_is_small() {
    let drover = Drover::start().await;
    let wrong = ReportValueRequest {
        namespace: "x".repeat(1 << 20),
        key: "y".repeat(1 << 20),
        lease_id: "z".repeat(1 << 20),
        ..ReportValueRequest::default()
    };
    let status = drover.calls.clone().report_value(wrong).await.expect_err("wrong");
    assert_eq!(fields(&status), ["namespace", "key", "lease_id", "outcome"]);
    assert!(status.message().len() < 2_000);
    drover.end().await;
}
