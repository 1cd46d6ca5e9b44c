//! What a person and a script are told when a call gets no answer.

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::fake::{Fake, with};
use super::*;
use crate::ctl::failure::Failure;

fn status(code: Code, message: &str, details: ErrorDetails) -> Status {
    Status::with_error_details(code, message, details)
}

fn with_reason(code: Code, reason: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, "drover.v1", std::collections::HashMap::new());
    status(code, "text", details)
}

#[tokio::test]
async fn a_refused_field_is_named_and_the_exit_code_says_usage() {
    let mut details = ErrorDetails::new();
    details
        .set_error_info("INVALID_FIELD", "drover.v1", std::collections::HashMap::new())
        .add_bad_request_violation("namespace", "must be 1 to 64 of [a-z0-9._-]")
        .add_bad_request_violation("key", "must not be empty\x1b[2J");
    let refusal = status(Code::InvalidArgument, "2 fields are invalid", details);
    let server = Fake {
        acquire: with([Err(refusal.clone()), Err(refusal)]),
        ..Fake::default()
    }
    .start()
    .await;

    let (exit, stdout, stderr) = run(&server.url, &["acquire", "ORDERS", ""]).await;
    assert_eq!((exit, stdout.as_str()), (Exit::Usage, ""));
    assert_eq!(
        stderr,
        "error: 2 fields are invalid (INVALID_ARGUMENT, INVALID_FIELD)\n  \
           namespace  must be 1 to 64 of [a-z0-9._-]\n  \
           key        must not be empty\\u{1b}[2J\n\
         hint: `drover ctl COMMAND --help` says what each field may be\n"
    );

    let (exit, stdout, stderr) = run(&server.url, &["acquire", "ORDERS", "", "--json"]).await;
    assert_eq!((exit, stderr.as_str()), (Exit::Usage, ""));
    assert_eq!(
        stdout,
        r#"{"error":{"code":"INVALID_ARGUMENT","reason":"INVALID_FIELD","message":"2 fields are invalid","field_violations":[{"field":"namespace","description":"must be 1 to 64 of [a-z0-9._-]"},{"field":"key","description":"must not be empty\u001b[2J"}]}}
"#
    );
}

#[tokio::test]
async fn a_server_that_is_down_for_a_moment_says_when_to_try_again() {
    let mut details = ErrorDetails::with_retry_info(Some(Duration::from_millis(1_500)));
    details.set_error_info("STORE_UNAVAILABLE", "drover.v1", std::collections::HashMap::new());
    let down = status(Code::Unavailable, "the store does not answer", details);
    let server = Fake {
        invalidate: with([Err(down.clone()), Err(down)]),
        ..Fake::default()
    }
    .start()
    .await;
    let (exit, _, stderr) = run(&server.url, &["invalidate", "orders", "k"]).await;
    assert_eq!(exit, Exit::Broken);
    assert_eq!(
        stderr,
        "error: the store does not answer (UNAVAILABLE, STORE_UNAVAILABLE)\n\
         hint: try again in 1.5s\n\
         hint: the server cannot reach its store; repeating the call is safe\n"
    );
    let (_, stdout, _) = run(&server.url, &["invalidate", "orders", "k", "--json"]).await;
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(document["error"]["retry_after"], "1.5s");
}

#[tokio::test]
async fn nobody_at_the_address_is_one_clear_line_and_a_hint() {
    // Bound and dropped: nobody listens there.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let (exit, stdout, stderr) = run(&url, &["namespaces"]).await;
    assert_eq!((exit, stdout.as_str()), (Exit::Broken, ""));
    let (line, hint) = stderr.split_once('\n').expect("two lines");
    assert!(
        line.starts_with(&format!("error: no drover answers at {url}: Connection refused")),
        "{line}"
    );
    assert_eq!(
        hint,
        "hint: start one with `drover serve`, or name another with --server or DROVER_SERVER\n"
    );
}

