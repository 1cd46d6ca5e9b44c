//! What a commit tells everybody: the events of the log.

use std::sync::Arc;
use std::time::Duration;

use crate::decision::{Key, LeaseId, LostReason, Mode, Seq, Tag, When};

/// Something that watchers must see. Its number and its moment are those of its commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Something was made old.
    Invalidated {
        /// Where.
        namespace: Arc<str>,
        /// What.
        target: Target,
        /// How hard.
        mode: Mode,
    },
    /// A report was accepted.
    Refreshed {
        /// Of which key.
        key: Key,
        /// The value's version.
        version: Seq,
        /// Its end of freshness.
        fresh_until: When,
        /// From the end of freshness.
        stale_while_revalidate: Duration,
        /// From the end of freshness.
        stale_if_error: Duration,
    },
    /// A lease is no lease any more although its holder has not reported.
    LeaseRevoked {
        /// Of which key.
        key: Key,
        /// Which.
        lease: LeaseId,
        /// Who is to be told.
        holder: Arc<str>,
        /// How it was lost.
        reason: LostReason,
    },
}

/// What an invalidation names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A key.
    Key(Key),
    /// Everything with a tag.
    Tag(Tag),
    /// The whole namespace.
    Everything,
}

impl Event {
    /// The namespace it belongs to.
    pub fn namespace(&self) -> &str {
        match self {
            Event::Invalidated { namespace, .. } => namespace,
            Event::Refreshed { key, .. } | Event::LeaseRevoked { key, .. } => key.namespace(),
        }
    }
}
