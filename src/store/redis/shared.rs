//! Calls of scripts: what they take, and the loop around each.
//!
//! *Owns* that a node that must not be asked is seen to (`takeover`), and the call made again, a bounded number of times.

use std::sync::Arc;

use parking_lot::Mutex;

use super::codec::entry_template;
use super::condition::Condition;
use super::keys::partition_of;
use super::link::{Link, Script};
use super::partition::Partition;
use super::reply::{Closed, Reply};
use super::scripts::Scripts;
use super::seen::Seen;
use crate::decision::{self, Generations, Key, Mode, Seq, StoreTime};
use crate::store::{Loaded, Revision, Snapshot, StoreError};

/// So often a call is made again after something was seen to.
pub const TRIES: usize = 4;
/// How many generations a partition keeps; beyond, the oldest are forgotten and the floor rises to them.
pub const MAX_GENERATIONS: usize = 100_000;
/// A generation is kept so long, µs: longer than anything it covers, which lives 30 days and is stale for 30 more.
const KEEP_GENERATION: u64 = 62 * 24 * 3_600 * 1_000_000;
/// The log holds at least so many records, unless they are older than five minutes.
pub const LOG: usize = 262_144;

/// What all parts of the store share.
pub struct Shared {
    pub link: Arc<Link>,
    pub partitions: Box<[Partition]>,
    pub scripts: Scripts,
    pub seen: Seen,
    /// The namespaces in which refreshes are planned, as was last read.
    pub planned: Mutex<Vec<Arc<str>>>,
}

/// An invalidation for one partition.
pub struct Covered<'a> {
    /// `namespace` or `namespace/tag`.
    pub field: &'a str,
    pub mode: Mode,
    /// µs.
    pub settle: u64,
    /// As the log has it; empty in all partitions but the home one.
    pub event: &'a [u8],
}

impl Shared {
    pub fn new(link: Arc<Link>, prefix: &str) -> Shared {
        let partitions = (0..link.partitions()).map(|number| Partition::new(prefix, number));
        Shared {
            partitions: partitions.collect(),
            link,
            scripts: Scripts::new(),
            seen: Seen::new(),
            planned: Mutex::default(),
        }
    }

    /// The partition that has what is called so.
    pub fn partition(&self, name: &str) -> &Partition {
        &self.partitions[usize::from(partition_of(name, self.link.partitions()))]
    }

    /// Calls a script whose first argument is the epoch that is known; `args` are those after it.
    pub async fn ask(
        &self,
        partition: &Partition,
        script: &Script,
        keys: &[&str],
        args: impl IntoIterator<Item = Vec<u8>>,
        writes: bool,
    ) -> Result<Reply, StoreError> {
        let mut args: Vec<Vec<u8>> = std::iter::once(Vec::new()).chain(args).collect();
        for _ in 0..TRIES {
            args[0] = partition.known().into_bytes();
            let reply = self.link.call(partition.number, script, keys, &args, writes).await?;
            match Reply::read(reply)? {
                Reply::Closed(closed) => self.see_to(partition, closed).await?,
                reply => return Ok(reply),
            }
        }
        Err(StoreError::Unavailable(
            "its primary changes faster than calls can follow".to_owned(),
        ))
    }

    async fn see_to(&self, partition: &Partition, closed: Closed) -> Result<(), StoreError> {
        let conditions = self.link.conditions();
        match closed {
            Closed::Headless => self.found(partition).await,
            Closed::Primary => self.take_over(partition).await,
            Closed::Epoch(epoch) => self.follow(partition, epoch).await,
            Closed::Replica => {
                conditions.count(Condition::ReadOnly);
                self.link.distrust(partition.number);
                Err(StoreError::Unavailable(
                    "the server is a replica; looking for the primary".to_owned(),
                ))
            }
            Closed::CutOff => {
                conditions.count(Condition::CutOff);
                self.link.distrust(partition.number);
                Err(StoreError::Unavailable(
                    "the primary sees fewer replicas than min-replicas-to-write asks for: it may be cut off".to_owned(),
                ))
            }
        }
    }

