//! Any store as if it were far away: for tests and for the simulation.
//!
//! *Owns* what such a store adds: each call is a trip, and counted; the bytes of a value come only where they are asked for; and what
//! this replica saw of a key last is recalled, so that its next commit needs no load. *Never* does I/O or waits: put a
//! [`Faulty`](super::Faulty) behind it for that.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::Call;
use crate::decision::{Generations, Key, StoreTime, Tag};
use crate::fanout::{Feed, Peers};
use crate::store::{
    Answer, Budgeted, Budgeting, Census, Claim, Claimed, Commit, Committed, Covering, Invalidated, Loaded, Outcome,
    Plan, Planned, Settled, Snapshot, Store, StoreError, Want,
};

/// So many states of a key are remembered, to recall an old one.
const REMEMBERED: usize = 4;

/// How badly it remembers: chances, 0 to 1. The default: well.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Forgetful {
    /// An older state is recalled than the last one that was seen.
    pub old: f64,
    /// Nothing is: as if the key had never been seen.
    pub nothing: f64,
    /// The time is earlier than it might be, by up to this.
    pub behind: Duration,
}

/// A store that is far away.
pub struct Remote {
    inner: Arc<dyn Store>,
    memory: Mutex<Memory>,
    trips: Mutex<Vec<Call>>,
}

struct Memory {
    rng: StdRng,
    forgetful: Forgetful,
    seen: HashMap<Key, VecDeque<Loaded>>,
    /// The latest time that the store has told, and when.
    told: Option<(StoreTime, Instant)>,
}

impl Remote {
    /// In front of `inner`. The seed decides about what is recalled, where it is forgetful.
    pub fn new(inner: Arc<dyn Store>, seed: u64, forgetful: Forgetful) -> Arc<Remote> {
        Arc::new(Remote {
            inner,
            memory: Mutex::new(Memory {
                rng: StdRng::seed_from_u64(seed),
                forgetful,
                seen: HashMap::new(),
                told: None,
            }),
            trips: Mutex::default(),
        })
    }

    /// The trips since this was last asked, in the order in which they began.
    pub fn trips(&self) -> Vec<Call> {
        std::mem::take(&mut *self.trips.lock())
    }

    async fn trip<T>(
        &self,
        call: Call,
        run: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        self.trips.lock().push(call);
        run.await
    }
}

impl Memory {
    fn now(&self) -> StoreTime {
        self.told.map_or(StoreTime::ZERO, |(time, at)| time.after(at.elapsed()))
    }

    fn saw(&mut self, loaded: Loaded) {
        if loaded.now > self.now() {
            self.told = Some((loaded.now, Instant::now()));
        }
        let seen = self.seen.entry(loaded.snapshot.key.clone()).or_default();
        seen.push_back(Loaded {
            snapshot: without_bytes(loaded.snapshot),
            ..loaded
        });
        if seen.len() > REMEMBERED {
            seen.pop_front();
        }
    }

    fn saw_commit(&mut self, committed: &Committed) {
        let before = self.seen.get(&committed.snapshot.key).and_then(|seen| seen.back());
        let generations = before.map_or_else(Generations::default, |before| before.generations.clone());
        self.saw(Loaded {
            snapshot: committed.snapshot.clone(),
            generations,
            now: committed.now,
        });
    }

    fn recall(&mut self, key: &Key) -> Loaded {
        let Forgetful { old, nothing, behind } = self.forgetful;
        let behind = if behind.is_zero() {
            behind
        } else {
            behind.mul_f64(self.rng.random())
        };
        let seen = self.seen.get(key).filter(|seen| !seen.is_empty());
        let found = match seen {
            Some(_) if chance(&mut self.rng, nothing) => None,
            Some(seen) if chance(&mut self.rng, old) => seen.get(self.rng.random_range(0..seen.len())),
            Some(seen) => seen.back(),
            None => None,
        };
        let now = StoreTime(self.now().0.saturating_sub(crate::decision::micros(behind)));
        match found {
            Some(found) => Loaded { now, ..found.clone() },
            None => Loaded {
                snapshot: Arc::new(Snapshot::absent(key)),
                generations: Generations::default(),
                now,
            },
        }
    }
}

fn chance(rng: &mut StdRng, chance: f64) -> bool {
    chance > 0.0 && rng.random_bool(chance.min(1.0))
}

