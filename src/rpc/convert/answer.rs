//! Domain types that several answers share, in the words of the proto.

use std::time::Duration;

use crate::decision::{Cause, Expiry, Hit, HitContent, KeepOff, Seq};
use crate::proto;
use crate::proto::hit::Content;
use crate::store::Bytes;

/// A value, with its bytes where the answer has them.
pub fn hit(hit: Hit, bytes: Option<Bytes>) -> proto::Hit {
    let freshness = if hit.fresh {
        proto::Freshness::Fresh
    } else {
        proto::Freshness::Stale
    };
    proto::Hit {
        version: number(hit.version),
        freshness: freshness.into(),
        content: match hit.content {
            // Unset is "unusable" to every client: the truth about bytes that are not there.
            HitContent::Bytes => bytes.map(shared).map(Content::Value),
            HitContent::External(locator) => Some(Content::External(proto::External {
                locator: locator.as_ref().to_owned(),
            })),
            HitContent::NotFound => Some(Content::NotFound(proto::NotFound {})),
            HitContent::Unchanged => Some(Content::Unchanged(proto::Unchanged {})),
            HitContent::Omitted => Some(Content::Omitted(proto::Omitted {})),
        },
        age: Some(length(hit.age)),
        expiry: Some(expiry(hit.expiry)),
        rebuilding: hit.rebuilding,
        tags: hit
            .tags
            .iter()
            .flat_map(|tags| tags.iter())
            .map(|tag| tag.as_ref().to_owned())
            .collect(),
        rebuild_traceparent: hit
            .traceparent
            .map_or_else(String::new, |parent| parent.as_ref().to_owned()),
    }
}

/// What is left of a life.
pub fn expiry(expiry: Expiry) -> proto::Expiry {
    proto::Expiry {
        fresh_for: Some(length(expiry.fresh_for)),
        stale_for: Some(length(expiry.stale_for)),
        stale_if_error_for: Some(length(expiry.stale_if_error_for)),
        refresh_in: expiry.refresh_in.map(length),
        rebuild_cost: some_length(expiry.rebuild_cost),
        beta: expiry.beta,
    }
}

/// A pause after failures.
pub fn backoff(pause: KeepOff) -> proto::Backoff {
    proto::Backoff {
        retry_after: Some(length(pause.retry_after)),
        failures: small(pause.failures),
        message: pause.message.as_ref().to_owned(),
        circuit_open: pause.circuit_open,
    }
}

/// Why a lease was granted.
pub fn cause(cause: Cause) -> proto::Cause {
    match cause {
        Cause::Miss => proto::Cause::Miss,
        Cause::Expired => proto::Cause::Expired,
        Cause::Stale => proto::Cause::Stale,
        Cause::Invalidated => proto::Cause::Invalidated,
        Cause::Early => proto::Cause::Early,
        Cause::Forced => proto::Cause::Forced,
        Cause::Takeover => proto::Cause::Takeover,
        Cause::Scheduled => proto::Cause::Scheduled,
        Cause::Lost => proto::Cause::Lost,
    }
}

/// A length of time.
pub fn length(length: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        // Always below 10⁹.
        nanos: length.subsec_nanos().cast_signed(),
    }
}

/// A length of time that is left out when there is none.
pub fn some_length(given: Duration) -> Option<prost_types::Duration> {
    (!given.is_zero()).then(|| length(given))
}

/// A token or a version.
pub fn number(seq: Seq) -> i64 {
    big(seq.0)
}

/// A count; it stops at the largest that the proto can say.
pub fn small(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A count; it stops at the largest that the proto can say.
pub fn big(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The stored bytes themselves, not a copy of them.
fn shared(bytes: Bytes) -> bytes::Bytes {
    if bytes.is_empty() {
        bytes::Bytes::new()
    } else {
        bytes::Bytes::from_owner(bytes)
    }
}
