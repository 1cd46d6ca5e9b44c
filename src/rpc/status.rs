//! How a call that cannot be answered is told so.
//!
//! *Owns* the only table from errors to gRPC statuses, and everything that a status of drover carries:
//!
//! | part | for whom |
//! |---|---|
//! | code and text | people; the text says what to do, and may change |
//! | `google.rpc.ErrorInfo` with the [`Reason`] | programs |
//! | `google.rpc.BadRequest`, `google.rpc.RetryInfo` | programs, where the reason has them |
//! | trailer `drover-reason` | programs whose library does not read details |
//! | trailer `grpc-retry-pushback-ms` | the retries built into gRPC, beside each RetryInfo |
//!
//! *Never* tells what a store or the operating system said: that may name hosts. It is in the logs.

use std::collections::HashMap;
use std::time::Duration;

use tonic::body::Body;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt as _};

use super::convert::Violations;
use crate::coordinator::{Dice, Error};
use crate::decision::{Draw, scattered};
use crate::store::StoreError;

/// The domain of each [`Reason`].
pub const DOMAIN: &str = "drover.v1";
/// The trailer with the reason as plain text.
pub const REASON_TRAILER: &str = "drover-reason";
/// The trailer that gRPC's own retries obey.
pub const PUSHBACK_TRAILER: &str = "grpc-retry-pushback-ms";

/// The store may be back soon; callers that come sooner only add to its trouble.
const STORE_RETRY: Duration = Duration::from_millis(500);
/// Another replica answers at once.
const DRAIN_RETRY: Duration = Duration::from_millis(100);
/// The call is safe to repeat, and a moment may settle its fate.
const UNKNOWN_RETRY: Duration = Duration::from_millis(200);
/// A store that is full needs entries to end their lives.
const FULL_RETRY: Duration = Duration::from_secs(1);

/// Why a call failed, as programs see it. The names are part of the public contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A field breaks a rule.
    InvalidField,
    /// The reported value is too large.
    ValueTooLarge,
    /// Only configured namespaces are admitted, and this is none.
    UnknownNamespace,
    /// Credentials are missing or wrong.
    Unauthenticated,
    /// The credentials do not allow this.
    Forbidden,
    /// Messages of a stream are out of order.
    StreamProtocol,
    /// A bound is reached.
    Overloaded,
    /// The store does not answer.
    StoreUnavailable,
    /// This replica is shutting down.
    Draining,
    /// The call may or may not have taken effect.
    OutcomeUnknown,
    /// A bug.
    Internal,
}

impl Reason {
    /// All of them.
    pub const ALL: [Reason; 11] = [
        Reason::InvalidField,
        Reason::ValueTooLarge,
        Reason::UnknownNamespace,
        Reason::Unauthenticated,
        Reason::Forbidden,
        Reason::StreamProtocol,
        Reason::Overloaded,
        Reason::StoreUnavailable,
        Reason::Draining,
        Reason::OutcomeUnknown,
        Reason::Internal,
    ];

