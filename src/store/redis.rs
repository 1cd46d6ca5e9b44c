//! The store that replicas share, in Redis (6.2 or later) or Valkey: single, behind Sentinel, or a Cluster.
//!
//! *Owns* how a commit becomes one script call, and what this replica remembers to save trips. *Never* decides: a script compares, stamps
//! and writes what it is given.
//!
//! | to follow | read |
//! |---|---|
//! | a call | [`Redis::commit`](Store::commit), then `shared` for the loop around it, then `scripts/commit.lua` |
//! | what is written | `keys` (names), `codec` (layouts), `scripts/common.lua` (the header) |
//! | what comes back | `tail` (log and rings), then `fanout` |
//! | what goes wrong | `link` (connections, circuit), `condition` (names), `takeover` (new primaries, lost data), `reading` (what is not drover's) |
//!
//! *Partitions.* All keys of a partition share a slot: one, or sixteen on a Cluster. An invalidation of a tag or a namespace is written to
//! every partition, to its home last: that write is its commit, its number and its one event. A load or commit that begins after it was
//! answered finds it in its own partition, without reading across slots.
//!
//! *Invariants.* Nothing is answered from memory: what was seen last ([`recall`](Store::recall)) is only good for a commit, which names the revision,
//! the time and the generations that it relies on. Every key has an expiry or a bound.
//!
//! *Why not a lock with a token and a counter*: a counter that is lost starts again, and a lock does not know what was invalidated.

mod board;
mod codec;
mod commit;
pub mod condition;
mod gather;
mod keys;
pub mod link;
mod partition;
pub mod peers;
mod reading;
mod reply;
mod schedule;
mod scripts;
mod seen;
mod shaping;
mod shared;
mod tail;
mod takeover;
mod tending;

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::codec::event_template;
use self::commit::{commit_args, written};
use self::gather::Gather;
use self::link::Link;
use self::reply::Reply;
use self::shared::{Covered, Shared, invalidate_args, load_args, refs};
use super::{
    Answer, Budgeted, Budgeting, Census, Claim, Claimed, Commit, Covering, Event, Invalidated, Loaded, Outcome, Place,
    Plan, Planned, Revision, Settled, Snapshot, Store, StoreError, Target, Want,
};
use crate::decision::{Key, Seq, Stamp, StoreTime, Tag, micros};
use crate::fanout::{Feed, Peers};

/// A replica that leaves waits no longer for its registration to be withdrawn.
const LEAVES_WITHIN: Duration = Duration::from_millis(500);
/// A page of the leases.
const PAGE: usize = 500;

/// The shared store.
pub struct Redis {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
    gather: Gather,
    begun: tail::Begun,
    peers: Arc<peers::Fleet>,
    /// Which partition is the first to be asked for tasks.
    turn: AtomicUsize,
}

impl Redis {
    /// Over a link. Nothing is read before [`Redis::run`] does.
    pub fn new(link: Arc<Link>, prefix: &str, tasks: &TaskTracker) -> Arc<Redis> {
        let feed = Feed::remote(link.partitions());
        let shared = Arc::new(Shared::new(link, prefix));
        let board = Arc::new(board::RedisBoard::new(shared.clone()));
        Arc::new(Redis {
            begun: tail::Begun::new(shared.partitions.len()),
            gather: Gather::new(tasks.clone()),
            peers: peers::Fleet::new(board, tasks.clone()),
            shared,
            feed,
            turn: AtomicUsize::new(0),
        })
    }

    /// Follows the log and looks after the partitions, until `cut`.
    pub async fn run(self: Arc<Self>, cut: CancellationToken) {
        let partitions = 0..self.shared.partitions.len();
        let tails = partitions.map(|number| tail::follow(self.clone(), number));
        let tails = async {
            // Before the first log is read, so that watchers need not wait for a second look at it.
            self.peers.register_first().await;
            futures_util::future::join_all(tails).await
        };
        let all = async {
            tokio::join!(
                tails,
                tending::tend(self.clone()),
                tending::watch_link(self.clone()),
                self.peers.clone().run(),
            )
        };
        cut.run_until_cancelled(all).await;
        // By now the streams of watchers have been closed.
        let _ = tokio::time::timeout(LEAVES_WITHIN, self.peers.leave()).await;
    }

    /// Looks after every partition once; `run` does so again and again.
    ///
    /// # Errors
    ///
    /// [`StoreError`] of the first that does not answer.
    pub async fn look_after(&self) -> Result<(), StoreError> {
        for partition in &self.shared.partitions {
            tending::look(self, partition).await?;
        }
        Ok(())
    }

    /// The way to the servers.
    pub fn link(&self) -> &Arc<Link> {
        &self.shared.link
    }

