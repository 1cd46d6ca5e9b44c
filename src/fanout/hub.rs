//! The watchers of a replica.
//!
//! *Owns* who is subscribed, and wakes those that an event concerns. *Never does* send: a woken watcher reads the log itself.
//!
//! *Invariant.* A watcher is registered before its position is read, so a record is either before that position or wakes it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::cursor::Cursor;
use super::feed::{Feed, Listener, Record, ResetReason};
use super::filter::{Filter, Subscription};
use super::log::Position;
use super::registry::Registry;
use super::stats::Stats;
use super::stream::Watching;
use super::watcher::Watcher;
use crate::decision::Key;
use crate::store::Target;

/// Hears how often keys were read from local caches since the last acknowledgement: namespace, key, reads.
pub type LocalHits = Box<dyn Fn(&str, &str, u64) + Send + Sync>;

/// How much a hub takes on.
#[derive(Clone, Copy, Debug)]
pub struct HubLimits {
    /// Watchers connected at the same time.
    pub watchers: usize,
}

impl Default for HubLimits {
    /// 20,000 watchers.
    fn default() -> HubLimits {
        HubLimits { watchers: 20_000 }
    }
}

/// Why nobody may subscribe at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// There are too many watchers.
    #[error("this replica has as many watchers as it takes; try again, or at another replica")]
    Overloaded,
    /// The replica stops.
    #[error("this replica is shutting down; subscribe at another")]
    Draining,
}

/// Whether streams are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Open,
    Draining,
    Closed,
}

/// The watchers.
pub struct Hub {
    pub(super) feed: Arc<Feed>,
    limits: HubLimits,
    registry: RwLock<Registry>,
    phase: AtomicU8,
    next: AtomicU64,
    hits: LocalHits,
    pub(super) stats: Stats,
    stopping: CancellationToken,
}

impl Hub {
    /// A hub that watches a feed, and lets nobody know of local hits.
    pub fn new(feed: &Arc<Feed>, limits: HubLimits) -> Arc<Hub> {
        Hub::with_hits(feed, limits, Box::new(|_, _, _| ()))
    }

    /// A hub that watches a feed.
    pub fn with_hits(feed: &Arc<Feed>, limits: HubLimits, hits: LocalHits) -> Arc<Hub> {
        let hub = Arc::new(Hub {
            feed: feed.clone(),
            limits,
            registry: RwLock::default(),
            phase: AtomicU8::new(Phase::Open as u8),
            next: AtomicU64::new(0),
            hits,
            stats: Stats::default(),
            stopping: CancellationToken::new(),
        });
        feed.listen(Arc::new(Ears(Arc::downgrade(&hub))));
        hub
    }

    /// Subscribes. The stream brings [`Reset`](super::What::Reset) where something cannot be replayed, then what was missed, then
    /// [`Started`](super::What::Started), then what happens. Dropping it unsubscribes.
    ///
    /// # Errors
    ///
    /// [`Refused`] when there are too many, or when the replica stops.
    pub fn watch(self: &Arc<Hub>, subscription: &Subscription) -> Result<Watching, Refused> {
        if self.phase() != Phase::Open {
            return Err(Refused::Draining);
        }
        let filter = Filter::new(subscription);
        let refreshed = filter.refreshed;
        if refreshed {
            // Before the position is read, so that it is not before what is recorded.
            self.feed.want_refreshed();
        }
        let joined = self.join(filter, subscription);
        if joined.is_none() && refreshed {
            self.feed.unwant_refreshed();
        }
        let (watcher, resume) = joined.ok_or(Refused::Overloaded)?;
        Ok(Watching::new(self.clone(), watcher, resume))
    }

    fn join(&self, filter: Filter, subscription: &Subscription) -> Option<(Arc<Watcher>, Resume)> {
        let mut registry = self.registry.write();
        registry.forget_silent(Instant::now());
        if registry.live() >= self.limits.watchers || registry.live() + registry.ghosts() >= 2 * self.limits.watchers {
            return None;
        }
        let head = self.feed.position();
        let resume = self.resume(&subscription.resume_from, head);
        // Who begins now has kept nothing, so there is nothing before to be applied. Who resumes may have received and not applied.
        let acknowledged = if resume == Resume::Now(head) { head.at } else { 0 };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let watcher = Watcher::new(id, filter, subscription.observe_only, resume.sent(head), acknowledged);
        let watcher = Arc::new(watcher);
        registry.join(&watcher);
        Some((watcher, resume))
    }

