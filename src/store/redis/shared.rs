//! Calls of scripts, and what is done when a partition is not as it was: founded, taken over, or its log begun anew.
//!
//! *Owns* the loop around each call: a node that must not be asked is seen to, and the call made again, a bounded number of times.
//!
//! *Invariant.* Before this replica accepts a new primary, or goes on after another one did, it has committed again what it knows of the last
//! minute's invalidations. What can be lost is one that no living replica had heard of.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::codec::{Unreadable, entry_template, read_entry};
use super::condition::Condition;
use super::keys::partition_of;
use super::link::{Link, Script};
use super::partition::{Partition, Recent};
use super::reply::{Closed, Reply, shared};
use super::scripts::Scripts;
use super::seen::Seen;
use crate::decision::{self, Content, Entry, Generations, Key, Mode, Seq, StoreTime};
use crate::store::{Bytes, Loaded, Revision, Snapshot, StoreError, Target};

/// So often a call is made again after something was seen to.
const TRIES: usize = 4;
/// Invalidations that are committed again at once.
const AT_ONCE: usize = 64;
/// How many generations a partition keeps; beyond, the oldest are forgotten and the floor rises to them.
pub const MAX_GENERATIONS: usize = 100_000;
/// A generation is kept so long, µs: longer than anything it covers, which lives 30 days and is stale for 30 more.
const KEEP_GENERATION: u64 = 62 * 24 * 3_600 * 1_000_000;
/// The log holds at least so many records, unless they are older than five minutes.
pub const LOG: usize = 262_144;

/// A commit that takes over a new primary says so instead of an epoch.
const TAKING_OVER: &str = "!";

/// What all parts of the store share.
pub struct Shared {
    pub link: Arc<Link>,
    pub partitions: Box<[Partition]>,
    pub scripts: Scripts,
    pub seen: Seen,
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

    /// Gives a partition its header. Whatever was known of it is not so any more.
    async fn found(&self, partition: &Partition) -> Result<(), StoreError> {
        let keys = &partition.keys;
        let names = [
            &*keys.header,
            &keys.generations,
            &keys.ages,
            &keys.log,
            &keys.refreshed,
            &keys.leases,
        ];
        let id = rand::random::<u64>().to_be_bytes().to_vec();
        let text = |number: u64| number.to_string().into_bytes();
        let args = [id, text(partition.high().0), text(self.partitions.len() as u64)];
        let reply = self
            .link
            .call(partition.number, &self.scripts.found, &names, &args, true)
            .await?;
        let Reply::Ok(mut words) = Reply::read(reply)? else {
            return self.refused_as_replica(partition);
        };
        let epoch = words.number()?;
        if partition.epoch() != 0 && partition.epoch() != epoch {
            self.link.conditions().count(Condition::DataLost);
            tracing::warn!(
                partition = partition.number,
                "the store has lost its data; the log begins anew"
            );
        }
        self.enter(partition, epoch);
        Ok(())
    }

    fn refused_as_replica(&self, partition: &Partition) -> Result<(), StoreError> {
        self.link.distrust(partition.number);
        Err(StoreError::Unavailable(
            "the server is a replica; looking for the primary".to_owned(),
        ))
    }

    /// Another primary than before: it may lack the last writes of the one before it.
    async fn take_over(&self, partition: &Partition) -> Result<(), StoreError> {
        let before = partition.epoch();
        let _one_at_a_time = partition.taking_over.lock().await;
        if partition.epoch() != before {
            return Ok(());
        }
        self.link.conditions().count(Condition::NewPrimary);
        self.restore(partition).await?;
        let args = [
            partition.known().into_bytes(),
            partition.high().0.to_string().into_bytes(),
        ];
        let names = [&*partition.keys.header];
        let reply = self
            .link
            .call(partition.number, &self.scripts.adopt, &names, &args, true)
            .await?;
        match Reply::read(reply)? {
            Reply::Ok(mut words) => {
                let epoch = words.number()?;
                tracing::warn!(
                    partition = partition.number,
                    epoch,
                    "another primary was taken over; the log begins anew"
                );
                self.enter(partition, epoch);
                Ok(())
            }
            // Its data has gone too: the next call founds it.
            Reply::Closed(Closed::Headless) => Ok(()),
            _ => self.refused_as_replica(partition),
        }
    }

    /// Another replica has taken over: what this one knows may be more than that one knew.
    async fn follow(&self, partition: &Partition, epoch: u64) -> Result<(), StoreError> {
        let before = partition.epoch();
        let _one_at_a_time = partition.taking_over.lock().await;
        if partition.epoch() == before {
            self.restore(partition).await?;
            self.enter(partition, epoch);
        }
        Ok(())
    }

    fn enter(&self, partition: &Partition, epoch: u64) {
        self.seen.forget();
        partition.enter(epoch);
    }

    /// Commits the last minute's invalidations again, under the numbers that they have.
    async fn restore(&self, partition: &Partition) -> Result<(), StoreError> {
        let again = stream::iter(partition.recent()).map(|recent| self.restore_one(partition, recent));
        let mut restored = again.buffer_unordered(AT_ONCE);
        while let Some(done) = restored.next().await {
            done?;
        }
        Ok(())
    }

