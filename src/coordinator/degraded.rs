//! What a replica does while its store does not answer, and when it answers again.
//!
//! *Owns*, for each partition that is lost, a coordinator of its own over an embedded store, which decides alone. *Never* lets anything of that coordinator out as if it were the store's: its answers are marked and
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

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use super::demand::Demand;
use super::flights::{Farewell, Flights};
use super::losses::{CALM, Losses};
use super::parked::Patience;
use super::refresh::Fleet;
use super::shaping::Shaping;
use super::workers::Workers;
use super::{Acquire, Acquired, Coordinator, Ended, Error, Renew, Renewed, ReportValue, Reported};
use crate::decision::{Key, LostReason, Policy, Rejection, ReportAnswer, StoreDown, StoreTime};
use crate::fanout::{Hub, HubLimits, Listener, Record, ResetReason};
use crate::store::memory::{Limits, Memory};
use crate::store::{Changed, Clock, Store as _, StoreError, Want};

/// Of what is decided alone, one partition: it lives for seconds, so there is never much.
const ROOM: Limits = Limits {
    entries: 100_000,
    bytes: 64 << 20,
};
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
                Ended::Lost(error) => self.acquire_alone(request, policy, &mut patience, &error).await,
            };
        }
    }

    async fn acquire_alone(
        self: &Arc<Self>,
        request: &Acquire,
        policy: &Policy,
        patience: &mut Patience,
        why: &StoreError,
    ) -> Ended {
        let alone = self.alone(&request.key, why);
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
    fn alone(self: &Arc<Self>, key: &Key, why: &StoreError) -> Arc<Coordinator> {
        let partition = self.store.partition(key);
        let (alone, is_new) = self.losses.failed(partition, || self.alone_beside());
        if is_new {
            tracing::warn!(partition, %why, "this replica decides alone, where policies allow it");
            self.tasks.spawn(self.clone().look_out(key.clone()));
        }
        alone
    }

    /// Asks the store about a key now and then, until nobody decides alone about it any more. Where the feed knows of the loss, it
    /// will say when that is over; where single calls failed, nobody else might ask.
    async fn look_out(self: Arc<Self>, key: Key) {
        while self.losses.alone(&self, &key).is_some() {
            tokio::select! {
                () = self.draining.cancelled() => return,
                () = tokio::time::sleep(CALM) => {}
            }
            if self.losses.is_calm(&self, &key) {
                // What it answers does not matter, but that it does.
                let _ = self.see(&key, &[], Want::default()).await;
            }
        }
    }

    /// The store has answered about a key.
    pub(super) fn store_answered(&self, key: &Key) {
        if let Some(alone) = self.losses.answered(self, key) {
            alone.close();
        }
    }

    /// A coordinator over a store of its own, which ends with this one. Its clock need not be right: no number of it leaves.
    fn alone_beside(self: &Arc<Self>) -> Arc<Coordinator> {
        let memory = Memory::with_clock(ROOM, Clock::start_at(StoreTime(1)));
        let alone = Arc::new(Coordinator {
            hub: Hub::new(memory.feed(), HubLimits::default()),
            policies: self.policies.clone(),
            flights: Arc::new(Flights::new(self.flights.most())),
            dice: self.dice.degraded(),
            shaping: Shaping::new(&self.dice),
            draining: self.draining.clone(),
            tasks: self.tasks.clone(),
            losses: Losses::default(),
            replica: self.replica,
            workers: Workers::new(),
            fleet: Fleet::default(),
            demand: Demand::default(),
            news: OnceLock::new(),
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
        self.losses.lose(partition);
        self.flights.ring_all(|key| self.store.partition(key) == partition);
    }

    fn regain(&self, partition: u16) {
        if let Some(alone) = self.losses.regain(partition, self.dice.draw()) {
            tracing::info!(partition, "the store answers: what was decided alone is dropped");
            alone.close();
        }
    }

    /// Takes the report of a lease that a replica granted alone: this one, and for as long as it does.
    pub(super) async fn report_alone(self: &Arc<Self>, request: ReportValue) -> Result<Reported, Error> {
        let Some(alone) = self.losses.alone(self, &request.key) else {
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
        match self.losses.alone(self, &request.key) {
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
    workers: Arc<Workers>,
    coordinator: Weak<Coordinator>,
}

impl Ears {
    pub fn of(coordinator: &Arc<Coordinator>) -> Ears {
        Ears {
            flights: coordinator.flights.clone(),
            workers: coordinator.workers.clone(),
            coordinator: Arc::downgrade(coordinator),
        }
    }
}

impl Listener for Ears {
    fn due(&self, _: &str) {
        self.workers.ring();
    }

    fn rung(&self, key: &Key) {
        match Changed::read(key) {
            None => {
                self.flights.ring(key);
                self.workers.rung_for(key);
            }
            Some((changed, namespace)) => {
                if let Some(coordinator) = self.coordinator.upgrade() {
                    coordinator.namespace_rung(changed, namespace);
                }
            }
        }
    }

    fn logged(&self, _: &Record) {}

    fn reset(&self, _: ResetReason) {
        // Rings may have been lost with the log.
        self.flights.ring_all(|_| true);
        self.workers.rung_for_all();
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
