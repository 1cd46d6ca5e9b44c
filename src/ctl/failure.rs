//! *Owns* what went wrong, and how it is told: the code, the reason, the fields, when to try again, and what to do.
//!
//! *Invariants*: advice is chosen by reason and code, never by the text of a message.

use std::error::Error as _;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::exit::Exit;
use super::text::{BAD, BOLD, paint, safe};
use super::units;

/// A call that got no answer.
#[derive(Debug)]
pub struct Failure {
    code: Code,
    reason: String,
    message: String,
    violations: Vec<Violation>,
    retry_after: Option<Duration>,
    advice: Option<String>,
    /// A server said so; otherwise the code is this program's own and tells people nothing.
    by_server: bool,
}

#[derive(Debug, Serialize)]
struct Violation {
    field: String,
    description: String,
}

/// The document of `--json`.
#[derive(Serialize)]
pub struct Document<'a> {
    error: Facts<'a>,
}

#[derive(Serialize)]
struct Facts<'a> {
    code: &'static str,
    reason: &'a str,
    message: &'a str,
    field_violations: &'a [Violation],
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<String>,
}

impl Failure {
    /// A mistake found before anything was sent; `message` says which.
    pub fn usage(message: String) -> Self {
        Self {
            code: Code::InvalidArgument,
            reason: String::new(),
            message,
            violations: Vec::new(),
            retry_after: None,
            advice: None,
            by_server: false,
        }
    }

    /// Nobody listens at `server`.
    pub fn unreachable(server: &str, error: &tonic::transport::Error) -> Self {
        Self {
            code: Code::Unavailable,
            message: format!("no drover answers at {server}: {}", deepest(error)),
            advice: Some("start one with `drover serve`, or name another with --server or DROVER_SERVER".into()),
            ..Self::usage(String::new())
        }
    }

    /// An answer that cannot be right.
    pub fn nonsense(message: &str) -> Self {
        Self {
            code: Code::Internal,
            ..Self::usage(message.into())
        }
    }

    /// A stream that said nothing for so long that it counts as lost.
    pub fn silent(length: Duration) -> Self {
        let message = format!("nothing was heard for {}", people(length));
        Self {
            code: Code::Unavailable,
            ..Self::usage(message)
        }
    }

    /// The deadline passed. The transport tells that as CANCELLED, which would look like the server's doing.
    pub fn unanswered(patience: Duration) -> Self {
        let message = format!("no answer within {}", people(patience));
        let advice = Some("is the server busy, or not a drover? --timeout gives it longer".into());
        Self {
            code: Code::DeadlineExceeded,
            advice,
            ..Self::usage(message)
        }
    }

    /// A stream that the server ended without a word.
    pub fn ended() -> Self {
        Self {
            code: Code::Unavailable,
            ..Self::usage("the server ended the stream".into())
        }
    }

