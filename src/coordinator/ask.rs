//! A question, short of waiting.
//!
//! *Trips.* Where asking the store costs a trip, this replica first looks at what it saw of the key last. From that it may try what the
//! store checks anyway, which is a grant, or send the caller to wait, which is no answer yet; whatever else comes of it is asked of
//! the store. So a cold grant costs one trip, and a herd costs what its first caller does.
//!
//! *Invariants.* Nothing is ever answered from memory. One grant a key is under way at a time: whoever else would be granted it stands
//! behind, and the flight's task, which looks once that grant is committed, serves them all.
//!
//! *Why a grant from memory needs no guard*: it has no fallback, so what it relies on is that something is over: a lease, a pause, a
//! value. Invalidations only ever make more of that over, and time is checked: the store must not be before the time of the memory.

use std::sync::Arc;

use tokio::time::Instant;

use super::grant::Granting;
use super::losses::NotNow;
use super::parked::Patience;
use super::shaping::HeldBack;
use super::{Acquire, Acquired, Coordinator, Error, MOST_CONFLICTS};
use crate::decision::{self, Answer, Ask, BusyCause, Decision, Grant, Key, Policy, Seq, Tag};
use crate::store::{Loaded, StoreError, Want};

/// What a question came to, short of waiting.
pub(super) enum Asked {
    /// It is answered.
    Answered(Acquired),
    /// It is to wait.
    Waits(Waits),
}

/// How a caller is to wait.
pub(super) struct Waits {
    /// For the lease with this number; none: behind others.
    pub on: Seq,
    /// The store has just said that somebody has that lease. From memory, it may have ended long ago; then its value is not for this
    /// caller unless it is still fresh.
    pub is_held: bool,
    /// What it gets if nothing better comes of that.
    pub when_over: Acquired,
}

/// A key as this replica sees it.
pub(super) struct Seen {
    pub loaded: Loaded,
    /// When the store was asked: lengths of time in the answer count from here.
    pub sent: Instant,
    /// From memory: good for what the store checks, and for no answer.
    pub recalled: bool,
}

impl Coordinator {
    /// Everything but the wait.
    pub(super) async fn ask(
        self: &Arc<Self>,
        request: &Acquire,
        policy: &Policy,
        patience: &mut Patience,
    ) -> Result<Asked, Error> {
        let Acquire { key, ask, .. } = request;
        let want = Want {
            bytes: !ask.omit_value,
            rings: false,
        };
        // A replica that is about to leave grants nothing: from memory it could only guess that there is nothing to use.
        let recalled = self.recall(key).filter(|_| !self.is_draining());
        let costs_trips = recalled.is_some();
        let mut seen = match recalled {
            Some(seen) => seen,
            None => self.see(key, decision::tags_asked(ask), want).await?,
        };
        let mut conflicts = 0;
        while conflicts < MOST_CONFLICTS {
            let decision = self.decide(request, &seen, policy)?;
            let may_wait = costs_trips && patience.until(request, policy) > Instant::now();
            if seen.recalled && !is_worth_a_try(&decision, may_wait) {
                seen = self.see(key, decision::tags_asked(ask), want).await?;
                continue;
            }
            let granting = match decision {
                Decision::Answer(answer @ Answer::Rebuild(_)) => self.take_again(&seen, want.bytes, answer).await?,
                Decision::Answer(answer) => {
                    let answer = self.with_circuit(answer, &seen, policy);
                    return Ok(Asked::Answered(Acquired::at_once(answer, &seen.loaded)));
                }
                Decision::Wait(wait) => return Ok(Asked::waits(wait, &seen)),
                Decision::Grant(_) if self.is_draining() => return Err(Error::Draining),
                Decision::Grant(grant) => match self.turn(key, costs_trips) {
                    Ok(turn) => self.grant(&seen, *grant, policy, want.bytes, turn).await?,
                    // Behind others it is waited for what these get; for anything else it must be true that there is nothing to use.
                    Err(why) if seen.recalled && !(may_wait && why == NotNow::OthersAhead) => {
                        seen = self.see(key, decision::tags_asked(ask), want).await?;
                        continue;
                    }
                    Err(_) => return Ok(self.behind(&request.key, &request.ask, *grant, &seen)),
                },
            };
            match granting {
                Granting::Granted(answer, _) => return Ok(Asked::Answered(Acquired::at_once(answer, &seen.loaded))),
                Granting::Conflict(now) => seen = now,
                // For any answer it must be true that there is nothing to use.
                Granting::HeldBack(..) if seen.recalled => {
                    seen = self.see(key, decision::tags_asked(ask), want).await?;
                    continue;
                }
                Granting::HeldBack(held_back, grant) => return Ok(self.held_back(held_back, *grant, &seen)),
            }
            conflicts += 1;
        }
        Err(Error::contended())
    }