    fn resume(&self, text: &str, head: Position) -> Resume {
        if text.is_empty() {
            return Resume::Now(head);
        }
        match Cursor::decode(text) {
            Ok(cursor) => match self.position_of(&cursor) {
                Some(position) => Resume::From(position),
                None => Resume::Unknown(head),
            },
            Err(_) => Resume::Unknown(head),
        }
    }

    /// The position that a cursor names, if it is one of this log.
    pub(super) fn position_of(&self, cursor: &Cursor) -> Option<Position> {
        let [at] = cursor.positions[..] else { return None };
        (cursor.log == self.feed.id()).then_some(Position {
            epoch: cursor.epoch,
            at,
        })
    }

    /// Tells every watcher that this replica is about to stop, and takes no new ones. Streams go on until [`Hub::close`].
    pub fn drain(&self) {
        self.enter(Phase::Draining);
    }

    /// Ends every stream, with a last cursor.
    pub fn close(&self) {
        self.enter(Phase::Closed);
    }

    fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
        self.stopping.cancel();
        self.wake_everybody();
    }

    /// Ends when new watchers are refused because this replica stops.
    pub fn stopping(&self) -> WaitForCancellationFutureOwned {
        self.stopping.clone().cancelled_owned()
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Draining,
            _ => Phase::Closed,
        }
    }

    /// How many watchers are connected.
    pub fn watchers(&self) -> usize {
        self.registry.read().live()
    }

    /// How many of them watch a namespace, observers too.
    pub fn watchers_of(&self, namespace: &str) -> usize {
        self.registry.read().watching(namespace)
    }

    /// How many watch each namespace, observers too.
    pub fn census(&self) -> Vec<(Arc<str>, usize)> {
        self.registry.read().census()
    }

    /// What it has done.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// A key was read so often from a local cache.
    pub(super) fn hit(&self, namespace: &str, key: &str, hits: u64) {
        (self.hits)(namespace, key, hits);
    }

    pub(super) fn covering(&self, namespace: &str, targets: &[Target]) -> Vec<Arc<Watcher>> {
        self.registry.read().covering(namespace, targets)
    }

    pub(super) fn leave(&self, watcher: &Arc<Watcher>) {
        self.registry.write().leave(watcher, Instant::now());
        if watcher.filter.refreshed {
            self.feed.unwant_refreshed();
        }
    }

    fn wake_everybody(&self) {
        self.registry
            .read()
            .everybody()
            .for_each(|watcher| watcher.waker.wake());
    }
}

/// Where a new watcher begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resume {
    /// At the head of the log.
    Now(Position),
    /// At a cursor of this log.
    From(Position),
    /// At the head of the log, with a cursor that says nothing.
    Unknown(Position),
}

impl Resume {
    pub fn position(self) -> Position {
        match self {
            Resume::Now(position) | Resume::From(position) | Resume::Unknown(position) => position,
        }
    }

    /// What an earlier stream may have sent, as far as this log has come. A cursor is only what the client says.
    fn sent(self, head: Position) -> Position {
        let position = self.position();
        let same = position.epoch == head.epoch;
        Position {
            epoch: head.epoch,
            at: if same { position.at.min(head.at) } else { 0 },
        }
    }
}

impl Listener for Hub {
    fn rung(&self, _key: &Key) {}

    fn logged(&self, record: &Record) {
        self.registry
            .read()
            .wanting(&record.event)
            .for_each(|watcher| watcher.waker.wake());
    }

    /// The log keeps the reason; who reads on from before meets it there.
    fn reset(&self, _reason: ResetReason) {
        self.wake_everybody();
    }
}

/// A hub's place among the listeners of a feed, which does not keep the hub alive.
struct Ears(Weak<Hub>);

impl Listener for Ears {
    fn rung(&self, _key: &Key) {}

    fn logged(&self, record: &Record) {
        if let Some(hub) = self.0.upgrade() {
            hub.logged(record);
        }
    }

    fn reset(&self, reason: ResetReason) {
        if let Some(hub) = self.0.upgrade() {
            hub.reset(reason);
        }
    }
}
