//! What a grant must have before it is committed: a place in its namespace's budget, and the consent of its circuit.
//!
//! *Invariants.* A place is taken before the lease is granted and given back after it has ended, so there are never more leases than places. What
//! was taken for a grant that comes to nothing, because somebody else was faster, the store failed, or the caller has left, is given back by
//! dropping its [`Pass`]. Where the namespace has no limit and no circuit is open, nothing is asked and nothing is kept.
//!
//! *Inheriting.* A lease that ends without a result leaves its place to those who are parked for its key here; one of them is promoted. Parked
//! callers of another replica stand in that one's line. (Rejected: to leave it to them too, for they may be none, and the place would stand
//! empty meanwhile.)
//!
//! *Order of the two*: the place first. A probe that then found no place would keep the circuit open for nothing.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::super::ask::Seen;
use super::super::{Coordinator, detach};
use super::circuits::Says;
use super::lines::{Next, Try};
use crate::decision::{
    self, Answer, Backoff, CircuitEffect, CircuitEvent, Class, Ending, Grant, KeepOff, Key, Lease, LeaseId, Policy,
    StoreTime, TAKE_UP,
};
use crate::store::{Budgeted, Budgeting, Changed, StoreError};

/// A place comes back so much later than its lease's time is over. Those who are parked for the key are promoted then; and the commit of its
/// grant, which begins the lease's time, comes after the place was taken: within so much, or the store refuses it.
pub(in crate::coordinator) const GRACE: Duration = Duration::from_millis(250);

/// Why nothing is granted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) enum HeldBack {
    /// As many rebuilds run as may. It is worth trying again after so long, unless rung for.
    NoPlace(Duration),
    /// The circuit is open, for so long.
    CircuitOpen(Duration),
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) enum End {
    /// With something, or the fact that there is nothing.
    Succeeded,
    /// With an error.
    Failed,
    /// Without a result: given up, or revoked. One of those who wait takes over.
    Vacated,
}

/// What a grant has taken. Dropped, it is given back.
pub(in crate::coordinator) struct Pass(Option<Taken>);

struct Taken {
    coordinator: Arc<Coordinator>,
    key: Key,
    lease: NonZeroU64,
    /// It has a place.
    place: bool,
    /// It is the probe of an open circuit.
    probe: bool,
    /// The store's time before anything was taken.
    now: StoreTime,
}

/// A grant to be, as far as it matters here.
struct Candidate {
    key: Key,
    lease: NonZeroU64,
    class: Class,
    length: Duration,
    /// Its key may have a place already.
    takes_over: bool,
    limit: u32,
    backoff: Backoff,
    now: StoreTime,
}

impl Coordinator {
    /// Takes what a grant needs. It is finished even if its caller leaves, and then given back.
    pub(in crate::coordinator) async fn admit(
        self: &Arc<Self>,
        seen: &Seen,
        grant: &Grant,
        policy: &Policy,
    ) -> Result<Result<Pass, HeldBack>, StoreError> {
        let limit = policy.max_concurrent_rebuilds;
        if limit == 0 && !self.shaping.circuits.is_any() {
            return Ok(Ok(Pass(None)));
        }
        let Some(lease) = grant.draft.lease.as_deref() else {
            return Ok(Ok(Pass(None)));
        };
        let candidate = Candidate {
            key: seen.loaded.snapshot.key.clone(),
            lease: lease.secret,
            class: Class::of(grant),
            length: lease.deadline.after.unwrap_or(policy.lease_ttl),
            takes_over: grant.supersedes.is_some() || grant.cause == crate::decision::Cause::Takeover,
            limit,
            backoff: policy.backoff,
            now: seen.loaded.now.after(seen.sent.elapsed()),
        };
        let coordinator = self.clone();
        let admitting = async move { coordinator.admit_candidate(candidate).await };
        detach::finish(&self.tasks, admitting, drop).await
    }

    async fn admit_candidate(self: &Arc<Self>, candidate: Candidate) -> Result<Result<Pass, HeldBack>, StoreError> {
        if let Says::KeepOff(pause) = self.circuit_says(&candidate.key, candidate.now, &candidate.backoff) {
            return Ok(Err(HeldBack::CircuitOpen(pause)));
        }
        let mut taken = Taken {
            coordinator: self.clone(),
            key: candidate.key.clone(),
            lease: candidate.lease,
            place: false,
            probe: false,
            now: candidate.now,
        };
        if candidate.limit > 0 {
            if let Some(again) = self.take_place(&candidate).await? {
                return Ok(Err(HeldBack::NoPlace(again)));
            }
            taken.place = true;
        }
        let mut pass = Pass(Some(taken));
        if self.shaping.circuits.is_open(candidate.key.namespace()) {
            let asked = CircuitEvent::Asked(&candidate.key, candidate.length);
            let stepped = self.step_circuit(candidate.key.namespace(), asked, candidate.now, &candidate.backoff);
            match stepped.await? {
                CircuitEffect::Probe => pass.is_probe(),
                CircuitEffect::KeepOff(pause) => return Ok(Err(HeldBack::CircuitOpen(pause))),
                _ => {}
            }
        }
        Ok(Ok(pass))
    }

