//! What a watcher wants to see.

use std::sync::Arc;

use crate::decision::Key;
use crate::store::{Event, Target};

/// What somebody subscribes to. The adapter has checked the sizes.
#[derive(Clone, Debug, Default)]
pub struct Subscription {
    /// At least one.
    pub namespaces: Vec<Arc<str>>,
    /// Of single keys, only those that start with one of these; empty: all.
    pub key_prefixes: Vec<String>,
    /// Who watches; empty: no revocations come.
    pub holder: Arc<str>,
    /// The last cursor received; empty: begin now.
    pub resume_from: String,
    /// `Refreshed` events too.
    pub include_refreshed: bool,
    /// It keeps no copies: no barrier waits for it.
    pub observe_only: bool,
}

/// The part of a subscription that is matched against events.
#[derive(Debug)]
pub(super) struct Filter {
    pub namespaces: Vec<Arc<str>>,
    prefixes: Vec<String>,
    pub holder: Arc<str>,
    pub refreshed: bool,
    /// Sorted.
    marks: Vec<u64>,
}

impl Filter {
    pub fn new(subscription: &Subscription) -> Filter {
        let mut namespaces = subscription.namespaces.clone();
        namespaces.sort_unstable();
        namespaces.dedup();
        let mut marks: Vec<u64> = namespaces.iter().map(|namespace| hash(b'n', namespace)).collect();
        if !subscription.holder.is_empty() {
            marks.push(hash(b'h', &subscription.holder));
        }
        marks.sort_unstable();
        Filter {
            namespaces,
            prefixes: subscription.key_prefixes.clone(),
            holder: subscription.holder.clone(),
            refreshed: subscription.include_refreshed,
            marks,
        }
    }

    /// No if the event with this mark is certainly not wanted.
    pub fn may_want(&self, mark: u64) -> bool {
        match self.marks.as_slice() {
            [only] => *only == mark,
            [one, other] => *one == mark || *other == mark,
            marks => marks.binary_search(&mark).is_ok(),
        }
    }

    /// Whether the watcher is to see an event.
    pub fn wants(&self, event: &Event) -> bool {
        match event {
            Event::Invalidated { namespace, target, .. } => self.covers(namespace, target),
            Event::Refreshed { key, .. } => self.refreshed && self.watches(key.namespace()) && self.prefixed(key),
            Event::LeaseRevoked { holder, .. } => !holder.is_empty() && *holder == self.holder,
        }
    }

    /// Whether the watcher may have copies of what is invalidated.
    pub fn covers(&self, namespace: &str, target: &Target) -> bool {
        let inside = match target {
            Target::Key(key) => self.prefixed(key),
            Target::Tag(_) | Target::Everything => true,
        };
        inside && self.watches(namespace)
    }

    fn watches(&self, namespace: &str) -> bool {
        self.namespaces.iter().any(|watched| **watched == *namespace)
    }

    fn prefixed(&self, key: &Key) -> bool {
        self.prefixes.is_empty()
            || self
                .prefixes
                .iter()
                .any(|prefix| key.name().starts_with(prefix.as_str()))
    }
}

/// A number by which a scan tells who may want an event: of its namespace, or of the holder of a revoked lease. Two names may
/// share one; [`Filter::wants`] is exact.
pub(super) fn mark(event: &Event) -> u64 {
    match event {
        Event::Invalidated { namespace, .. } => hash(b'n', namespace),
        Event::Refreshed { key, .. } => hash(b'n', key.namespace()),
        Event::LeaseRevoked { holder, .. } => hash(b'h', holder),
    }
}

/// FNV-1a, salted with what kind of name it is.
fn hash(kind: u8, name: &str) -> u64 {
    let start = (0xcbf2_9ce4_8422_2325 ^ u64::from(kind)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
