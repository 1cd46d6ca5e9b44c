//! A parked caller's side: it waits for its reply until its own time is over, and leaves no lease behind when it goes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::ask::{Asked, Waits};
use super::flights::{Farewell, Parking, Place, Reply, Waiter};
use super::grant::Granting;
use super::{Acquire, Acquired, Coordinator, Ended, Error};
use crate::decision::{self, Answer, Busy, BusyCause, Decision, Policy};
use crate::store::{Snapshot, Want};

/// How long a caller waits, wherever it is parked: it may be sent from one place to another.
#[derive(Default)]
pub(super) struct Patience {
    until: Option<Instant>,
    parked_at: Option<Instant>,
}

impl Patience {
    /// When its wait is over: its own, the policy's, or the RPC deadline's; counted from when it first came to that.
    pub(super) fn until(&mut self, request: &Acquire, policy: &Policy) -> Instant {
        *self.until.get_or_insert_with(|| {
            let own = Instant::now() + request.wait.unwrap_or(policy.max_wait).min(policy.max_wait);
            request.answer_by.map_or(own, |answer_by| own.min(answer_by))
        })
    }
}

impl Coordinator {
    /// Parks the caller until what it waits for ends or its own wait is over.
    pub(super) async fn park(
        self: &Arc<Self>,
        request: &Acquire,
        waits: Box<Waits>,
        policy: &Policy,
        patience: &mut Patience,
    ) -> Ended {
        let until = patience.until(request, policy);
        let parked_at = Instant::now();
        if until <= parked_at {
            return Ended::With(Ok(waits.when_over));
        }
        if let Some(farewell) = self.farewell() {
            return farewell.into();
        }
        let (waiter, reply) = Waiter::new(request.ask.clone(), waits.on, waits.is_held);
        let most = policy.max_waiters_per_key as usize;
        let place = match self.flights.park(&request.key, waiter, most) {
            Ok(Parking::Parked(place, is_new)) => {
                if is_new {
                    self.tasks.spawn(self.clone().fly(place.flight.clone()));
                }
                place
            }
            Ok(Parking::KeyFull) => return Ended::With(Ok(too_many(waits.when_over))),
            Err(error) => return Ended::With(Err(error)),
        };
        let since = *patience.parked_at.get_or_insert(parked_at);
        let mut parked = Parked {
            coordinator: self.clone(),
            place,
            reply,
        };
        let waiter = match parked.reply_until(until).await {
            Ok(reply) => return reply.ends(since),
            Err(waiter) => waiter,
        };
        let over = Acquired {
            answer: waits.when_over.answer.later(parked_at.elapsed()),
            waited: since.elapsed(),
            ..waits.when_over
        };
        Box::pin(self.wait_is_over(request, waiter, over, policy)).await
    }

    /// One last look: what ended a moment ago counts. Not later than the answer is due.
    async fn wait_is_over(
        self: &Arc<Self>,
        request: &Acquire,
        waiter: Box<Waiter>,
        over: Acquired,
        policy: &Policy,
    ) -> Ended {
        match self.last_look(request, *waiter, policy).await {
            Ok(Some(acquired)) => Ended::With(Ok(Acquired {
                waited: over.waited,
                ..acquired
            })),
            Ok(None) => Ended::With(Ok(over)),
            Err(error) => self.ended_with(&request.key, error),
        }
    }

    /// `None`: it came to nothing better.
    async fn last_look(
        self: &Arc<Self>,
        request: &Acquire,
        mut waiter: Waiter,
        policy: &Policy,
    ) -> Result<Option<Acquired>, Error> {
        let (key, ask) = (&request.key, &waiter.ask);
        let want = Want {
            bytes: !ask.omit_value,
            rings: false,
        };
        let load = self.see(key, decision::tags_asked(ask), want);
        let Ok(Ok(seen)) = tokio::time::timeout(super::RETRY_SOON / 2, load).await else {
            return Ok(None);
        };
        let view = seen.loaded.view();
        waiter.is_looked_at(view.newest_grant(), view.lease().is_some());
        let ask = &waiter.ask;
        let granting = match decision::acquire(&view, ask, policy, self.dice.draw()) {
            Decision::Answer(answer @ Answer::Rebuild(_)) => self.take_again(&seen, want.bytes, answer).await?,
            Decision::Answer(answer) => return Ok(Some(Acquired::at_once(answer, &seen.loaded))),
            Decision::Wait(wait) => return Ok(Some(Acquired::at_once(wait.when_over, &seen.loaded))),
            // Nobody is given a lease by a replica that is about to leave.
            Decision::Grant(_) if self.is_draining() => return Err(Error::Draining),
            Decision::Grant(grant) => match self.turn(key, self.store.recall(key).is_some()) {
                Ok(turn) => self.grant(&seen, *grant, policy, want.bytes, turn).await?,
                Err(_) => match self.behind(key, ask, *grant, &seen) {
                    Asked::Answered(acquired) => return Ok(Some(acquired)),
                    Asked::Waits(waits) => return Ok(Some(waits.when_over)),
                },
            },
        };
        match granting {
            Granting::Granted(answer, _) => Ok(Some(Acquired::at_once(answer, &seen.loaded))),
            Granting::Conflict(_) => Ok(None),
            Granting::HeldBack(held_back, grant) => Ok(Some(match self.held_back(held_back, *grant, &seen) {
                Asked::Answered(acquired) => acquired,
                Asked::Waits(waits) => waits.when_over,
            })),
        }
    }
}

impl Reply {
    /// How it ends the question of a caller who has been parked since then.
    fn ends(self, since: Instant) -> Ended {
        let acquired = match self {
            Reply::Answer(answer, bytes) | Reply::Lease(answer, bytes, _) => Acquired {
                bytes: answer.hit().and(bytes),
                answer,
                degraded: false,
                waited: Duration::ZERO,
                hint: None,
            },
            Reply::Replaced => busy(BusyCause::WaitElapsed),
            Reply::Farewell(farewell) => return farewell.into(),
        };
        Ended::With(Ok(Acquired {
            waited: since.elapsed(),
            ..acquired
        }))
    }
}

impl From<Farewell> for Ended {
    fn from(farewell: Farewell) -> Ended {
        match farewell {
            Farewell::Draining => Ended::With(Err(Error::Draining)),
            Farewell::Lost(error) => Ended::Lost(error),
            Farewell::Back => Ended::Back,
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
    async fn reply_until(&mut self, until: Instant) -> Result<Reply, Box<Waiter>> {
        let reply = match tokio::time::timeout_at(until, &mut self.reply).await {
            Ok(reply) => reply,
            Err(_) => match self.coordinator.flights.leave(&self.place) {
                Some(waiter) => return Err(Box::new(waiter)),
                // Taken out of the queue at this very moment: the reply is on its way.
                None => (&mut self.reply).await,
            },
        };
        Ok(reply.unwrap_or(Reply::Farewell(Farewell::Draining)))
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
        hint: None,
    }
}

/// What a caller gets that would have been parked, had there been room.
fn too_many(mut over: Acquired) -> Acquired {
    if let Answer::Busy(busy) = &mut over.answer {
        busy.cause = BusyCause::TooManyWaiters;
    }
    over
}