    /// `Some`: there is none, and after how long it is worth trying again.
    async fn take_place(self: &Arc<Self>, candidate: &Candidate) -> Result<Option<Duration>, StoreError> {
        let (key, lines) = (&candidate.key, &self.shaping.lines);
        let stands = self.flights.get(key).is_some_and(|flight| flight.len() > 0);
        let (freed, others) = match lines.may_try(key, candidate.class, stands, |other| self.is_waited(other)) {
            Try::Now { freed, others } => (freed, others),
            Try::NotYet(again) => {
                // Not a place of its own, but the one that its key may have.
                let heir = candidate.takes_over || lines.is_left(key);
                let inherits = heir && self.ask_for_place(candidate, 0, false).await?.has;
                if inherits {
                    lines.take_left(key);
                    self.leave_line(key);
                }
                return Ok((!inherits).then_some(again));
            }
        };
        let budgeted = self.ask_for_place(candidate, candidate.limit, others).await?;
        if !budgeted.has {
            return Ok(Some(lines.refused(key.namespace(), stands, freed, budgeted.next)));
        }
        lines.saw(key.namespace(), budgeted.taken);
        lines.take_left(key);
        let next = lines.leave(key, |other| self.is_waited(other));
        if budgeted.taken < candidate.limit {
            self.ring_next(next);
        }
        Ok(None)
    }

    async fn ask_for_place(
        self: &Arc<Self>,
        candidate: &Candidate,
        limit: u32,
        others_wait: bool,
    ) -> Result<Budgeted, StoreError> {
        let take = Budgeting::Take {
            limit,
            length: candidate.length + GRACE,
            others_wait,
        };
        match self.store.budget(&candidate.key, candidate.lease, take).await {
            // It may have been taken all the same.
            Err(StoreError::Unknown(error)) => {
                self.give_place_back(&candidate.key, candidate.lease, Duration::ZERO);
                Err(StoreError::Unavailable(error))
            }
            answer => answer,
        }
    }

    /// A lease is to live for so long from now: its place is kept up, before that is committed. Until when it must be.
    pub(in crate::coordinator) async fn keep_place(
        &self,
        seen: &Seen,
        lease: LeaseId,
        length: Duration,
    ) -> Result<StoreTime, StoreError> {
        let key = &seen.loaded.snapshot.key;
        if self.budget_of(key) == 0 {
            return Ok(StoreTime::NEVER);
        }
        let until = seen.loaded.now.after(seen.sent.elapsed() + GRACE);
        let hold = Budgeting::Hold {
            length: length + GRACE,
            instead_of: None,
        };
        match self.store.budget(key, lease.secret, hold).await {
            Ok(_) => Ok(until),
            Err(StoreError::Unknown(error)) => Err(StoreError::Unavailable(error)),
            Err(error) => Err(error),
        }
    }

    /// A lease was renewed.
    pub(in crate::coordinator) fn lease_renewed(self: &Arc<Self>, key: &Key, length: Duration, now: StoreTime) {
        self.circuit_hears_renewed(key, length, now);
    }

    /// A lease has ended: its place is free or left to those who wait for the key, and the circuit is told.
    pub(in crate::coordinator) fn lease_ended(self: &Arc<Self>, key: &Key, lease: LeaseId, end: End, now: StoreTime) {
        if self.budget_of(key) > 0 {
            let inherited = end == End::Vacated && self.flights.has_heirs(key);
            let left_for = if inherited { TAKE_UP } else { Duration::ZERO };
            if inherited {
                self.shaping.lines.left_to_next(key);
            } else {
                self.nobody_inherits(key);
            }
            self.give_place_back(key, lease.secret, left_for);
        }
        let ending = match end {
            End::Succeeded => Ending::Succeeded,
            End::Failed => Ending::Failed,
            End::Vacated => Ending::GivenUp,
        };
        self.circuit_hears(key, ending, now);
    }

    /// A lease is not there any more, and how it ended has been told.
    pub(in crate::coordinator) fn lease_is_gone(self: &Arc<Self>, key: &Key, lease: LeaseId) {
        if self.budget_of(key) > 0 {
            self.give_place_back(key, lease.secret, Duration::ZERO);
        }
    }

    fn give_place_back(self: &Arc<Self>, key: &Key, lease: NonZeroU64, left_for: Duration) {
        self.budget_on_the_side(key, lease, Budgeting::GiveBack { left_for });
    }

    fn budget_on_the_side(self: &Arc<Self>, key: &Key, lease: NonZeroU64, what: Budgeting) {
        let (coordinator, key) = (self.clone(), key.clone());
        self.on_the_side(async move {
            match coordinator.store.budget(&key, lease, what).await {
                Ok(budgeted) => {
                    coordinator.shaping.lines.saw(key.namespace(), budgeted.taken);
                    coordinator.place_freed(key.namespace());
                }
                Err(error) => tracing::debug!(?key, %error, "a place was not given back; it comes back with its time"),
            }
        });
    }

