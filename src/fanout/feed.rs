//! Where a store tells what it committed.
//!
//! The feed only *rings*: a listener learns that there is something to read in the log, or that a key should be loaded again, and
//! then looks for itself. Values never travel here, and a ring that is lost costs time, never truth.
//!
//! *Owns* the log. It is filled in one of two ways: an embedded store [appends](Feed::append) to it and the feed gives positions; or it
//! follows the log of a shared store, partition by partition, with the positions and epochs of that store ([`Feed::remote`]).
//!
//! ```text
//!  tail ─ begin(partition, log, epoch, from) ─ take_in(records)* ─ advance(partition, at) ─ …  ▶ Feed    for each partition
//!  link ─ lost(partition) / regained(partition) ─────────────────────────────────────────────▶
//! ```

mod remote;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::filter::Filter;
use super::log::{Bounds, Logged};
use super::logs::{Gap, Logs, Opening};
use super::position::Position;
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
    /// A refresh of this namespace is due soon that was not before.
    fn due(&self, _namespace: &str) {}
}

/// A store's log and its rings.
pub struct Feed {
    listeners: RwLock<Vec<Arc<dyn Listener>>>,
    logs: RwLock<Logs>,
    /// What is below: to see without the lock that there is nothing new.
    heads: Box<[AtomicU64]>,
    turn: AtomicU64,
    wants_refreshed: AtomicBool,
    /// The same, for who waits for a change of it.
    wanting: watch::Sender<bool>,
    /// Until when a remote log is known to be current, in microseconds since `birth`.
    current_until: AtomicU64,
    birth: Instant,
    remote: bool,
    /// A remote log has moved.
    moved: Arc<Notify>,
}

/// What a commit put into the log, to be announced once the commit's locks are released.
#[must_use = "listeners hear of it only when it is announced"]
pub struct Appended {
    /// The place of the last record; where the log stood if there is none.
    pub place: Place,
    records: Vec<Arc<Logged>>,
}

impl Feed {
    /// An empty one of an embedded store, with the default bounds.
    pub fn new() -> Arc<Feed> {
        Feed::bounded(Bounds::default())
    }

    /// An empty one of an embedded store. Its log has an identity of its own: cursors of another feed do not fit.
    pub fn bounded(bounds: Bounds) -> Arc<Feed> {
        Feed::over(Logs::own(bounds), false)
    }

    /// A feed that is filled from the log of a shared store of so many partitions, 1 to 16: positions and epochs come from there.
    /// Nobody can watch until every partition has begun and was filled.
    pub fn remote(partitions: u16) -> Arc<Feed> {
        Feed::remote_bounded(partitions, Bounds::default())
    }

    /// The same with other bounds, which are for all partitions together.
    pub fn remote_bounded(partitions: u16, bounds: Bounds) -> Arc<Feed> {
        Feed::over(Logs::remote(usize::from(partitions.max(1)), bounds), true)
    }

    fn over(logs: Logs, remote: bool) -> Arc<Feed> {
        let feed = Feed {
            listeners: RwLock::default(),
            heads: logs.heads().map(AtomicU64::new).collect(),
            turn: AtomicU64::new(logs.turn()),
            logs: RwLock::new(logs),
            wants_refreshed: AtomicBool::new(false),
            wanting: watch::Sender::new(false),
            current_until: AtomicU64::new(0),
            birth: Instant::now(),
            remote,
            moved: Arc::default(),
        };
        feed.publish(&feed.logs.read());
        Arc::new(feed)
    }