    /// The decision, unless the question names a number that no store can have issued. Only the store's own time tells that: from
    /// memory, which may be behind, it is asked first.
    fn decide(&self, request: &Acquire, seen: &Seen, policy: &Policy) -> Result<Decision, Error> {
        match request.ask.too_far_ahead(seen.loaded.now) {
            Some(_) if seen.recalled => Ok(Decision::Answer(Answer::Miss)),
            Some(field) => Err(Error::InvalidField {
                field,
                problem:
                    "more than a day ahead of the store's time; send a number that a grant or your own store has shown"
                        .to_owned(),
            }),
            None => Ok(decision::acquire(
                &seen.loaded.view(),
                &request.ask,
                policy,
                self.dice.draw(),
            )),
        }
    }

    /// For a caller who would be granted the lease, were anything granted in the namespace now.
    pub(super) fn held_back(&self, held_back: HeldBack, grant: Grant, seen: &Seen) -> Asked {
        let answer = match held_back {
            HeldBack::CircuitOpen(pause) => decision::circuit_open(grant, pause, self.dice.draw()),
            HeldBack::NoPlace(_) => match decision::without_place(grant, self.dice.draw()) {
                Decision::Answer(answer) => answer,
                Decision::Wait(wait) => return Asked::waits(wait, seen),
                Decision::Grant(_) => unreachable!("whoever has no place is not granted"),
            },
        };
        Asked::Answered(Acquired::at_once(answer, &seen.loaded))
    }

    /// For a caller whom others are ahead of.
    pub(super) fn behind(&self, key: &Key, ask: &Ask, grant: Grant, seen: &Seen) -> Asked {
        match decision::behind(grant, ask, self.dice.draw()) {
            Decision::Wait(mut wait) => {
                if let Answer::Busy(busy) = &mut wait.when_over
                    && self.shaping.lines.has(key)
                {
                    busy.cause = BusyCause::RebuildBudget;
                }
                Asked::waits(wait, seen)
            }
            Decision::Answer(answer) => Asked::Answered(Acquired::at_once(answer, &seen.loaded)),
            Decision::Grant(_) => unreachable!("whoever stands behind is not granted"),
        }
    }

    /// What this replica saw of a key last; `None`: asking the store costs no trip.
    pub(super) fn recall(&self, key: &Key) -> Option<Seen> {
        let loaded = self.store.recall(key)?;
        Some(Seen {
            loaded,
            sent: Instant::now(),
            recalled: true,
        })
    }

    /// That, or else what the store says: for what is decided by facts, and committed.
    pub(super) async fn recall_or_see(&self, key: &Key, tags: &[Tag]) -> Result<Seen, StoreError> {
        match self.recall(key) {
            Some(seen) => Ok(seen),
            None => self.see(key, tags, Want::default()).await,
        }
    }

    /// Asks the store.
    pub(super) async fn see(&self, key: &Key, tags: &[Tag], want: Want) -> Result<Seen, StoreError> {
        let sent = Instant::now();
        let loaded = self.store.load(key, tags, want).await?;
        self.store_answered(key);
        Ok(Seen {
            loaded,
            sent,
            recalled: false,
        })
    }
}

/// Whether a decision that was made from memory is tried, rather than asked for anew.
fn is_worth_a_try(decision: &Decision, may_wait: bool) -> bool {
    match decision {
        Decision::Grant(grant) => grant.fallback.is_none(),
        Decision::Wait(wait) => may_wait && wait.when_over.hit().is_none(),
        Decision::Answer(_) => false,
    }
}

impl Asked {
    fn waits(wait: decision::Wait, seen: &Seen) -> Asked {
        Asked::Waits(Waits {
            on: wait.on,
            is_held: !seen.recalled,
            when_over: Acquired::at_once(wait.when_over, &seen.loaded),
        })
    }
}
