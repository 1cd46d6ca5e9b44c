//! The embedded store: everything in this process, nothing to set up.
//!
//! *Owns* the entries of a single replica, in shards under a lock each; the header; and the bound on memory.
//!
//! *Invariants.* A commit happens under its shard's lock, and its events enter the log under it. An invalidation of a tag or a namespace
//! happens under the header's lock; a report that was decided without it fails its guard, or is stored under a smaller number
//! and so is old for everybody who looks afterwards.
//!
//! *Bound.* At most [`Limits::entries`] and [`Limits::bytes`] (keys, values, and a flat sum an entry). At the bound, a new entry pushes
//! out the one of a few that would leave soonest, never one with a live lease or in back-off; if there is none, the call is
//! refused as [`StoreError::Full`]. Forgetting a value costs its service a rebuild and breaks no promise.
//!
//! *Restart.* Nothing is kept. Numbers go on growing, because the sequence is never below the wall's time in microseconds.
//!
//! *Why immutable snapshots*: a load is a reference count, and no caller ever holds a lock while it thinks.

mod header;
mod schedule;
mod shaping;
mod shard;

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;

use self::header::Header;
use self::schedule::Schedule;
use self::shaping::Namespaces;
use self::shard::{Change, Shard};
use super::{
    Answer, Budgeted, Budgeting, Census, Changed, Claim, Claimed, Clock, Commit, Committed, Covering, Event,
    Invalidated, Loaded, NewBytes, Outcome, Plan, Planned, Revision, Settled, Snapshot, Store, StoreError, Target,
    Want,
};
use crate::decision::{Entry, Generations, Key, Lease, Seq, Stamp, StoreTime, Tag, Value};
use crate::fanout::Feed;

const SHARDS: usize = 64;
/// The sweep goes through a shard this often, and so through the store in about a minute. What is expired counts as absent at once;
/// the sweep only gives its memory back, and at the bound it is the first to be pushed out.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// How much the store may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries.
    pub entries: usize,
    /// Bytes of keys and values, and 300 bytes an entry.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            entries: 2_000_000,
            bytes: 1 << 30,
        }
    }
}

/// How much the store holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries.
    pub entries: usize,
    /// Bytes, counted as for the bound.
    pub bytes: usize,
    /// Entries pushed out at the bound, since the start.
    pub evicted: u64,
    /// Refreshes that are scheduled.
    pub scheduled: usize,
}

/// The embedded store.
pub struct Memory {
    shards: Box<[Padded]>,
    hasher: DefaultHashBuilder,
    header: Header,
    schedule: Schedule,
    namespaces: Namespaces,
    feed: Arc<Feed>,
    clock: Clock,
    limits: Limits,
    revisions: AtomicU64,
    entries: AtomicUsize,
    bytes: AtomicUsize,
    evicted: AtomicU64,
}

/// A shard on cache lines of its own.
#[repr(align(128))]
#[derive(Default)]
struct Padded(Mutex<Shard>);

impl Memory {
    /// An empty store that keeps the wall's time.
    pub fn new(limits: Limits) -> Arc<Memory> {
        Memory::with_clock(limits, Clock::start())
    }

