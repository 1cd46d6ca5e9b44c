//! Making values old: keys, tags, a whole namespace; and waiting until every watcher knows.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::{TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::ask::Seen;
use super::shaping::End;
use super::{Coordinator, Error, Invalidate, Invalidated, MOST_CONFLICTS, RETRY_SOON, detach};
use crate::decision::{self, Body, Key, Lease, LeaseId, LostReason, Policy, Seq, StoreTime, Tag};
use crate::fanout::{Question, ask_everywhere};
use crate::store::{Commit, Covering, Event, NewBytes, Outcome, Place, Snapshot, Target};

/// Keys of one call that are under way at once.
const AT_ONCE: usize = 64;

/// So many targets are named in the audit log.
const NAMED: usize = 10;

/// One target, committed.
struct Done {
    target: Target,
    number: Seq,
    place: Place,
    revoked: u32,
}

impl Coordinator {
    /// Makes values old. An answer means that all of it is committed; after an error, parts may be, and it is safe to repeat.
    ///
    /// What was begun is finished even if the caller leaves: half an invalidation helps nobody.
    pub async fn invalidate(self: &Arc<Self>, request: Invalidate) -> Result<Invalidated, Error> {
        let policy = self.policy(&request.namespace)?;
        // Before anything is committed: who is refused has changed nothing.
        let room = (!request.wait_for_watchers.is_zero()).then(|| self.hub.room_for_barrier());
        let _room = room.transpose().map_err(|_| Error::Overloaded {
            what: "as many calls as it takes wait for watchers",
            retry_after: RETRY_SOON,
        })?;
        let (coordinator, work) = (self.clone(), request.clone());
        let commits = async move { coordinator.invalidate_all(&work, &policy).await };
        let done = detach::finish(&self.tasks, commits, |_| ()).await?;
        tracing::info!(
            target: "drover::audit",
            namespace = %request.namespace,
            targets = %names(&request.targets),
            mode = request.mode.as_str(),
            reason = ?request.reason,
            "invalidated",
        );
        let question = Question {
            namespace: request.namespace,
            targets: request.targets,
            places: latest(done.iter().map(|done| done.place)),
            wait: request.wait_for_watchers,
        };
        let barrier = ask_everywhere(&self.hub, self.store.peers().as_deref(), question).await;
        Ok(Invalidated {
            leases_revoked: done.iter().map(|done| done.revoked).sum(),
            targets: done.into_iter().map(|done| (done.target, done.number)).collect(),
            watchers: count(barrier.watchers),
            acknowledged: count(barrier.acknowledged),
            confirmed: barrier.confirmed,
            laggards: barrier.laggards,
        })
    }

    async fn invalidate_all(self: &Arc<Self>, request: &Invalidate, policy: &Policy) -> Result<Vec<Done>, Error> {
        stream::iter(request.targets.iter().cloned().map(Ok))
            .map_ok(|target| async move {
                match target {
                    Target::Key(key) => self.invalidate_key(key, request, policy).await,
                    Target::Tag(tag) => self.invalidate_covering(Some(tag), request).await,
                    Target::Everything => self.invalidate_covering(None, request).await,
                }
            })
            .try_buffered(AT_ONCE)
            .try_collect()
            .await
    }

    /// One trip where this replica remembers the key as it is; the store refuses the commit where it does not.
    async fn invalidate_key(self: &Arc<Self>, key: Key, request: &Invalidate, policy: &Policy) -> Result<Done, Error> {
        let mut seen = self.recall_or_see(&key, &[]).await?;
        for _ in 0..MOST_CONFLICTS {
            let view = seen.loaded.view();
            let revoked = view.lease().is_some();
            // Also one that an invalidation of a tag has covered a moment ago, and nobody has removed yet: its end is told by whoever does.
            let removed = seen.loaded.snapshot.entry.lease.as_deref().map(Lease::id);
            let sent = Instant::now();
            match self.store.commit(invalidation(&key, &seen, request, policy)).await? {
                Outcome::Conflict(now) => seen = Seen::loaded(now, sent),
                Outcome::Committed(committed) => {
                    if let Some(lease) = removed {
                        self.lease_ended(&key, lease, End::Vacated, committed.now);
                    }
                    return Ok(Done {
                        target: Target::Key(key),
                        number: committed.number,
                        place: committed.place,
                        revoked: u32::from(revoked),
                    });
                }
            }
        }
        Err(Error::contended())
    }

