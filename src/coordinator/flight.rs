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

use super::ask::{Asked, Seen};
use super::flights::{Farewell, Flight, Judgement, Reply, Turn, Waiter, Walk};
use super::grant::Granting;
use super::shaping::HeldBack;
use super::{Coordinator, RETRY_SOON};
use crate::decision::{self, Answer, Decision, Grant, Intent, Key, Policy, Seq};
use crate::store::{StoreError, Want};

/// While callers are parked, their key is loaded at least this often.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// A store that does not answer for the second time in a row is lost, whatever its feed says.
const IN_A_ROW: u32 = 2;

/// What the task of a flight knows from one look to the next.
#[derive(Default)]
struct Care {
    /// When the queue's oldest may be granted the key, after a loss of the store.
    due: Option<Instant>,
    /// Looks that failed in a row.
    failures: u32,
    /// Since when nobody holds the lease, as far as was seen, and nobody here may.
    idle_since: Option<Instant>,
}

impl Coordinator {
    /// Looks after a flight until nobody is parked in it any more.
    pub(super) async fn fly(self: Arc<Self>, flight: Arc<Flight>) {
        let mut care = Care::default();
        loop {
            let look_again = self.look(&flight, &mut care).await;
            if self.flights.close(&flight) {
                self.flight_is_over(&flight.key);
                return;
            }
            // Rung for, or time to look in any case: both are answered by looking.
            let _ = tokio::time::timeout_at(look_again, flight.rung()).await;
        }
    }

    /// Loads the key once and answers whom it can. When to look again, unless rung for.
    async fn look(self: &Arc<Self>, flight: &Arc<Flight>, care: &mut Care) -> Instant {
        let cohort = flight.cohort();
        let policy = match self.stay(&flight.key) {
            Ok(policy) => policy,
            Err(farewell) => {
                self.dismiss(flight, &farewell);
                return Instant::now() + AT_LEAST_EVERY;
            }
        };
        if self.flights.is_granting(&flight.key) {
            // Whoever it is tells when that is over: it is what these callers wait for.
            return Instant::now() + AT_LEAST_EVERY;
        }
        match self.look_now(flight, cohort, &policy, care).await {
            Ok(look_again) => {
                care.failures = 0;
                look_again
            }
            Err(error) => {
                care.failures += 1;
                flight.saw_nothing();
                tracing::debug!(key = ?flight.key, %error, "could not look after parked callers; trying again");
                let in_a_row = care.failures >= IN_A_ROW || matches!(error, StoreError::Full(_));
                if in_a_row && self.is_loss(&flight.key, &error) {
                    self.dismiss(flight, &Farewell::Lost(error));
                }
                Instant::now() + RETRY_SOON
            }
        }
    }

    /// Whether anybody may be parked for a key, and under which policy.
    fn stay(&self, key: &Key) -> Result<Arc<Policy>, Farewell> {
        if let Some(farewell) = self.farewell() {
            return Err(farewell);
        }
        if let Some(error) = self.losses.lost(self, key) {
            return Err(Farewell::Lost(error));
        }
        // Without it, the namespace has gone with a reload of the policy file: nobody may wait in it.
        self.policy(key.namespace()).map_err(|_| Farewell::Draining)
    }

    async fn look_now(
        self: &Arc<Self>,
        flight: &Arc<Flight>,
        cohort: u64,
        policy: &Policy,
        care: &mut Care,
    ) -> Result<Instant, StoreError> {
        let want = Want {
            bytes: true,
            rings: true,
        };
        let seen = self.see(&flight.key, &[], want).await?;
        self.serve(flight, cohort, seen, policy, care).await
    }

    /// Gives each of the cohort what was seen for it; where one may rebuild, the grant is committed and the rest are looked at
    /// anew. Those who only read come last: they wait for whoever rebuilds.
    async fn serve(
        self: &Arc<Self>,
        flight: &Arc<Flight>,
        cohort: u64,
        seen: Seen,
        policy: &Policy,
        care: &mut Care,
    ) -> Result<Instant, StoreError> {
        let mut now = Now::new(seen);
        now.miss = self.may_miss(&now, care);
        loop {
            match self.walk(flight, cohort, &now, policy) {
                Walk::GoesOn(next) => {
                    now.from = next;
                    tokio::task::yield_now().await;
                }
                Walk::Done if !now.readers => (now.readers, now.from) = (true, 0),
                Walk::Done => break,
                Walk::Promote(ticket, grant) => {
                    if let Some(due) = self.reentry_due(&flight.key, &mut care.due) {
                        return Ok(due.min(now.seen.sent + AT_LEAST_EVERY));
                    }
                    care.due = None;
                    let promoted = self.promote(flight, ticket, *grant, &now.seen, policy).await?;
                    // Whoever an open circuit sends away leaves nobody to wait for: else each of them would keep those who only read here.
                    if !matches!(promoted, Err(HeldBack::CircuitOpen(_))) {
                        care.idle_since = None;
                    }
                    match promoted {
                        Ok(seen) => now = Now::new(seen),
                        Err(held_back) => now.held_back = Some(held_back),
                    }
                }
                Walk::TakeAgain(ticket, answer) => {
                    now = Now::new(self.tell_again(flight, ticket, answer, &now.seen).await?);
                }
            }
        }
        let again = match now.held_back {
            Some(HeldBack::NoPlace(again)) => again,
            _ => {
                self.leave_line(&flight.key);
                if now.seen.loaded.view().lease().is_none() {
                    self.nobody_inherits(&flight.key);
                }
                AT_LEAST_EVERY
            }
        };
        let view = now.seen.loaded.view();
        let lease = view.lease();
        if flight.saw(lease.map_or(Seq::NONE, |lease| lease.token), cohort) {
            return Ok(Instant::now());
        }
        // The lease's end, counted from when the load was sent, but not later than the regular look.
        let left = lease.map_or(AT_LEAST_EVERY, |lease| lease.deadline.since(view.now));
        let longest = if now.miss { AT_LEAST_EVERY } else { RETRY_SOON };
        Ok(now.seen.sent
            + left.clamp(
                Duration::from_millis(1),
                longest.min(again.max(Duration::from_millis(1))),
            ))
    }

