//! The server span of a call, and the W3C context in its metadata.

use crate::rpc::status::REASON_TRAILER;
use http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The header with the caller's W3C trace context.
const TRACEPARENT: &str = "traceparent";

const GRPC_STATUS: &str = "grpc-status";

/// A span for a call of `/package.Service/Method`, whose parent is the caller's. Handlers record the `drover.*` fields through
/// `Span::current()`.
pub(super) fn server_span(path: &str, headers: &HeaderMap) -> Span {
    let name = path.trim_start_matches('/');
    let (service, method) = name.split_once('/').unwrap_or((name, ""));
    let span = tracing::info_span!(
        parent: None,
        "call",
        otel.name = name,
        otel.kind = "server",
        otel.status_code = Empty,
        rpc.system = "grpc",
        rpc.service = service,
        rpc.method = method,
        rpc.grpc.status_code = Empty,
        drover.namespace = Empty,
        drover.decision = Empty,
        drover.cause = Empty,
        drover.waited_ms = Empty,
        drover.outcome = Empty,
        drover.result = Empty,
        drover.mode = Empty,
        drover.reason = Empty,
    );
    if headers.contains_key(TRACEPARENT) {
        let caller = TraceContextPropagator::new().extract(&Headers(headers));
        if caller.span().span_context().is_valid() {
            // Fails only where no layer exports spans, and then there is nothing to be a parent of.
            let _ = span.set_parent(caller);
        }
    }
    span
}

/// How a call ended, as the head of its response tells: errors of unary calls, and of streams before their first message, have
/// their trailers there.
pub(super) struct Ended<'a> {
    code: i64,
    /// Why it failed, if it did; never for a caller that left.
    pub(super) reason: Option<&'a str>,
}

impl Ended<'_> {
    pub(super) fn of(head: &HeaderMap) -> Ended<'_> {
        let code = head
            .get(GRPC_STATUS)
            .map_or(Some(0), |code| code.to_str().ok()?.parse().ok());
        let code = code.unwrap_or(tonic::Code::Unknown as i64);
        let failed = code != tonic::Code::Ok as i64 && code != tonic::Code::Cancelled as i64;
        let reason = || head.get(REASON_TRAILER).and_then(|reason| reason.to_str().ok());
        Ended {
            code,
            reason: failed.then(|| reason().unwrap_or(unnamed(code))),
        }
    }

    pub(super) fn record(&self, span: &Span) {
        if span.is_disabled() {
            return;
        }
        span.record("rpc.grpc.status_code", self.code);
        if let Some(reason) = self.reason {
            span.record("drover.reason", reason);
        }
        if is_servers_fault(self.code) {
            span.record("otel.status_code", "ERROR");
        }
    }
}

/// The reason of a status that names none: those that the library answers by itself.
fn unnamed(code: i64) -> &'static str {
    match code {
        code if code == tonic::Code::Unimplemented as i64 => "UNIMPLEMENTED",
        code if code == tonic::Code::Internal as i64 => "INTERNAL",
        _ => "OTHER",
    }
}

/// Which codes make a server's span an error, by the semantic conventions.
fn is_servers_fault(code: i64) -> bool {
    use tonic::Code;
    [
        Code::Unknown,
        Code::DeadlineExceeded,
        Code::Unimplemented,
        Code::Internal,
        Code::Unavailable,
        Code::DataLoss,
    ]
    .into_iter()
    .any(|fault| fault as i64 == code)
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;

    fn ended(status: Status) -> Option<String> {
        let head = status.into_http::<()>().into_parts().0.headers;
        Ended::of(&head).reason.map(str::to_owned)
    }

    #[test]
    fn an_error_has_its_reason_and_a_caller_that_left_is_none() {
        assert_eq!(Ended::of(&HeaderMap::new()).reason, None);
        assert_eq!(ended(Status::cancelled("")), None);
        assert_eq!(ended(Status::unimplemented("")).as_deref(), Some("UNIMPLEMENTED"));
        assert_eq!(ended(Status::unavailable("")).as_deref(), Some("OTHER"));
        let mut named = Status::unavailable("");
        named
            .metadata_mut()
            .insert(REASON_TRAILER, "DRAINING".parse().expect("ASCII"));
        assert_eq!(ended(named).as_deref(), Some("DRAINING"));
    }

    #[test]
    fn a_caller_s_mistake_is_no_fault_of_the_server() {
        assert!(is_servers_fault(Code::Internal as i64) && is_servers_fault(Code::Unavailable as i64));
        assert!(!is_servers_fault(Code::InvalidArgument as i64) && !is_servers_fault(Code::Cancelled as i64));
    }
}
