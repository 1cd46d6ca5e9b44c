//! One partition of a store's log: what was committed, in order, for as long as there is room.
//!
//! *Owns* the records between its floors and its head. `Refreshed` records have a ring of their own, so that a flood of reports does not
//! shorten the time for which invalidations can be replayed; that ring keeps the latest record of each key only.
//!
//! *Never does* give positions: they come with the records. *Invariant.* A read covers everything between two positions, in order.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::feed::Record;
use super::filter::{Filter, mark};
use super::position::text;
use super::ring::{Ring, Room, Slot};
use crate::decision::Key;
use crate::store::{Event, Target};

/// How much a log remembers, over all its partitions.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Invalidations and revocations.
    pub records: usize,
    /// Bytes of these, estimated.
    pub bytes: usize,
    /// `Refreshed` records.
    pub refreshed_records: usize,
    /// Bytes of these, estimated.
    pub refreshed_bytes: usize,
    /// Kept at least so long, unless there is no room. For so long too `Refreshed` are recorded after the last subscriber that
    /// wanted them has left.
    pub keep: Duration,
}

impl Default for Bounds {
    /// A quarter of a million invalidations, 64 MiB, five minutes; a quarter of that room for `Refreshed`.
    fn default() -> Bounds {
        Bounds {
            records: 262_144,
            bytes: 64 << 20,
            refreshed_records: 65_536,
            refreshed_bytes: 16 << 20,
            keep: Duration::from_secs(300),
        }
    }
}

impl Bounds {
    /// The room of one of so many partitions.
    pub(super) fn share(self, partitions: usize) -> Bounds {
        Bounds {
            records: (self.records / partitions).max(1),
            bytes: self.bytes / partitions,
            refreshed_records: (self.refreshed_records / partitions).max(1),
            refreshed_bytes: self.refreshed_bytes / partitions,
            keep: self.keep,
        }
    }
}

/// A record in the log, shared by all who read it.
pub(super) struct Logged {
    pub record: Record,
    /// When it was committed, by this replica's monotonic clock.
    pub when: Instant,
    /// An estimate, in bytes.
    pub weight: usize,
    cursor: OnceLock<Arc<str>>,
}

impl Logged {
    /// The cursor's text after this record in a log of one partition, made once for all watchers. A record is never read in two epochs
    /// of such a log.
    pub fn cursor(&self, log: u64, epoch: u64) -> Arc<str> {
        let at = self.record.place.at;
        self.cursor.get_or_init(|| text(log, epoch, vec![at])).clone()
    }
}

/// How far a read came.
pub(super) struct Covered {
    /// Everything up to here was taken or does not match.
    pub at: u64,
    /// Something was taken, or would have been.
    pub found: bool,
}

/// Under the feed's lock.
pub(super) struct Log {
    head: u64,
    main: Ring,
    refreshed: Ring,
    /// Where each key's record stands in `refreshed`.
    latest: HashMap<Key, u64>,
    /// Before this, `Refreshed` may be missing; it may be ahead of the head.
    refreshed_from: u64,
}

impl Log {
    pub fn new(bounds: Bounds) -> Log {
        Log {
            head: 0,
            main: Ring::new(Room {
                records: bounds.records,
                bytes: bounds.bytes,
                keep: bounds.keep,
            }),
            refreshed: Ring::new(Room {
                records: bounds.refreshed_records,
                bytes: bounds.refreshed_bytes,
                keep: bounds.keep,
            }),
            latest: HashMap::new(),
            refreshed_from: 0,
        }
    }

    pub fn head(&self) -> u64 {
        self.head
    }

    /// It is empty, and goes on from here.
    pub fn start(&mut self, from: u64) {
        self.head = from;
        self.main.clear(from);
        self.forget_refreshed(from);
        self.refreshed_from = 0;
    }

    /// `Refreshed` up to here are not known.
    pub fn forget_refreshed(&mut self, until: u64) {
        self.refreshed.clear(until);
        self.latest = HashMap::new();
    }