    /// Takes note of the store's time.
    pub fn told(&self, partition: &Partition, now: StoreTime) {
        if !partition.told(now) {
            self.link.conditions().count(Condition::ClockBack);
        }
    }

    /// What a key was like when it was seen last.
    pub fn recall(&self, key: &Key) -> Option<Loaded> {
        let now = self.partition(key.text()).now()?;
        Some(match self.seen.get(key) {
            Some(sight) => Loaded {
                snapshot: sight.snapshot,
                generations: Generations::clone(&sight.generations),
                now,
            },
            None => Loaded {
                snapshot: Arc::new(Snapshot::absent(key)),
                generations: Generations::default(),
                now,
            },
        })
    }
}

impl Partition {
    pub fn load_names(&self, key: &Key) -> [String; 5] {
        [
            self.keys.header.clone(),
            self.keys.entry(key),
            self.keys.value(key),
            self.keys.generations.clone(),
            self.keys.waited(key),
        ]
    }

    pub fn commit_names(&self, key: &Key) -> [String; 11] {
        [
            self.keys.header.clone(),
            self.keys.entry(key),
            self.keys.value(key),
            self.keys.generations.clone(),
            self.keys.log.clone(),
            self.keys.refreshed.clone(),
            self.keys.rings.clone(),
            self.keys.waited(key),
            self.keys.leases.clone(),
            self.keys.schedule(key.namespace()),
            self.keys.asked.clone(),
        ]
    }

    pub fn budget_names(&self, namespace: &str) -> [String; 5] {
        [
            self.keys.header.clone(),
            self.keys.places(namespace),
            self.keys.claims(namespace),
            self.keys.wanted(namespace),
            self.keys.rings.clone(),
        ]
    }

    pub fn circuit_names(&self, namespace: &str) -> [String; 3] {
        [
            self.keys.header.clone(),
            self.keys.circuit(namespace),
            self.keys.rings.clone(),
        ]
    }

    pub fn invalidate_names(&self) -> [&str; 4] {
        [
            &self.keys.header,
            &self.keys.generations,
            &self.keys.ages,
            &self.keys.log,
        ]
    }
}

pub fn refs(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// For `load.lua`, after the epoch.
pub fn load_args(key: &Key, tags: &[decision::Tag], flags: &str) -> [Vec<u8>; 4] {
    [
        flags.as_bytes().to_vec(),
        key.namespace().as_bytes().to_vec(),
        super::codec::pack(tags),
        WAITED_MS.to_string().into_bytes(),
    ]
}

/// A mark that somebody waits outlives the regular look after parked callers, which renews it.
const WAITED_MS: u64 = 5_000;

/// For `invalidate.lua`, after the epoch.
pub fn invalidate_args(covered: &Covered<'_>, above: Seq, number: Option<Seq>) -> [Vec<u8>; 10] {
    let text = |number: u64| number.to_string().into_bytes();
    [
        covered.field.as_bytes().to_vec(),
        match covered.mode {
            Mode::Drop => b"d".to_vec(),
            Mode::Expire => b"e".to_vec(),
        },
        text(covered.settle),
        text(above.0),
        number.map(|number| text(number.0)).unwrap_or_default(),
        text(MAX_GENERATIONS as u64),
        text(decision::SOFT_KEPT as u64),
        text(KEEP_GENERATION),
        covered.event.to_vec(),
        text(LOG as u64),
    ]
}

/// The revision as a script compares it.
pub fn revision_text(revision: Revision) -> Vec<u8> {
    revision.0.to_string().into_bytes()
}

/// The template of a draft, for tests of other modules too.
pub fn draft_arguments(draft: &decision::Draft, into: &mut Vec<Vec<u8>>) {
    entry_template(draft).arguments(into);
}
