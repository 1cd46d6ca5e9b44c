//! A store with faults in front of any other: for tests and for the simulation.
//!
//! *Owns* what goes wrong: calls that are late, that do not reach the store, or whose answer is lost; rings that are lost or come
//! twice; a store that is down for a while. *Never does* lie: what is answered is what the inner store answered, and what is told to
//! have not been applied was not.
//!
//! *Invariants.* The same seed and the same calls in the same order meet the same faults. Each log record of the inner store is in the
//! log here, once and in the order in which it was announced, which is that of the commits where these come from one thread; one that came while the store was down is there as soon as it is up. Lists come sorted, so that no
//! hasher has a say in what happens next.
//!
//! *Why a feed of its own*: two replicas over one store lose different rings.

mod chance;
mod remote;

use std::collections::BTreeMap;
use std::future::Future;
use std::num::NonZeroU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use self::chance::Chance;
pub use self::chance::{Call, Fault, Faults};
pub use self::remote::{Forgetful, Remote};
use super::{
    Answer, Budgeted, Budgeting, Census, Claim, Claimed, Commit, Covering, Event, Invalidated, Loaded, Outcome, Place,
    Plan, Planned, Settled, Snapshot, Store, StoreError, Want,
};
use crate::decision::{Key, StoreTime, Tag};
use crate::fanout::{Feed, Listener, Record, ResetReason};

/// Positions of the inner log that are still known by their own.
const POSITIONS: usize = 4_096;

/// A store that fails as it is told, or by chance.
pub struct Faulty {
    inner: Arc<dyn Store>,
    feed: Arc<Feed>,
    chance: Mutex<Chance>,
    log: Mutex<Relayed>,
}

/// How far the inner log has come through.
#[derive(Default)]
struct Relayed {
    /// Where a record of the inner log stands in this one.
    positions: BTreeMap<u64, u64>,
    /// Came while the store was down.
    held_back: Vec<Record>,
}

impl Faulty {
    /// In front of `inner`, without faults as yet. The seed decides about those that come by chance.
    pub fn new(inner: Arc<dyn Store>, seed: u64) -> Arc<Faulty> {
        let faulty = Arc::new(Faulty {
            feed: Feed::new(),
            chance: Mutex::new(Chance::new(seed)),
            log: Mutex::default(),
            inner: inner.clone(),
        });
        inner.feed().listen(Arc::new(Ears(Arc::downgrade(&faulty))));
        faulty
    }

    /// What may go wrong by chance from now on.
    pub fn set(&self, faults: Faults) {
        self.chance.lock().faults = faults;
    }

    /// The next call of this kind meets this fault; several are met in their order.
    pub fn script(&self, call: Call, fault: Fault) {
        self.chance.lock().script.push_back((call, fault));
    }

    /// From now on nothing reaches the store, no ring comes, and what is under way is lost. The listeners are told.
    pub fn go_down(&self) {
        self.chance.lock().down = true;
        self.feed.lost(0);
    }

    /// The store answers again. The log catches up, and the listeners are told.
    pub fn come_up(&self) {
        self.chance.lock().down = false;
        let held_back = std::mem::take(&mut self.log.lock().held_back);
        held_back.iter().for_each(|record| self.relay(record));
        self.feed.regained(0);
    }

    /// Whether nothing reaches the store.
    pub fn is_down(&self) -> bool {
        self.chance.lock().down
    }

    /// The log cannot be continued: as if the store had lost it.
    pub fn lose_log(&self, reason: ResetReason) {
        self.feed.reset(reason);
    }

    /// How many faults were met so far.
    pub fn met(&self) -> u64 {
        self.chance.lock().met
    }

    /// Carries a call to the store and its answer back, with what goes wrong on the way.
    async fn carry<T>(
        &self,
        call: Call,
        run: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        let met = self.chance.lock().meet(call);
        pause(met.before).await;
        if self.is_down() || met.fault == Some(Fault::Unavailable) {
            return Err(StoreError::Unavailable("a fault kept the call from it".to_owned()));
        }
        let answer = run.await;
        pause(met.after).await;
        if self.is_down() || met.fault == Some(Fault::Unknown) {
            return Err(if call.writes() {
                StoreError::Unknown("a fault kept the answer".to_owned())
            } else {
                StoreError::Unavailable("a fault kept the answer".to_owned())
            });
        }
        answer
    }

    fn relay(&self, record: &Record) {
        let appended = self.feed.append(record.number, record.at, vec![record.event.clone()]);
        {
            let mut log = self.log.lock();
            log.positions.insert(record.place.at, appended.place.at);
            if log.positions.len() > POSITIONS {
                log.positions.pop_first();
            }
        }
        self.feed.announce(&appended);
    }

    /// Where a position of the inner log is in this one; 0 stays 0: there were no events.
    fn position(&self, inner: u64) -> u64 {
        self.log
            .lock()
            .positions
            .range(1..=inner.max(1))
            .next_back()
            .map_or(0, |(_, own)| if inner == 0 { 0 } else { *own })
    }

    /// Those that the inner store need not see, because who wants them is subscribed here.
    fn tell_refreshed(&self, refreshed: Vec<Event>, outcome: &mut Outcome) {
        let Outcome::Committed(committed) = outcome else {
            return;
        };
        if refreshed.is_empty() {
            return;
        }
        let appended = self.feed.append(committed.number, committed.now, refreshed);
        committed.place = appended.place;
        self.feed.announce(&appended);
    }
}

