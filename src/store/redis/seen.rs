//! What this replica saw last of each key: good for a guess that the store checks, never for an answer.
//!
//! *Invariant.* A bounded table: what is asked for least goes first. Values' bytes are not in it.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::decision::{Generations, Key};
use crate::store::Snapshot;

/// Entries are remembered up to about so many bytes.
const ROOM: u64 = 64 << 20;
/// As many as are expected.
const ENTRIES: usize = 65_536;

/// A table of what was seen.
pub struct Seen(Cache<Key, Sight, Weight>);

/// An entry as it was.
#[derive(Clone)]
pub struct Sight {
    /// Without bytes.
    pub snapshot: Arc<Snapshot>,
    /// What bore on it.
    pub generations: Arc<Generations>,
}

#[derive(Clone)]
struct Weight;

impl Weighter<Key, Sight> for Weight {
    fn weight(&self, key: &Key, sight: &Sight) -> u64 {
        // The facts, their pointers, and what a table costs; texts beside the key are short or rare.
        512 + 2 * key.text().len() as u64 + 64 * sight.generations.tags.len() as u64
    }
}

impl Seen {
    pub fn new() -> Seen {
        Seen(Cache::with_weighter(ENTRIES, ROOM, Weight))
    }

    /// What was seen last.
    pub fn get(&self, key: &Key) -> Option<Sight> {
        self.0.get(key)
    }

    /// An entry was seen, at a load or at a conflict.
    pub fn saw(&self, snapshot: &Snapshot, generations: &Generations) {
        self.put(snapshot, Arc::new(generations.clone()));
    }

    /// An entry was written. What bears on it is known as before.
    pub fn wrote(&self, snapshot: &Snapshot) {
        let known = self.get(&snapshot.key).map(|sight| sight.generations);
        self.put(snapshot, known.unwrap_or_default());
    }

    fn put(&self, snapshot: &Snapshot, generations: Arc<Generations>) {
        let snapshot = Arc::new(Snapshot {
            bytes: None,
            ..snapshot.clone()
        });
        self.0.insert(snapshot.key.clone(), Sight { snapshot, generations });
    }

    /// Nothing that was seen holds any more.
    pub fn forget(&self) {
        self.0.clear();
    }
}
