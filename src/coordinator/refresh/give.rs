//! The way of one task: load, `offer`, commit, hand over.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Done, LOOK_AGAIN, RefreshNews};
use crate::coordinator::ask::Seen;
use crate::coordinator::shaping::HeldBack;
use crate::coordinator::workers::{Handed, RefreshTask, Seat, Seating};
use crate::coordinator::{Coordinator, MOST_CONFLICTS, RETRY_SOON};
use crate::decision::{
    self, Attempts, Cause, Dropped, Grant, Key, Lease, Offer, OfferDecision, Policy, Seq, StoreTime, Value, Why,
};
use crate::store::{Commit, Committed, Guard, Outcome, Scheduled, StoreError, Task, TaskKind, Want};

/// What became of an offer.
enum Given {
    Away(Box<Leased>),
    Later(StoreTime, Attempts),
    /// The worker that was to have it has left.
    Back(StoreTime, Attempts),
    Over(Dropped),
}

/// A worker has the lease.
struct Leased {
    now: StoreTime,
    deadline: StoreTime,
    cause: Cause,
    attempts: Attempts,
}

impl Coordinator {
    /// Gives a claimed task to a worker, if it is to be given.
    pub(super) async fn give(self: &Arc<Self>, task: Task, now: StoreTime) -> Done {
        let Ok(policy) = self.policy(task.key.namespace()) else {
            return Done::Settle(task, None);
        };
        let due = task.due;
        let seat = match self.workers.seat(&task.key) {
            Seating::Seat(seat) => seat,
            // As if it had not been claimed.
            Seating::Full => return Done::Pass(task, due),
            Seating::NotYet => return Done::Pass(task, now.after(RETRY_SOON)),
        };
        let asked_for = self.demand.take(&task.key) || task.asked_for;
        let done = self.offer(&task, seat, asked_for, &policy).await;
        if asked_for && !matches!(done, Ok(Given::Away(_))) {
            self.demand.mark(&task.key);
        }
        match done {
            Ok(Given::Away(lease)) => self.given(task, &lease),
            Ok(Given::Later(at, attempts)) => Done::Settle(with_attempts(task, attempts), Some(at)),
            Ok(Given::Back(at, attempts)) => Done::Pass(with_attempts(task, attempts), at),
            Ok(Given::Over(why)) => {
                tracing::debug!(key = ?task.key, kind = task.kind.as_str(), why = why.as_str(), "a refresh is not needed");
                self.tell(&task.key, RefreshNews::Dropped(why));
                Done::Settle(task, None)
            }
            Err(error) => {
                tracing::debug!(key = ?task.key, %error, "a due refresh could not be given out; it is tried again");
                Done::Nothing
            }
        }
    }

    fn given(&self, task: Task, given: &Leased) -> Done {
        let late = given.now.since(task.due);
        self.tell(
            &task.key,
            RefreshNews::Dispatched {
                late,
                cause: given.cause,
            },
        );
        match task.kind {
            // The commit of the lease has put it to its deadline.
            TaskKind::Due => Done::Nothing,
            TaskKind::Scheduled(_) => Done::Settle(with_attempts(task, given.attempts), Some(given.deadline)),
        }
    }