    async fn restore_one(&self, partition: &Partition, recent: Recent) -> Result<(), StoreError> {
        let field = match &recent.target {
            Target::Key(key) => return self.restore_key(partition, key, recent.mode, recent.number).await,
            Target::Tag(tag) => format!("{}/{tag}", recent.namespace),
            Target::Everything => recent.namespace.to_string(),
        };
        let covered = Covered {
            field: &field,
            mode: recent.mode,
            settle: 0,
            event: &[],
        };
        let args = invalidate_args(&covered, partition.high(), Some(recent.number));
        self.taking_over(partition, &self.scripts.invalidate, &partition.invalidate_names(), args)
            .await
            .map(drop)
    }

    async fn restore_key(&self, partition: &Partition, key: &Key, mode: Mode, number: Seq) -> Result<(), StoreError> {
        let names = partition.load_names(key);
        let args = load_args(key, &[], "");
        for _ in 0..TRIES {
            let reply = self
                .taking_over(partition, &self.scripts.load, &refs(&names), args.clone())
                .await?;
            let Reply::Is(words) = reply else {
                return Ok(());
            };
            let loaded = self.read_loaded(key, words, false)?;
            let Some(draft) = decision::restore(&loaded.view(), mode, number) else {
                return Ok(());
            };
            let mut commit = crate::store::Commit::new(key, &loaded, draft);
            if mode == Mode::Drop {
                commit.bytes = crate::store::NewBytes::Clear;
            }
            let args = super::commit_args(&commit, partition.high(), true);
            let names = partition.commit_names(key);
            if let Reply::Ok(_) = self
                .taking_over(partition, &self.scripts.commit, &refs(&names), args)
                .await?
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// A call that the new primary answers although it is not accepted yet.
    async fn taking_over(
        &self,
        partition: &Partition,
        script: &Script,
        keys: &[&str],
        args: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<Reply, StoreError> {
        let args: Vec<Vec<u8>> = std::iter::once(TAKING_OVER.as_bytes().to_vec()).chain(args).collect();
        Reply::read(self.link.call(partition.number, script, keys, &args, true).await?)
    }

    /// Takes note of the store's time.
    pub fn told(&self, partition: &Partition, now: StoreTime) {
        if !partition.told(now) {
            self.link.conditions().count(Condition::ClockBack);
        }
    }

    /// Reads an answer of `current`, from its second word on.
    pub fn read_loaded(
        &self,
        key: &Key,
        mut words: super::reply::Words,
        wants_bytes: bool,
    ) -> Result<Loaded, StoreError> {
        let now = words.time()?;
        let floor = Seq(words.number()?);
        let wrong_type = words.bytes()? == b"w";
        let written = words.maybe()?;
        let bytes = words.maybe()?.map(shared);
        let generations = words.generations(floor)?;
        if wrong_type {
            self.link.conditions().count(Condition::WrongType);
            tracing::warn!(
                ?key,
                "a key of drover's holds another type; it counts as missing and will be overwritten"
            );
        }
        let snapshot = match written {
            None => Snapshot::absent(key),
            Some(text) => self.read_snapshot(key, &text, bytes, wants_bytes)?,
        };
        Ok(Loaded {
            snapshot: Arc::new(snapshot),
            generations,
            now,
        })
    }

    /// An entry that can't be read counts as an empty one, which the next commit replaces; one of a newer release does not, since that
    /// release may still be running.
    pub fn read_snapshot(
        &self,
        key: &Key,
        text: &[u8],
        bytes: Option<Bytes>,
        wants_bytes: bool,
    ) -> Result<Snapshot, StoreError> {
        let conditions = self.link.conditions();
        let Some(written) = read_entry(text) else {
            conditions.count(Condition::UnreadableEntry);
            return Ok(Snapshot::absent(key));
        };
        let mut entry = match written.entry {
            Ok(entry) => entry,
            Err(Unreadable::Damaged) => {
                conditions.count(Condition::UnreadableEntry);
                tracing::warn!(
                    ?key,
                    "an entry can't be read; it counts as empty and will be overwritten"
                );
                Entry::default()
            }
            Err(error @ Unreadable::Newer(_)) => {
                conditions.count(Condition::UnreadableEntry);
                return Err(StoreError::Unavailable(format!(
                    "the entry of {key:?} can't be read: {error}"
                )));
            }
        };
        let mut bytes = bytes;
        if wants_bytes {
            let size = entry.value.as_ref().and_then(|value| match value.content {
                Content::Bytes(size) => Some(size as usize),
                Content::External(_) | Content::NotFound => None,
            });
            if size.is_some() && bytes.as_ref().map(|bytes| bytes.len()) != size {
                // Evicted by a server that is told to evict what it likes.
                conditions.count(Condition::ValueLost);
                entry.value = None;
                bytes = None;
            }
        }
        Ok(Snapshot {
            key: key.clone(),
            entry,
            bytes,
            revision: written.revision,
        })
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

    pub fn commit_names(&self, key: &Key) -> [String; 9] {
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