    /// The server's refusal. `patience` is the deadline that the call had.
    pub fn refused(status: &Status, patience: Duration) -> Self {
        if causes(status).any(|cause| cause.is::<tonic::TimeoutExpired>()) {
            return Self::unanswered(patience);
        }
        let details = status.get_error_details();
        // Clients without rich errors read the plain trailers; so does this one where a proxy dropped the details.
        let trailer = |name: &str| {
            status
                .metadata()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let reason = details
            .error_info()
            .map(|info| info.reason.clone())
            .or_else(|| trailer("drover-reason"));
        let pushback = || {
            trailer("grpc-retry-pushback-ms")?
                .parse()
                .ok()
                .map(Duration::from_millis)
        };
        let violations = details
            .bad_request()
            .map(|bad| bad.field_violations.clone())
            .unwrap_or_default();
        let mut failure = Self {
            code: status.code(),
            reason: reason.unwrap_or_default(),
            message: message(status),
            violations: violations
                .into_iter()
                .map(|violation| Violation {
                    field: violation.field,
                    description: violation.description,
                })
                .collect(),
            retry_after: details.retry_info().and_then(|info| info.retry_delay).or_else(pushback),
            advice: None,
            by_server: true,
        };
        failure.advice = failure.advise(status.source().is_some());
        failure
    }

    pub fn exit(&self) -> Exit {
        match self.code {
            Code::InvalidArgument | Code::NotFound => Exit::Usage,
            _ => Exit::Broken,
        }
    }

    /// Asking again may help.
    pub fn passes(&self) -> bool {
        !matches!(
            self.code,
            Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
        )
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// One line without colours.
    pub fn sentence(&self) -> String {
        if self.message.is_empty() {
            "the server refused without a word".into()
        } else {
            safe(&self.message)
        }
    }

    /// For people.
    pub fn page(&self) -> String {
        let mut page = format!("{} {}", paint(BAD, "error:"), self.sentence());
        if self.by_server {
            let separator = if self.reason.is_empty() { "" } else { ", " };
            let _ = write!(page, " ({}{separator}{})", name(self.code), safe(&self.reason));
        }
        page.push('\n');
        // A server that refuses one field says so in the message already.
        let said = |violation: &Violation| {
            self.message.contains(&violation.field)
                && !violation.description.is_empty()
                && self.message.contains(&violation.description)
        };
        let told: Vec<&Violation> = self.violations.iter().filter(|violation| !said(violation)).collect();
        let width = told
            .iter()
            .map(|violation| safe(&violation.field).chars().count())
            .max()
            .unwrap_or(0);
        for violation in told {
            let _ = writeln!(
                page,
                "  {:<width$}  {}",
                safe(&violation.field),
                safe(&violation.description)
            );
        }
        if let Some(delay) = self.retry_after {
            let _ = writeln!(page, "{} try again in {}", paint(BOLD, "hint:"), people(delay));
        }
        if let Some(advice) = &self.advice {
            let _ = writeln!(page, "{} {advice}", paint(BOLD, "hint:"));
        }
        page
    }

    /// For scripts.
    pub fn document(&self) -> Document<'_> {
        Document {
            error: Facts {
                code: name(self.code),
                reason: &self.reason,
                message: &self.message,
                field_violations: &self.violations,
                retry_after: self.retry_after.and_then(proto).map(|delay| units::exact(&delay)),
            },
        }
    }

    /// `by_transport`: no server said so, the connection broke.
    fn advise(&self, by_transport: bool) -> Option<String> {
        let advice = match (self.reason.as_str(), self.code) {
            ("INVALID_FIELD", _) => "`drover ctl COMMAND --help` says what each field may be",
            ("UNKNOWN_NAMESPACE", _) => "see `drover ctl namespaces`, or add it to the server's policy file",
            ("VALUE_TOO_LARGE", _) => {
                "the lease ended as a failure; raise max_value_bytes in the policy, or keep the value in your \
                 own store and report it with --external"
            }
            ("STORE_UNAVAILABLE", _) => "the server cannot reach its store; repeating the call is safe",
            ("OUTCOME_UNKNOWN", _) => "it may or may not have been done; repeating the call is safe",
            ("DRAINING", _) => "this replica is about to leave; ask another one, or the same address in a moment",
            ("OVERLOADED", _) => "the server has too much to do at the moment",
            (_, Code::Unauthenticated | Code::PermissionDenied) => "ask the operators of this server for access",
            (_, Code::Unimplemented) => "is that a drover, and as new as this program?",
            (_, Code::DeadlineExceeded) => "--timeout gives it longer",
            (_, Code::Unknown | Code::Internal) if by_transport => {
                "is that the gRPC address of a drover? Its HTTP port is another one"
            }
            ("INTERNAL", _) | (_, Code::Internal) => "this is a bug; the server's log may say more",
            _ => return None,
        };
        Some(advice.into())
    }
}

/// The names that the gRPC documentation uses.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// A status that the transport made says little itself ("transport error"); its deepest source says what happened.
fn message(status: &Status) -> String {
    match status.source() {
        Some(source) => format!("{}: {}", status.message(), deepest(source)),
        None => status.message().to_owned(),
    }
}

/// The error and what caused it, down to the first cause.
fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

fn proto(length: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(length).ok()
}

fn people(length: Duration) -> String {
    proto(length).map_or_else(|| "very long".into(), |length| units::people(&length))
}