    /// An empty store that keeps the time of `clock`.
    pub fn with_clock(limits: Limits, clock: Clock) -> Arc<Memory> {
        Arc::new(Memory {
            shards: (0..SHARDS).map(|_| Padded::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            header: Header::default(),
            schedule: Schedule::new(limits.entries),
            namespaces: Namespaces::default(),
            feed: Feed::new(),
            clock,
            limits,
            revisions: AtomicU64::new(0),
            entries: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            evicted: AtomicU64::new(0),
        })
    }

    /// How much it holds.
    pub fn usage(&self) -> Usage {
        Usage {
            entries: self.entries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
            scheduled: self.schedule.len(),
        }
    }

    /// Lets expired entries leave, for as long as it is polled. It holds no lock for long.
    pub async fn sweep(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for shard in (0..SHARDS).cycle() {
            ticks.tick().await;
            while !self.sweep_step(shard) {
                tokio::task::yield_now().await;
            }
        }
    }

    /// One bounded step through one shard; `true` once it has been through.
    fn sweep_step(&self, shard: usize) -> bool {
        let now = self.clock.now();
        self.shards[shard]
            .0
            .lock()
            .sweep(now, |key| self.hash(key), |change| self.account(change))
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The table uses the low bits and the top seven; these are neither.
        &self.shards[(hash >> 40) as usize % SHARDS].0
    }

    fn account(&self, change: Change) {
        self.bytes.fetch_add(change.came, Ordering::Relaxed);
        self.bytes.fetch_sub(change.went, Ordering::Relaxed);
        // Wraps around for a negative change, which is subtraction.
        self.entries.fetch_add(change.entries as usize, Ordering::Relaxed);
    }

    fn is_over_bound(&self) -> bool {
        self.entries.load(Ordering::Relaxed) > self.limits.entries
            || self.bytes.load(Ordering::Relaxed) > self.limits.bytes
    }

    fn generations(&self, key: &Key, entry: &Entry, tags: &[Tag]) -> Generations {
        let stored = entry.value.as_ref().map_or(&[][..], Value::tags);
        let leased = entry.lease.as_deref().map_or(&[][..], Lease::tags);
        let mut known: Vec<&Tag> = Vec::new();
        for tag in stored.iter().chain(leased).chain(tags) {
            if !known.contains(&tag) {
                known.push(tag);
            }
        }
        self.header.generations(key.namespace(), known.into_iter())
    }

    fn loaded(&self, key: &Key, found: Option<Arc<Snapshot>>, tags: &[Tag], now: StoreTime) -> Loaded {
        let snapshot = found.unwrap_or_else(|| Arc::new(Snapshot::absent(key)));
        let generations = self.generations(key, &snapshot.entry, tags);
        Loaded {
            snapshot,
            generations,
            now,
        }
    }

    fn load_now(&self, key: &Key, tags: &[Tag], want: Want) -> Loaded {
        let hash = self.hash(key);
        let mut shard = self.shard(hash).lock();
        let now = self.clock.now();
        if want.rings {
            shard.wait_for(key);
        }
        let found = shard.get(hash, key, now).cloned();
        drop(shard);
        self.loaded(key, found, tags, now)
    }

    fn commit_now(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let hash = self.hash(&commit.key);
        let mut shard = self.shard(hash).lock();
        let now = self.clock.now();
        let found = shard.get(hash, &commit.key, now).cloned();
        let revision = found.as_ref().map_or(Revision::ABSENT, |kept| kept.revision);
        let guarded = commit
            .guard
            .as_ref()
            .is_none_or(|guard| self.header.keeps(commit.key.namespace(), guard));
        let timely = (commit.not_before..commit.until).contains(&now);
        if revision != commit.expected || !timely || !guarded {
            drop(shard);
            let tags = commit.guard.map(|guard| guard.tags).unwrap_or_default();
            return Ok(Outcome::Conflict(self.loaded(&commit.key, found, &tags, now)));
        }
        let number = if commit.takes_number() {
            self.header.take(now, commit.above)
        } else {
            Seq::NONE
        };
        let snapshot = self.write(&mut shard, hash, &commit, found, Stamp { now, number })?;
        let appended = (!commit.events.is_empty()).then(|| self.feed.append(number, now, commit.events));
        let rings = shard.take_waited(&commit.key);
        if !commit.rings_within.is_zero() {
            shard.wait_for(&commit.key);
        }
        let due = self.schedule.committed(&commit.key, commit.draft.as_ref(), now);
        drop(shard);
        let place = appended.as_ref().map(|appended| appended.place).unwrap_or_default();
        if let Some(appended) = appended {
            self.feed.announce(&appended);
        }
        if rings {
            self.feed.ring(&commit.key);
        }
        if due {
            self.feed.due(commit.key.namespace());
        }
        Ok(Outcome::Committed(Committed {
            snapshot,
            number,
            now,
            place,
        }))
    }

    /// The write itself, once nothing stands against it.
    fn write(
        &self,
        shard: &mut Shard,
        hash: u64,
        commit: &Commit,
        found: Option<Arc<Snapshot>>,
        stamp: Stamp,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let Some(draft) = commit.draft.clone() else {
            self.account(shard.remove(hash, &commit.key));
            return Ok(Arc::new(Snapshot::absent(&commit.key)));
        };
        let bytes = match &commit.bytes {
            NewBytes::Keep => found.as_ref().and_then(|kept| kept.bytes.clone()),
            NewBytes::Put(bytes) => Some(bytes.clone()),
            NewBytes::Clear => None,
        };
        let snapshot = Arc::new(Snapshot {
            key: commit.key.clone(),
            entry: draft.stamp(stamp),
            bytes,
            revision: Revision(self.revisions.fetch_add(1, Ordering::Relaxed) + 1),
        });
        self.account(shard.put(hash, snapshot.clone(), |key| self.hash(key)));
        while self.is_over_bound() {
            let own = shard.evict(stamp.now, &commit.key);
            let Some(evicted) = own.or_else(|| self.evict_elsewhere(stamp.now, &commit.key)) else {
                self.undo(shard, hash, &commit.key, found);
                let Limits { entries, bytes } = self.limits;
                return Err(StoreError::Full(format!(
                    "{entries} entries or {bytes} bytes are reached and nothing may be evicted; raise --max-entries or --max-memory"
                )));
            };
            self.account(evicted);
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
        Ok(snapshot)
    }

    /// Makes room in another shard, when the own one has nothing to give. Only tries their locks: somebody who holds one may be
    /// doing the same the other way round.
    fn evict_elsewhere(&self, now: StoreTime, spare: &Key) -> Option<Change> {
        self.shards
            .iter()
            .find_map(|shard| shard.0.try_lock()?.evict(now, spare))
    }

    fn undo(&self, shard: &mut Shard, hash: u64, key: &Key, before: Option<Arc<Snapshot>>) {
        let change = match before {
            Some(before) => shard.put(hash, before, |key| self.hash(key)),
            None => shard.remove(hash, key),
        };
        self.account(change);
    }

    fn invalidate_now(&self, covering: Covering) -> Invalidated {
        let target = covering.tag.clone().map_or(Target::Everything, Target::Tag);
        let event = Event::Invalidated {
            namespace: covering.namespace.clone(),
            target,
            mode: covering.mode,
        };
        let log = |number, now| self.feed.append(number, now, vec![event]);
        let (number, now, appended) = self.header.invalidate(&covering, || self.clock.now(), log);
        self.feed.announce(&appended);
        Invalidated {
            number,
            now,
            place: appended.place,
        }
    }

    fn live_leases(&self, namespace: Option<&str>) -> Vec<Arc<Snapshot>> {
        let now = self.clock.now();
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.0.lock();
            let leases = shard.live_leases(now, |key| self.hash(key));
            found.extend(
                leases
                    .filter(|kept| namespace.is_none_or(|name| kept.key.namespace() == name))
                    .cloned(),
            );
        }
        found
    }

    fn count(&self) -> Vec<Census> {
        let now = self.clock.now();
        let mut counts: HashMap<String, (u64, u64)> = HashMap::new();
        for shard in &self.shards {
            let shard = shard.0.lock();
            for kept in shard.entries(now) {
                let live = u64::from(kept.entry.live_lease(now).is_some());
                match counts.get_mut(kept.key.namespace()) {
                    Some((entries, leases)) => {
                        *entries += 1;
                        *leases += live;
                    }
                    None => drop(counts.insert(kept.key.namespace().to_owned(), (1, live))),
                }
            }
        }
        let census = |(namespace, (entries, leases))| Census {
            namespace,
            entries,
            leases,
        };
        counts.into_iter().map(census).collect()
    }
}

impl Store for Memory {
    fn load<'a>(&'a self, key: &'a Key, tags: &'a [Tag], want: Want) -> Answer<'a, Loaded> {
        Box::pin(std::future::ready(Ok(self.load_now(key, tags, want))))
    }

    fn commit<'a>(&'a self, commit: Commit) -> Answer<'a, Outcome> {
        Box::pin(std::future::ready(self.commit_now(commit)))
    }

    fn invalidate<'a>(&'a self, covering: Covering) -> Answer<'a, Invalidated> {
        Box::pin(std::future::ready(Ok(self.invalidate_now(covering))))
    }

    fn leases<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Arc<Snapshot>>> {
        Box::pin(std::future::ready(Ok(self.live_leases(namespace))))
    }

    fn census(&self) -> Answer<'_, Vec<Census>> {
        Box::pin(std::future::ready(Ok(self.count())))
    }

    fn ping(&self) -> Answer<'_, StoreTime> {
        Box::pin(std::future::ready(Ok(self.clock.now())))
    }

    fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    fn staff<'a>(&'a self, replica: u64, workers: &'a [(Arc<str>, u32)], lasts: Duration) -> Answer<'a, ()> {
        let now = self.clock.now();
        self.schedule.staff(replica, workers, now.after(lasts), now);
        Box::pin(std::future::ready(Ok(())))
    }

    fn workers(&self) -> Vec<(Arc<str>, u32)> {
        self.schedule.workers(self.clock.now())
    }

    fn schedule(&self, plan: Plan) -> Answer<'_, Planned> {
        let (planned, due) = self.schedule.plan(&plan, self.clock.now());
        if due {
            self.feed.due(&plan.namespace);
        }
        Box::pin(std::future::ready(Ok(planned)))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(std::future::ready(Ok(self.schedule.claim(&claim, self.clock.now()))))
    }

    fn settle(&self, settled: Vec<Settled>) -> Answer<'_, ()> {
        self.schedule.settle(settled);
        Box::pin(std::future::ready(Ok(())))
    }

    fn planned(&self) -> Answer<'_, Vec<Arc<str>>> {
        Box::pin(std::future::ready(Ok(self.schedule.planned())))
    }

    fn budget<'a>(&'a self, key: &'a Key, lease: NonZeroU64, what: Budgeting) -> Answer<'a, Budgeted> {
        let (budgeted, rings) = self.namespaces.budget(key, lease, what, self.clock.now());
        if rings {
            self.feed.ring(&Changed::Budget.ring(key.namespace()));
        }
        Box::pin(std::future::ready(Ok(budgeted)))
    }

    fn circuit<'a>(&'a self, namespace: &'a str, expected: &'a str, new: Option<&'a str>) -> Answer<'a, Arc<str>> {
        let (circuit, changed) = self.namespaces.circuit(namespace, expected, new);
        if changed {
            self.feed.ring(&Changed::Circuit.ring(namespace));
        }
        Box::pin(std::future::ready(Ok(circuit)))
    }
}

#[cfg(test)]
mod bound;
#[cfg(test)]
mod tests;
