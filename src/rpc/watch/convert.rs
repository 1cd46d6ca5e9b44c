//! Subscriptions from protobuf, events to it.

use crate::decision::{Key, Mode};
use crate::fanout::{Invalidation, ResetReason, Subscription, WatchEvent, What};
use crate::proto;
use crate::proto::watch_response::Event;
use crate::rpc::convert::{expiry, length, lost_reason, number};

/// A subscription that was checked.
pub fn subscription(given: proto::Subscribe) -> Subscription {
    Subscription {
        namespaces: given.namespaces.into_iter().map(Into::into).collect(),
        key_prefixes: given.key_prefixes,
        holder: given.holder.into(),
        resume_from: given.resume_from,
        include_refreshed: given.include_refreshed,
        observe_only: given.observe_only,
    }
}

/// An event.
pub fn event(event: WatchEvent) -> proto::WatchResponse {
    let kind = match event.what {
        What::Started {
            progress_interval,
            max_silence,
        } => Event::Started(proto::Started {
            progress_interval: Some(length(progress_interval)),
            max_silence: Some(length(max_silence)),
        }),
        What::Invalidated(invalidation) => Event::Invalidated(invalidated(invalidation)),
        What::Refreshed {
            key,
            version,
            expiry: left,
        } => Event::Refreshed(proto::Refreshed {
            namespace: key.namespace().to_owned(),
            key: key.name().to_owned(),
            version: number(version),
            expiry: Some(expiry(left)),
        }),
        What::LeaseRevoked { key, lease, reason } => Event::LeaseRevoked(proto::LeaseRevoked {
            namespace: key.namespace().to_owned(),
            key: key.name().to_owned(),
            lease_id: lease.to_string(),
            reason: lost_reason(reason).into(),
        }),
        What::Progress { draining } => Event::Progress(proto::Progress { draining }),
        What::Reset { reason } => Event::Reset(proto::Reset {
            reason: reset(reason).into(),
        }),
    };
    proto::WatchResponse {
        cursor: event.cursor.to_string(),
        event: Some(kind),
    }
}

fn invalidated(given: Invalidation) -> proto::Invalidated {
    let name = |key: &Key| key.name().to_owned();
    proto::Invalidated {
        namespace: given.namespace.to_string(),
        keys: given.keys.iter().map(name).collect(),
        tags: given.tags.iter().map(ToString::to_string).collect(),
        everything: given.everything,
        mode: match given.mode {
            Mode::Drop => proto::Mode::Drop,
            Mode::Expire => proto::Mode::Expire,
        }
        .into(),
        version: number(given.version),
    }
}

fn reset(reason: ResetReason) -> proto::ResetReason {
    match reason {
        ResetReason::UnknownCursor => proto::ResetReason::UnknownCursor,
        ResetReason::CursorTooOld => proto::ResetReason::CursorTooOld,
        ResetReason::SlowConsumer => proto::ResetReason::SlowConsumer,
        ResetReason::LogLost => proto::ResetReason::LogLost,
        ResetReason::DegradedEnded => proto::ResetReason::DegradedEnded,
    }
}
