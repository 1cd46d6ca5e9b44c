//! The checker, checked: a service with a known bug must not pass.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drover::decision::{Generations, Key, Number, Seq, StoreTime, Tag, When};
use drover::fanout::{Feed, Listener, Record, ResetReason};
use drover::store::{
    Answer, Budgeted, Budgeting, Census, Claim, Claimed, Commit, Covering, Invalidated, Loaded, Outcome, Snapshot,
    Store, Want,
};

use crate::checker::Promise;
use crate::first_failure;
use crate::world::Sabotage;

/// A bug is found within so many seeds.
const SEEDS: u64 = 400;

fn catches(promises: &[Promise], sabotage: &Sabotage) {
    let Some((seed, violation)) = first_failure(0..SEEDS, sabotage) else {
        panic!("not caught within {SEEDS} seeds");
    };
    assert!(promises.contains(&violation.promise), "seed {seed}: {violation}");
}

fn in_the_store(store: fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Sabotage {
    Sabotage {
        store,
        ..Sabotage::none()
    }
}

/// What a bug does to a commit that is on its way.
type Twist = Box<dyn Fn(&mut Commit) + Send + Sync>;

/// A store with a bug.
struct Buggy {
    inner: Arc<dyn Store>,
    feed: Arc<Feed>,
    twist: Twist,
    /// Upon whatever is there.
    ignores_expected: bool,
    /// Invalidations of tags and namespaces are not seen.
    forgets_generations: bool,
    /// Every other load comes from before.
    cache: Option<Mutex<HashMap<Key, Loaded>>>,
    loads: AtomicU64,
    places: Places,
    /// Of those that are claimed, half.
    loses_tasks: bool,
    /// Who looks at a claimed task is told of no invalidation: of these keys.
    blind: Option<Mutex<HashSet<Key>>>,
    /// Who only looks at a circuit finds none.
    circuit_reads_closed: bool,
}

/// How a budget is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Places {
    AsTheyAre,
    WithoutEnd,
    NeverFree,
}

impl Buggy {
    fn over(inner: Arc<dyn Store>) -> Buggy {
        Buggy {
            feed: inner.feed().clone(),
            inner,
            twist: Box::new(|_| ()),
            ignores_expected: false,
            forgets_generations: false,
            cache: None,
            loads: AtomicU64::new(0),
            places: Places::AsTheyAre,
            loses_tasks: false,
            blind: None,
            circuit_reads_closed: false,
        }
    }

    fn seen(&self, mut loaded: Loaded) -> Loaded {
        if self.forgets_generations {
            loaded.generations = Generations::default();
        }
        loaded
    }

