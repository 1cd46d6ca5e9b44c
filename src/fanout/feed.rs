//! Where a store tells what it committed.
//!
//! The feed only *rings*: a listener learns that there is something to read in the log, or that a key should be loaded again, and
//! then looks for itself. Values never travel here, and a ring that is lost costs time, never truth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::time::Instant;

use super::filter::Filter;
use super::log::{Bounds, Gap, Log, Logged, Position};
use crate::decision::{Key, Seq, StoreTime};
use crate::store::{Event, Place};

/// An event with the stamp of its commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where in the log it stands.
    pub place: Place,
    /// Of the commit.
    pub number: Seq,
    /// Of the commit.
    pub at: StoreTime,
    /// What happened.
    pub event: Event,
}

/// Why a log has a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetReason {
    /// The cursor is malformed or of another deployment.
    UnknownCursor,
    /// The cursor is older than the log.
    CursorTooOld,
    /// This watcher did not keep up.
    SlowConsumer,
    /// The store lost or replaced its log.
    LogLost,
    /// The store is back after degraded decisions.
    DegradedEnded,
}

impl ResetReason {
    /// All of them.
    pub const ALL: [ResetReason; 5] = [
        ResetReason::UnknownCursor,
        ResetReason::CursorTooOld,
        ResetReason::SlowConsumer,
        ResetReason::LogLost,
        ResetReason::DegradedEnded,
    ];

    /// Its name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            ResetReason::UnknownCursor => "unknown_cursor",
            ResetReason::CursorTooOld => "cursor_too_old",
            ResetReason::SlowConsumer => "slow_consumer",
            ResetReason::LogLost => "log_lost",
            ResetReason::DegradedEnded => "degraded_ended",
        }
    }
}

/// Who wants to be woken. Called while a commit returns: it must not block.
pub trait Listener: Send + Sync + 'static {
    /// Something about a key changed that somebody waits for.
    fn rung(&self, key: &Key);
    /// The log has grown by this record.
    fn logged(&self, record: &Record);
    /// The log cannot be continued: whoever follows it must start afresh.
    fn reset(&self, reason: ResetReason);
    /// The store does not answer for a partition: what is decided until it does is decided here alone.
    fn lost(&self, _partition: u16) {}
    /// The store answers again for a partition that was lost.
    fn regained(&self, _partition: u16) {}
}

/// A store's log and its rings.
pub struct Feed {
    id: u64,
    listeners: RwLock<Vec<Arc<dyn Listener>>>,
    log: RwLock<Log>,
    /// The log's head, to see without its lock that there is nothing new.
    head: AtomicU64,
    wants_refreshed: AtomicBool,
}

/// What a commit put into the log, to be announced once the commit's locks are released.
#[must_use = "listeners hear of it only when it is announced"]
pub struct Appended {
    /// The place of the last record; where the log stood if there is none.
    pub place: Place,
    records: Vec<Arc<Logged>>,
}

impl Feed {
    /// An empty one, with the default bounds.
    pub fn new() -> Arc<Feed> {
        Feed::bounded(Bounds::default())
    }

    /// An empty one. Its log has an identity of its own: cursors of another feed do not fit.
    pub fn bounded(bounds: Bounds) -> Arc<Feed> {
        Arc::new(Feed {
            id: rand::random(),
            listeners: RwLock::default(),
            log: RwLock::new(Log::new(bounds)),
            head: AtomicU64::new(0),
            wants_refreshed: AtomicBool::new(false),
        })
    }

    pub fn remote(_partitions: u16) -> Arc<Feed> {
        Feed::new()
    }
    pub fn begin(&self, _partition: u16, _log: u64, _epoch: u64, _from: u64, _refreshed_from: u64) {}
    pub fn take_in(&self, records: Vec<Record>) {
        for r in &records {
            self.listeners.read().iter().for_each(|l| l.logged(r));
        }
    }
    pub fn advance(&self, _partition: u16, _at: u64) {}
    pub fn lost(&self, _partition: u16) {}
    pub fn regained(&self, _partition: u16) {}
    pub fn wants(&self) -> tokio::sync::watch::Receiver<bool> {
        let (s, r) = tokio::sync::watch::channel(false);
        std::mem::forget(s);
        r
    }
    /// From now on this one hears of everything.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.listeners.write().push(listener);
    }

    /// Whether anybody reads `Refreshed` events. While nobody does they need not even be made; [`Feed::append`] drops them.
    ///
    /// A report that is on its way to the store while the first such subscriber comes may go by unrecorded: a copy of the value that
    /// it replaces then lives out its own life.
    pub fn wants_refreshed(&self) -> bool {
        self.wants_refreshed.load(Ordering::Acquire)
    }

    /// Puts the events of one commit into the log. Called inside the critical section of the commit, so that the log has the
    /// order of the commits.
    pub fn append(&self, number: Seq, at: StoreTime, events: Vec<Event>) -> Appended {
        let wanted = |event: &Event| self.wants_refreshed() || !matches!(event, Event::Refreshed { .. });
        if !events.iter().any(wanted) {
            return Appended {
                place: Place {
                    partition: 0,
                    at: self.head(),
                },
                records: Vec::new(),
            };
        }
        let now = Instant::now();
        let mut records = Vec::with_capacity(events.len());
        let mut log = self.log.write();
        for event in events {
            records.extend(log.push(now, event, |at_position, event| Record {
                place: Place {
                    partition: 0,
                    at: at_position,
                },
                number,
                at,
                event,
            }));
        }
        Appended {
            place: Place {
                partition: 0,
                at: self.publish(&log),
            },
            records,
        }
    }

    /// Tells the listeners.
    pub fn announce(&self, appended: &Appended) {
        if appended.records.is_empty() {
            return;
        }
        let listeners = self.listeners.read();
        for logged in &appended.records {
            listeners.iter().for_each(|listener| listener.logged(&logged.record));
        }
    }

    /// Tells the listeners that a key should be loaded again.
    pub fn ring(&self, key: &Key) {
        self.listeners.read().iter().for_each(|listener| listener.rung(key));
    }

    /// The log cannot be continued: no position from before can be read on from, and the listeners are told. The log itself keeps
    /// the reason, so a watcher that is away at this moment gets its reset when it comes back.
    pub fn reset(&self, reason: ResetReason) {
        {
            let mut log = self.log.write();
            log.fence(reason);
            self.publish(&log);
        }
        self.listeners.read().iter().for_each(|listener| listener.reset(reason));
    }

    /// Which log it is; part of every cursor.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Where the log stands. A reader at this position has missed nothing, not even a reset.
    pub(super) fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// The same with its epoch.
    pub(super) fn position(&self) -> Position {
        self.log.read().head()
    }

    /// See [`Log::read`].
    pub(super) fn read(
        &self,
        from: Position,
        filter: &Filter,
        take: impl FnMut(&Arc<Logged>) -> bool,
    ) -> Result<Position, Gap> {
        self.log.read().read(from, filter, take)
    }

    /// One more subscriber wants `Refreshed`.
    pub(super) fn want_refreshed(&self) {
        let mut log = self.log.write();
        log.want_refreshed();
        self.publish(&log);
    }

    /// One fewer does.
    pub(super) fn unwant_refreshed(&self) {
        self.log.write().unwant_refreshed(Instant::now());
    }

    /// Shows without the lock what the log has come to. Called with it held.
    fn publish(&self, log: &Log) -> u64 {
        let head = log.head().at;
        self.head.store(head, Ordering::Release);
        self.wants_refreshed.store(log.wants_refreshed(), Ordering::Release);
        head
    }
}
