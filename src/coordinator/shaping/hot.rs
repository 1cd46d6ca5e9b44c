//! Which keys are asked for most, as this replica sees it.
//!
//! *Owns* a [`Sketch`] a namespace, fed by questions and by what callers say they read from local copies. Other replicas count for themselves: behind
//! a balancer each sees its share of every key, so the order is the same at all of them and the rates are what one has to bear.
//!
//! *Why not the fleet's sum*: a hint is needed with each answer, and a sum would be a second old and cost a trip a second and namespace.

use tokio::time::Instant;

use super::table::Table;
use crate::decision::{Hint, Hot, Key, Sketch, StoreTime, micros};

/// The keys of each namespace.
pub(in crate::coordinator) struct HotKeys {
    sketches: Table<Sketch>,
    birth: Instant,
    /// Keeps callers from choosing keys that share a cell.
    seed: u64,
}

impl HotKeys {
    pub fn new(seed: u64) -> HotKeys {
        HotKeys {
            sketches: Table::new(),
            birth: Instant::now(),
            seed,
        }
    }

    /// A key was asked for so many times. What to tell who asks.
    pub fn asked(&self, key: &Key, times: u64) -> Option<Hint> {
        let now = self.now();
        let new = || Sketch::new(self.seed);
        let hint = self
            .sketches
            .with(key.namespace(), new, |sketch| sketch.ask(key, times, now))?;
        hint.hot.then_some(hint)
    }

    /// The keys that are asked for most, the first most of all.
    pub fn top(&self, namespace: &str, count: usize) -> Vec<Hot> {
        let now = self.now();
        let top = self.sketches.look(namespace, |sketch| sketch.top(count, now));
        top.unwrap_or_default()
    }

    /// Only differences count.
    fn now(&self) -> StoreTime {
        StoreTime(micros(self.birth.elapsed()))
    }
}
