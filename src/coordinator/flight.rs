//! Looking after the parked callers of one key, for as long as there are any.
//!
//! A task a key. It loads the entry when it is rung for, when the lease's time is over, and once a second in any case, and asks
//! `decision` what each parked caller gets. So a lost ring costs a second and never a wake-up.
//!
//! *Invariant.* A caller is judged by a load that was sent after it had parked: the report that commits between a caller's own load and its
//! parking would otherwise ring before there is anybody to hear it. Whoever parks rings, and the task takes note of who is
//! parked *before* it loads.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::flights::{Flight, Judgement, Reply, Walk};
use super::{Coordinator, Granting, RETRY_SOON};
use crate::decision::{self, Answer, Ask, Decision, Grant, Intent, Policy, Seq};
use crate::store::{Loaded, StoreError, Want};

/// While callers are parked, their key is loaded at least this often.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);

impl Coordinator {
    /// Looks after a flight until nobody is parked in it any more.
    pub(super) async fn fly(self: Arc<Self>, flight: Arc<Flight>) {
        loop {
            let look_again = self.look(&flight).await;
            if self.flights.close(&flight) {
                return;
            }
            // Rung for, or time to look in any case: both are answered by looking.
            let _ = tokio::time::timeout_at(look_again, flight.bell.notified()).await;
        }
    }

    /// Loads the key once and answers whom it can. When to look again, unless rung for.
    async fn look(self: &Arc<Self>, flight: &Arc<Flight>) -> Instant {
        let cohort = flight.cohort();
        if self.is_draining() {
            self.dismiss(flight);
            return Instant::now() + AT_LEAST_EVERY;
        }
        let Some(policy) = self.policies.of(flight.key.namespace()) else {
            // The namespace has gone with a reload of the policy file: nobody may wait in it.
            self.dismiss(flight);
            return Instant::now() + AT_LEAST_EVERY;
        };
        match self
            .store
            .load(
                &flight.key,
                &[],
                Want {
                    bytes: true,
                    rings: true,
                },
            )
            .await
        {
            Ok(loaded) => self.serve(flight, cohort, loaded, &policy).await,
            Err(error) => {
                tracing::debug!(key = ?flight.key, %error, "could not look after parked callers; trying again");
                Instant::now() + RETRY_SOON
            }
        }
    }

    /// Gives each of the cohort what `loaded` has for it; where one may rebuild, the grant is committed and the rest are looked at
    /// anew. Those who only read come last: they wait for whoever rebuilds.
    async fn serve(self: &Arc<Self>, flight: &Arc<Flight>, cohort: u64, loaded: Loaded, policy: &Policy) -> Instant {
        let mut now = Now::new(loaded, Instant::now());
        loop {
            match self.walk(flight, cohort, &now, policy) {
                Walk::GoesOn(next) => {
                    now.from = next;
                    tokio::task::yield_now().await;
                }
                Walk::Done if !now.readers => (now.readers, now.from) = (true, 0),
                Walk::Done => break,
                Walk::Promote(ticket, ask, grant) => {
                    let sent = Instant::now();
                    match self.promote(flight, ticket, &ask, *grant, &now.loaded, policy).await {
                        Ok(loaded) => now = Now::new(loaded, sent),
                        Err(error) => return try_again(flight, &error),
                    }
                }
                Walk::TakeAgain(ticket, answer) => {
                    let sent = Instant::now();
                    match self.tell_again(flight, ticket, answer, &now.loaded).await {
                        Ok(loaded) => now = Now::new(loaded, sent),
                        Err(error) => return try_again(flight, &error),
                    }
                }
            }
        }
        let view = now.loaded.view();
        let lease = view.lease();
        if flight.saw(lease.map_or(Seq::NONE, |lease| lease.token), cohort) {
            return Instant::now();
        }
        // The lease's end, counted from when the load was sent, but not later than the regular look.
        let left = lease.map_or(AT_LEAST_EVERY, |lease| lease.deadline.since(view.now));
        now.sent + left.clamp(Duration::from_millis(1), AT_LEAST_EVERY)
    }

    fn walk(&self, flight: &Flight, cohort: u64, now: &Now, policy: &Policy) -> Walk {
        let view = now.loaded.view();
        let lease = view.lease().map(|lease| lease.token);
        flight.walk(&self.flights, now.from, cohort, |waiter| {
            if lease == Some(waiter.on) || (!now.readers && waiter.ask.intent == Intent::Read) {
                return Judgement::Stays(waiter.on);
            }
            match decision::acquire(&view, &waiter.ask, policy, self.dice.draw()) {
                Decision::Wait(wait) => Judgement::Stays(wait.on),
                Decision::Answer(answer @ Answer::Rebuild(_)) => Judgement::TakeAgain(answer),
                Decision::Answer(answer) => Judgement::Gets(Reply::Answer(answer, now.loaded.snapshot.bytes.clone())),
                // Whoever has left needs no lease.
                Decision::Grant(_) if waiter.is_gone() => Judgement::Gets(Reply::Answer(Answer::Miss, None)),
                Decision::Grant(grant) => Judgement::Promote(grant),
            }
        })
    }

    /// Grants the lease to a parked caller; if that one has left meanwhile, gives it back, so that the next is promoted at once. How the
    /// entry is now.
    async fn promote(
        self: &Arc<Self>,
        flight: &Flight,
        ticket: u64,
        ask: &Ask,
        grant: Grant,
        before: &Loaded,
        policy: &Policy,
    ) -> Result<Loaded, StoreError> {
        match self.grant(before, ask, grant, policy).await? {
            Granting::Conflict(now) => Ok(now),
            Granting::Granted(answer, after) => {
                let bytes = before.snapshot.bytes.clone();
                let reply = Reply::Lease(answer, bytes, after.snapshot.clone());
                if !flight.answer(&self.flights, ticket, reply) {
                    self.give_back(&after.snapshot).await;
                    flight.bell.notify_one();
                }
                Ok(after)
            }
        }
    }

    /// Tells a parked caller of the lease that another try at its question has. How the entry is now.
    async fn tell_again(
        &self,
        flight: &Flight,
        ticket: u64,
        answer: Answer,
        before: &Loaded,
    ) -> Result<Loaded, StoreError> {
        match self.take_again(before, answer).await? {
            Granting::Conflict(now) => Ok(now),
            Granting::Granted(answer, after) => {
                let reply = Reply::Answer(answer, before.snapshot.bytes.clone());
                // Whoever has left leaves the lease to that other try.
                let _ = flight.answer(&self.flights, ticket, reply);
                Ok(after)
            }
        }
    }

    /// Tells everybody in a flight to ask elsewhere.
    fn dismiss(&self, flight: &Flight) {
        let mut from = 0;
        while let Walk::GoesOn(next) = flight.walk(&self.flights, from, u64::MAX, |_| Judgement::Gets(Reply::Draining))
        {
            from = next;
        }
    }
}

fn try_again(flight: &Flight, error: &StoreError) -> Instant {
    tracing::debug!(key = ?flight.key, %error, "could not promote a parked caller; trying again");
    Instant::now() + RETRY_SOON
}

/// How far the task is with a load.
struct Now {
    loaded: Loaded,
    /// When it was asked for.
    sent: Instant,
    /// Whether it is the turn of those who only read.
    readers: bool,
    /// The next ticket.
    from: u64,
}

impl Now {
    fn new(loaded: Loaded, sent: Instant) -> Now {
        Now {
            loaded,
            sent,
            readers: false,
            from: 0,
        }
    }
}