    /// `Refreshed` were not recorded up to here, which may be a place that the log has not come to yet.
    pub fn refreshed_since(&mut self, from: u64) {
        self.refreshed_from = self.refreshed_from.max(from);
    }

    /// The log has come to here. It never goes back.
    pub fn advance(&mut self, at: u64) {
        self.head = self.head.max(at);
    }

    /// Adds a record, which stands behind the head.
    pub fn push(&mut self, now: Instant, when: Instant, record: Record) -> Arc<Logged> {
        debug_assert!(record.place.at > self.head);
        let position = record.place.at;
        self.head = position;
        let logged = Arc::new(Logged {
            weight: weight(&record.event),
            when,
            cursor: OnceLock::new(),
            record,
        });
        let slot = Slot {
            position,
            mark: mark(&logged.record.event),
            logged: Some(logged.clone()),
        };
        if let Event::Refreshed { key, .. } = &logged.record.event {
            if let Some(earlier) = self.latest.insert(key.clone(), position) {
                self.refreshed.replace(earlier);
            }
            let latest = &mut self.latest;
            self.refreshed.push(slot, now, |evicted| {
                if let Event::Refreshed { key, .. } = &evicted.record.event {
                    latest.remove(key);
                }
            });
        } else {
            self.main.push(slot, now, |_| ());
        }
        logged
    }

    /// Whether everything after a position is here. A position ahead of the head has missed nothing.
    pub fn reaches_back_to(&self, from: u64, refreshed: bool) -> bool {
        from >= self.main.floor() && (!refreshed || (from >= self.refreshed.floor() && !self.is_unrecorded(from)))
    }

    /// Whether `Refreshed` after a position were not recorded. Nothing is said of what is still to come.
    pub fn is_unrecorded(&self, from: u64) -> bool {
        from < self.refreshed_from && self.refreshed_from <= self.head
    }

    /// Offers what matches, in order, until `take` refuses or `looks` slots were looked at.
    pub fn read(
        &self,
        from: u64,
        filter: &Filter,
        looks: &mut usize,
        mut take: impl FnMut(&Arc<Logged>) -> bool,
    ) -> Covered {
        let mut main = self.main.after(from).peekable();
        let wanted = if filter.refreshed { from } else { u64::MAX };
        let mut refreshed = self.refreshed.after(wanted).peekable();
        let (mut at, mut taken, mut found) = (from, None, false);
        while *looks > 0 {
            *looks -= 1;
            let earlier_main = match (main.peek(), refreshed.peek()) {
                (Some(main), Some(refreshed)) => main.position < refreshed.position,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => {
                    at = from.max(self.head);
                    break;
                }
            };
            let Some(slot) = (if earlier_main { main.next() } else { refreshed.next() }) else {
                break;
            };
            if let Some(logged) = &slot.logged
                && filter.may_want(slot.mark)
                && filter.wants(&logged.record.event)
            {
                found = true;
                if !take(logged) {
                    break;
                }
                taken = Some(slot.position);
            }
            at = slot.position;
        }
        Covered {
            // What was taken last has a cursor that others share; what does not match behind it is passed with the next look.
            at: taken.unwrap_or(at),
            found,
        }
    }
}

/// An estimate of what a record takes, beside its slot.
fn weight(event: &Event) -> usize {
    let text = match event {
        Event::Invalidated {
            target: Target::Key(key),
            ..
        } => key.namespace().len() + key.name().len(),
        Event::Invalidated {
            target: Target::Tag(tag),
            ..
        } => tag.len(),
        Event::Invalidated {
            target: Target::Everything,
            ..
        } => 0,
        Event::Refreshed { key, .. } => 2 * (key.namespace().len() + key.name().len()),
        Event::LeaseRevoked { key, holder, .. } => key.namespace().len() + key.name().len() + holder.len(),
    };
    // The record, its reference counts, and the cursor's text once somebody has read it.
    size_of::<Logged>() + 96 + text
}
