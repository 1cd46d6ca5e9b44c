//! A parked caller's side: it waits for its reply until its own time is over, and leaves no lease behind when it goes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::flights::{Parking, Place, Reply, Waiter};
use super::{Acquire, Acquired, Coordinator, Error, Granting};
use crate::decision::{self, Answer, Ask, Busy, BusyCause, Decision, Key, Policy, Seq};
use crate::store::{Snapshot, Want};

impl Coordinator {
    /// Parks the caller until the lease `on` ends or its own wait is over; then `over` is what it gets, unless there is
    /// something better by then.
    pub(super) async fn park(
        self: &Arc<Self>,
        request: &Acquire,
        on: Seq,
        over: Box<Acquired>,
        policy: &Policy,
    ) -> Result<Acquired, Error> {
        let parked_at = Instant::now();
        let until = wait_ends(request, policy, parked_at);
        if until <= parked_at {
            return Ok(*over);
        }
        if self.is_draining() {
            return Err(Error::Draining);
        }
        let mut ask = request.ask.clone();
        ask.parked_on = ask.parked_on.or(on.is_some().then_some(on));
        let (waiter, reply) = Waiter::new(ask, on);
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
            Parking::KeyFull => return Ok(too_many(*over)),
        };
        let mut parked = Parked {
            coordinator: self.clone(),
            place,
            reply,
        };
        let acquired = match parked.reply_until(until).await {
            Ok(Reply::Answer(answer, bytes) | Reply::Lease(answer, bytes, _)) => {
                let bytes = answer.hit().and(bytes);
                Ok(Acquired {
                    answer,
                    bytes,
                    degraded: false,
                    waited: Duration::ZERO,
                })
            }
            Ok(Reply::Replaced) => Ok(busy(BusyCause::WaitElapsed)),
            Ok(Reply::Draining) => Err(Error::Draining),
            Err(ask) => Box::pin(self.wait_is_over(&request.key, &ask, *over, policy)).await,
        };
        acquired.map(|acquired| Acquired {
            waited: parked_at.elapsed(),
            ..acquired
        })
    }

    /// One last look: what ended a moment ago counts. Not later than the answer is due.
    async fn wait_is_over(
        self: &Arc<Self>,
        key: &Key,
        ask: &Ask,
        over: Acquired,
        policy: &Policy,
    ) -> Result<Acquired, Error> {
        let want = Want {
            bytes: !ask.omit_value,
            rings: false,
        };
        let load = self.store.load(key, decision::tags_asked(ask), want);
        let Ok(Ok(loaded)) = tokio::time::timeout(super::RETRY_SOON / 2, load).await else {
            return Ok(over);
        };
        match decision::acquire(&loaded.view(), ask, policy, self.dice.draw()) {
            Decision::Answer(answer @ Answer::Rebuild(_)) => match self.take_again(&loaded, answer).await? {
                Granting::Granted(answer, _) => Ok(Acquired::at_once(answer, &loaded)),
                Granting::Conflict(_) => Ok(over),
            },
            Decision::Answer(answer) => Ok(Acquired::at_once(answer, &loaded)),
            Decision::Wait(wait) => Ok(Acquired::at_once(wait.when_over, &loaded)),
            // Nobody is given a lease by a replica that is about to leave.
            Decision::Grant(_) if self.is_draining() => Err(Error::Draining),
            Decision::Grant(grant) if self.flights.get(key).is_some_and(|flight| flight.len() > 0) => {
                Ok(Acquired::at_once(decision::instead(*grant, self.dice.draw()), &loaded))
            }
            Decision::Grant(grant) => match self.grant(&loaded, ask, *grant, policy).await? {
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
    /// The reply; if the wait is over first, the caller has left the queue with its question.
    async fn reply_until(&mut self, until: Instant) -> Result<Reply, Box<Ask>> {
        let reply = match tokio::time::timeout_at(until, &mut self.reply).await {
            Ok(reply) => reply,
            Err(_) => match self.coordinator.flights.leave(&self.place) {
                Some(waiter) => return Err(Box::new(waiter.ask)),
                // Taken out of the queue at this very moment: the reply is on its way.
                None => (&mut self.reply).await,
            },
        };
        Ok(reply.unwrap_or(Reply::Draining))
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
fn too_many(mut over: Acquired) -> Acquired {
    if let Answer::Busy(busy) = &mut over.answer {
        busy.cause = BusyCause::TooManyWaiters;
    }
    over
}
