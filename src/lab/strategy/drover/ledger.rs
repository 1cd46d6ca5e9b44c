//! What drover's answers said: how callers were served, and how long the values live that were reported.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::{AcquireRebuildResponse, Freshness, Hit};

/// How callers were served, since [`Ledger::begin`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Answers that came late, because the caller was parked, or that left it with nothing to show until somebody has queried the origin.
    pub waited: u64,
    /// Answers with a value that was not fresh.
    pub expired: u64,
    /// Callers that were asked to rebuild, whatever they had to show meanwhile.
    pub asked: u64,
}

/// Lifetimes of the values of one key: when each was stored, and how long it is fresh from then.
pub type Lives = Vec<(Instant, Duration)>;

/// The books.
#[derive(Debug, Default)]
pub struct Ledger {
    waited: AtomicU64,
    expired: AtomicU64,
    asked: AtomicU64,
    lives: Mutex<HashMap<String, Lives>>,
}

impl Ledger {
    /// Counts callers from now; what was stored before is still there.
    pub fn begin(&self) {
        for counter in [&self.waited, &self.expired, &self.asked] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    /// One more answer.
    pub fn note(&self, answer: &AcquireRebuildResponse) {
        let parked = answer
            .waited
            .is_some_and(|waited| (waited.seconds, waited.nanos) != (0, 0));
        let (shown, asked) = match &answer.decision {
            Some(Decision::Hit(hit)) => (Some(hit), false),
            Some(Decision::Rebuild(rebuild)) => {
                let shown = rebuild.fallback.as_ref();
                (shown.filter(|_| !rebuild.fallback_on_failure_only), true)
            }
            _ => (None, false),
        };
        let expired = |hit: &Hit| hit.freshness != i32::from(Freshness::Fresh);
        for (counter, counts) in [
            (&self.waited, parked || shown.is_none()),
            (&self.expired, shown.is_some_and(expired)),
            (&self.asked, asked),
        ] {
            counter.fetch_add(u64::from(counts), Ordering::Relaxed);
        }
    }

    /// One more value was stored.
    pub fn stored(&self, key: &str, fresh: Duration) {
        let mut lives = self.lives.lock();
        lives.entry(key.to_owned()).or_default().push((Instant::now(), fresh));
    }

    /// How callers were served.
    pub fn served(&self) -> Served {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Served {
            waited: count(&self.waited),
            expired: count(&self.expired),
            asked: count(&self.asked),
        }
    }

    /// How many keys have a value.
    pub fn keys(&self) -> usize {
        self.lives.lock().len()
    }

    /// Of each key, its values' lifetimes in the order of their reports.
    pub fn lives(&self) -> Vec<Lives> {
        self.lives.lock().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Rebuild;

    fn answer(decision: Decision, parked_ms: i32) -> AcquireRebuildResponse {
        AcquireRebuildResponse {
            decision: Some(decision),
            waited: Some(prost_types::Duration {
                seconds: 0,
                nanos: parked_ms * 1_000_000,
            }),
            ..Default::default()
        }
    }

    fn hit(freshness: Freshness) -> Hit {
        Hit {
            freshness: freshness.into(),
            ..Default::default()
        }
    }

    #[test]
    fn whoever_has_nothing_to_show_at_once_has_waited() {
        let ledger = Ledger::default();
        ledger.note(&answer(Decision::Hit(hit(Freshness::Fresh)), 0));
        assert_eq!(ledger.served(), Served::default());
        ledger.note(&answer(Decision::Hit(hit(Freshness::Fresh)), 3));
        ledger.note(&answer(Decision::Hit(hit(Freshness::Stale)), 0));
        ledger.note(&answer(Decision::Rebuild(Rebuild::default()), 0));
        let fallback = Some(hit(Freshness::Fresh));
        ledger.note(&answer(
            Decision::Rebuild(Rebuild {
                fallback,
                ..Default::default()
            }),
            0,
        ));
        let (waited, expired, asked) = (2, 1, 2);
        assert_eq!(ledger.served(), Served { waited, expired, asked });
        ledger.begin();
        assert_eq!(ledger.served(), Served::default());
    }
}