    async fn invalidate_covering(self: &Arc<Self>, tag: Option<Tag>, request: &Invalidate) -> Result<Done, Error> {
        let covering = Covering {
            namespace: request.namespace.clone(),
            tag: tag.clone(),
            mode: request.mode,
            settle: request.settle,
        };
        let invalidated = self.store.invalidate(covering).await?;
        let revoked = self.revoke_covered(&request.namespace, tag.as_ref()).await;
        Ok(Done {
            target: tag.map_or(Target::Everything, Target::Tag),
            number: invalidated.number,
            place: invalidated.place,
            revoked,
        })
    }

    /// Commits what every looker sees already: the covered leases are none any more. So their holders are told, and those
    /// who wait for them are promoted at once. A lease that escapes it (the store fails in between) is still none to anybody who looks.
    async fn revoke_covered(self: &Arc<Self>, namespace: &str, tag: Option<&Tag>) -> u32 {
        let leases = match self.store.leases(Some(namespace)).await {
            Ok(leases) => leases,
            Err(error) => {
                tracing::warn!(namespace, %error, "holders of covered leases could not be told; their reports are refused all the same");
                return 0;
            }
        };
        let mut revoked = 0;
        for snapshot in leases.iter().filter(|snapshot| is_covered(snapshot, tag)) {
            match self.revoke(&snapshot.key).await {
                Ok(true) => revoked += 1,
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(key = ?snapshot.key, %error, "a covered lease could not be revoked; it counts as none all the same")
                }
            }
        }
        revoked
    }

    async fn revoke(self: &Arc<Self>, key: &Key) -> Result<bool, Error> {
        let ended: Mutex<Option<(LeaseId, StoreTime)>> = Mutex::default();
        let revoked = self.change(key, |loaded| {
            let lease = loaded.snapshot.entry.lease.as_deref()?;
            *ended.lock() = Some((lease.id(), loaded.now));
            let mut commit = Commit::new(key, loaded, decision::revoke(&loaded.view())?);
            if !lease.holder.is_empty() {
                let (lease, holder) = (lease.id(), lease.holder.clone());
                commit.events.push(Event::LeaseRevoked {
                    key: key.clone(),
                    lease,
                    holder,
                    reason: LostReason::Invalidated,
                });
            }
            Some(commit)
        });
        let revoked = revoked.await?;
        if let Some((lease, now)) = ended.into_inner().filter(|_| revoked) {
            self.lease_ended(key, lease, End::Vacated, now);
        }
        Ok(revoked)
    }
}

/// What an invalidation that names a key writes, and whom it tells.
fn invalidation(key: &Key, seen: &Seen, request: &Invalidate, policy: &Policy) -> Commit {
    let view = seen.loaded.view();
    let invalidation = decision::invalidate(&view, request.mode, request.settle, policy);
    let mut events = vec![Event::Invalidated {
        namespace: request.namespace.clone(),
        target: Target::Key(key.clone()),
        mode: request.mode,
    }];
    let held = view.lease().filter(|lease| !lease.holder.is_empty());
    events.extend(held.map(|lease| Event::LeaseRevoked {
        key: key.clone(),
        lease: lease.id(),
        holder: lease.holder.clone(),
        reason: LostReason::Invalidated,
    }));
    Commit {
        draft: invalidation.draft,
        bytes: if invalidation.body == Body::Clear {
            NewBytes::Clear
        } else {
            NewBytes::Keep
        },
        events,
        ..Commit::new(key, &seen.loaded, decision::Draft::default())
    }
}

/// The first few targets by name, and how many more there are.
fn names(targets: &[Target]) -> String {
    let named = targets.iter().take(NAMED).map(|target| match target {
        Target::Key(key) => format!("key {:?}", key.name()),
        Target::Tag(tag) => format!("tag {tag:?}"),
        Target::Everything => "everything".to_owned(),
    });
    let mut names = named.collect::<Vec<_>>().join(", ");
    if targets.len() > NAMED {
        names.push_str(&format!(" and {} more", targets.len() - NAMED));
    }
    names
}

/// The latest place of each partition.
fn latest(places: impl Iterator<Item = Place>) -> Vec<Place> {
    let mut latest = BTreeMap::new();
    for place in places {
        let at = latest.entry(place.partition).or_insert(place.at);
        *at = place.at.max(*at);
    }
    latest
        .into_iter()
        .map(|(partition, at)| Place { partition, at })
        .collect()
}

fn count(watchers: usize) -> u32 {
    u32::try_from(watchers).unwrap_or(u32::MAX)
}

fn is_covered(snapshot: &Snapshot, tag: Option<&Tag>) -> bool {
    let Some(tag) = tag else { return true };
    let entry = &snapshot.entry;
    entry.lease.as_deref().is_some_and(|lease| lease.tags().contains(tag))
        || entry.value.as_ref().is_some_and(|value| value.tags().contains(tag))
}
