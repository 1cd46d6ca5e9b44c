//! Waits until the watchers have applied an invalidation.
//!
//! *Owns* whom an invalidation waits for at this replica: every watcher that is registered once the log has come up to the event and that
//! may have copies, and every one that left less than [`MAX_SILENCE`](super::MAX_SILENCE) before, because a client whose stream broke may
//! trust its copies for so long.
//!
//! *Invariant.* Equal counts mean that no obeying client of this replica serves the old value. A watcher that subscribes later starts behind
//! the event, or replays it before its `Started`, so it needs no count; a resumed one stands beside its own ghost.
//!
//! *Why the list is taken only when the log has come up.* The log of a shared store arrives at each replica in its own time. Taken earlier,
//! this would go wrong:
//!
//! ```text
//!  replica A                                        replica B, whose log lags
//!  invalidation committed, its event at 7
//!                                                   asked: nobody watches here       <- list taken too early
//!                                                   a client resumes at 6 with its old copies, from a stream that broke
//!                                                   elsewhere long enough ago not to count there; B's log is at 6: Started
//!  answers: confirmed                               it trusts its copies again
//!                                                   the log comes to 7: too late
//! ```
//!
//! Taken once the log is at 7, the list has that client in it, and waits for its acknowledgement; or the client comes later, and hears of
//! 7 first. A log that does not come up in time counts as one watcher at the least that has not acknowledged, for the same reason.
//!
//! *Why a new stream of the same holder does not redeem the ghost*: names of holders need not be unique, so nothing proves that it
//! is the same client. The price is a wait of up to that time after a stream broke.

use std::sync::Arc;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::hub::Hub;
use super::peers::Question;
use super::watcher::{Reached, Watcher};
use crate::store::Place;

/// `laggards` names no more.
const LAGGARDS: usize = 10;

/// How far an invalidation has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Barrier {
    /// Watchers that may have copies.
    pub watchers: usize,
    /// Those of them that have applied it.
    pub acknowledged: usize,
    /// All have, and everybody was heard.
    pub confirmed: bool,
    /// Holders of up to ten that have not, as far as they gave a name.
    pub laggards: Vec<Arc<str>>,
}

impl Barrier {
    /// Of a replica with so many watchers that was not heard.
    pub fn unheard(watchers: usize) -> Barrier {
        Barrier {
            watchers,
            ..Barrier::default()
        }
    }

    /// Both together.
    pub fn and(mut self, other: Barrier) -> Barrier {
        self.watchers = self.watchers.saturating_add(other.watchers);
        self.acknowledged = self.acknowledged.saturating_add(other.acknowledged);
        self.confirmed &= other.confirmed;
        let room = LAGGARDS.saturating_sub(self.laggards.len());
        self.laggards.extend(other.laggards.into_iter().take(room));
        self
    }
}

impl Hub {
    /// Waits until every watcher of this replica that may have copies of what the question names has acknowledged its places, or the time
    /// is over. A `wait` of zero only counts.
    pub async fn barrier(&self, question: &Question) -> Barrier {
        let (places, waits) = (&question.places, !question.wait.is_zero());
        let until = Instant::now() + question.wait;
        let arrived = if waits {
            timeout_at(until, self.feed.arrived(places)).await.is_ok()
        } else {
            self.feed.has_come_to(places)
        };
        let watchers = self.covering(&question.namespace, &question.targets);
        if arrived && waits {
            let all = async {
                for watcher in &watchers {
                    reached(watcher, places).await;
                }
            };
            // Too late or not: the counts tell.
            let _ = timeout_at(until, all).await;
        }
        let mut barrier = count(&watchers, places);
        if !arrived {
            barrier.confirmed = false;
            barrier.watchers = barrier.watchers.max(usize::from(waits));
        }
        barrier
    }
}

/// Waits until nobody needs to wait for this one.
async fn reached(watcher: &Watcher, places: &[Place]) {
    loop {
        let changed = watcher.changed.notified();
        tokio::pin!(changed);
        // Before the look, so that no change falls between the two.
        changed.as_mut().enable();
        match watcher.reached(places, Instant::now()) {
            Reached::Yes | Reached::Silent => return,
            Reached::NotYet => changed.await,
            Reached::GoneUntil(silent) => sleep_until(silent).await,
        }
    }
}

fn count(watchers: &[Arc<Watcher>], places: &[Place]) -> Barrier {
    let now = Instant::now();
    let mut barrier = Barrier::default();
    for watcher in watchers {
        match watcher.reached(places, now) {
            Reached::Silent => continue,
            Reached::Yes => barrier.acknowledged += 1,
            Reached::NotYet | Reached::GoneUntil(_) => {
                let holder = &watcher.filter.holder;
                if barrier.laggards.len() < LAGGARDS && !holder.is_empty() {
                    barrier.laggards.push(holder.clone());
                }
            }
        }
        barrier.watchers += 1;
    }
    barrier.confirmed = barrier.acknowledged == barrier.watchers;
    barrier
}
