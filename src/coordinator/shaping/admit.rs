//! What a grant must have before it is committed: a place in its namespace's budget, and the consent of its circuit.
//!
//! *Invariants.* A place is taken before the lease is granted and given back after it has ended, so there are never more leases than places. What
//! was taken for a grant that comes to nothing, because somebody else was faster, the store failed, or the caller has left, is given back by
//! dropping its [`Pass`]. Where the namespace has no limit and no circuit is open, nothing is asked and nothing is kept.
//!
//! *Order of the two*: the place first. A probe that then found no place would keep the circuit open for nothing.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::super::ask::Seen;
use super::super::{Coordinator, detach};
use super::circuits::Says;
use super::lines::Try;
use crate::decision::{Backoff, CircuitEffect, CircuitEvent, Class, Ending, Grant, Key, Lease, Policy, StoreTime};
use crate::store::{Budgeted, Budgeting, StoreError};

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
        // Whoever is first now asks at once, also where there is no place left: so it learns until when, and the store that it waits.
        self.leave_line(key);
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

    /// The lease was granted, `instead_of` another one that nobody had reported: what kept that one's place up goes. Its own place was taken
    /// for as long as is right, and may have been kept up by a renewal since.
    pub fn used(mut self, instead_of: Option<&Lease>) {
        if let Some(taken) = self.0.take()
            && let Some(gone) = instead_of.filter(|_| taken.place)
        {
            taken
                .coordinator
                .give_place_back(&taken.key, gone.secret, Duration::ZERO);
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
