//! What a watcher is told.

use std::sync::Arc;
use std::time::Duration;

use super::feed::ResetReason;
use crate::decision::{Expiry, Key, LeaseId, LostReason, Mode, Seq, Tag};

/// One message for a watcher.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchEvent {
    /// Where the stream stands after it.
    pub cursor: Arc<str>,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Everything missed was sent.
    Started {
        /// Something comes at least so often.
        progress_interval: Duration,
        /// After so long without a word the watcher stops trusting its copies.
        max_silence: Duration,
    },
    /// Something was made old.
    Invalidated(Invalidation),
    /// A report was accepted.
    Refreshed {
        /// Of which key.
        key: Key,
        /// The value's version.
        version: Seq,
        /// What is left of its life as this is sent. The costs of a rebuild are not known here.
        expiry: Expiry,
    },
    /// A lease of this watcher's holder is no lease any more.
    LeaseRevoked {
        /// Of which key.
        key: Key,
        /// Which.
        lease: LeaseId,
        /// How it was lost.
        reason: LostReason,
    },
    /// A sign of life.
    Progress {
        /// This replica is about to stop.
        draining: bool,
    },
    /// Something may have been missed.
    Reset {
        /// Why.
        reason: ResetReason,
    },
}

/// Invalidations of one namespace, one kind and one mode: keys, or tags, or the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalidation {
    /// Where.
    pub namespace: Arc<str>,
    /// These keys, each once, in the order of their first invalidation.
    pub keys: Vec<Key>,
    /// Whatever carries one of these.
    pub tags: Vec<Tag>,
    /// The whole namespace.
    pub everything: bool,
    /// How hard.
    pub mode: Mode,
    /// The highest number among the invalidations.
    pub version: Seq,
}