    async fn offer(
        self: &Arc<Self>,
        task: &Task,
        seat: Seat,
        asked_for: bool,
        policy: &Policy,
    ) -> Result<Given, StoreError> {
        let scheduled = match &task.kind {
            TaskKind::Due => None,
            TaskKind::Scheduled(scheduled) => Some(&**scheduled),
        };
        let offer = Offer {
            holder: seat.holder.clone(),
            why: scheduled.map_or(Why::Due { asked_for }, |scheduled| Why::Scheduled {
                at: scheduled.at,
                only_if_missing: scheduled.only_if_missing,
            }),
            traceparent: scheduled.and_then(|scheduled| scheduled.traceparent.clone()),
        };
        let mut seen = self.see(&task.key, &[], Want::default()).await?;
        for _ in 0..MOST_CONFLICTS {
            let attempts = match looked_at(scheduled, &seen) {
                Ok(attempts) => attempts,
                Err(over) => return Ok(Given::Over(over)),
            };
            let grant = match decision::offer(&seen.loaded.view(), &offer, policy, self.dice.draw()) {
                OfferDecision::Later(at) => return Ok(Given::Later(at, attempts)),
                OfferDecision::Drop(why) => return Ok(Given::Over(why)),
                OfferDecision::Grant(grant) => grant,
            };
            let turn = self.turn(&task.key, self.store.recall(&task.key).is_some());
            let Ok(turn) = turn else {
                return Ok(Given::Later(seen.loaded.now.after(RETRY_SOON), attempts));
            };
            let pass = match self.admit(&seen, &grant, policy).await? {
                Ok(pass) => pass,
                // As if it had not been claimed: it keeps its turn until a place is free.
                Err(HeldBack::NoPlace(_)) => return Ok(Given::Later(task.due, attempts)),
                Err(HeldBack::CircuitOpen(again)) => {
                    return Ok(Given::Later(seen.loaded.now.after(again), attempts));
                }
            };
            self.tell(&task.key, RefreshNews::Offered);
            let mut commit = self.task_commit(&seen, &grant, policy);
            commit.until = pass.until();
            let sent = Instant::now();
            let outcome = self.store.commit(commit).await;
            drop(turn);
            match outcome {
                Ok(Outcome::Conflict(now)) => seen = Seen::loaded(now, sent),
                Ok(Outcome::Committed(committed)) => {
                    pass.used(grant.supersedes.as_ref().map(|(lease, _)| lease));
                    return Ok(self.hand_over(seat, &seen, committed, sent, attempts).await);
                }
                Err(error) => {
                    if matches!(error, StoreError::Unknown(_)) {
                        pass.may_be_used();
                    }
                    return Err(error);
                }
            }
        }
        Ok(Given::Later(
            seen.loaded.now.after(RETRY_SOON),
            looked_at(scheduled, &seen).unwrap_or_default(),
        ))
    }

    /// The store has taken the grant.
    async fn hand_over(
        self: &Arc<Self>,
        seat: Seat,
        seen: &Seen,
        committed: Committed,
        sent: Instant,
        attempts: Attempts,
    ) -> Given {
        let granted = committed.snapshot;
        let Some(lease) = granted.entry.lease.as_deref() else {
            return Given::Later(committed.now.after(RETRY_SOON), attempts);
        };
        let handed = Handed {
            task: refresh_task(&granted.key, lease, seen, committed.now),
            sent,
            granted: granted.clone(),
        };
        if let Err(granted) = seat.hand(handed) {
            self.give_back(&granted).await;
            return Given::Back(committed.now, attempts);
        }
        Given::Away(Box::new(Leased {
            now: committed.now,
            deadline: lease.deadline,
            cause: lease.cause,
            attempts: attempts.given(&seen.loaded.snapshot.entry, lease.token),
        }))
    }

    /// Its report at another replica rings here: until then the worker has it in hand. What is invalidated meanwhile is no task any more.
    fn task_commit(&self, seen: &Seen, grant: &Grant, policy: &Policy) -> Commit {
        let mut commit = self.commit_of(seen, grant);
        let stored = seen.loaded.snapshot.entry.value.as_ref().map_or(&[][..], Value::tags);
        commit.guard = Some(Guard {
            tags: stored.to_vec(),
            newest: seen.loaded.generations.newest(),
        });
        commit.rings_within = policy.lease_ttl + LOOK_AGAIN;
        commit
    }
}

fn looked_at(scheduled: Option<&Scheduled>, seen: &Seen) -> Result<Attempts, Dropped> {
    scheduled.map_or(Ok(Attempts::default()), |scheduled| {
        scheduled.attempts.look(&seen.loaded.snapshot.entry)
    })
}

fn with_attempts(mut task: Task, attempts: Attempts) -> Task {
    if let TaskKind::Scheduled(scheduled) = &mut task.kind {
        scheduled.attempts = attempts;
    }
    task
}

fn refresh_task(key: &Key, lease: &Lease, seen: &Seen, now: StoreTime) -> RefreshTask {
    let view = seen.loaded.view();
    RefreshTask {
        key: key.clone(),
        lease: lease.id(),
        ttl: lease.deadline.since(now),
        max_hold: lease.hold_until.since(now),
        cause: lease.cause,
        version: view.standing().map_or(Seq::NONE, |standing| standing.value.version),
        cost: view.entry.cost.length(),
        traceparent: lease.traceparent.clone(),
    }
}