    /// Nobody is parked for a key any more, or those who are need no place.
    pub(in crate::coordinator) fn leave_line(&self, key: &Key) {
        self.ring_next(self.shaping.lines.leave(key, |other| self.is_waited(other)));
    }

    /// Those who were parked for a key have left: what was left to them is free.
    pub(in crate::coordinator) fn flight_is_over(self: &Arc<Self>, key: &Key) {
        self.leave_line(key);
        self.nobody_inherits(key);
    }

    /// Nobody who is parked for a key wants the place that was left to them: it is free.
    pub(in crate::coordinator) fn nobody_inherits(self: &Arc<Self>, key: &Key) {
        if self.shaping.lines.take_left(key) {
            self.budget_on_the_side(key, NonZeroU64::MIN, Budgeting::Leave);
        }
    }

    /// Whoever keeps off from a key whose rebuilds fail keeps off for as long as its namespace's circuit is open.
    pub(in crate::coordinator) fn with_circuit(
        self: &Arc<Self>,
        answer: Answer,
        seen: &Seen,
        policy: &Policy,
    ) -> Answer {
        let Answer::KeepOff(keep_off) = answer else {
            return answer;
        };
        let now = seen.loaded.now.after(seen.sent.elapsed());
        let (pause, circuit_open) = match self.circuit_says(&seen.loaded.snapshot.key, now, &policy.backoff) {
            Says::KeepOff(pause) => (decision::fan(pause, self.dice.draw()), true),
            Says::Go => (Duration::ZERO, false),
        };
        Answer::KeepOff(KeepOff {
            retry_after: keep_off.retry_after.max(pause),
            circuit_open,
            ..keep_off
        })
    }

    fn place_freed(&self, namespace: &str) {
        self.ring_next(self.shaping.lines.freed(namespace, |other| self.is_waited(other)));
    }

    fn ring_next(&self, next: Option<Next>) {
        match next {
            Some(Next::Key(key)) => self.flights.ring(&key),
            Some(Next::Tasks) => self.workers.ring(),
            None => {}
        }
    }

    /// How many tasks of a namespace are worth looking at; none, and for how long, where places of its budget are waited for.
    pub(in crate::coordinator) fn room_for_tasks(&self, namespace: &str) -> Result<usize, Duration> {
        match self
            .policies
            .of(namespace)
            .map_or(0, |policy| policy.max_concurrent_rebuilds)
        {
            0 => Ok(usize::MAX),
            limit => self
                .shaping
                .lines
                .room_for_tasks(namespace, limit)
                .map(|room| room as usize),
        }
    }

    /// Something has changed of a namespace, here or elsewhere.
    pub(in crate::coordinator) fn namespace_rung(self: &Arc<Self>, changed: Changed, namespace: &str) {
        match changed {
            Changed::Budget => self.place_freed(namespace),
            Changed::Circuit => self.look_at_circuit(namespace),
        }
    }

    fn is_waited(&self, key: &Key) -> bool {
        self.flights.get(key).is_some()
    }

    fn budget_of(&self, key: &Key) -> u32 {
        let policy = self.policies.of(key.namespace());
        policy.map_or(0, |policy| policy.max_concurrent_rebuilds)
    }

    /// Begins something that nobody waits for. What needs no trip is done when this returns.
    pub(super) fn on_the_side(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut future = Box::pin(future);
        let is_done = (&mut future).now_or_never().is_some();
        // At the very end there may be no runtime any more to finish it.
        if !is_done && tokio::runtime::Handle::try_current().is_ok() {
            self.tasks.spawn(future);
        }
    }
}

impl Pass {
    fn is_probe(&mut self) {
        if let Some(taken) = &mut self.0 {
            taken.probe = true;
        }
    }

    /// The grant must be committed before this: a replica that was stopped after it took a place finds it gone.
    pub fn until(&self) -> StoreTime {
        match &self.0 {
            Some(taken) if taken.place => taken.now.after(GRACE),
            _ => StoreTime::NEVER,
        }
    }

    /// The lease may have been granted: what was taken stays until its time.
    pub fn may_be_used(mut self) {
        self.0 = None;
    }

    /// The lease was granted at this time; `instead_of` another one, that nobody had reported.
    pub fn used(mut self, lease: &Lease, now: StoreTime, instead_of: Option<&Lease>) {
        let Some(taken) = self.0.take() else {
            return;
        };
        // Else the place was taken for as long as is right.
        if let Some(gone) = instead_of.filter(|_| taken.place) {
            let hold = Budgeting::Hold {
                length: lease.deadline.since(now) + GRACE,
                instead_of: Some(gone.secret),
            };
            taken.coordinator.budget_on_the_side(&taken.key, taken.lease, hold);
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Some(taken) = self.0.take() else {
            return;
        };
        let Taken { coordinator, key, .. } = &taken;
        if taken.place {
            coordinator.give_place_back(key, taken.lease, Duration::ZERO);
        }
        if taken.probe {
            coordinator.circuit_hears(key, Ending::GivenUp, taken.now);
        }
    }
}
