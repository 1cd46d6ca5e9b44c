//! The workers that are connected to this replica, and what they have in hand.
//!
//! *Owns* who takes which keys, how many more, and who gets the next one. *Never* asks the store or decides whether a key is refreshed.
//!
//! *Invariants.* A worker never has more in hand than it said: a [`Seat`] is taken before the store is asked. What is in hand ends with its
//! lease: by a report or at its deadline, whichever replica hears of it. A worker gets nothing before the store knows that it is there.
//!
//! *Fair*: of those who take a key, the one with the smallest part of its capacity in hand, and of these the one that was served longest ago.
//! Namespaces take turns.

mod hand;
mod pulling;
mod seats;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Error, RETRY_SOON};
use crate::decision::{Cause, Key, LeaseId, Seq};
use crate::store::Snapshot;
pub use pulling::{Pulled, Pulling};
pub(super) use seats::{Seat, Seating};

/// A worker that has given a key back is not offered it again for so long, unless by another's doing.
const SHUN: Duration = Duration::from_secs(1);
/// And so many of these are remembered.
const SHUNNED: usize = 10_000;

/// Which tasks a worker takes, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Of these namespaces.
    pub namespaces: Vec<Arc<str>>,
    /// Of keys that begin with one of these; empty: all.
    pub key_prefixes: Vec<String>,
    /// Who works; may be empty.
    pub holder: Arc<str>,
    /// So many at once; 0: no new ones.
    pub max_in_flight: usize,
}

/// A key to rebuild, with its lease.
#[derive(Clone, Debug, PartialEq)]
pub struct RefreshTask {
    /// Which.
    pub key: Key,
    /// The right to do it.
    pub lease: LeaseId,
    /// What is left of it.
    pub ttl: Duration,
    /// What is left of the longest hold.
    pub max_hold: Duration,
    /// Why.
    pub cause: Cause,
    /// Of the value that is there; none if there is none.
    pub version: Seq,
    /// What a rebuild costs; zero if that is not known.
    pub cost: Duration,
    /// W3C traceparent of what scheduled it.
    pub traceparent: Option<Arc<str>>,
}

/// A task on its way to a worker.
pub(super) struct Handed {
    pub task: RefreshTask,
    /// What is left of the lease counts from here.
    pub sent: Instant,
    /// The entry with the lease, from which it is given back.
    pub granted: Arc<Snapshot>,
}

/// All of a replica.
pub(super) struct Workers {
    /// Whether there is any: so that nobody takes the lock while there is none.
    any: AtomicBool,
    most: AtomicUsize,
    /// Rings when there is something to do: a place has become free, a lease may have ended, a task has come near.
    bell: Notify,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    workers: BTreeMap<u64, Worker>,
    in_hand: HashMap<Key, InHand>,
    /// Keys in hand, by the end of their leases.
    ends: BTreeSet<(Instant, Key)>,
    /// Keys in hand to be looked at: their entries have changed.
    changed: BTreeSet<Key>,
    shunned: HashMap<Key, (u64, Instant)>,
    next: u64,
    served: u64,
    /// The store is to be told of who is here.
    staff_changed: bool,
    draining: bool,
}

struct Worker {
    registration: Registration,
    /// It wants no more.
    retiring: bool,
    /// The store knows of it.
    started: bool,
    /// Seats taken and tasks in hand.
    in_hand: usize,
    served: u64,
    queue: VecDeque<Handed>,
    waker: Option<Waker>,
}

struct InHand {
    worker: u64,
    token: Seq,
    until: Instant,
}

/// Who has how many workers, to be told to the store.
pub(super) type Staff = Vec<(Arc<str>, u32)>;

impl Workers {
    pub fn new() -> Arc<Workers> {
        Arc::new(Workers {
            any: AtomicBool::new(false),
            most: AtomicUsize::new(1_000),
            bell: Notify::new(),
            inner: Mutex::default(),
        })
    }

