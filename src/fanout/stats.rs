//! What the fan-out has done, for metrics. Numbers only grow.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::event::What;
use super::feed::ResetReason;

/// Counters of a hub.
#[derive(Debug, Default)]
pub struct Stats {
    events: [AtomicU64; 6],
    resets: [AtomicU64; 5],
}

/// Names of the kinds of events, in the order of their counters.
const EVENTS: [&str; 6] = [
    "started",
    "invalidated",
    "refreshed",
    "lease_revoked",
    "progress",
    "reset",
];

impl Stats {
    /// Messages handed to watchers, by kind.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> {
        EVENTS
            .into_iter()
            .zip(self.events.iter().map(|count| count.load(Relaxed)))
    }

    /// Resets handed to watchers, by reason.
    pub fn resets(&self) -> impl Iterator<Item = (ResetReason, u64)> {
        ResetReason::ALL
            .into_iter()
            .map(|reason| (reason, self.resets[reason as usize].load(Relaxed)))
    }

    pub(super) fn sent(&self, what: &What) {
        let kind = match what {
            What::Started { .. } => 0,
            What::Invalidated(_) => 1,
            What::Refreshed { .. } => 2,
            What::LeaseRevoked { .. } => 3,
            What::Progress { .. } => 4,
            What::Reset { reason } => {
                self.resets[*reason as usize].fetch_add(1, Relaxed);
                5
            }
        };
        self.events[kind].fetch_add(1, Relaxed);
    }
}