impl Store for Faulty {
    fn load<'a>(&'a self, key: &'a Key, tags: &'a [Tag], want: Want) -> Answer<'a, Loaded> {
        Box::pin(self.carry(Call::Load, async move { self.inner.load(key, tags, want).await }))
    }

    fn commit<'a>(&'a self, mut commit: Commit) -> Answer<'a, Outcome> {
        let is_refreshed = |event: &mut Event| matches!(event, Event::Refreshed { .. });
        let refreshed = commit.events.extract_if(.., is_refreshed).collect();
        Box::pin(self.carry(Call::Commit, async move {
            let mut outcome = self.inner.commit(commit).await?;
            if let Outcome::Committed(committed) = &mut outcome {
                committed.place.at = self.position(committed.place.at);
            }
            self.tell_refreshed(refreshed, &mut outcome);
            Ok(outcome)
        }))
    }

    fn invalidate<'a>(&'a self, covering: Covering) -> Answer<'a, Invalidated> {
        Box::pin(self.carry(Call::Invalidate, async move {
            let invalidated = self.inner.invalidate(covering).await?;
            Ok(Invalidated {
                place: Place {
                    partition: 0,
                    at: self.position(invalidated.place.at),
                },
                ..invalidated
            })
        }))
    }

    fn leases<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Arc<Snapshot>>> {
        Box::pin(self.carry(Call::List, async move {
            let mut leases = self.inner.leases(namespace).await?;
            leases.sort_by(|one, other| one.key.cmp(&other.key));
            Ok(leases)
        }))
    }

    fn census(&self) -> Answer<'_, Vec<Census>> {
        Box::pin(self.carry(Call::List, async move {
            let mut census = self.inner.census().await?;
            census.sort_by(|one, other| one.namespace.cmp(&other.namespace));
            Ok(census)
        }))
    }

    fn ping(&self) -> Answer<'_, StoreTime> {
        Box::pin(self.carry(Call::Ping, async move { self.inner.ping().await }))
    }

    fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    fn budget<'a>(&'a self, key: &'a Key, lease: NonZeroU64, what: Budgeting) -> Answer<'a, Budgeted> {
        Box::pin(self.carry(Call::Budget, async move { self.inner.budget(key, lease, what).await }))
    }

    fn circuit<'a>(&'a self, namespace: &'a str, expected: &'a str, new: Option<&'a str>) -> Answer<'a, Arc<str>> {
        Box::pin(self.carry(Call::Circuit, async move {
            self.inner.circuit(namespace, expected, new).await
        }))
    }

    fn recall(&self, key: &Key) -> Option<Loaded> {
        self.inner.recall(key)
    }

    fn partition(&self, key: &Key) -> u16 {
        self.inner.partition(key)
    }

    fn staff<'a>(&'a self, replica: u64, workers: &'a [(Arc<str>, u32)], lasts: Duration) -> Answer<'a, ()> {
        let staff = async move { self.inner.staff(replica, workers, lasts).await };
        Box::pin(self.carry(Call::Schedule, staff))
    }

    fn workers(&self) -> Vec<(Arc<str>, u32)> {
        self.inner.workers()
    }

    fn fleet(&self) -> Answer<'_, Vec<(Arc<str>, u32)>> {
        Box::pin(self.carry(Call::List, async move { self.inner.fleet().await }))
    }

    fn schedule(&self, plan: Plan) -> Answer<'_, Planned> {
        Box::pin(self.carry(Call::Schedule, async move { self.inner.schedule(plan).await }))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(self.carry(Call::Schedule, async move { self.inner.claim(claim).await }))
    }

    fn settle(&self, settled: Vec<Settled>) -> Answer<'_, ()> {
        Box::pin(self.carry(Call::Schedule, async move { self.inner.settle(settled).await }))
    }

    fn planned(&self) -> Answer<'_, Vec<Arc<str>>> {
        Box::pin(self.carry(Call::List, async move { self.inner.planned().await }))
    }

    fn asked(&self, keys: Vec<Key>) -> Answer<'_, ()> {
        Box::pin(self.carry(Call::Schedule, async move { self.inner.asked(keys).await }))
    }
}

/// Its place among the listeners of the inner feed.
struct Ears(Weak<Faulty>);

impl Listener for Ears {
    fn rung(&self, key: &Key) {
        let Some(faulty) = self.0.upgrade() else { return };
        let times = faulty.chance.lock().rings();
        for _ in 0..times {
            faulty.feed.ring(key);
        }
    }

    fn logged(&self, record: &Record) {
        let Some(faulty) = self.0.upgrade() else { return };
        if faulty.is_down() {
            faulty.log.lock().held_back.push(record.clone());
        } else {
            faulty.relay(record);
        }
    }

    fn reset(&self, reason: ResetReason) {
        if let Some(faulty) = self.0.upgrade() {
            faulty.feed.reset(reason);
        }
    }

    fn due(&self, namespace: &str) {
        let Some(faulty) = self.0.upgrade() else { return };
        let times = faulty.chance.lock().rings();
        for _ in 0..times {
            faulty.feed.due(namespace);
        }
    }
}

/// Nothing to wait for is nothing to yield for.
async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

#[cfg(test)]
mod tests;