    fn looks_at_task(&self, key: &Key, want: Want) -> bool {
        let Some(blind) = &self.blind else { return false };
        want == Want::default() && blind.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    fn cached(&self, key: &Key) -> Option<Loaded> {
        let cache = self.cache.as_ref()?;
        let often = self.loads.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.get(key).filter(|_| often).cloned()
    }
}

impl Store for Buggy {
    fn load<'a>(&'a self, key: &'a Key, tags: &'a [Tag], want: Want) -> Answer<'a, Loaded> {
        Box::pin(async move {
            if let Some(mut cached) = self.cached(key) {
                cached.now = self.inner.ping().await?;
                return Ok(cached);
            }
            let mut loaded = self.seen(self.inner.load(key, tags, want).await?);
            if self.looks_at_task(key, want) {
                loaded.generations = Generations::default();
            }
            if let Some(cache) = &self.cache {
                let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
                cache.insert(key.clone(), loaded.clone());
            }
            Ok(loaded)
        })
    }

    fn commit<'a>(&'a self, mut commit: Commit) -> Answer<'a, Outcome> {
        (self.twist)(&mut commit);
        Box::pin(async move {
            if self.forgets_generations {
                commit.guard = None;
            }
            if self.ignores_expected {
                let now = self.inner.load(&commit.key, &[], Want::default()).await?;
                commit.expected = now.snapshot.revision;
                (commit.not_before, commit.until, commit.guard) = (StoreTime::ZERO, StoreTime::NEVER, None);
            }
            match self.inner.commit(commit).await? {
                Outcome::Conflict(now) => Ok(Outcome::Conflict(self.seen(now))),
                committed => Ok(committed),
            }
        })
    }

    fn invalidate<'a>(&'a self, covering: Covering) -> Answer<'a, Invalidated> {
        self.inner.invalidate(covering)
    }

    fn leases<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Arc<Snapshot>>> {
        if self.forgets_generations {
            return Box::pin(std::future::ready(Ok(Vec::new())));
        }
        self.inner.leases(namespace)
    }

    fn census(&self) -> Answer<'_, Vec<Census>> {
        self.inner.census()
    }

    fn ping(&self) -> Answer<'_, StoreTime> {
        self.inner.ping()
    }

    fn budget<'a>(&'a self, key: &'a Key, lease: std::num::NonZeroU64, what: Budgeting) -> Answer<'a, Budgeted> {
        let what = match what {
            Budgeting::Take {
                length, others_wait, ..
            } if self.places == Places::WithoutEnd => Budgeting::Take {
                limit: u32::MAX,
                length,
                others_wait,
            },
            Budgeting::GiveBack { .. } if self.places == Places::NeverFree => Budgeting::Leave,
            what => what,
        };
        self.inner.budget(key, lease, what)
    }

    fn staff<'a>(&'a self, replica: u64, workers: &'a [(Arc<str>, u32)], lasts: Duration) -> Answer<'a, ()> {
        self.inner.staff(replica, workers, lasts)
    }

    fn workers(&self) -> Vec<(Arc<str>, u32)> {
        self.inner.workers()
    }

    fn schedule(&self, plan: drover::store::Plan) -> Answer<'_, drover::store::Planned> {
        self.inner.schedule(plan)
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(async move {
            let mut claimed = self.inner.claim(claim).await?;
            if self.loses_tasks {
                claimed.tasks.retain(|task| task.due.0 % 2 == 0);
            }
            if let Some(blind) = &self.blind {
                let keys = claimed.tasks.iter().map(|task| task.key.clone());
                blind.lock().unwrap_or_else(PoisonError::into_inner).extend(keys);
            }
            Ok(claimed)
        })
    }

    fn settle(&self, settled: Vec<drover::store::Settled>) -> Answer<'_, ()> {
        self.inner.settle(settled)
    }

    fn planned(&self) -> Answer<'_, Vec<Arc<str>>> {
        self.inner.planned()
    }

    fn circuit<'a>(&'a self, namespace: &'a str, expected: &'a str, new: Option<&'a str>) -> Answer<'a, Arc<str>> {
        if self.circuit_reads_closed && new.is_none() {
            return Box::pin(std::future::ready(Ok(Arc::default())));
        }
        self.inner.circuit(namespace, expected, new)
    }

    fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }
}

/// Lets rings through, and two of three log records.
struct Leaky {
    feed: Arc<Feed>,
    seen: AtomicU64,
}

impl Listener for Leaky {
    fn rung(&self, key: &Key) {
        self.feed.ring(key);
    }

    fn logged(&self, record: &Record) {
        if self.seen.fetch_add(1, Ordering::Relaxed) % 3 < 2 {
            let appended = self.feed.append(record.number, record.at, vec![record.event.clone()]);
            self.feed.announce(&appended);
        }
    }

    fn reset(&self, reason: ResetReason) {
        self.feed.reset(reason);
    }
}

#[test]
fn the_checker_catches_a_store_that_ignores_what_a_commit_expects() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            ignores_expected: true,
            ..Buggy::over(inner)
        })
    });
    catches(
        &[Promise::Exclusive, Promise::Versions, Promise::NoLateReport],
        &sabotage,
    );
}

#[test]
fn the_checker_catches_a_counter_that_restarts() {
    let sabotage = in_the_store(|inner| {
        let taken = AtomicU64::new(0);
        let twist = move |commit: &mut Commit| {
            let Some(lease) = commit.draft.as_mut().and_then(|draft| draft.lease.as_mut()) else {
                return;
            };
            if lease.token == Number::Next {
                lease.token = Number::Is(Seq(1 + taken.fetch_add(1, Ordering::Relaxed) % 7));
            }
        };
        Arc::new(Buggy {
            twist: Box::new(twist),
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::Tokens], &sabotage);
}

#[test]
fn the_checker_catches_one_number_a_client() {
    let sabotage = in_the_store(|inner| {
        let twist = |commit: &mut Commit| {
            let Some(lease) = commit.draft.as_mut().and_then(|draft| draft.lease.as_mut()) else {
                return;
            };
            if lease.token == Number::Next {
                let client = lease.holder.bytes().last().unwrap_or_default();
                lease.token = Number::Is(Seq(1_900_000_000_000_000 + u64::from(client)));
            }
        };
        Arc::new(Buggy {
            twist: Box::new(twist),
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::Tokens], &sabotage);
}

#[test]
fn the_checker_catches_a_release_by_name() {
    let sabotage = Sabotage {
        release_by_name: true,
        ..Sabotage::none()
    };
    // Whose lease was released in another's name believes to hold it still.
    catches(
        &[Promise::NoLateReport, Promise::OwnerOnly, Promise::Exclusive],
        &sabotage,
    );
}

#[test]
fn the_checker_catches_what_is_served_after_an_invalidation() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            forgets_generations: true,
            ..Buggy::over(inner)
        })
    });
    catches(
        &[Promise::InvalidateWins, Promise::NoLateReport, Promise::OwnerOnly],
        &sabotage,
    );
}