#[test]
fn a_field_that_the_message_tells_of_already_is_not_told_twice() {
    let table = [
        (
            "key must not be empty",
            "key",
            "must not be empty",
            "error: key must not be empty (INVALID_ARGUMENT)\n",
        ),
        ("bad key", "key", "", "error: bad key (INVALID_ARGUMENT)\n  key  \n"),
        (
            "must not be empty",
            "key",
            "must not be empty",
            "error: must not be empty (INVALID_ARGUMENT)\n  key  must not be empty\n",
        ),
    ];
    for (message, field, description, page) in table {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation(field, description);
        let failure = Failure::refused(&status(Code::InvalidArgument, message, details), Duration::from_secs(5));
        assert_eq!(plain(&failure.page()), page);
    }
}

#[test]
fn without_rich_details_the_plain_trailers_are_read() {
    let mut bare = Status::resource_exhausted("too many callers");
    bare.metadata_mut()
        .insert("drover-reason", "OVERLOADED".parse().expect("ASCII"));
    bare.metadata_mut()
        .insert("grpc-retry-pushback-ms", "250".parse().expect("ASCII"));
    assert_eq!(
        plain(&Failure::refused(&bare, Duration::from_secs(5)).page()),
        "error: too many callers (RESOURCE_EXHAUSTED, OVERLOADED)\n\
         hint: try again in 250ms\n\
         hint: the server has too much to do at the moment\n"
    );
}

#[test]
fn every_reason_says_what_to_do_and_whether_asking_again_may_help() {
    let table = [
        (
            Code::NotFound,
            "UNKNOWN_NAMESPACE",
            "drover ctl namespaces",
            Exit::Usage,
            false,
        ),
        (
            Code::InvalidArgument,
            "VALUE_TOO_LARGE",
            "max_value_bytes",
            Exit::Usage,
            false,
        ),
        (
            Code::Unauthenticated,
            "UNAUTHENTICATED",
            "ask the operators",
            Exit::Broken,
            false,
        ),
        (
            Code::PermissionDenied,
            "FORBIDDEN",
            "ask the operators",
            Exit::Broken,
            false,
        ),
        (Code::Unavailable, "DRAINING", "about to leave", Exit::Broken, true),
        (
            Code::Unavailable,
            "OUTCOME_UNKNOWN",
            "repeating the call is safe",
            Exit::Broken,
            true,
        ),
        (Code::Internal, "INTERNAL", "this is a bug", Exit::Broken, true),
        (Code::Unimplemented, "", "as new as this program", Exit::Broken, false),
        (
            Code::DeadlineExceeded,
            "",
            "--timeout gives it longer",
            Exit::Broken,
            true,
        ),
    ];
    for (code, reason, advice, exit, passes) in table {
        let failure = Failure::refused(&with_reason(code, reason), Duration::from_secs(5));
        assert!(failure.page().contains(advice), "{reason}: {}", failure.page());
        assert_eq!((failure.exit(), failure.passes()), (exit, passes), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_given_up_at_the_deadline() {
    use crate::ctl::client::settled;
    use crate::proto::coordinator_service_client::CoordinatorServiceClient;
    use crate::proto::{InvalidateRequest, InvalidateResponse};
    // In memory, so that nothing but time can happen: the other end reads nothing and says nothing.
    let endpoint = tonic::transport::Endpoint::from_static("http://in.memory");
    let (near, _far) = tokio::io::duplex(1 << 16);
    let mut near = Some(hyper_util::rt::TokioIo::new(near));
    let connector = tower::service_fn(move |_| std::future::ready(near.take().ok_or("taken")));
    let mut client = CoordinatorServiceClient::new(endpoint.connect_with_connector_lazy(connector));
    let args = parse("http://127.0.0.1:1", &["namespaces"]).unwrap_or_else(|error| panic!("{error}"));
    let call = args
        .server
        .call(InvalidateRequest::default(), Some(Duration::from_secs(2)));
    let begin = tokio::time::Instant::now();
    let result: Result<InvalidateResponse, _> = settled(client.invalidate(call.request).await, call.patience);
    assert_eq!(begin.elapsed().as_secs(), 7);
    assert_eq!(
        plain(&result.expect_err("no answer").page()),
        "error: no answer within 7s\nhint: is the server busy, or not a drover? --timeout gives it longer\n"
    );
}
