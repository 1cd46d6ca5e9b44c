//! Messages of any wanted size.

use bytes::Bytes;
use prost::Message as _;

use crate::bench::wire::Exchange;

/// A request: as long as wanted, and it says how long the answers shall be.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Ask {
    /// Fills the request up.
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: Bytes,
    /// Payload of the answer, in bytes.
    #[prost(uint32, tag = "2")]
    pub answer: u32,
    /// Payload of the message that is published, in bytes.
    #[prost(uint32, tag = "3")]
    pub event: u32,
    /// What a call to Redis is about.
    #[prost(bytes = "bytes", tag = "4")]
    pub key: Bytes,
    /// Of the grant that is reported.
    #[prost(fixed64, tag = "5")]
    pub revision: u64,
}

/// An answer or an event.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Blob {
    /// Zeros.
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: Bytes,
    /// Of a grant.
    #[prost(fixed64, tag = "2")]
    pub revision: u64,
}

/// What a revision takes in a message.
const REVISION: usize = 9;

impl Ask {
    /// A request that takes `request` bytes encoded, for an answer that takes `answer` bytes, and an event that takes `event`.
    /// Where no payload gives exactly that length, one byte less.
    pub fn sized(request: usize, answer: usize, event: usize) -> Self {
        let small = |bytes| u32::try_from(payload_of(bytes)).unwrap_or(u32::MAX);
        let ask = Self {
            answer: small(answer),
            event: small(event),
            ..Self::default()
        };
        ask.filled_up_to(request)
    }

    /// A request about a key that is answered with a revision.
    pub fn about(key: String, sizes: Exchange) -> Self {
        let ask = Self {
            key: key.into(),
            ..Self::sized(0, sizes.answer.saturating_sub(REVISION), 0)
        };
        ask.filled_up_to(sizes.request)
    }

    /// A request about a grant of this revision.
    pub fn about_grant(key: String, revision: u64, sizes: Exchange) -> Self {
        let ask = Self {
            key: key.into(),
            revision,
            ..Self::sized(0, sizes.answer, 0)
        };
        ask.filled_up_to(sizes.request)
    }

    fn filled_up_to(mut self, request: usize) -> Self {
        self.payload = Bytes::new();
        self.payload = Bytes::from(vec![0; payload_of(request.saturating_sub(self.encoded_len()))]);
        self
    }
}

/// Length of the payload that makes a field of `field` bytes: its tag, the length as a varint, and itself.
fn payload_of(field: usize) -> usize {
    let mut payload = field.saturating_sub(2);
    while 1 + prost::length_delimiter_len(payload) + payload > field.max(2) {
        payload -= 1;
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_encoded_length_that_was_asked_for() {
        for request in [20, 64, 128, 133, 300, 5_000, 1 << 20] {
            let ask = Ask::sized(request, 90, 0);
            let found = ask.encoded_len();
            assert!(
                found == request || found + 1 == request,
                "{found} bytes instead of {request}"
            );
        }
    }
}