    async fn commit_once(&self, commit: Commit) -> Result<Outcome, StoreError> {
        let shared = &self.shared;
        let partition = shared.partition(commit.key.text());
        let names = partition.commit_names(&commit.key);
        let had_lease = shared
            .seen
            .get(&commit.key)
            .is_some_and(|sight| sight.snapshot.entry.lease.is_some());
        let args = commit_args(&commit, partition.high(), had_lease, false);
        let reply = shared
            .ask(partition, &shared.scripts.commit, &refs(&names), args, true)
            .await?;
        match reply {
            Reply::Is(words) => {
                let loaded = shared.read_loaded(&commit.key, words, commit.bytes_on_conflict)?;
                shared.told(partition, loaded.now);
                shared.seen.saw(&loaded.snapshot, &loaded.generations);
                Ok(Outcome::Conflict(loaded))
            }
            Reply::Ok(mut words) => {
                let number = Seq(words.number()?);
                let now = words.time()?;
                let revision = Revision(words.number()?);
                let at = words.number()?;
                shared.told(partition, now);
                partition.saw(number);
                for event in &commit.events {
                    if let Event::Invalidated {
                        namespace,
                        target,
                        mode,
                    } = event
                    {
                        partition.heard(namespace, target, *mode, number);
                    }
                }
                let committed = written(commit, Stamp { now, number }, revision, partition.place(at));
                shared.seen.wrote(&committed.snapshot);
                Ok(Outcome::Committed(committed))
            }
            Reply::Closed(_) => Err(StoreError::Unavailable(
                "its primary changes faster than calls can follow".to_owned(),
            )),
        }
    }

    async fn invalidate_once(&self, covering: Covering) -> Result<Invalidated, StoreError> {
        let field = match &covering.tag {
            Some(tag) => format!("{}/{tag}", covering.namespace),
            None => covering.namespace.to_string(),
        };
        let home = self.shared.partition(&field).number;
        let target = covering.tag.clone().map_or(Target::Everything, Target::Tag);
        let event = Event::Invalidated {
            namespace: covering.namespace.clone(),
            target: target.clone(),
            mode: covering.mode,
        };
        let event = event_template(&event).literal();
        let covered = |event| Covered {
            field: &field,
            mode: covering.mode,
            settle: micros(covering.settle),
            event,
        };
        let others = self
            .shared
            .partitions
            .iter()
            .filter(|partition| partition.number != home);
        let elsewhere = try_join_all(others.map(|partition| self.invalidate_in(partition, covered(&[])))).await?;
        let done = self
            .invalidate_in(&self.shared.partitions[usize::from(home)], covered(&event))
            .await?;
        for (number, invalidated) in elsewhere.iter().chain([&done]) {
            let partition = &self.shared.partitions[usize::from(*number)];
            partition.heard(&covering.namespace, &target, covering.mode, invalidated.number);
        }
        Ok(done.1)
    }

    async fn invalidate_in(
        &self,
        partition: &partition::Partition,
        covered: Covered<'_>,
    ) -> Result<(u16, Invalidated), StoreError> {
        let args = invalidate_args(&covered, partition.high(), None);
        let script = &self.shared.scripts.invalidate;
        let reply = self
            .shared
            .ask(partition, script, &partition.invalidate_names(), args, true)
            .await?;
        let mut words = reply.ok()?;
        let (number, now) = (Seq(words.number()?), words.time()?);
        partition.saw(number);
        self.shared.told(partition, now);
        let invalidated = Invalidated {
            number,
            now,
            place: partition.place(words.number()?),
        };
        Ok((partition.number, invalidated))
    }

    async fn all_leases(&self, namespace: Option<&str>) -> Result<Vec<Arc<Snapshot>>, StoreError> {
        let namespace = namespace.map(|name| format!("{name}/")).unwrap_or_default();
        let mut found = Vec::new();
        for partition in &self.shared.partitions {
            let mut from = 0;
            loop {
                let args = [
                    partition.keys.entries().into_bytes(),
                    namespace.clone().into_bytes(),
                    from.to_string().into_bytes(),
                    PAGE.to_string().into_bytes(),
                ];
                let names = [&*partition.keys.header, &*partition.keys.leases];
                let reply = self
                    .shared
                    .ask(partition, &self.shared.scripts.leases, &names, args, false)
                    .await?;
                let mut words = reply.ok()?;
                let now = words.time()?;
                let looked_at = words.number()? as usize;
                while words.left() > 0 {
                    let name = words.bytes()?;
                    let key = Key::from_text(&String::from_utf8_lossy(&name));
                    let text = words.bytes()?;
                    if let Ok(snapshot) = self.shared.read_snapshot(&key, &text, None, false)
                        && snapshot.entry.live_lease(now).is_some()
                    {
                        found.push(Arc::new(snapshot));
                    }
                }
                from += looked_at;
                if looked_at < PAGE {
                    break;
                }
            }
        }
        Ok(found)
    }

    async fn count(&self) -> Result<Vec<Census>, StoreError> {
        let mut counts: HashMap<String, (u64, u64)> = HashMap::new();
        for (namespace, entries) in tending::count_entries(&self.shared).await? {
            counts.entry(namespace).or_default().0 = entries;
        }
        for snapshot in self.all_leases(None).await? {
            counts.entry(snapshot.key.namespace().to_owned()).or_default().1 += 1;
        }
        let census = |(namespace, (entries, leases))| Census {
            namespace,
            entries,
            leases,
        };
        Ok(counts.into_iter().map(census).collect())
    }