    /// Whether those who only read may be told that there is nothing. Where others share the store, somebody parked elsewhere may be the one
    /// who is promoted: they wait a moment for that.
    fn may_miss(&self, now: &Now, care: &mut Care) -> bool {
        let held = now.seen.loaded.view().lease().is_some();
        if held || self.recall(&now.seen.loaded.snapshot.key).is_none() {
            care.idle_since = None;
            return true;
        }
        care.idle_since.get_or_insert(now.seen.sent).elapsed() >= RETRY_SOON
    }

    fn walk(&self, flight: &Flight, cohort: u64, now: &Now, policy: &Policy) -> Walk {
        let view = now.seen.loaded.view();
        let lease = view.lease().map(|lease| lease.token);
        flight.walk(&self.flights, now.from, cohort, |waiter| {
            waiter.is_looked_at(view.newest_grant(), lease.is_some());
            if lease == Some(waiter.on) {
                return Judgement::Stays(waiter.on);
            }
            if !now.readers && waiter.ask.intent == Intent::Read {
                return Judgement::Later;
            }
            match decision::acquire(&view, &waiter.ask, policy, self.dice.draw()) {
                Decision::Wait(wait) => Judgement::Stays(wait.on),
                Decision::Answer(answer @ Answer::Rebuild(_)) => Judgement::TakeAgain(answer),
                Decision::Answer(Answer::Miss) if !now.miss => Judgement::Later,
                Decision::Answer(answer) => {
                    Judgement::Gets(Reply::Answer(answer, now.seen.loaded.snapshot.bytes.clone()))
                }
                // Whoever has left needs no lease.
                Decision::Grant(_) if waiter.is_gone() => Judgement::Gets(Reply::Answer(Answer::Miss, None)),
                Decision::Grant(grant) => match now.held_back {
                    None => Judgement::Promote(grant),
                    Some(held_back) => self.held_back_here(held_back, *grant, &now.seen),
                },
            }
        })
    }

    /// What a parked caller gets who would be promoted, were anything granted in the namespace now.
    fn held_back_here(&self, held_back: HeldBack, grant: Grant, seen: &Seen) -> Judgement {
        match self.held_back(held_back, grant, seen) {
            Asked::Answered(acquired) => Judgement::Gets(Reply::Answer(acquired.answer, acquired.bytes)),
            Asked::Waits(waits) => Judgement::Stays(waits.on),
        }
    }

    /// Grants the lease to a parked caller; if that one has left meanwhile, gives it back, so that the next is promoted at once. How the
    /// entry is now.
    async fn promote(
        self: &Arc<Self>,
        flight: &Flight,
        ticket: u64,
        grant: Grant,
        before: &Seen,
        policy: &Policy,
    ) -> Result<Result<Seen, HeldBack>, StoreError> {
        // Newcomers are kept off without a turn: they see that somebody is parked.
        match self.grant(before, grant, policy, true, Turn::free()).await? {
            Granting::HeldBack(held_back, _) => Ok(Err(held_back)),
            Granting::Conflict(now) => Ok(Ok(now)),
            Granting::Granted(answer, after) => {
                let bytes = before.loaded.snapshot.bytes.clone();
                let reply = Reply::Lease(answer, bytes, after.loaded.snapshot.clone());
                if !flight.answer(&self.flights, ticket, reply) {
                    self.give_back(&after.loaded.snapshot).await;
                    flight.ring();
                }
                Ok(Ok(after))
            }
        }
    }

    /// Tells a parked caller of the lease that another try at its question has. How the entry is now.
    async fn tell_again(
        &self,
        flight: &Flight,
        ticket: u64,
        answer: Answer,
        before: &Seen,
    ) -> Result<Seen, StoreError> {
        match self.take_again(before, true, answer).await? {
            Granting::Conflict(now) => Ok(now),
            // A lease that is there already needs nothing.
            Granting::HeldBack(..) => Ok(Seen {
                loaded: before.loaded.clone(),
                ..*before
            }),
            Granting::Granted(answer, after) => {
                let reply = Reply::Answer(answer, before.loaded.snapshot.bytes.clone());
                // Whoever has left leaves the lease to that other try.
                let _ = flight.answer(&self.flights, ticket, reply);
                Ok(after)
            }
        }
    }

    /// Tells everybody in a flight to go elsewhere.
    fn dismiss(&self, flight: &Flight, farewell: &Farewell) {
        let mut from = 0;
        let sent_off = |_: &mut Waiter| Judgement::Gets(Reply::Farewell(farewell.clone()));
        while let Walk::GoesOn(next) = flight.walk(&self.flights, from, u64::MAX, sent_off) {
            from = next;
        }
    }
}

/// How far the task is with what it saw.
struct Now {
    seen: Seen,
    /// Whether it is the turn of those who only read.
    readers: bool,
    /// Whether they may be told that there is nothing.
    miss: bool,
    /// The next ticket.
    from: u64,
    /// Nothing is granted in the namespace now.
    held_back: Option<HeldBack>,
}

impl Now {
    fn new(seen: Seen) -> Now {
        Now {
            seen,
            readers: false,
            miss: true,
            from: 0,
            held_back: None,
        }
    }
}
