//! The watchers of a replica.
//!
//! *Owns* who is subscribed, and wakes those that an event concerns. *Never does* send: a woken watcher reads the log itself.
//!
//! *Invariants.* A watcher is registered before its position is read, so a record is either before that position or wakes it. While it
//! is not known that this replica hears of everything, or that the others know of its watchers, its watchers hear nothing, so that their
//! clients stop trusting their copies in time: see [`Hub::holds_back`].

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::feed::{Feed, Listener, Record, ResetReason};
use super::filter::{Filter, Subscription};
use super::logs::Opening;
use super::registry::Registry;
use super::stats::Stats;
use super::stream::Watching;
use super::watcher::{Marks, Watcher};
use crate::decision::Key;
use crate::store::Target;

/// Hears how often keys were read from local caches since the last acknowledgement: namespace, key, reads.
pub type LocalHits = Box<dyn Fn(&str, &str, u64) + Send + Sync>;

/// How much a hub takes on.
#[derive(Clone, Copy, Debug)]
pub struct HubLimits {
    /// Watchers connected at the same time.
    pub watchers: usize,
    /// Barriers that are waited for at the same time.
    pub barriers: usize,
}

impl Default for HubLimits {
    /// 20,000 watchers, 1,024 barriers.
    fn default() -> HubLimits {
        HubLimits {
            watchers: 20_000,
            barriers: 1_024,
        }
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
    /// The store does not answer, so nobody can be told what it commits.
    #[error("the store behind this replica does not answer; subscribe again later, or at another")]
    StoreDown,
}

/// Whether streams are to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Open,
    Draining,
    Closed,
}

/// What watchers may not be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Nothing,
    AllButResets,
    Everything,
}

/// The watchers.
pub struct Hub {
    pub(super) feed: Arc<Feed>,
    limits: HubLimits,
    registry: RwLock<Registry>,
    barriers: Arc<Semaphore>,
    phase: AtomicU8,
    next: AtomicU64,
    hits: LocalHits,
    pub(super) stats: Stats,
    stopping: CancellationToken,
    birth: Instant,
    /// Until when the other replicas know of the watchers of this one, in microseconds since `birth`.
    known_until: AtomicU64,
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
            barriers: Arc::new(Semaphore::new(limits.barriers.min(Semaphore::MAX_PERMITS))),
            phase: AtomicU8::new(Phase::Open as u8),
            next: AtomicU64::new(0),
            hits,
            stats: Stats::default(),
            stopping: CancellationToken::new(),
            birth: Instant::now(),
            known_until: AtomicU64::new(u64::MAX),
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
        if joined.is_err() && refreshed {
            self.feed.unwant_refreshed();
        }
        let (watcher, opening) = joined?;
        Ok(Watching::new(self.clone(), watcher, opening))
    }

    fn join(&self, filter: Filter, subscription: &Subscription) -> Result<(Arc<Watcher>, Opening), Refused> {
        let mut registry = self.registry.write();
        registry.forget_silent(Instant::now());
        if registry.live() >= self.limits.watchers || registry.live() + registry.ghosts() >= 2 * self.limits.watchers {
            return Err(Refused::Overloaded);
        }
        let opening = self.feed.open(&subscription.resume_from, filter.refreshed);
        let opening = opening.ok_or(Refused::StoreDown)?;
        // Who begins now has kept nothing, so there is nothing before to be applied. Who resumes may have received and not applied.
        let is_new = !opening.resumed && opening.reset.is_none();
        let marks = Marks::new(&opening, is_new);
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let watcher = Arc::new(Watcher::new(id, filter, subscription.observe_only, marks));
        registry.join(&watcher);
        Ok((watcher, opening))
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

    /// How many of each namespace may trust their copies: observers aside, those that have left a while ago too.
    pub(super) fn trusting(&self) -> Vec<(Arc<str>, u32)> {
        let mut registry = self.registry.write();
        registry.forget_silent(Instant::now());
        registry.trusting().into_iter().collect()
    }

    /// Room for one more barrier that is waited for, to be held until it is over. Take it before anything is committed.
    ///
    /// # Errors
    ///
    /// [`Refused::Overloaded`] when there are too many.
    pub fn room_for_barrier(&self) -> Result<OwnedSemaphorePermit, Refused> {
        let room = self.barriers.clone().try_acquire_owned();
        room.map_err(|_| Refused::Overloaded)
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

    /// Whether watchers may be told nothing, or nothing but a reset.
    ///
    /// A client trusts its copies for [`MAX_SILENCE`](super::MAX_SILENCE) after each word. So there must be no word but *forget* unless
    /// the log was current a moment ago, and no word at all unless every other replica counts this one's watchers for so long: a barrier
    /// that ends without them says that none of them serves what is old.
    pub(super) fn holds_back(&self) -> Held {
        let known = self.known_until.load(Ordering::Acquire);
        if known != u64::MAX && known <= self.micros(Instant::now()) {
            Held::Everything
        } else if !self.feed.is_current() {
            Held::AllButResets
        } else {
            Held::Nothing
        }
    }

    /// The other replicas know of the watchers of this one until then, and for [`MAX_SILENCE`](super::MAX_SILENCE) longer.
    pub(super) fn known_until(&self, until: Instant) {
        let now = Instant::now();
        let before = self.known_until.swap(self.micros(until), Ordering::AcqRel);
        if before > self.micros(now) {
            return;
        }
        // They were not known for a while. What was committed meanwhile must be here before a word is said, and where barriers may have
        // ended without them they start afresh: an event from before would be a word.
        self.feed.doubt();
        let forgotten = before.saturating_add(u64::try_from(super::MAX_SILENCE.as_micros()).unwrap_or(u64::MAX));
        if forgotten <= self.micros(now) && self.watchers() > 0 {
            self.feed.reset(ResetReason::LogLost);
        }
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.birth).as_micros()).unwrap_or(u64::MAX)
    }

    fn wake_everybody(&self) {
        self.registry
            .read()
            .everybody()
            .for_each(|watcher| watcher.waker.wake());
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

    fn lost(&self, _partition: u16) {
        self.wake_everybody();
    }

    fn regained(&self, _partition: u16) {
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

    fn lost(&self, partition: u16) {
        if let Some(hub) = self.0.upgrade() {
            hub.lost(partition);
        }
    }

    fn regained(&self, partition: u16) {
        if let Some(hub) = self.0.upgrade() {
            hub.regained(partition);
        }
    }
}
