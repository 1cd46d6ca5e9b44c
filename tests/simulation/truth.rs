//! The store's own account of what was committed, in its order.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use drover::decision::{Entry, Key, Seq, StoreTime, Tag};
use drover::fanout::Feed;
use drover::store::{
    Answer, Census, Claim, Claimed, Commit, Covering, Invalidated, Loaded, Outcome, Snapshot, Store, Want,
};

/// One commit.
#[derive(Clone, Debug)]
pub enum Done {
    /// A key's entry is now this.
    Written { key: Key, at: StoreTime, entry: Entry },
    /// Everything with a tag, or all, was made old.
    Covered {
        tag: Option<Tag>,
        number: Seq,
        at: StoreTime,
    },
    /// The circuit of the namespace is this now.
    Circuit { text: Arc<str>, at: StoreTime },
}

/// A store that keeps account.
pub struct Tap {
    inner: Arc<dyn Store>,
    account: Mutex<Vec<Done>>,
}

impl Tap {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Tap> {
        Arc::new(Tap {
            inner,
            account: Mutex::default(),
        })
    }

    pub fn account(&self) -> Vec<Done> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, done: Done) {
        self.account.lock().unwrap_or_else(PoisonError::into_inner).push(done);
    }
}

impl Store for Tap {
    fn load<'a>(&'a self, key: &'a Key, tags: &'a [Tag], want: Want) -> Answer<'a, Loaded> {
        self.inner.load(key, tags, want)
    }

    fn commit<'a>(&'a self, commit: Commit) -> Answer<'a, Outcome> {
        Box::pin(async move {
            let outcome = self.inner.commit(commit).await?;
            if let Outcome::Committed(committed) = &outcome {
                self.note(Done::Written {
                    key: committed.snapshot.key.clone(),
                    at: committed.now,
                    entry: committed.snapshot.entry.clone(),
                });
            }
            Ok(outcome)
        })
    }

    fn invalidate<'a>(&'a self, covering: Covering) -> Answer<'a, Invalidated> {
        Box::pin(async move {
            let tag = covering.tag.clone();
            let done = self.inner.invalidate(covering).await?;
            self.note(Done::Covered {
                tag,
                number: done.number,
                at: done.now,
            });
            Ok(done)
        })
    }

    fn leases<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Arc<Snapshot>>> {
        self.inner.leases(namespace)
    }

    fn census(&self) -> Answer<'_, Vec<Census>> {
        self.inner.census()
    }

    fn ping(&self) -> Answer<'_, StoreTime> {
        self.inner.ping()
    }

    fn budget<'a>(
        &'a self,
        key: &'a Key,
        lease: std::num::NonZeroU64,
        what: drover::store::Budgeting,
    ) -> Answer<'a, drover::store::Budgeted> {
        self.inner.budget(key, lease, what)
    }

    fn staff<'a>(&'a self, replica: u64, workers: &'a [(Arc<str>, u32)], lasts: Duration) -> Answer<'a, ()> {
        self.inner.staff(replica, workers, lasts)
    }

    fn workers(&self) -> Vec<(Arc<str>, u32)> {
        self.inner.workers()
    }

    fn schedule(&self, plan: drover::store::Plan) -> Answer<'_, drover::store::Planned> {
        self.inner.schedule(plan)
    }

    fn claim(&self, claim: Claim) -> Answer<'_, Claimed> {
        self.inner.claim(claim)
    }

    fn settle(&self, settled: Vec<drover::store::Settled>) -> Answer<'_, ()> {
        self.inner.settle(settled)
    }

    fn planned(&self) -> Answer<'_, Vec<Arc<str>>> {
        self.inner.planned()
    }

    fn circuit<'a>(&'a self, namespace: &'a str, expected: &'a str, new: Option<&'a str>) -> Answer<'a, Arc<str>> {
        Box::pin(async move {
            let is = self.inner.circuit(namespace, expected, new).await?;
            if new.is_some_and(|new| *new == *is && *new != *expected) {
                let (text, at) = (is.clone(), self.inner.ping().await?);
                self.note(Done::Circuit { text, at });
            }
            Ok(is)
        })
    }

    fn feed(&self) -> &Arc<Feed> {
        self.inner.feed()
    }
}

/// From when to when a key had no live lease, in microseconds since the start; the last one is open.
pub fn unheld(account: &[Done], key: &Key, start: StoreTime) -> Vec<(u64, u64)> {
    let since = |at: StoreTime| at.0.saturating_sub(start.0);
    let mut gaps = Vec::new();
    let mut free_from = Some(0);
    // Of the lease that is held: its number, its tags and those of the stored value, and its end.
    let mut held: Option<(Seq, Vec<Tag>, StoreTime)> = None;
    for done in account {
        let at = match done {
            Done::Written { at, .. } | Done::Covered { at, .. } | Done::Circuit { at, .. } => *at,
        };
        if let Some((_, _, deadline)) = &held
            && *deadline <= at
        {
            free_from = Some(since(*deadline));
            held = None;
        }
        match done {
            Done::Written {
                key: written, entry, ..
            } if written == key => {
                let lease = entry.live_lease(at).map(|lease| {
                    let stored = entry.value.as_ref().map(|value| value.tags());
                    let tags = [lease.tags.as_deref().unwrap_or_default(), stored.unwrap_or_default()].concat();
                    (lease.token, tags, lease.deadline)
                });
                match (&lease, free_from) {
                    (Some(_), Some(from)) => {
                        gaps.push((from, since(at)));
                        free_from = None;
                    }
                    (None, None) => free_from = Some(since(at)),
                    _ => {}
                }
                held = lease;
            }
            Done::Written { .. } | Done::Circuit { .. } => {}
            Done::Covered { tag, number, .. } => {
                let covered = |(token, tags, _): &(Seq, Vec<Tag>, StoreTime)| {
                    *number > *token && tag.as_ref().is_none_or(|tag| tags.contains(tag))
                };
                if held.as_ref().is_some_and(covered) {
                    free_from = Some(since(at));
                    held = None;
                }
            }
        }
    }
    match (free_from, held) {
        (Some(from), _) => gaps.push((from, u64::MAX)),
        (None, Some((_, _, deadline))) => gaps.push((since(deadline), u64::MAX)),
        (None, None) => {}
    }
    gaps
}
