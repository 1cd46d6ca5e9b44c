//! Giving somebody the lease, and taking it back from those who have left.

use std::sync::Arc;

use tokio::time::Instant;

use super::ask::Seen;
use super::flights::Turn;
use super::shaping::{End, HeldBack, Pass};
use super::{Coordinator, detach};
use crate::decision::{self, Answer, Generations, Grant, Policy, Seq, StoreTime, View};
use crate::store::{Commit, Committed, Event, Loaded, NewBytes, Outcome, Snapshot, StoreError};

/// What became of a grant.
pub(super) enum Granting {
    /// The caller has the lease; how the entry is now.
    Granted(Answer, Seen),
    /// Something has changed: how it is now.
    Conflict(Seen),
    /// Nothing is granted in the namespace now; the grant that was to be.
    HeldBack(HeldBack, Box<Grant>),
}

impl Coordinator {
    /// Commits a grant, if it is let by. It is finished even if its caller leaves, and then given back. The turn is over with the commit.
    ///
    /// What is told to be left of the lease counts from when the commit was sent: the store's clock has gone on meanwhile. `bytes`: they
    /// are wanted if it comes to a conflict.
    pub(super) async fn grant(
        self: &Arc<Self>,
        seen: &Seen,
        grant: Grant,
        policy: &Policy,
        bytes: bool,
        turn: Turn,
    ) -> Result<Granting, StoreError> {
        let pass = match self.admit(seen, &grant, policy).await? {
            Ok(pass) => pass,
            Err(held_back) => return Ok(Granting::HeldBack(held_back, Box::new(grant))),
        };
        let key = &seen.loaded.snapshot.key;
        let mut commit = self.commit_of(seen, &grant);
        commit.until = pass.until();
        commit.bytes_on_conflict = bytes;
        let sent = Instant::now();
        let (outcome, pass) = self.commit_for_caller(commit, turn, pass).await;
        let committed = match outcome {
            Ok(Outcome::Committed(committed)) => committed,
            Ok(Outcome::Conflict(now)) => return Ok(Granting::Conflict(Seen::loaded(now, sent))),
            Err(error @ StoreError::Unknown(_)) => {
                pass.may_be_used();
                return Err(error);
            }
            Err(error) => return Err(error),
        };
        let after = after(&seen.loaded, committed, sent);
        let entry = &after.loaded.snapshot.entry;
        let Some(lease) = entry.lease.as_deref() else {
            return Err(StoreError::Unknown(
                "a grant was committed without its lease; this is a bug in the store".to_owned(),
            ));
        };
        let instead_of = grant.supersedes.as_ref().map(|(lease, _)| lease);
        pass.used(instead_of);
        tracing::debug!(?key, holder = %lease.holder, token = lease.token.0, cause = grant.cause.as_str(), "granted");
        let now = after.loaded.now.after(sent.elapsed());
        let answer = decision::granted(&grant, lease, now, entry.cost.length(), policy);
        Ok(Granting::Granted(answer, after))
    }

    /// What is written to give somebody a lease.
    pub(super) fn commit_of(&self, seen: &Seen, grant: &Grant) -> Commit {
        let key = &seen.loaded.snapshot.key;
        let mut commit = Commit::new(key, &seen.loaded, grant.draft.clone());
        commit.not_before = if seen.recalled {
            grant.not_before.max(seen.loaded.now)
        } else {
            grant.not_before
        };
        commit.above = grant.above;
        commit.events = grant
            .supersedes
            .iter()
            .filter(|(lease, _)| !lease.holder.is_empty())
            .map(|(lease, reason)| Event::LeaseRevoked {
                key: key.clone(),
                lease: lease.id(),
                holder: lease.holder.clone(),
                reason: *reason,
            })
            .collect();
        commit
    }

