//! A parked caller's side: it waits for its reply until its own time is over, and leaves no lease behind when it goes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::flights::{Parking, Place, Reply, Waiter};
use super::{Acquire, Acquired, Coordinator, Error, Granting};
use crate::decision::{self, Answer, Busy, BusyCause, Decision, Grant, Policy, Seq};
use crate::store::{Loaded, Snapshot, Want};

impl Coordinator {
    /// Parks the caller until the lease `on` ends or its own wait is over; then `when_over` is what it gets, unless there is
    /// something better by then.
    pub(super) async fn park(
        self: &Arc<Self>,
        mut request: Acquire,
        on: Seq,
        when_over: Option<(Answer, Loaded)>,
        policy: &Policy,
    ) -> Result<Acquired, Error> {
        let parked_at = Instant::now();
        let until = wait_ends(&request, policy, parked_at);
        let over = when_over.map(|(answer, loaded)| Acquired::at_once(answer, &loaded));
        if until <= parked_at {
            return Ok(over.unwrap_or_else(|| busy(BusyCause::WaitElapsed)));
        }
        if self.is_draining() {
            return Err(Error::Draining);
        }
        request.ask.parked_on = request.ask.parked_on.or(on.is_some().then_some(on));
        let (waiter, reply) = Waiter::new(request.ask.clone(), on);
        let place = match self
            .flights
            .park(&request.key, waiter, policy.max_waiters_per_key as usize)?
        {
            Parking::Parked(place, is_new) => {
                if is_new {
                    self.tasks.spawn(self.clone().fly(place.flight.clone()));
                }
                place
            }
            Parking::KeyFull => return Ok(too_many(over)),
        };
        let mut parked = Parked {
            coordinator: self.clone(),
            place,
            reply,
        };
        let acquired = match parked.reply_until(until).await {
            Some(Reply::Answer(answer, bytes) | Reply::Lease(answer, bytes, _)) => {
                let bytes = answer.hit().and(bytes);
                Ok(Acquired {
                    answer,
                    bytes,
                    degraded: false,
                    waited: Duration::ZERO,
                })
            }
            Some(Reply::Replaced) => Ok(busy(BusyCause::WaitElapsed)),
            Some(Reply::Draining) => Err(Error::Draining),
            None => Box::pin(self.wait_is_over(&request, over, policy)).await,
        };
        acquired.map(|acquired| Acquired {
            waited: parked_at.elapsed(),
            ..acquired
        })
    }

    /// The caller could be granted the lease, but others wait for the same key: it stands at the end of their queue.
    pub(super) async fn queue(
        self: &Arc<Self>,
        request: Acquire,
        grant: Grant,
        loaded: Loaded,
        policy: &Policy,
    ) -> Result<Acquired, Error> {
        let instead = decision::instead(grant, self.dice.draw());
        self.park(request, Seq::NONE, Some((instead, loaded)), policy).await
    }

    /// One last look: what ended a moment ago counts. Not later than the answer is due.
    async fn wait_is_over(
        self: &Arc<Self>,
        request: &Acquire,
        over: Option<Acquired>,
        policy: &Policy,
    ) -> Result<Acquired, Error> {
        let over = over.unwrap_or_else(|| busy(BusyCause::WaitElapsed));
        let want = Want {
            bytes: !request.ask.omit_value,
            rings: false,
        };
        let load = self.store.load(&request.key, decision::tags_asked(&request.ask), want);
        let Ok(Ok(loaded)) = tokio::time::timeout(super::RETRY_SOON / 2, load).await else {
            return Ok(over);
        };
        match decision::acquire(&loaded.view(), &request.ask, policy, self.dice.draw()) {
            Decision::Answer(answer @ Answer::Rebuild(_)) => match self.take_again(&loaded, answer).await? {
                Granting::Granted(answer, _) => Ok(Acquired::at_once(answer, &loaded)),
                Granting::Conflict(_) => Ok(over),
            },
            Decision::Answer(answer) => Ok(Acquired::at_once(answer, &loaded)),
            Decision::Wait(wait) => Ok(Acquired::at_once(wait.when_over, &loaded)),
            Decision::Grant(grant) if self.flights.get(&request.key).is_some_and(|flight| flight.len() > 0) => {
                Ok(Acquired::at_once(decision::instead(*grant, self.dice.draw()), &loaded))
            }
            Decision::Grant(grant) => match self.grant(&loaded, &request.ask, *grant, policy).await? {
                Granting::Granted(answer, _) => Ok(Acquired::at_once(answer, &loaded)),
                Granting::Conflict(_) => Ok(over),
            },
        }
    }
}

/// A caller in a queue. Dropping it takes it out; a lease that was on its way to it is given back.
struct Parked {
    coordinator: Arc<Coordinator>,
    place: Place,
    reply: oneshot::Receiver<Reply>,
}

impl Parked {
    /// The reply; `None`: the wait is over, and the caller has left the queue.
    async fn reply_until(&mut self, until: Instant) -> Option<Reply> {
        let reply = match tokio::time::timeout_at(until, &mut self.reply).await {
            Ok(reply) => reply,
            Err(_) if self.coordinator.flights.leave(&self.place).is_some() => return None,
            // Taken out of the queue at this very moment: the reply is on its way.
            Err(_) => (&mut self.reply).await,
        };
        Some(reply.unwrap_or(Reply::Draining))
    }

    /// The lease of a reply that arrived and was not taken, as the entry has it.
    fn untaken(&mut self) -> Option<Arc<Snapshot>> {
        self.reply.close();
        match self.reply.try_recv() {
            Ok(Reply::Lease(_, _, granted)) => Some(granted),
            _ => None,
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.coordinator.flights.leave(&self.place);
        if let Some(granted) = self.untaken() {
            self.coordinator.give_back_later(granted);
        }
    }
}

/// When a caller's wait is over: its own, the policy's, or the RPC deadline's.
fn wait_ends(request: &Acquire, policy: &Policy, now: Instant) -> Instant {
    let own = now + request.wait.unwrap_or(policy.max_wait).min(policy.max_wait);
    request.answer_by.map_or(own, |answer_by| own.min(answer_by))
}

fn busy(cause: BusyCause) -> Acquired {
    let busy = Busy {
        retry_after: super::RETRY_SOON,
        lease_remaining: Duration::ZERO,
        cause,
    };
    Acquired {
        answer: Answer::Busy(busy),
        bytes: None,
        degraded: false,
        waited: Duration::ZERO,
    }
}

/// What a caller gets that would have been parked, had there been room.
fn too_many(over: Option<Acquired>) -> Acquired {
    let mut acquired = over.unwrap_or_else(|| busy(BusyCause::TooManyWaiters));
    if let Answer::Busy(busy) = &mut acquired.answer {
        busy.cause = BusyCause::TooManyWaiters;
    }
    acquired
}
