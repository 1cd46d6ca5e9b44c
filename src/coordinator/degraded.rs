//! What a replica does while its store does not answer, and when it answers again.
//!
//! *Owns* which partitions are lost; for each of them a coordinator of its own over an embedded store, which decides alone; and the
//! pace at which grants come back. *Never* lets anything of that coordinator out as if it were the store's: its answers are marked and
//! have no numbers, its leases are known by their ids.
//!
//! *Invariants.* A partition is lost from when the feed says so until it says that it is regained; meanwhile no question goes to the
//! store. Before that, a single call that finds no store is decided alone too. What was decided alone is dropped as soon as the
//! partition is regained, and whoever is parked there asks the store; so nothing of it is served afterwards.
//! Where the feed never said that it was lost, it is dropped by the first answer of the store after a second without a failure:
//! a store that fails every other call must not let every caller rebuild.
//!
//! *A store that is full* can take no grant. That is decided alone too: else every caller of a missing key were sent to the origin,
//! which is what drover is for to prevent. (The embedded store is in this process; it can't be lost, and where it is full a second one
//! beside it has no more room.)

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::flights::{Farewell, Flights, Turn};
use super::parked::Patience;
use super::{Acquire, Acquired, Coordinator, Ended, Error, Renew, Renewed, ReportValue, Reported};
use crate::decision::{Key, LostReason, Policy, Reentry, Rejection, ReportAnswer, StoreDown, StoreTime};
use crate::fanout::{Hub, HubLimits, Listener, Record, ResetReason};
use crate::store::memory::{Limits, Memory};
use crate::store::{Clock, Store as _, StoreError};