#[test]
fn the_checker_catches_loads_from_before_the_call() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            cache: Some(Mutex::default()),
            ..Buggy::over(inner)
        })
    });
    catches(
        &[
            Promise::Versions,
            Promise::InvalidateWins,
            Promise::Lifetimes,
            // Who looks after parked callers sees too late what there is for them.
            Promise::NoMissedWake,
        ],
        &sabotage,
    );
}

#[test]
fn the_checker_catches_rings_that_are_swallowed() {
    let sabotage = Sabotage {
        faults: |faults| faults.ring_lost = 1.0,
        ..Sabotage::none()
    };
    // That a circuit has opened is told by a ring, too.
    catches(&[Promise::NoMissedWake, Promise::Circuit], &sabotage);
}

#[test]
fn the_checker_catches_a_lease_that_never_ends() {
    let sabotage = in_the_store(|inner| {
        let twist = |commit: &mut Commit| {
            if let Some(lease) = commit.draft.as_mut().and_then(|draft| draft.lease.as_mut()) {
                lease.deadline = When::after(Duration::from_secs(36_000));
            }
        };
        Arc::new(Buggy {
            twist: Box::new(twist),
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::NoStuckKey], &sabotage);
}

#[test]
fn the_checker_catches_values_that_are_rebuilt_although_they_are_fresh() {
    let sabotage = in_the_store(|inner| {
        // A value is forgotten as soon as somebody fails to rebuild it, or is granted a lease.
        let twist = |commit: &mut Commit| {
            let Some(draft) = &mut commit.draft else { return };
            if draft.lease.is_some() || draft.trouble.is_some() {
                draft.value = None;
            }
        };
        Arc::new(Buggy {
            twist: Box::new(twist),
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::BoundedRebuilds], &sabotage);
}

#[test]
fn the_checker_catches_a_silent_gap_in_the_log() {
    let sabotage = in_the_store(|inner| {
        let feed = Feed::new();
        let leaky = Leaky {
            feed: feed.clone(),
            seen: AtomicU64::new(0),
        };
        inner.feed().listen(Arc::new(leaky));
        Arc::new(Buggy {
            feed,
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::Watch], &sabotage);
}

#[test]
fn the_checker_catches_a_store_that_does_not_check_what_was_remembered_of_invalidations() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            twist: Box::new(|commit| commit.guard = None),
            ..Buggy::over(inner)
        })
    });
    catches(
        &[Promise::OwnerOnly, Promise::NoLateReport, Promise::InvalidateWins],
        &sabotage,
    );
}

#[test]
fn the_checker_catches_a_replica_that_goes_on_deciding_alone() {
    let sabotage = Sabotage {
        never_regained: true,
        ..Sabotage::none()
    };
    // Its watchers hear nothing more, either.
    catches(&[Promise::Degraded, Promise::Watch], &sabotage);
}

#[test]
fn the_checker_catches_places_that_nobody_counts() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            places: Places::WithoutEnd,
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::Budget], &sabotage);
}

#[test]
fn the_checker_catches_places_that_are_not_given_back() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            places: Places::NeverFree,
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::NoMissedWake, Promise::NoStuckKey], &sabotage);
}

#[test]
fn the_checker_catches_refreshes_that_are_offered_late() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            loses_tasks: true,
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::Schedule], &sabotage);
}

#[test]
fn the_checker_catches_refreshes_of_what_was_invalidated() {
    let sabotage = in_the_store(|inner| {
        let twist = |commit: &mut Commit| {
            let lease = commit.draft.as_ref().and_then(|draft| draft.lease.as_ref());
            if lease.is_some_and(|lease| lease.holder.starts_with('w')) {
                commit.guard = None;
            }
        };
        Arc::new(Buggy {
            twist: Box::new(twist),
            blind: Some(Mutex::default()),
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::Schedule], &sabotage);
}

#[test]
fn the_checker_catches_a_circuit_that_nobody_heeds() {
    let sabotage = in_the_store(|inner| {
        Arc::new(Buggy {
            circuit_reads_closed: true,
            ..Buggy::over(inner)
        })
    });
    catches(&[Promise::Circuit], &sabotage);
}
