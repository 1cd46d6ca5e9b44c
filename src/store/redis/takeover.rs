//! Partitions that are not what they were: without a header, or at another primary.
//!
//! *Invariant.* Before this replica accepts a new primary, or goes on after another one did, it has committed again what it knows of the last
//! minute's invalidations, and told of those that the new primary did not know: watchers elsewhere may have filled their caches from it since
//! they were reset. What can be lost is one that no living replica had heard of.

use std::collections::HashMap;

use futures_util::{StreamExt, stream};

use super::codec::again_template;
use super::commit::commit_args;
use super::condition::Condition;
use super::link::Script;
use super::partition::{Partition, Recent};
use super::reply::{Closed, Reply};
use super::shared::{Covered, Shared, TRIES, invalidate_args, load_args, refs};
use crate::decision::{self, Key, Mode};
use crate::store::{Commit, NewBytes, StoreError, Target};

/// Invalidations that are committed again at once.
const AT_ONCE: usize = 64;
/// A commit that takes over a new primary says so instead of an epoch.
const TAKING_OVER: &str = "!";

/// What has to be committed again of each target: the last drop, and the last of what expired it since.
fn hardest(recent: Vec<Recent>) -> Vec<(Option<Recent>, Option<Recent>)> {
    let mut targets: HashMap<_, (Option<Recent>, Option<Recent>)> = HashMap::new();
    for one in recent {
        let (dropped, newer) = targets.entry((one.namespace.clone(), one.target.clone())).or_default();
        let last = if one.mode == Mode::Drop {
            &mut *dropped
        } else {
            &mut *newer
        };
        if last.as_ref().is_none_or(|last| last.number < one.number) {
            *last = Some(one);
        }
        if dropped.as_ref().map(|one| one.number) >= newer.as_ref().map(|one| one.number) {
            *newer = None;
        }
    }
    targets.into_values().collect()
}

impl Shared {
    /// Gives a partition its header. Whatever was known of it is not so any more.
    pub(super) async fn found(&self, partition: &Partition) -> Result<(), StoreError> {
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

    pub(super) fn refused_as_replica(&self, partition: &Partition) -> Result<(), StoreError> {
        self.link.distrust(partition.number);
        Err(StoreError::Unavailable(
            "the server is a replica; looking for the primary".to_owned(),
        ))
    }

    /// Another primary than before: it may lack the last writes of the one before it.
    pub(super) async fn take_over(&self, partition: &Partition) -> Result<(), StoreError> {
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
    pub(super) async fn follow(&self, partition: &Partition, epoch: u64) -> Result<(), StoreError> {
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

    /// Commits the last minute's invalidations again, and tells of them where that changes something.
    async fn restore(&self, partition: &Partition) -> Result<(), StoreError> {
        let again = stream::iter(hardest(partition.recent())).map(|(dropped, newer)| async move {
            for recent in dropped.into_iter().chain(newer) {
                self.restore_one(partition, recent).await?;
            }
            Ok(())
        });
        let mut restored = again.buffer_unordered(AT_ONCE);
        while let Some(done) = restored.next().await {
            done?;
        }
        Ok(())
    }

    async fn restore_one(&self, partition: &Partition, recent: Recent) -> Result<(), StoreError> {
        let field = match &recent.target {
            Target::Key(key) => return self.restore_key(partition, key, &recent).await,
            Target::Tag(tag) => format!("{}/{tag}", recent.namespace),
            Target::Everything => recent.namespace.to_string(),
        };
        let is_home = self.partition(&field).number == partition.number;
        let event = is_home.then(|| again_template(&recent.event()).literal());
        let covered = Covered {
            field: &field,
            mode: recent.mode,
            settle: 0,
            event: event.as_deref().unwrap_or_default(),
        };
        let args = invalidate_args(&covered, partition.high(), Some(recent.number));
        self.taking_over(partition, &self.scripts.invalidate, &partition.invalidate_names(), args)
            .await
            .map(drop)
    }

    async fn restore_key(&self, partition: &Partition, key: &Key, recent: &Recent) -> Result<(), StoreError> {
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
            let Some(draft) = decision::restore(&loaded.view(), recent.mode, recent.number) else {
                return Ok(());
            };
            let mut commit = Commit::new(key, &loaded, draft);
            if recent.mode == Mode::Drop {
                commit.bytes = NewBytes::Clear;
            }
            commit.events.push(recent.event());
            let args = commit_args(&commit, partition.high(), true, true);
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
}
