//! The log of a store: what was committed, in order, for as long as there is room.
//!
//! *Owns* positions: one growing sequence for all records. `Refreshed` records have a ring of their own, so that a flood of reports
//! does not shorten the time for which invalidations can be replayed. That ring keeps the latest record of each key only, and is
//! filled only while somebody wants it and a while after.
//!
//! *Invariants.* A read either covers everything between two positions, or says why it cannot. Positions never go back, also not
//! over a [`Log::fence`]. Whatever happens that a reader must see moves the head: "nothing new" is one comparison.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::cursor::Cursor;
use super::feed::{Record, ResetReason};
use super::filter::{Filter, mark};
use super::ring::{Ring, Room, Slot};
use crate::decision::Key;
use crate::store::{Event, Target};

/// How much a log remembers.
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

/// A place between two records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Of the log.
    pub epoch: u64,
    /// Everything up to here.
    pub at: u64,
}

/// A record in the log, shared by all who read it.
pub(super) struct Logged {
    pub record: Record,
    pub epoch: u64,
    /// When it came in, by the monotonic clock.
    pub when: Instant,
    /// An estimate, in bytes.
    pub weight: usize,
    cursor: OnceLock<Arc<str>>,
}

impl Logged {
    pub fn position(&self) -> Position {
        Position {
            epoch: self.epoch,
            at: self.record.place.at,
        }
    }

    /// The cursor's text after this record, made once for all watchers.
    pub fn cursor(&self, log: u64) -> Arc<str> {
        self.cursor.get_or_init(|| text(log, self.position())).clone()
    }
}

/// The text of a position.
pub(super) fn text(log: u64, position: Position) -> Arc<str> {
    Cursor {
        log,
        epoch: position.epoch,
        positions: vec![position.at],
    }
    .encode()
}

/// What a reader missed, and where it can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// `None`: it fell behind.
    pub reason: Option<ResetReason>,
    pub now: Position,
}

/// Under the feed's lock.
pub(super) struct Log {
    head: Position,
    main: Ring,
    refreshed: Ring,
    /// Where each key's record stands in `refreshed`.
    latest: HashMap<Key, u64>,
    fence: Option<(u64, ResetReason)>,
    recording: Recording,
    keep: Duration,
}

/// Whether `Refreshed` are recorded.
enum Recording {
    No,
    For(usize),
    /// The last subscriber left then.
    Lingering(Instant),
}

/// A read looks at no more slots at once, so that no commit waits long for the lock.
const SCAN: usize = 4_096;

impl Log {
    pub fn new(bounds: Bounds) -> Log {
        Log {
            head: Position { epoch: 1, at: 0 },
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
            fence: None,
            recording: Recording::No,
            keep: bounds.keep,
        }
    }

    pub fn head(&self) -> Position {
        self.head
    }

    /// Adds a record and says its position; `None` for one that nobody wants.
    pub fn push(
        &mut self,
        now: Instant,
        event: Event,
        stamp: impl FnOnce(u64, Event) -> Record,
    ) -> Option<Arc<Logged>> {
        let refreshed = matches!(event, Event::Refreshed { .. });
        if refreshed && !self.records_refreshed(now) {
            return None;
        }
        self.head.at += 1;
        let position = self.head.at;
        let (mark, weight) = (mark(&event), weight(&event));
        let logged = Arc::new(Logged {
            record: stamp(position, event),
            epoch: self.head.epoch,
            when: now,
            weight,
            cursor: OnceLock::new(),
        });
        let slot = Slot {
            position,
            mark,
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
        Some(logged)
    }

    fn records_refreshed(&mut self, now: Instant) -> bool {
        if let Recording::Lingering(since) = self.recording
            && now.duration_since(since) >= self.keep
        {
            self.recording = Recording::No;
            self.refreshed.clear(self.head.at);
            self.latest = HashMap::new();
        }
        self.wants_refreshed()
    }

    /// Whether `Refreshed` are recorded, as far as was noticed.
    pub fn wants_refreshed(&self) -> bool {
        !matches!(self.recording, Recording::No)
    }

    /// One more subscriber wants `Refreshed`.
    pub fn want_refreshed(&mut self) {
        self.recording = match self.recording {
            Recording::For(subscribers) => Recording::For(subscribers + 1),
            Recording::Lingering(_) => Recording::For(1),
            Recording::No => {
                // What went by unrecorded took no position: the head moves, so that a cursor from before is seen to be too old.
                self.head.at += 1;
                self.refreshed.clear(self.head.at);
                Recording::For(1)
            }
        };
    }

    /// One fewer does.
    pub fn unwant_refreshed(&mut self, now: Instant) {
        self.recording = match self.recording {
            Recording::For(subscribers) if subscribers > 1 => Recording::For(subscribers - 1),
            Recording::For(_) => Recording::Lingering(now),
            Recording::Lingering(_) | Recording::No => return,
        };
    }

    /// From here on, whoever has a position from before must start afresh.
    pub fn fence(&mut self, reason: ResetReason) {
        if reason == ResetReason::LogLost {
            self.head.epoch += 1;
        }
        self.head.at += 1;
        self.fence = Some((self.head.at, reason));
        self.main.clear(self.head.at);
        self.refreshed.clear(self.head.at);
        self.latest.clear();
    }

    /// Offers what matches, in order, until `take` refuses. Answers the position up to which everything was taken or does not
    /// match.
    pub fn read(
        &self,
        from: Position,
        filter: &Filter,
        mut take: impl FnMut(&Arc<Logged>) -> bool,
    ) -> Result<Position, Gap> {
        self.reachable(from, filter)?;
        let mut main = self.main.after(from.at).peekable();
        let wanted = if filter.refreshed { from.at } else { u64::MAX };
        let mut refreshed = self.refreshed.after(wanted).peekable();
        let mut covered = from;
        for _ in 0..SCAN {
            let earlier_main = match (main.peek(), refreshed.peek()) {
                (Some(main), Some(refreshed)) => main.position < refreshed.position,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => return Ok(self.head),
            };
            let Some(slot) = (if earlier_main { main.next() } else { refreshed.next() }) else {
                break;
            };
            if let Some(logged) = &slot.logged
                && filter.may_want(slot.mark)
                && filter.wants(&logged.record.event)
                && !take(logged)
            {
                return Ok(covered);
            }
            covered.at = slot.position;
        }
        Ok(covered)
    }

    fn reachable(&self, from: Position, filter: &Filter) -> Result<(), Gap> {
        let gap = |reason| Err(Gap { reason, now: self.head });
        if from.epoch > self.head.epoch || (from.epoch == self.head.epoch && from.at > self.head.at) {
            return gap(Some(ResetReason::UnknownCursor));
        }
        if from.epoch < self.head.epoch {
            return gap(Some(ResetReason::LogLost));
        }
        if let Some((fence, reason)) = self.fence
            && from.at < fence
        {
            return gap(Some(reason));
        }
        if from.at < self.main.floor() || (filter.refreshed && from.at < self.refreshed.floor()) {
            return gap(None);
        }
        Ok(())
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
