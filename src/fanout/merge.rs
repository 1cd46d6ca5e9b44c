//! Makes one message of records that follow each other.
//!
//! *Invariants.* Only neighbours in what the watcher sees are merged, so the order of the log stays, and with it the order a key.
//! Merged are invalidations of one namespace and one kind (keys, tags, the whole), at most [`MOST`], with one mode. The same name
//! alone, again and again, is merged over modes too: the harder one wins. The version is the highest.
//!
//! *Why not over modes and kinds in general*: it would be allowed, but `expire` of one key beside `drop` of another would drop both,
//! and keys beside tags could not be spared by their version.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::event::{Invalidation, WatchEvent, What};
use super::log::Logged;
use super::position::Position;
use crate::decision::{Expiry, Mode, Seq, StoreTime};
use crate::store::{Event, Target};

/// Names in one message.
pub(super) const MOST: usize = 1_000;

/// Neighbouring records that will be one message.
#[derive(Default)]
pub(super) struct Run {
    first: Option<Arc<Logged>>,
    rest: Vec<Arc<Logged>>,
    /// Of all so far, where they are invalidations.
    mode: Option<Mode>,
    /// They do not all name the same.
    several: bool,
}

impl Run {
    /// Takes the next record, or refuses it: it belongs into the next message.
    pub fn take(&mut self, logged: &Arc<Logged>) -> bool {
        let Some(first) = &self.first else {
            if let Event::Invalidated { mode, .. } = logged.record.event {
                self.mode = Some(mode);
            }
            self.first = Some(logged.clone());
            return true;
        };
        let (
            Event::Invalidated {
                namespace: first_namespace,
                target: first_target,
                ..
            },
            Event::Invalidated {
                namespace,
                target,
                mode,
            },
        ) = (&first.record.event, &logged.record.event)
        else {
            return false;
        };
        let alike = namespace == first_namespace
            && std::mem::discriminant(target) == std::mem::discriminant(first_target)
            && self.rest.len() + 1 < MOST;
        let again = !self.several && target == first_target;
        if !alike || !(again || self.mode == Some(*mode)) {
            return false;
        }
        if *mode == Mode::Drop {
            self.mode = Some(Mode::Drop);
        }
        self.several |= !again;
        self.rest.push(logged.clone());
        true
    }

    /// The last record taken.
    fn last(&self) -> Option<&Arc<Logged>> {
        self.rest.last().or(self.first.as_ref())
    }

    /// The message, after which the stream stands at `position`.
    pub fn message(&self, position: &Position) -> Option<WatchEvent> {
        let (first, last) = (self.first.as_ref()?, self.last()?);
        let what = match &first.record.event {
            Event::Invalidated { namespace, .. } => What::Invalidated(self.invalidation(namespace)),
            Event::Refreshed {
                key,
                version,
                fresh_until,
                stale_while_revalidate,
                stale_if_error,
            } => {
                let now = first.record.at.after(Instant::now().duration_since(first.when));
                let end = fresh_until.resolve(first.record.at);
                let left = |until: StoreTime| until.since(now);
                What::Refreshed {
                    key: key.clone(),
                    version: *version,
                    expiry: Expiry {
                        fresh_for: left(end),
                        stale_for: left(end.after(*stale_while_revalidate)),
                        stale_if_error_for: left(end.after(*stale_if_error)),
                        ..Expiry::default()
                    },
                }
            }
            Event::LeaseRevoked { key, lease, reason, .. } => What::LeaseRevoked {
                key: key.clone(),
                lease: *lease,
                reason: *reason,
            },
        };
        Some(WatchEvent {
            cursor: match position.at.len() {
                1 => last.cursor(position.log, position.epoch),
                _ => position.text(),
            },
            what,
        })
    }

    fn invalidation(&self, namespace: &Arc<str>) -> Invalidation {
        let mut merged = Invalidation {
            namespace: namespace.clone(),
            keys: Vec::new(),
            tags: Vec::new(),
            everything: false,
            mode: self.mode.unwrap_or(Mode::Drop),
            version: Seq::NONE,
        };
        let mut seen = HashSet::new();
        for logged in self.first.iter().chain(&self.rest) {
            merged.version = merged.version.max(logged.record.number);
            let Event::Invalidated { target, .. } = &logged.record.event else {
                continue;
            };
            if !self.rest.is_empty() && !seen.insert(target) {
                continue;
            }
            match target {
                Target::Key(key) => merged.keys.push(key.clone()),
                Target::Tag(tag) => merged.tags.push(tag.clone()),
                Target::Everything => merged.everything = true,
            }
        }
        merged
    }
}