    /// Its name in `ErrorInfo.reason`, the trailer, logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::InvalidField => "INVALID_FIELD",
            Reason::ValueTooLarge => "VALUE_TOO_LARGE",
            Reason::UnknownNamespace => "UNKNOWN_NAMESPACE",
            Reason::Unauthenticated => "UNAUTHENTICATED",
            Reason::Forbidden => "FORBIDDEN",
            Reason::StreamProtocol => "STREAM_PROTOCOL",
            Reason::Overloaded => "OVERLOADED",
            Reason::StoreUnavailable => "STORE_UNAVAILABLE",
            Reason::Draining => "DRAINING",
            Reason::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Reason::Internal => "INTERNAL",
        }
    }

    /// The gRPC code that goes with it.
    pub fn code(self) -> Code {
        match self {
            Reason::InvalidField | Reason::ValueTooLarge => Code::InvalidArgument,
            Reason::UnknownNamespace => Code::NotFound,
            Reason::Unauthenticated => Code::Unauthenticated,
            Reason::Forbidden => Code::PermissionDenied,
            Reason::StreamProtocol => Code::FailedPrecondition,
            Reason::Overloaded => Code::ResourceExhausted,
            Reason::StoreUnavailable | Reason::Draining | Reason::OutcomeUnknown => Code::Unavailable,
            Reason::Internal => Code::Internal,
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Status {
        match error {
            Error::InvalidField { field, problem } => Violations::one(field, problem).into(),
            Error::UnknownNamespace(namespace) => Failure::new(
                Reason::UnknownNamespace,
                format!(
                    "the namespace {namespace:?} is not configured, and only configured ones are served; correct the name, or have it \
                     added to the configuration"
                ),
            )
            .with("namespace", namespace)
            .into(),
            Error::ValueTooLarge { size, max } => Failure::new(
                Reason::ValueTooLarge,
                format!(
                    "the value has {size} bytes, and its namespace allows {max}; the lease has ended as after a failure; report such a \
                     value as external, or have max_value_bytes raised"
                ),
            )
            .with("size", size.to_string())
            .with("max", max.to_string())
            .field("value", format!("has {size} bytes; allowed are at most {max}"))
            .into(),
            Error::Overloaded { what, retry_after } => overloaded(what, retry_after),
            Error::Draining => draining(),
            Error::Store(StoreError::Unavailable(_)) => store_down(),
            Error::Store(StoreError::Unknown(_)) => Failure::new(
                Reason::OutcomeUnknown,
                "the store's answer was lost, so this call may or may not have taken effect; repeat it, that is safe",
            )
            .retry(UNKNOWN_RETRY)
            .into(),
            Error::Store(StoreError::Full(_)) => Failure::new(
                Reason::StoreUnavailable,
                "the store behind drover is full; try again after the delay given, and have its memory bound looked at",
            )
            .retry(FULL_RETRY)
            .into(),
        }
    }
}

impl From<Violations> for Status {
    fn from(violations: Violations) -> Status {
        let sentences: Vec<String> = violations
            .list()
            .iter()
            .map(|found| format!("{} {}.", found.field, found.problem))
            .collect();
        let mut failure = Failure::new(Reason::InvalidField, sentences.join(" "));
        for found in violations.0 {
            failure = failure.field(found.field, found.problem);
        }
        failure.into()
    }
}

/// Messages of a stream came in a wrong order. `text` says which order is right.
pub fn stream_protocol(text: &str) -> Status {
    Failure::new(Reason::StreamProtocol, text).into()
}

/// The request's bytes are no message of its type.
pub fn malformed(problem: &str) -> Status {
    Failure::new(
        Reason::InvalidField,
        format!(
            "the request cannot be read ({problem}); send the message that drover's proto files describe, strings in UTF-8"
        ),
    )
    .into()
}

/// What tonic says of a request that it could not read: a message that is cut off, too long, or not compressed as it says. To tonic
/// some of that is INTERNAL, which to drover's callers means a bug of drover.
pub fn unreadable(status: Status) -> Status {
    let of_the_request = matches!(
        status.code(),
        Code::Internal | Code::OutOfRange | Code::ResourceExhausted
    );
    if of_the_request && !status.metadata().contains_key(REASON_TRAILER) {
        malformed(status.message())
    } else {
        status
    }
}

/// The same for the head of a response.
pub fn in_our_words(response: http::Response<Body>) -> http::Response<Body> {
    // Only what failed before its first message has a status in its head.
    match Status::from_header_map(response.headers()) {
        Some(status) if status.code() != Code::Ok => match unreadable(status.clone()) {
            told if told.code() != status.code() => told.into_http(),
            _ => response,
        },
        _ => response,
    }
}

/// Credentials are missing or wrong. A seam: nothing asks for them yet.
pub fn unauthenticated(text: &str) -> Status {
    Failure::new(Reason::Unauthenticated, text).into()
}

/// The credentials do not allow this call or this namespace. A seam: nothing asks for them yet.
pub fn forbidden(text: &str) -> Status {
    Failure::new(Reason::Forbidden, text).into()
}

/// A bound of this replica is reached; `what` says which.
pub fn overloaded(what: &str, retry_after: Duration) -> Status {
    Failure::new(
        Reason::Overloaded,
        format!("this replica is overloaded: {what}; try again after the delay given, or at another replica"),
    )
    .retry(retry_after)
    .into()
}

/// The store does not answer, and the call did not reach it.
pub fn store_down() -> Status {
    Failure::new(
        Reason::StoreUnavailable,
        "the store behind drover does not answer, so this call did nothing; try again after the delay given",
    )
    .retry(STORE_RETRY)
    .into()
}

/// This replica is shutting down.
pub fn draining() -> Status {
    Failure::new(
        Reason::Draining,
        "this replica is shutting down; try again, and another one will answer",
    )
    .retry(DRAIN_RETRY)
    .into()
}

/// A bug. What it was is in the logs.
pub fn internal() -> Status {
    Failure::new(
        Reason::Internal,
        "a bug in drover stopped this call; do not repeat it in a loop, and have the operators look at the logs",
    )
    .into()
}

/// A call that this release does not know how to answer yet. It has no reason: the code says it all.
pub fn not_yet(call: &str, what: &str) -> Status {
    Status::unimplemented(format!(
        "{call} is not available in this release of drover: {what} comes with a later one"
    ))
}

/// What a status is made of.
struct Failure {
    reason: Reason,
    text: String,
    facts: HashMap<String, String>,
    fields: Vec<FieldViolation>,
    retry_after: Option<Duration>,
}

impl Failure {
    fn new(reason: Reason, text: impl Into<String>) -> Failure {
        Failure {
            reason,
            text: text.into(),
            facts: HashMap::new(),
            fields: Vec::new(),
            retry_after: None,
        }
    }

    fn with(mut self, name: &str, fact: String) -> Failure {
        self.facts.insert(name.to_owned(), fact);
        self
    }

    fn field(mut self, field: impl Into<String>, problem: impl Into<String>) -> Failure {
        self.fields.push(FieldViolation::new(field, problem));
        self
    }

    fn retry(self, after: Duration) -> Failure {
        Failure {
            retry_after: Some(after),
            ..self
        }
    }
}

impl Failure {
    /// As it is told. Each call that is to come back is told another time, up to half as long again: what refuses many at once, such as
    /// a drain or a store that is lost, must not have them all back at once.
    fn told(self, draw: Draw) -> Status {
        let mut details = ErrorDetails::with_error_info(self.reason.as_str(), DOMAIN, self.facts);
        let mut trailers = MetadataMap::new();
        trailers.insert(REASON_TRAILER, MetadataValue::from_static(self.reason.as_str()));
        if !self.fields.is_empty() {
            details.set_bad_request(self.fields);
        }
        if let Some(after) = self.retry_after {
            // Rounded up: a retry that comes too early is one that fails again.
            let millis = scattered(after, draw).as_nanos().div_ceil(1_000_000);
            let millis = u64::try_from(millis).unwrap_or(u64::MAX);
            details.set_retry_info(Some(Duration::from_millis(millis)));
            trailers.insert(PUSHBACK_TRAILER, millis.into());
        }
        Status::with_error_details_and_metadata(self.reason.code(), self.text, details, trailers)
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Status {
        failure.told(Dice::random().draw())
    }
}

#[cfg(test)]
mod tests;
