//! What the keys in Redis are called, and which partition has which.
//!
//! *Invariants.* All keys of a partition share a hash tag, `{prefix.number}`, so that one script may touch them on a Cluster too. Which
//! partition has a key is part of the written format: it must never change for a number of partitions.

use crate::decision::Key;

/// How many partitions there are on a Cluster.
pub const CLUSTER_PARTITIONS: u16 = 16;

/// The names of one partition's keys.
#[derive(Clone, Debug)]
pub struct Keys {
    /// `{prefix.number}:`
    base: String,
    /// What the partition knows of itself: a hash.
    pub header: String,
    /// Generations of namespaces and tags: a hash.
    pub generations: String,
    /// The same by age: a sorted set.
    pub ages: String,
    /// What watchers must see: a stream.
    pub log: String,
    /// Accepted reports, for watchers that asked for them: a stream.
    pub refreshed: String,
    /// Wake-ups, and what replicas ask each other: a short stream.
    pub rings: String,
    /// Keys whose entry has a lease: a sorted set by when the entry goes.
    pub leases: String,
    /// Replicas that live: a hash, in partition 0 only.
    pub replicas: String,
    /// Keys that were asked for since their values were stored: a set.
    pub asked: String,
    /// Namespaces in which refreshes are planned: a sorted set, in partition 0 only.
    pub plans: String,
}

impl Keys {
    /// Of partition `number` under a prefix.
    pub fn new(prefix: &str, number: u16) -> Keys {
        let base = format!("{{{prefix}.{number}}}:");
        Keys {
            header: format!("{base}h"),
            generations: format!("{base}g"),
            ages: format!("{base}a"),
            log: format!("{base}log"),
            refreshed: format!("{base}rlog"),
            rings: format!("{base}ring"),
            leases: format!("{base}l"),
            replicas: format!("{base}reps"),
            asked: format!("{base}asked"),
            plans: format!("{base}plans"),
            base,
        }
    }

    /// What the names of entries begin with.
    pub fn entries(&self) -> String {
        format!("{}e:", self.base)
    }

    /// A key's facts: a string.
    pub fn entry(&self, key: &Key) -> String {
        self.of("e:", key)
    }

    /// A value's bytes: a string.
    pub fn value(&self, key: &Key) -> String {
        self.of("v:", key)
    }

    /// That somebody waits for a key: a string with a short life.
    pub fn waited(&self, key: &Key) -> String {
        self.of("w:", key)
    }

    /// What the names of schedules begin with.
    pub fn schedules(&self) -> String {
        format!("{}due:", self.base)
    }

    /// The tasks of a namespace: a sorted set.
    pub fn schedule(&self, namespace: &str) -> String {
        [&self.base, "due:", namespace].concat()
    }

    /// What is planned in a namespace: a hash.
    pub fn planned(&self, namespace: &str) -> String {
        [&self.base, "plan:", namespace].concat()
    }

    /// Places taken in a namespace's rebuild budget, by key: a sorted set by when they come back. In its home partition.
    pub fn places(&self, namespace: &str) -> String {
        [&self.base, "b:", namespace].concat()
    }

    /// What keeps those places up, by key: a hash.
    pub fn claims(&self, namespace: &str) -> String {
        [&self.base, "bc:", namespace].concat()
    }

    /// That somebody waits for such a place: a string with a short life.
    pub fn wanted(&self, namespace: &str) -> String {
        [&self.base, "bw:", namespace].concat()
    }

    /// A namespace's circuit: a string. In its home partition.
    pub fn circuit(&self, namespace: &str) -> String {
        [&self.base, "c:", namespace].concat()
    }

    /// A name that never exists: to ask whether the partition could be written.
    pub fn probe(&self) -> String {
        format!("{}probe", self.base)
    }

    fn of(&self, kind: &str, key: &Key) -> String {
        [&self.base, kind, key.text()].concat()
    }
}

/// Which of so many partitions has what is called so: FNV-1a, 64 bits, modulo.
pub fn partition_of(name: &str, partitions: u16) -> u16 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    u16::try_from(hash % u64::from(partitions.max(1))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_partition_share_its_hash_tag() {
        let keys = Keys::new("drover", 3);
        let key = Key::new("shop", "a}b{c");
        for name in [
            &keys.header,
            &keys.log,
            &keys.entry(&key),
            &keys.value(&key),
            &keys.waited(&key),
        ] {
            assert!(name.starts_with("{drover.3}:"), "{name}");
        }
        assert_eq!(keys.entry(&key), "{drover.3}:e:shop/a}b{c");
    }

    #[test]
    fn which_partition_has_a_key_is_fixed_for_ever() {
        let of = |name| partition_of(name, CLUSTER_PARTITIONS);
        assert_eq!([of("shop/a"), of("shop/b"), of("news/a"), of("shop")], [9, 0, 14, 9]);
        assert_eq!(partition_of("anything", 1), 0);
    }

    #[test]
    fn keys_spread_over_the_partitions() {
        let mut counts = [0_u32; CLUSTER_PARTITIONS as usize];
        for number in 0..16_000 {
            counts[usize::from(partition_of(&format!("shop/item {number}"), CLUSTER_PARTITIONS))] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