    /// From now on this one hears of everything.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.listeners.write().push(listener);
    }

    /// Whether a commit should bring its `Refreshed` event. While nobody reads them they need not even be made; [`Feed::append`] drops
    /// them. Who reads them at other replicas is known to a shared store alone, so that gets them all.
    ///
    /// A report that is on its way to the store while the first such subscriber comes may go by unrecorded: a copy of the value that
    /// it replaces then lives out its own life.
    pub fn takes_refreshed(&self) -> bool {
        self.remote || self.wants_refreshed.load(Ordering::Acquire)
    }

    /// Changes as [`Feed::wants_refreshed`] does, as far as that was noticed.
    pub fn wants(&self) -> watch::Receiver<bool> {
        self.wanting.subscribe()
    }

    /// Whether somebody reads `Refreshed` events at this replica, or did in the last five minutes.
    pub fn wants_refreshed(&self) -> bool {
        // The look that costs a lock is for who may find that the five minutes are over.
        self.wants_refreshed.load(Ordering::Acquire) && self.change(|logs| logs.records_refreshed(Instant::now()))
    }

    /// Puts the events of one commit into the log of an embedded store. Called inside the critical section of the commit, so that the
    /// log has the order of the commits.
    pub fn append(&self, number: Seq, at: StoreTime, events: Vec<Event>) -> Appended {
        let wanted =
            |event: &Event| !matches!(event, Event::Refreshed { .. }) || self.wants_refreshed.load(Ordering::Acquire);
        if !events.iter().any(wanted) {
            return Appended {
                place: self.place(),
                records: Vec::new(),
            };
        }
        let now = Instant::now();
        let mut records = Vec::with_capacity(events.len());
        let mut logs = self.logs.write();
        for event in events {
            records.extend(logs.append(now, number, at, event));
        }
        self.publish(&logs);
        drop(logs);
        let last = records.last().map(|logged: &Arc<Logged>| logged.record.place);
        Appended {
            place: last.unwrap_or_else(|| self.place()),
            records,
        }
    }

    /// Tells the listeners.
    pub fn announce(&self, appended: &Appended) {
        self.tell(&appended.records);
    }

    fn tell(&self, records: &[Arc<Logged>]) {
        if records.is_empty() {
            return;
        }
        let listeners = self.listeners.read();
        for logged in records {
            listeners.iter().for_each(|listener| listener.logged(&logged.record));
        }
    }

    /// Tells the listeners that a key should be loaded again.
    pub fn ring(&self, key: &Key) {
        self.each_listener(|listener| listener.rung(key));
    }

    /// A refresh of this namespace is due soon that was not before.
    pub fn due(&self, namespace: &str) {
        self.each_listener(|listener| listener.due(namespace));
    }

    /// The log cannot be continued: no position from before can be read on from, and the listeners are told. The log itself keeps
    /// the reason, so a watcher that is away at this moment gets its reset when it comes back.
    pub fn reset(&self, reason: ResetReason) {
        self.change(|logs| logs.fence(reason));
        self.each_listener(|listener| listener.reset(reason));
    }

    fn each_listener(&self, tell: impl Fn(&dyn Listener)) {
        self.listeners.read().iter().for_each(|listener| tell(&**listener));
    }

    /// Changes the logs and shows it.
    fn change<T>(&self, change: impl FnOnce(&mut Logs) -> T) -> T {
        let mut logs = self.logs.write();
        let changed = change(&mut logs);
        self.publish(&logs);
        drop(logs);
        self.moved.notify_waiters();
        changed
    }

    /// Where an own log stands.
    fn place(&self) -> Place {
        Place {
            partition: 0,
            at: self.heads.first().map_or(0, |head| head.load(Ordering::Acquire)),
        }
    }

    /// Whether a reader at this position has nothing to read, not even a reset.
    pub(super) fn has_nothing_after(&self, position: &Position) -> bool {
        let mut heads = self.heads.iter().zip(position.at.iter());
        self.turn.load(Ordering::Acquire) == position.turn && heads.all(|(head, at)| head.load(Ordering::Acquire) <= at)
    }

    /// Whether the log has come up to these places.
    pub(super) fn has_come_to(&self, places: &[Place]) -> bool {
        places.iter().all(|place| {
            let head = self.heads.get(usize::from(place.partition));
            head.is_some_and(|head| head.load(Ordering::Acquire) >= place.at)
        })
    }

    /// Waits until the log has come up to these places. There may be none such.
    pub(super) async fn arrived(&self, places: &[Place]) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // Before the look, so that no move falls between the two.
            moved.as_mut().enable();
            if self.has_come_to(places) {
                return;
            }
            moved.await;
        }
    }

    /// Waits until all `Refreshed` that are still to come will be in the log.
    pub(super) async fn recorded(&self) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            moved.as_mut().enable();
            if self.logs.read().is_recorded() {
                return;
            }
            moved.await;
        }
    }

    /// Whether what is read here is known to be what is in the store, but for the last [`CURRENT`](super::CURRENT).
    pub(super) fn is_current(&self) -> bool {
        let until = self.current_until.load(Ordering::Acquire);
        until == u64::MAX || self.micros(Instant::now()) < until
    }

    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.birth).as_micros()).unwrap_or(u64::MAX)
    }

    /// Where a subscriber begins. `None`: the store is down.
    pub(super) fn open(&self, resume_from: &str, refreshed: bool) -> Option<Opening> {
        let logs = self.logs.read();
        logs.is_up().then(|| logs.open(resume_from, refreshed))
    }

    /// Where the log stands.
    pub(super) fn position(&self) -> Position {
        self.logs.read().position()
    }

    /// See [`Logs::read`].
    pub(super) fn read(
        &self,
        position: &mut Position,
        first: usize,
        filter: &Filter,
        take: impl FnMut(&Arc<Logged>) -> bool,
    ) -> Result<usize, Gap> {
        self.logs.read().read(position, first, filter, take)
    }

    /// What a reader at this position must be told before anything else.
    pub(super) fn fenced(&self, position: &Position) -> Option<Gap> {
        let turned = self.turn.load(Ordering::Acquire) != position.turn;
        turned.then(|| self.logs.read().fenced())
    }

    /// One more subscriber wants `Refreshed`.
    pub(super) fn want_refreshed(&self) {
        self.change(Logs::want_refreshed);
    }

    /// One fewer does.
    pub(super) fn unwant_refreshed(&self) {
        self.logs.write().unwant_refreshed(Instant::now());
    }

    /// Shows without the lock what the log has come to. Called with it held.
    fn publish(&self, logs: &Logs) {
        for (shown, head) in self.heads.iter().zip(logs.heads()) {
            shown.store(head, Ordering::Release);
        }
        self.turn.store(logs.turn(), Ordering::Release);
        let wants = logs.wants_refreshed();
        if self.wants_refreshed.load(Ordering::Acquire) != wants {
            self.wants_refreshed.store(wants, Ordering::Release);
            self.wanting.send_replace(wants);
        }
        self.current_until.store(self.until(logs), Ordering::Release);
    }

    fn until(&self, logs: &Logs) -> u64 {
        match logs.current_until() {
            _ if !self.remote && logs.is_up() => u64::MAX,
            Some(until) => self.micros(until),
            None => 0,
        }
    }
}