/// Of what is decided alone, one partition: it lives for seconds, so there is never much.
const ROOM: Limits = Limits {
    entries: 100_000,
    bytes: 64 << 20,
};
/// A store that has not failed for so long, and answers, is there.
const CALM: Duration = Duration::from_secs(1);

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

    /// The store has answered about a key.
    pub fn answered(&self, coordinator: &Coordinator, key: &Key) {
        let calm = |loss: &mut Loss| {
            let calm = !loss.lost && loss.failed.is_none_or(|failed| failed.elapsed() >= CALM);
            calm.then(|| loss.alone.take()).flatten()
        };
        if let Some(alone) = self.of(coordinator, key, calm).flatten() {
            alone.close();
            self.tidy();
        }
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

/// The loss itself.
impl Coordinator {
    /// How a question ends that met an error: elsewhere, if it is the store that is lost.
    pub(super) fn ended_with(&self, key: &Key, error: Error) -> Ended {
        match error {
            Error::Store(error) if self.is_loss(key, &error) => Ended::Lost(error),
            error => Ended::With(Err(error)),
        }
    }

    /// Whether an error of the store is one that this replica may make up for by deciding alone.
    pub(super) fn is_loss(&self, key: &Key, error: &StoreError) -> bool {
        match error {
            StoreError::Unavailable(_) => !self.is_alone,
            StoreError::Full(_) => !self.is_alone && self.store.recall(key).is_some(),
            StoreError::Unknown(_) => false,
        }
    }

    /// Goes on with a question where it can be decided, until it is.
    pub(super) async fn acquire_elsewhere(
        self: &Arc<Self>,
        request: &Acquire,
        policy: &Policy,
        mut patience: Patience,
        mut ended: Ended,
    ) -> Result<Acquired, Error> {
        loop {
            ended = match ended {
                Ended::With(result) => return result,
                Ended::Back => self.acquire_from_store(request, policy, &mut patience).await,
                Ended::Lost(error) if policy.store_down == StoreDown::Refuse => return Err(error.into()),
                Ended::Lost(_) => self.acquire_alone(request, policy, &mut patience).await,
            };
        }
    }

    async fn acquire_alone(self: &Arc<Self>, request: &Acquire, policy: &Policy, patience: &mut Patience) -> Ended {
        let alone = self.alone(&request.key);
        let request = Acquire {
            ask: request.ask.degraded(),
            ..request.clone()
        };
        match alone.acquire_from_store(&request, &policy.degraded(), patience).await {
            Ended::With(Ok(acquired)) => Ended::With(Ok(Acquired {
                answer: acquired.answer.degraded(),
                degraded: true,
                ..acquired
            })),
            Ended::Lost(error) => Ended::With(Err(error.into())),
            ended => ended,
        }
    }

    /// Who decides alone about a key, from now on if nobody did.
    fn alone(self: &Arc<Self>, key: &Key) -> Arc<Coordinator> {
        let partition = self.store.partition(key);
        self.losses.change(partition, |loss| {
            loss.failed = Some(Instant::now());
            loss.alone
                .get_or_insert_with(|| {
                    tracing::warn!(
                        partition,
                        "the store does not answer: this replica decides alone, where policies allow it"
                    );
                    self.alone_beside()
                })
                .clone()
        })
    }

    /// A coordinator over a store of its own, which ends with this one. Its clock need not be right: no number of it leaves.
    fn alone_beside(self: &Arc<Self>) -> Arc<Coordinator> {
        let memory = Memory::with_clock(ROOM, Clock::start_at(StoreTime(1)));
        let alone = Arc::new(Coordinator {
            hub: Hub::new(memory.feed(), HubLimits::default()),
            policies: self.policies.clone(),
            flights: Arc::new(Flights::new(self.flights.most())),
            dice: self.dice.degraded(),
            draining: self.draining.clone(),
            tasks: self.tasks.clone(),
            losses: Losses::default(),
            is_alone: true,
            closed: AtomicBool::new(false),
            store: memory,
        });
        alone.store.feed().listen(Arc::new(Ears::of(&alone)));
        alone
    }

    /// The store answers again: whoever is parked here asks it.
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.flights.ring_all(|_| true);
    }

    /// How those end who are parked where nobody is to be parked any more.
    pub(super) fn farewell(&self) -> Option<Farewell> {
        if self.is_draining() {
            Some(Farewell::Draining)
        } else if self.closed.load(Ordering::Acquire) {
            Some(Farewell::Back)
        } else {
            None
        }
    }

    fn lose(&self, partition: u16) {
        self.losses.change(partition, |loss| {
            loss.lost = true;
            loss.reentry = None;
        });
        self.flights.ring_all(|key| self.store.partition(key) == partition);
    }

    fn regain(&self, partition: u16) {
        let draw = self.dice.draw();
        let alone = self.losses.change(partition, |loss| {
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
        if let Some(alone) = alone {
            tracing::info!(partition, "the store answers again: what was decided alone is dropped");
            alone.close();
        }
        self.losses.tidy();
    }

    /// Takes the report of a lease that a replica granted alone: this one, and for as long as it does.
    pub(super) async fn report_alone(self: &Arc<Self>, request: ReportValue) -> Result<Reported, Error> {
        let alone = self.losses.of(self, &request.key, |loss| loss.alone.clone()).flatten();
        let Some(alone) = alone else {
            return Ok(Reported {
                answer: ReportAnswer::Rejected(Rejection::UnknownLease),
                degraded: false,
            });
        };
        let request = ReportValue {
            report: request.report.degraded(),
            ..request
        };
        let reported = Box::pin(alone.report(request)).await?;
        Ok(Reported {
            answer: reported.answer.degraded(),
            degraded: true,
        })
    }

    /// Renews such a lease.
    pub(super) async fn renew_alone(self: &Arc<Self>, request: Renew) -> Result<Renewed, Error> {
        let alone = self.losses.of(self, &request.key, |loss| loss.alone.clone()).flatten();
        match alone {
            Some(alone) => Box::pin(alone.renew(request)).await,
            None => Ok(Renewed {
                lost: Some(LostReason::UnknownLease),
                ttl: Duration::ZERO,
                max_hold: Duration::ZERO,
            }),
        }
    }
}

/// A coordinator's place among the listeners of a feed, which does not keep it alive: it keeps the store that keeps the feed.
pub(super) struct Ears {
    flights: Arc<Flights>,
    coordinator: std::sync::Weak<Coordinator>,
}

impl Ears {
    pub fn of(coordinator: &Arc<Coordinator>) -> Ears {
        Ears {
            flights: coordinator.flights.clone(),
            coordinator: Arc::downgrade(coordinator),
        }
    }
}

impl Listener for Ears {
    fn rung(&self, key: &Key) {
        self.flights.ring(key);
    }

    fn logged(&self, _: &Record) {}

    fn reset(&self, _: ResetReason) {
        // Rings may have been lost with the log.
        self.flights.ring_all(|_| true);
    }

    fn lost(&self, partition: u16) {
        if let Some(coordinator) = self.coordinator.upgrade() {
            coordinator.lose(partition);
        }
    }

    fn regained(&self, partition: u16) {
        if let Some(coordinator) = self.coordinator.upgrade() {
            coordinator.regain(partition);
        }
    }
}