    async fn time(&self) -> Result<StoreTime, StoreError> {
        if let Some(number) = self.begun.waits_for() {
            return Err(StoreError::Unavailable(format!(
                "the log of partition {number} has not been read yet"
            )));
        }
        let mut latest = StoreTime::ZERO;
        for partition in &self.shared.partitions {
            let args = [Vec::new(), Vec::new(), b"0".to_vec(), b"0".to_vec()];
            let names = [&*partition.keys.header, &*partition.keys.leases];
            let reply = self
                .shared
                .ask(partition, &self.shared.scripts.leases, &names, args, false)
                .await?;
            latest = latest.max(reply.ok()?.time()?);
        }
        Ok(latest)
    }
}

impl partition::Partition {
    /// Where in the log something stands.
    fn place(&self, at: u64) -> Place {
        Place {
            partition: if at == 0 { 0 } else { self.number },
            at,
        }
    }
}

impl Store for Redis {
    fn load<'a>(&'a self, key: &'a Key, tags: &'a [Tag], want: Want) -> Answer<'a, Loaded> {
        let shared = self.shared.clone();
        let load = move |key: Key, tags: Vec<Tag>, want: Want| load_once(shared.clone(), key, tags, want);
        Box::pin(self.gather.load(key, tags, want, load))
    }

    fn commit<'a>(&'a self, commit: Commit) -> Answer<'a, Outcome> {
        Box::pin(self.commit_once(commit))
    }

    fn invalidate<'a>(&'a self, covering: Covering) -> Answer<'a, Invalidated> {
        Box::pin(self.invalidate_once(covering))
    }

    fn leases<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Arc<Snapshot>>> {
        Box::pin(self.all_leases(namespace))
    }

    fn census(&self) -> Answer<'_, Vec<Census>> {
        Box::pin(self.count())
    }

    fn ping(&self) -> Answer<'_, StoreTime> {
        Box::pin(self.time())
    }

    fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }

    fn recall(&self, key: &Key) -> Option<Loaded> {
        self.shared.recall(key)
    }

    fn partition(&self, key: &Key) -> u16 {
        self.shared.partition(key.text()).number
    }

    fn peers(&self) -> Option<Arc<dyn Peers>> {
        Some(self.peers.clone())
    }

    fn staff<'a>(&'a self, _replica: u64, workers: &'a [(Arc<str>, u32)], lasts: Duration) -> Answer<'a, ()> {
        Box::pin(self.staff_all(workers, lasts))
    }

    fn workers(&self) -> Vec<(Arc<str>, u32)> {
        self.peers.workers()
    }

    fn fleet(&self) -> Answer<'_, Vec<(Arc<str>, u32)>> {
        Box::pin(async move {
            self.peers.look().await?;
            Ok(self.peers.workers())
        })
    }

    fn schedule(&self, plan: Plan) -> Answer<'_, Planned> {
        Box::pin(self.plan(plan))
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(self.claim_all(claim))
    }

    fn settle(&self, settled: Vec<Settled>) -> Answer<'_, ()> {
        Box::pin(self.settle_all(settled))
    }

    fn planned(&self) -> Answer<'_, Vec<Arc<str>>> {
        Box::pin(std::future::ready(Ok(self.shared.planned.lock().clone())))
    }

    fn asked(&self, keys: Vec<Key>) -> Answer<'_, ()> {
        Box::pin(self.asked_for(keys))
    }

    fn budget<'a>(&'a self, key: &'a Key, lease: NonZeroU64, what: Budgeting) -> Answer<'a, Budgeted> {
        Box::pin(shaping::budget(&self.shared, key, lease, what))
    }

    fn circuit<'a>(&'a self, namespace: &'a str, expected: &'a str, new: Option<&'a str>) -> Answer<'a, Arc<str>> {
        Box::pin(shaping::circuit(&self.shared, namespace, expected, new))
    }
}

async fn load_once(shared: Arc<Shared>, key: Key, tags: Vec<Tag>, want: Want) -> Result<Loaded, StoreError> {
    let partition = shared.partition(key.text());
    let flags = match (want.bytes, want.rings) {
        (true, true) => "br",
        (true, false) => "b",
        (false, true) => "r",
        (false, false) => "",
    };
    let names = partition.load_names(&key);
    let args = load_args(&key, &tags, flags);
    match shared
        .ask(partition, &shared.scripts.load, &refs(&names), args, false)
        .await?
    {
        Reply::Is(words) => {
            let loaded = shared.read_loaded(&key, words, want.bytes)?;
            shared.told(partition, loaded.now);
            shared.seen.saw(&loaded.snapshot, &loaded.generations);
            Ok(loaded)
        }
        Reply::Ok(_) | Reply::Closed(_) => Err(StoreError::Unavailable(
            "its primary changes faster than calls can follow".to_owned(),
        )),
    }
}