    /// A retry is told of the lease that another try at the question got. The entry is written as it is, for a revision of its own: who
    /// would give the lease back because that other try has left finds it taken. It is not given back if this caller leaves too,
    /// because the other one may have been told.
    pub(super) async fn take_again(&self, seen: &Seen, bytes: bool, answer: Answer) -> Result<Granting, StoreError> {
        let entry = &seen.loaded.snapshot.entry;
        let mut commit = Commit::new(&seen.loaded.snapshot.key, &seen.loaded, entry.draft());
        commit.until = entry.lease.as_ref().map_or(commit.until, |lease| lease.deadline);
        commit.bytes_on_conflict = bytes;
        let sent = Instant::now();
        match self.store.commit(commit).await? {
            Outcome::Conflict(now) => Ok(Granting::Conflict(Seen::loaded(now, sent))),
            Outcome::Committed(committed) => {
                // What is left of the lease was seen when the entry was loaded.
                let answer = answer.later(seen.sent.elapsed());
                Ok(Granting::Granted(answer, after(&seen.loaded, committed, sent)))
            }
        }
    }

    /// A commit that gives its caller a lease: if the caller leaves first, it is finished all the same, and then given back.
    async fn commit_for_caller(
        self: &Arc<Self>,
        commit: Commit,
        turn: Turn,
        pass: Pass,
    ) -> (Result<Outcome, StoreError>, Pass) {
        let (store, coordinator) = (self.store.clone(), self.clone());
        let committing = async move {
            let outcome = store.commit(commit).await;
            drop(turn);
            (outcome, pass)
        };
        detach::finish(&self.tasks, committing, move |(outcome, pass)| match outcome {
            Ok(Outcome::Committed(committed)) => {
                pass.may_be_used();
                coordinator.give_back_later(committed.snapshot);
            }
            Err(StoreError::Unknown(_)) => pass.may_be_used(),
            Ok(Outcome::Conflict(_)) | Err(_) => {}
        })
        .await
    }

    /// Gives a lease back whose caller left before it was told.
    pub(super) fn give_back_later(self: &Arc<Self>, granted: Arc<Snapshot>) {
        let coordinator = self.clone();
        self.tasks.spawn(async move { coordinator.give_back(&granted).await });
    }

    /// Only from the entry as it was granted: where that has changed, the lease has ended, or a retry has it.
    pub(super) async fn give_back(self: &Arc<Self>, granted: &Arc<Snapshot>) {
        let (key, generations) = (&granted.key, Generations::default());
        let view = View {
            entry: &granted.entry,
            generations: &generations,
            now: StoreTime::ZERO,
        };
        let Some(lease) = granted.entry.lease.as_deref() else {
            return;
        };
        let (id, token) = (lease.id(), lease.token.0);
        let commit = Commit {
            key: key.clone(),
            expected: granted.revision,
            draft: decision::give_back(&view, lease.id()),
            bytes: NewBytes::Keep,
            not_before: StoreTime::ZERO,
            until: StoreTime::NEVER,
            above: Seq::NONE,
            guard: None,
            events: Vec::new(),
            bytes_on_conflict: false,
            rings_within: std::time::Duration::ZERO,
        };
        match self.store.commit(commit).await {
            Ok(Outcome::Committed(committed)) => {
                self.lease_ended(key, id, End::Vacated, committed.now);
                tracing::debug!(?key, token, "a grant whose caller had left was given back")
            }
            Ok(Outcome::Conflict(_)) => {}
            Err(error) => {
                tracing::warn!(?key, token, %error, "a grant whose caller had left could not be given back; it ends with its time")
            }
        }
    }
}

impl Seen {
    pub(super) fn loaded(loaded: Loaded, sent: Instant) -> Seen {
        Seen {
            loaded,
            sent,
            recalled: false,
        }
    }
}

/// The entry after a commit that left its value as it was: a store that keeps facts and value apart has not moved the bytes.
fn after(before: &Loaded, committed: Committed, sent: Instant) -> Seen {
    let (mut snapshot, bytes) = (committed.snapshot, &before.snapshot.bytes);
    if snapshot.bytes.is_none() && bytes.is_some() {
        Arc::make_mut(&mut snapshot).bytes = bytes.clone();
    }
    let loaded = Loaded {
        snapshot,
        generations: before.generations.clone(),
        now: committed.now,
    };
    Seen::loaded(loaded, sent)
}