fn without_bytes(mut snapshot: Arc<Snapshot>) -> Arc<Snapshot> {
    if snapshot.bytes.is_some() {
        Arc::make_mut(&mut snapshot).bytes = None;
    }
    snapshot
}

impl Store for Remote {
    fn load<'a>(&'a self, key: &'a Key, tags: &'a [Tag], want: Want) -> Answer<'a, Loaded> {
        Box::pin(self.trip(Call::Load, async move {
            let mut loaded = self.inner.load(key, tags, want).await?;
            self.memory.lock().saw(loaded.clone());
            if !want.bytes {
                loaded.snapshot = without_bytes(loaded.snapshot);
            }
            Ok(loaded)
        }))
    }

    fn commit<'a>(&'a self, commit: Commit) -> Answer<'a, Outcome> {
        Box::pin(self.trip(Call::Commit, async move {
            let bytes = commit.bytes_on_conflict;
            let mut outcome = self.inner.commit(commit).await?;
            match &mut outcome {
                Outcome::Committed(committed) => {
                    self.memory.lock().saw_commit(committed);
                    committed.snapshot = without_bytes(committed.snapshot.clone());
                }
                Outcome::Conflict(now) => {
                    self.memory.lock().saw(now.clone());
                    if !bytes {
                        now.snapshot = without_bytes(now.snapshot.clone());
                    }
                }
            }
            Ok(outcome)
        }))
    }

    fn invalidate<'a>(&'a self, covering: Covering) -> Answer<'a, Invalidated> {
        Box::pin(self.trip(Call::Invalidate, self.inner.invalidate(covering)))
    }

    fn leases<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Arc<Snapshot>>> {
        Box::pin(self.trip(Call::List, self.inner.leases(namespace)))
    }

    fn census(&self) -> Answer<'_, Vec<Census>> {
        Box::pin(self.trip(Call::List, self.inner.census()))
    }

    fn ping(&self) -> Answer<'_, StoreTime> {
        Box::pin(self.trip(Call::Ping, self.inner.ping()))
    }

    fn feed(&self) -> &Arc<Feed> {
        self.inner.feed()
    }

    fn recall(&self, key: &Key) -> Option<Loaded> {
        Some(self.memory.lock().recall(key))
    }

    fn partition(&self, key: &Key) -> u16 {
        self.inner.partition(key)
    }

    fn peers(&self) -> Option<Arc<dyn Peers>> {
        self.inner.peers()
    }

    fn staff<'a>(&'a self, replica: u64, workers: &'a [(Arc<str>, u32)], lasts: Duration) -> Answer<'a, ()> {
        Box::pin(self.trip(Call::Schedule, self.inner.staff(replica, workers, lasts)))
    }

    fn workers(&self) -> Vec<(Arc<str>, u32)> {
        self.inner.workers()
    }

    fn fleet(&self) -> Answer<'_, Vec<(Arc<str>, u32)>> {
        Box::pin(self.trip(Call::List, self.inner.fleet()))
    }

    fn schedule(&self, plan: Plan) -> Answer<'_, Planned> {
        Box::pin(self.trip(Call::Schedule, self.inner.schedule(plan)))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(self.trip(Call::Schedule, self.inner.claim(claim)))
    }

    fn settle(&self, settled: Vec<Settled>) -> Answer<'_, ()> {
        Box::pin(self.trip(Call::Schedule, self.inner.settle(settled)))
    }

    fn planned(&self) -> Answer<'_, Vec<Arc<str>>> {
        Box::pin(self.trip(Call::List, self.inner.planned()))
    }

    fn asked(&self, keys: Vec<Key>) -> Answer<'_, ()> {
        Box::pin(self.trip(Call::Schedule, self.inner.asked(keys)))
    }

    fn budget<'a>(&'a self, key: &'a Key, lease: NonZeroU64, what: Budgeting) -> Answer<'a, Budgeted> {
        Box::pin(self.trip(Call::Budget, self.inner.budget(key, lease, what)))
    }

    fn circuit<'a>(&'a self, namespace: &'a str, expected: &'a str, new: Option<&'a str>) -> Answer<'a, Arc<str>> {
        Box::pin(self.trip(Call::Circuit, self.inner.circuit(namespace, expected, new)))
    }
}
