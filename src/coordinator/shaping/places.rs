//! Places of rebuild budgets once they are taken: kept up, given back, left to those who wait; and whose turn it is then.
//!
//! *Invariants.* Each end of a lease is told here once its commit is known ([`Coordinator::lease_ended`]): a report, a lease that was given up or revoked. The
//! end of a lease's time is the store's own. What is told costs the caller no trip: it goes on the side.
//!
//! *Renewing.* A lease may be renewed for longer or for a shorter time. Its place becomes longer before that is committed and shorter after, so it is
//! there for as long as the lease whatever becomes of the commit. Neither goes beyond the longest hold.
//!
//! *Inheriting.* A lease that ends without a result leaves its place to those who are parked for its key here; one of them is promoted. Parked
//! callers of another replica stand in that one's line. (Rejected: to leave it to them too, for they may be none, and the place would stand
//! empty meanwhile.)

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::super::Coordinator;
use super::super::ask::Seen;
use super::admit::GRACE;
use super::circuits::Says;
use super::lines::Next;
use crate::decision::{self, Answer, Ending, KeepOff, Key, LeaseId, Policy, StoreTime, TAKE_UP, When};
use crate::store::{Budgeting, Changed, StoreError};

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

impl Coordinator {
    /// A lease is to live until then instead of `before`: if that is longer, its place is kept up before it is committed. By when it must be.
    pub(in crate::coordinator) async fn keep_place(
        &self,
        seen: &Seen,
        lease: LeaseId,
        before: StoreTime,
        deadline: When,
    ) -> Result<StoreTime, StoreError> {
        let key = &seen.loaded.snapshot.key;
        if self.budget_of(key) == 0 {
            return Ok(StoreTime::NEVER);
        }
        let until = seen.loaded.now.after(seen.sent.elapsed() + GRACE);
        if deadline.resolve(until) <= before {
            return Ok(until);
        }
        let hold = Budgeting::Hold {
            length: deadline.after.unwrap_or_default() + GRACE,
            at_most: deadline.at_most.after(GRACE),
            instead_of: None,
        };
        match self.store.budget(key, lease.secret, hold).await {
            Ok(_) => Ok(until),
            Err(StoreError::Unknown(error)) => Err(StoreError::Unavailable(error)),
            Err(error) => Err(error),
        }
    }

    /// A lease was renewed at `now`: it was to live until `before`, and does until `deadline`. If that is shorter, so is its place from now on; not
    /// earlier, for had the commit failed, the lease would have outlived it.
    pub(in crate::coordinator) async fn lease_renewed(
        self: &Arc<Self>,
        key: &Key,
        lease: LeaseId,
        before: StoreTime,
        deadline: StoreTime,
        now: StoreTime,
    ) {
        self.circuit_hears_renewed(key, deadline.since(now), now);
        if deadline >= before || self.budget_of(key) == 0 {
            return;
        }
        let hold = Budgeting::Hold {
            length: deadline.since(now) + GRACE,
            at_most: deadline.after(GRACE),
            instead_of: None,
        };
        // Before the holder is told, and may renew for longer.
        if let Err(error) = self.store.budget(key, lease.secret, hold).await {
            tracing::debug!(?key, %error, "a place was not shortened with its lease; it comes back with the time that it had");
        }
    }

    /// A lease has ended: its place is free or left to those who wait for the key, and the circuit is told.
    pub(in crate::coordinator) fn lease_ended(self: &Arc<Self>, key: &Key, lease: LeaseId, end: End, now: StoreTime) {
        if self.budget_of(key) > 0 {
            let inherited = end == End::Vacated && self.flights.has_heirs(key);
            if inherited {
                self.leave_place_to_next(key, lease);
            } else {
                self.nobody_inherits(key);
                self.give_place_back(key, lease.secret, Duration::ZERO);
            }
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

    /// Those who wait for the key may take the place over. If they have left before that is told, it is free: what they told of their leaving
    /// may have come first.
    fn leave_place_to_next(self: &Arc<Self>, key: &Key, lease: LeaseId) {
        self.shaping.lines.left_to_next(key);
        let (coordinator, key) = (self.clone(), key.clone());
        self.on_the_side(async move {
            let left = Budgeting::GiveBack { left_for: TAKE_UP };
            coordinator.budget_in_turn(&key, lease.secret, left).await;
            if !coordinator.shaping.lines.is_left(&key) {
                coordinator
                    .budget_in_turn(&key, NonZeroU64::MIN, Budgeting::Leave)
                    .await;
            }
        });
    }

    pub(super) fn give_place_back(self: &Arc<Self>, key: &Key, lease: NonZeroU64, left_for: Duration) {
        self.budget_on_the_side(key, lease, Budgeting::GiveBack { left_for });
    }

    pub(super) fn budget_on_the_side(self: &Arc<Self>, key: &Key, lease: NonZeroU64, what: Budgeting) {
        let (coordinator, key) = (self.clone(), key.clone());
        self.on_the_side(async move { coordinator.budget_in_turn(&key, lease, what).await });
    }

    async fn budget_in_turn(&self, key: &Key, lease: NonZeroU64, what: Budgeting) {
        match self.store.budget(key, lease, what).await {
            Ok(budgeted) => {
                self.shaping.lines.saw(key.namespace(), budgeted.taken);
                self.place_freed(key.namespace());
            }
            Err(error) => tracing::debug!(?key, %error, "a place was not given back; it comes back with its time"),
        }
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
        let Answer::KeepOff(own) = answer else {
            return answer;
        };
        let now = seen.loaded.now.after(seen.sent.elapsed());
        match self.kept_off(&seen.loaded.snapshot.key, Some(own.clone()), now, policy) {
            Some(keep_off) => Answer::KeepOff(keep_off),
            None => Answer::KeepOff(own),
        }
    }

    /// What keeps callers off a key, beside its `own` failures.
    pub(in crate::coordinator) fn kept_off(
        self: &Arc<Self>,
        key: &Key,
        own: Option<KeepOff>,
        now: StoreTime,
        policy: &Policy,
    ) -> Option<KeepOff> {
        let circuit = match self.circuit_says(key, now, &policy.backoff) {
            Says::KeepOff(pause) => Some(pause),
            Says::Go => None,
        };
        decision::kept_off(own, circuit, self.dice.draw())
    }

    pub(super) fn place_freed(&self, namespace: &str) {
        self.ring_next(self.shaping.lines.freed(namespace, |other| self.is_waited(other)));
    }

    pub(super) fn ring_next(&self, next: Option<Next>) {
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

    pub(super) fn is_waited(&self, key: &Key) -> bool {
        self.flights.get(key).is_some()
    }

    pub(super) fn budget_of(&self, key: &Key) -> u32 {
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
