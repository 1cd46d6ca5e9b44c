//! Why a watcher's stream ends with an error.

use std::collections::HashMap;
use std::time::Duration;

use tonic::metadata::MetadataValue;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::fanout::Refused;

/// The reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fields, and what is wrong with each.
    Fields(Vec<(String, String)>),
    NoSubscribe,
    AckFirst,
    SubscribedTwice,
    Overloaded,
    Draining,
}

impl Refusal {
    /// A single field is wrong.
    pub fn one(field: &str, problem: &str) -> Refusal {
        Refusal::Fields(vec![(field.to_owned(), problem.to_owned())])
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Refusal {
        match refused {
            Refused::Overloaded => Refusal::Overloaded,
            Refused::Draining => Refusal::Draining,
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let order = |text: &str| {
            status(
                Code::FailedPrecondition,
                "STREAM_PROTOCOL",
                text,
                None,
                ErrorDetails::new(),
            )
        };
        match refusal {
            Refusal::NoSubscribe => order("no `subscribe` came; send it as the first message of the stream"),
            Refusal::AckFirst => {
                order("an `ack` came before `subscribe`; send `subscribe` as the first message of the stream")
            }
            Refusal::SubscribedTwice => order("a second `subscribe` came; open another stream for it"),
            Refusal::Overloaded => {
                let text = Refused::Overloaded.to_string();
                let pause = Some(Duration::from_secs(5));
                status(Code::ResourceExhausted, "OVERLOADED", &text, pause, ErrorDetails::new())
            }
            Refusal::Draining => {
                let text = Refused::Draining.to_string();
                let pause = Some(Duration::from_secs(1));
                status(Code::Unavailable, "DRAINING", &text, pause, ErrorDetails::new())
            }
            Refusal::Fields(fields) => {
                let mut details = ErrorDetails::new();
                let mut text = String::from("the request breaks a rule");
                for (field, problem) in fields {
                    let mark = if details.bad_request().is_none() { ':' } else { ';' };
                    text.push_str(&format!("{mark} {field} {problem}"));
                    details.add_bad_request_violation(field, problem);
                }
                status(Code::InvalidArgument, "INVALID_FIELD", &text, None, details)
            }
        }
    }
}

fn status(code: Code, reason: &'static str, text: &str, pause: Option<Duration>, mut details: ErrorDetails) -> Status {
    details.set_error_info(reason, "drover.v1", HashMap::new());
    if pause.is_some() {
        details.set_retry_info(pause);
    }
    let mut status = Status::with_error_details(code, text, details);
    let trailers = status.metadata_mut();
    trailers.insert("drover-reason", MetadataValue::from_static(reason));
    if let Some(pause) = pause {
        trailers.insert("grpc-retry-pushback-ms", MetadataValue::from(pause.as_millis() as u64));
    }
    status
}
