//! A part of the embedded store's keys under one lock.

use std::sync::Arc;

use hashbrown::{HashSet, HashTable};

use crate::decision::{Key, StoreTime};
use crate::store::Snapshot;

/// How many buckets one step of the sweep looks at.
const SWEEP_STEP: usize = 512;
/// Among how many entries a victim is chosen.
const SAMPLE: usize = 16;
/// How many buckets are searched for them at the most.
const SEARCH: usize = 4_096;

/// What one entry costs besides its key and value, for the bound on memory: an upper bound of what the bench measures.
pub const ENTRY_OVERHEAD: usize = 300;

/// Entries, and what is known of them without looking into each.
#[derive(Default)]
pub struct Shard {
    table: HashTable<Arc<Snapshot>>,
    /// Keys whose entry has a lease, live or over.
    leases: HashSet<Key>,
    /// Keys that somebody waits for: their next commit rings.
    waited: HashSet<Key>,
    /// Where the sweep goes on.
    sweep_hand: usize,
    /// Where the search for victims goes on.
    evict_hand: usize,
}

impl Shard {
    /// The entry of a key, if it still matters at `now`.
    pub fn get(&self, hash: u64, key: &Key, now: StoreTime) -> Option<&Arc<Snapshot>> {
        self.table
            .find(hash, |kept| kept.key == *key)
            .filter(|kept| now < kept.entry.gone_at())
    }

    /// Somebody waits for the key.
    pub fn wait_for(&mut self, key: &Key) {
        if !self.waited.contains(key) {
            self.waited.insert(key.clone());
        }
    }

    /// Whether somebody waited for the key; from now on nobody does until it is said again.
    pub fn take_waited(&mut self, key: &Key) -> bool {
        !self.waited.is_empty() && self.waited.remove(key)
    }

    /// Writes an entry in place of what was there, and answers how many bytes came and went.
    pub fn put(&mut self, hash: u64, snapshot: Arc<Snapshot>, rehash: impl Fn(&Key) -> u64) -> Change {
        self.index_lease(&snapshot);
        let came = size(&snapshot);
        match self.table.find_mut(hash, |kept| kept.key == snapshot.key) {
            Some(kept) => {
                let went = size(kept);
                *kept = snapshot;
                Change { came, went, entries: 0 }
            }
            None => {
                self.table.insert_unique(hash, snapshot, |kept| rehash(&kept.key));
                Change {
                    came,
                    went: 0,
                    entries: 1,
                }
            }
        }
    }

    /// Removes the entry of a key.
    pub fn remove(&mut self, hash: u64, key: &Key) -> Change {
        self.leases.remove(key);
        match self.table.find_entry(hash, |kept| kept.key == *key) {
            Ok(found) => Change {
                came: 0,
                went: size(&found.remove().0),
                entries: -1,
            },
            Err(_) => Change::default(),
        }
    }

    /// Removes what does not matter any more, a bounded step at a time. `true` once it has been everywhere.
    pub fn sweep(&mut self, now: StoreTime, rehash: impl Fn(&Key) -> u64, mut removed: impl FnMut(Change)) -> bool {
        let end = (self.sweep_hand + SWEEP_STEP).min(self.table.num_buckets());
        for bucket in self.sweep_hand..end {
            let gone = self
                .table
                .get_bucket(bucket)
                .filter(|kept| kept.entry.gone_at() <= now)
                .map(|kept| kept.key.clone());
            if let Some(key) = gone {
                removed(self.remove_bucket(bucket, &key));
            }
        }
        let done = end >= self.table.num_buckets();
        self.sweep_hand = if done { 0 } else { end };
        if done {
            self.shrink(rehash);
        }
        done
    }

    /// Removes the one of the next few entries that would leave soonest. Never one with a live lease or in back-off: forgetting
    /// those would break a promise, while forgetting a value only costs a rebuild.
    pub fn evict(&mut self, now: StoreTime, spare: &Key) -> Option<Change> {
        let buckets = self.table.num_buckets();
        let mut victim: Option<(StoreTime, usize, Key)> = None;
        let mut seen = 0;
        for _ in 0..buckets.min(SEARCH) {
            self.evict_hand = (self.evict_hand + 1) % buckets;
            let Some(kept) = self.table.get_bucket(self.evict_hand) else {
                continue;
            };
            if kept.key == *spare || is_promised(kept, now) {
                continue;
            }
            let gone_at = kept.entry.gone_at();
            if victim.as_ref().is_none_or(|(soonest, ..)| gone_at < *soonest) {
                victim = Some((gone_at, self.evict_hand, kept.key.clone()));
            }
            seen += 1;
            if seen == SAMPLE {
                break;
            }
        }
        victim.map(|(_, bucket, key)| self.remove_bucket(bucket, &key))
    }

    /// Entries whose lease is live.
    pub fn live_leases(&self, now: StoreTime, hash: impl Fn(&Key) -> u64) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.leases
            .iter()
            .filter_map(move |key| self.get(hash(key), key, now))
            .filter(move |kept| kept.entry.live_lease(now).is_some())
    }

    /// All entries that still matter.
    pub fn entries(&self, now: StoreTime) -> impl Iterator<Item = &Arc<Snapshot>> {
        self.table.iter().filter(move |kept| now < kept.entry.gone_at())
    }

    fn remove_bucket(&mut self, bucket: usize, key: &Key) -> Change {
        self.leases.remove(key);
        self.waited.remove(key);
        match self.table.get_bucket_entry(bucket) {
            Ok(found) => Change {
                came: 0,
                went: size(&found.remove().0),
                entries: -1,
            },
            Err(_) => Change::default(),
        }
    }

    fn index_lease(&mut self, snapshot: &Snapshot) {
        if snapshot.entry.lease.is_some() {
            self.leases.insert(snapshot.key.clone());
        } else if !self.leases.is_empty() {
            self.leases.remove(&snapshot.key);
        }
    }

    /// Gives memory back after a flood: a table that is mostly empty is not worth keeping.
    fn shrink(&mut self, rehash: impl Fn(&Key) -> u64) {
        if self.table.capacity() > 1_024 && self.table.len() * 8 < self.table.capacity() {
            self.table.shrink_to(self.table.len() * 2, |kept| rehash(&kept.key));
        }
        if self.leases.is_empty() && self.leases.capacity() > 1_024 {
            self.leases = HashSet::new();
        }
        if self.waited.is_empty() && self.waited.capacity() > 1_024 {
            self.waited = HashSet::new();
        }
    }
}

/// What a write did to the size of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Bytes that came.
    pub came: usize,
    /// Bytes that went.
    pub went: usize,
    /// Entries more or fewer.
    pub entries: isize,
}

fn size(snapshot: &Snapshot) -> usize {
    let key = snapshot.key.namespace().len() + 1 + snapshot.key.name().len();
    ENTRY_OVERHEAD + key + snapshot.bytes.as_ref().map_or(0, |bytes| bytes.len())
}

fn is_promised(snapshot: &Snapshot, now: StoreTime) -> bool {
    let in_backoff = snapshot
        .entry
        .trouble
        .as_ref()
        .is_some_and(|trouble| now < trouble.retry_at);
    in_backoff || snapshot.entry.live_lease(now).is_some()
}
