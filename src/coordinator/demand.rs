//! Which keys callers have asked for since their values were stored.
//!
//! *Owns* the answer to "does anybody still want this?". Only of namespaces that have workers: elsewhere whoever asks refreshes.
//!
//! *Bound.* So many keys; while there are more, every key counts as asked for, because to refresh one too many costs the origin a rebuild, and to
//! let one lapse costs its next caller a wait.
//!
//! *Over a shared store* a mark is handed on to it once a second, and the claim of the key's task takes it off there. So what was asked for in the
//! last second before a refresh, at another replica than the one that gives it out, counts for the next one.

use std::collections::HashSet;
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;

use crate::decision::Key;

const SHARDS: usize = 16;
/// Keys of all shards.
const MOST: usize = 1 << 20;

/// Keys that were asked for.
#[derive(Default)]
pub struct Demand {
    shards: [Mutex<HashSet<Key, DefaultHashBuilder>>; SHARDS],
    hasher: DefaultHashBuilder,
}

impl Demand {
    /// Somebody has asked for a key.
    pub fn mark(&self, key: &Key) {
        let mut shard = self.shard(key).lock();
        if !shard.contains(key) && shard.len() < MOST / SHARDS {
            shard.insert(key.clone());
        }
    }

    /// Whether anybody has asked for a key; from now on nobody has.
    pub fn take(&self, key: &Key) -> bool {
        let mut shard = self.shard(key).lock();
        shard.remove(key) || shard.len() >= MOST / SHARDS
    }

    /// Its value is new.
    pub fn forget(&self, key: &Key) {
        let mut shard = self.shard(key).lock();
        if !shard.is_empty() {
            shard.remove(key);
        }
    }

    /// Some of the keys, to be handed on, in their order; from now on nobody has asked for them as far as is known here.
    pub fn drain(&self, most: usize) -> Vec<Key> {
        let mut drained = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            let left = most - drained.len();
            if shard.len() <= left {
                drained.extend(shard.drain());
                if shard.capacity() > 1_024 {
                    shard.shrink_to(1_024);
                }
            } else {
                let some: Vec<Key> = shard.iter().take(left).cloned().collect();
                for key in some {
                    shard.remove(&key);
                    drained.push(key);
                }
            }
        }
        drained.sort_unstable();
        drained
    }

    fn shard(&self, key: &Key) -> &Mutex<HashSet<Key, DefaultHashBuilder>> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::new("shop", &format!("k{number}"))
    }

    #[test]
    fn a_key_is_asked_for_until_that_is_taken_or_its_value_is_new() {
        let demand = Demand::default();
        assert!(!demand.take(&key(1)));
        demand.mark(&key(1));
        demand.mark(&key(1));
        demand.mark(&key(2));
        assert!(demand.take(&key(1)));
        assert!(!demand.take(&key(1)));
        demand.forget(&key(2));
        assert!(!demand.take(&key(2)));
    }

    #[test]
    fn marks_are_handed_on_a_few_at_a_time_and_each_once() {
        let demand = Demand::default();
        (0..1_000).for_each(|number| demand.mark(&key(number)));
        let mut all = HashSet::new();
        loop {
            let some = demand.drain(300);
            assert!(some.len() <= 300 && some.is_sorted());
            if some.is_empty() {
                break;
            }
            for one in some {
                assert!(all.insert(one));
            }
        }
        assert_eq!(all.len(), 1_000);
    }
}
