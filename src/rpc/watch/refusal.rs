//! Why a watcher's stream ends with an error, besides fields that break a rule.

use std::time::Duration;

use tonic::Status;

use crate::fanout::Refused;
use crate::rpc::status::{draining, overloaded, store_down, stream_protocol};

/// Places for watchers do not become free in a moment.
const PAUSE: Duration = Duration::from_secs(5);

/// The reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NoSubscribe,
    AckFirst,
    SubscribedTwice,
    Hub(Refused),
    Draining,
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        match refusal {
            Refusal::NoSubscribe => stream_protocol("no subscribe came; send it as the first message of the stream"),
            Refusal::AckFirst => {
                stream_protocol("an ack came before subscribe; send subscribe as the first message of the stream")
            }
            Refusal::SubscribedTwice => stream_protocol("a second subscribe came; open another stream for it"),
            Refusal::Hub(Refused::Overloaded) => overloaded("it has as many watchers as it takes", PAUSE),
            Refusal::Hub(Refused::StoreDown) => store_down(),
            Refusal::Draining | Refusal::Hub(Refused::Draining) => draining(),
        }
    }
}