    /// So many at the most.
    pub fn limit(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    fn join(&self, registration: Registration) -> Result<u64, Error> {
        let mut inner = self.inner.lock();
        if inner.draining {
            return Err(Error::Draining);
        }
        if inner.workers.len() >= self.most.load(Ordering::Relaxed) {
            return Err(Error::Overloaded {
                what: "this replica has as many workers as it takes",
                retry_after: RETRY_SOON * 50,
            });
        }
        inner.next += 1;
        let id = inner.next;
        let worker = Worker {
            registration,
            retiring: false,
            started: false,
            in_hand: 0,
            served: 0,
            queue: VecDeque::new(),
            waker: None,
        };
        inner.workers.insert(id, worker);
        inner.staff_changed = true;
        self.any.store(true, Ordering::Release);
        drop(inner);
        self.ring();
        Ok(id)
    }

    /// It takes something else from now on.
    fn change(&self, id: u64, registration: Registration) {
        let mut inner = self.inner.lock();
        if let Some(worker) = inner.workers.get_mut(&id) {
            let elsewhere = worker.registration.namespaces != registration.namespaces;
            worker.registration = registration;
            inner.staff_changed |= elsewhere;
        }
        drop(inner);
        self.ring();
    }

    /// It wants no more, but finishes what it has.
    fn retire(&self, id: u64) {
        let mut inner = self.inner.lock();
        if let Some(worker) = inner.workers.get_mut(&id) {
            worker.retiring = true;
            worker.wake();
            inner.staff_changed = true;
        }
        drop(inner);
        self.ring();
    }

    /// It is gone. What it was not told of yet.
    fn leave(&self, id: u64) -> Vec<Handed> {
        let mut inner = self.inner.lock();
        let Some(worker) = inner.workers.remove(&id) else {
            return Vec::new();
        };
        let its: Vec<Key> = inner.in_hand_of(id);
        its.iter().for_each(|key| inner.drop_in_hand(key));
        inner.staff_changed = true;
        if inner.workers.is_empty() {
            self.any.store(false, Ordering::Release);
        }
        drop(inner);
        self.ring();
        worker.queue.into()
    }

    /// Nobody is given anything any more.
    pub fn drain(&self) {
        let mut inner = self.inner.lock();
        inner.draining = true;
        inner.workers.values_mut().for_each(Worker::wake);
        drop(inner);
        self.ring();
    }

    /// There may be something to do.
    pub fn ring(&self) {
        self.bell.notify_one();
    }

    /// Until it rings.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    pub fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// How many workers are here, and how many tasks they have in hand.
    pub fn count(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.workers.len(), inner.in_hand.len())
    }

    /// Workers by namespace. Those that want no more do not count.
    pub fn staff(&self) -> Staff {
        self.inner.lock().staff()
    }

    /// Who is here, if that has changed since the store was told.
    pub fn changed_staff(&self) -> Option<(Staff, Vec<u64>)> {
        let mut inner = self.inner.lock();
        if !std::mem::take(&mut inner.staff_changed) {
            return None;
        }
        Some((inner.staff(), inner.workers.keys().copied().collect()))
    }

    /// The store could not be told.
    pub fn tell_again(&self) {
        self.inner.lock().staff_changed = true;
    }

    /// The store knows of these.
    pub fn started(&self, ids: &[u64]) {
        let mut inner = self.inner.lock();
        for id in ids {
            if let Some(worker) = inner.workers.get_mut(id)
                && !std::mem::replace(&mut worker.started, true)
            {
                worker.wake();
            }
        }
    }
}

impl Inner {
    fn staff(&self) -> Staff {
        let mut counts: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for worker in self.workers.values().filter(|worker| !worker.retiring) {
            let namespaces: BTreeSet<&Arc<str>> = worker.registration.namespaces.iter().collect();
            for namespace in namespaces {
                *counts.entry(namespace).or_default() += 1;
            }
        }
        counts.into_iter().map(|(name, count)| (name.clone(), count)).collect()
    }

    /// One place at a worker is free again.
    fn free(&mut self, id: u64) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.in_hand = worker.in_hand.saturating_sub(1);
            if worker.retiring {
                worker.wake();
            }
        }
    }
}

impl Worker {
    fn is_of(&self, namespace: &str) -> bool {
        self.registration.namespaces.iter().any(|own| **own == *namespace)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_may_have_lost_everything_is_told_of_the_workers_at_once() {
        let workers = Workers::new();
        let registration = Registration {
            namespaces: vec!["shop".into()],
            key_prefixes: Vec::new(),
            holder: "me".into(),
            max_in_flight: 1,
        };
        let joined = workers.join(registration);
        assert!(joined.is_ok());
        let staff = || workers.changed_staff().map(|(staff, _)| staff);
        assert_eq!(staff(), Some(vec![("shop".into(), 1)]));
        assert_eq!(staff(), None, "it knows");
        workers.rung_for_all();
        assert_eq!(staff(), Some(vec![("shop".into(), 1)]));
    }
}
