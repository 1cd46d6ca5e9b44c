//! Waits until the watchers have applied an invalidation.
//!
//! *Owns* whom an invalidation waits for: every watcher that was registered when it was asked and may have copies, and every one
//! that left less than [`MAX_SILENCE`](super::MAX_SILENCE) before, because a client whose stream broke may trust its copies for so long.
//!
//! *Invariant.* Equal counts mean that no obeying client of this replica serves the old value. A watcher that subscribes after the
//! commit starts behind it, or replays it, so it needs no count; a resumed one stands beside its own ghost.
//!
//! *Why a new stream of the same holder does not redeem the ghost*: names of holders need not be unique, so nothing proves that it
//! is the same client. The price is a wait of up to that time after a stream broke.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::hub::Hub;
use super::watcher::{Reached, Watcher};
use crate::store::{Place, Target};

/// `laggards` names no more.
const LAGGARDS: usize = 10;

/// How far an invalidation has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Barrier {
    /// Watchers that may have copies.
    pub watchers: usize,
    /// Those of them that have applied it.
    pub acknowledged: usize,
    /// All have.
    pub confirmed: bool,
    /// Holders of up to ten that have not, as far as they gave a name.
    pub laggards: Vec<Arc<str>>,
}

impl Hub {
    /// Waits until every watcher that may have copies of `targets` has acknowledged `places`, or the time is over. A `wait` of
    /// zero only counts. Ask once the events at these places are in the log.
    pub async fn barrier(&self, places: &[Place], namespace: &str, targets: &[Target], wait: Duration) -> Barrier {
        let position = places.iter().map(|place| place.at).max().unwrap_or_default();
        let watchers = self.covering(namespace, targets);
        if !wait.is_zero() {
            let all = async {
                for watcher in &watchers {
                    reached(watcher, position).await;
                }
            };
            // Too late or not: the counts tell.
            let _ = timeout_at(Instant::now() + wait, all).await;
        }
        count(&watchers, position)
    }
}

/// Waits until nobody needs to wait for this one.
async fn reached(watcher: &Watcher, position: u64) {
    loop {
        let changed = watcher.changed.notified();
        tokio::pin!(changed);
        // Before the look, so that no change falls between the two.
        changed.as_mut().enable();
        match watcher.reached(position, Instant::now()) {
            Reached::Yes | Reached::Silent => return,
            Reached::NotYet => changed.await,
            Reached::GoneUntil(silent) => sleep_until(silent).await,
        }
    }
}

fn count(watchers: &[Arc<Watcher>], position: u64) -> Barrier {
    let now = Instant::now();
    let mut barrier = Barrier::default();
    for watcher in watchers {
        match watcher.reached(position, now) {
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
