//! Which partitions of the store are lost, and the pace at which grants come back.
//!
//! *Owns* what `degraded` knows of each partition. *Never* decides what is done about it.
//!
//! *Invariant.* While nothing is the matter, looking costs no lock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::Coordinator;
use super::flights::Turn;
use crate::decision::{Draw, Key, Reentry};
use crate::store::StoreError;

/// A store that has not failed for so long, and answers, is there.
pub(super) const CALM: Duration = Duration::from_secs(1);

/// The partitions that are lost, or were a moment ago.
#[derive(Default)]
pub(super) struct Losses {
    /// Whether there is any: so that nobody takes the lock while all is well.
    any: AtomicBool,
    partitions: Mutex<BTreeMap<u16, Loss>>,
}

#[derive(Default)]
struct Loss {
    /// The feed says so.
    lost: bool,
    /// When a call last failed.
    failed: Option<Instant>,
    /// Who decides alone.
    alone: Option<Arc<Coordinator>>,
    /// How fast grants may come.
    reentry: Option<Pace>,
}

struct Pace {
    since: Instant,
    rule: Reentry,
    taken: u64,
}

/// Why a newcomer may not try for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    /// Others are parked for it, or try.
    OthersAhead,
    /// The store has only just come back.
    TooEarly,
}

impl Losses {
    /// Why a key's store is not even asked.
    pub fn lost(&self, coordinator: &Coordinator, key: &Key) -> Option<StoreError> {
        let lost = self.of(coordinator, key, |loss| loss.lost).unwrap_or_default();
        lost.then(|| StoreError::Unavailable("it has been lost, and is being tried".to_owned()))
    }

    /// The store has answered about a key. If that ends a loss that the feed knew nothing of: who has decided alone.
    pub fn answered(&self, coordinator: &Coordinator, key: &Key) -> Option<Arc<Coordinator>> {
        let alone = self.of(coordinator, key, |loss| {
            loss.is_calm().then(|| loss.alone.take()).flatten()
        });
        let alone = alone.flatten();
        if alone.is_some() {
            self.tidy();
        }
        alone
    }

    /// Whether the feed knows nothing of a loss, and no call has failed for a while.
    pub fn is_calm(&self, coordinator: &Coordinator, key: &Key) -> bool {
        self.of(coordinator, key, |loss| loss.is_calm()).unwrap_or(true)
    }

    /// A call has not found the store. Who decides alone from now on, and whether it is new.
    pub fn failed(&self, partition: u16, new: impl FnOnce() -> Arc<Coordinator>) -> (Arc<Coordinator>, bool) {
        self.change(partition, |loss| {
            loss.failed = Some(Instant::now());
            let is_new = loss.alone.is_none();
            (loss.alone.get_or_insert_with(new).clone(), is_new)
        })
    }

    /// The feed says that a partition is lost.
    pub fn lose(&self, partition: u16) {
        self.change(partition, |loss| {
            loss.lost = true;
            loss.reentry = None;
        });
    }

    /// The feed says that it is there again: grants come back at a pace. Who has decided alone.
    pub fn regain(&self, partition: u16, draw: Draw) -> Option<Arc<Coordinator>> {
        let alone = self.change(partition, |loss| {
            // Decisions made alone show a loss too: one that was told before this coordinator listened.
            if std::mem::take(&mut loss.lost) || loss.alone.is_some() {
                loss.reentry = Some(Pace {
                    since: Instant::now(),
                    rule: Reentry::new(draw),
                    taken: 0,
                });
            }
            loss.alone.take()
        });
        self.tidy();
        alone
    }

    /// Who decides alone about a key.
    pub fn alone(&self, coordinator: &Coordinator, key: &Key) -> Option<Arc<Coordinator>> {
        self.of(coordinator, key, |loss| loss.alone.clone()).flatten()
    }

    fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Looks at a key's partition, if anything is the matter with it.
    fn of<T>(&self, coordinator: &Coordinator, key: &Key, look: impl FnOnce(&mut Loss) -> T) -> Option<T> {
        if !self.is_any() {
            return None;
        }
        let partition = coordinator.store.partition(key);
        self.partitions.lock().get_mut(&partition).map(look)
    }

    fn change<T>(&self, partition: u16, change: impl FnOnce(&mut Loss) -> T) -> T {
        let mut partitions = self.partitions.lock();
        self.any.store(true, Ordering::Release);
        change(partitions.entry(partition).or_default())
    }

    /// Forgets those with which nothing is the matter any more.
    fn tidy(&self) {
        let mut partitions = self.partitions.lock();
        partitions.retain(|_, loss| {
            let paced = loss.reentry.as_ref().is_some_and(|pace| !pace.is_over());
            loss.lost || loss.alone.is_some() || paced
        });
        self.any.store(!partitions.is_empty(), Ordering::Release);
    }

    /// Those who decide alone.
    pub fn all_alone(&self) -> Vec<Arc<Coordinator>> {
        let partitions = self.partitions.lock();
        partitions.values().filter_map(|loss| loss.alone.clone()).collect()
    }
}

impl Loss {
    fn is_calm(&self) -> bool {
        !self.lost && self.failed.is_none_or(|failed| failed.elapsed() >= CALM)
    }
}

impl Pace {
    fn is_over(&self) -> bool {
        self.since.elapsed() >= self.rule.over()
    }

    /// When the next grant may be made.
    fn next(&self) -> Instant {
        self.since + self.rule.due(self.taken)
    }
}

/// The re-entry after a loss.
impl Coordinator {
    /// A newcomer's turn to try for a lease.
    pub(super) fn turn(&self, key: &Key, exclusive: bool) -> Result<Turn, NotNow> {
        if self.losses.is_any() && self.flights.is_free(key) && !self.may_reenter(key) {
            return Err(NotNow::TooEarly);
        }
        self.flights.turn(key, exclusive).ok_or(NotNow::OthersAhead)
    }

    /// Whether a newcomer may be granted a key now. If so, it counts.
    fn may_reenter(&self, key: &Key) -> bool {
        let now = Instant::now();
        let due = self.losses.of(self, key, |loss| match &mut loss.reentry {
            Some(pace) if pace.is_over() => Some(true),
            Some(pace) if pace.next() > now => Some(false),
            Some(pace) => {
                pace.taken += 1;
                None
            }
            None => None,
        });
        match due.flatten() {
            Some(true) => {
                self.losses
                    .change(self.store.partition(key), |loss| loss.reentry = None);
                self.losses.tidy();
                true
            }
            Some(false) => false,
            None => true,
        }
    }

    /// When the oldest of a queue may be granted its key: a place in the order of grants, that is taken once.
    pub(super) fn reentry_due(&self, key: &Key, ticket: &mut Option<Instant>) -> Option<Instant> {
        let due = self.losses.of(self, key, |loss| {
            let pace = loss.reentry.as_mut().filter(|pace| !pace.is_over())?;
            Some(*ticket.get_or_insert_with(|| {
                let due = pace.next();
                pace.taken += 1;
                due
            }))
        });
        due.flatten().filter(|due| *due > Instant::now())
    }
}
