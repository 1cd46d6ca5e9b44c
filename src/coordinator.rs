//! Where the four parts meet: load, decide, commit, answer or park.
//!
//! *Owns* the order of these steps, who is parked, and what is finished although its caller has left. *Never* decides: each rule is in
//! `decision`, each fact in the store.
//!
//! *Invariants.* A decision is committed against the revision it was made from, or made again. Callers of one key that must wait stand
//! in one queue, oldest first; a newcomer does not overtake it. Reports, renewals and invalidations never queue behind parked
//! callers: nothing here is held while waiting.
//!
//! | to follow | read |
//! |---|---|
//! | a question | [`Coordinator::acquire`], then `parked` for the caller's side and `flight` for the queue's |
//! | a report or a renewal | `report` |
//! | an invalidation | `invalidate` |
//! | what operators see | `inspect` |

mod api;
mod detach;
mod dice;
mod flight;
mod flights;
mod inspect;
mod invalidate;
mod parked;
mod report;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::flights::Flights;
use crate::config::Policies;
use crate::decision::{self, Answer, Ask, Decision, Generations, Grant, Key, Policy, Seq, StoreTime, View};
use crate::fanout::{Hub, Listener, Record, ResetReason};
use crate::store::{Commit, Event, Loaded, NewBytes, Outcome, Snapshot, Store, StoreError, Want};
pub use api::{
    Acquire, Acquired, Description, Error, Invalidate, Invalidated, LeaseInfo, MAX_TAGS, NamespaceInfo, Renew, Renewed,
    ReportValue, Reported,
};
pub use dice::Dice;

/// When to try again after something that passes soon.
const RETRY_SOON: Duration = Duration::from_millis(100);

/// The coordinator of a replica.
pub struct Coordinator {
    store: Arc<dyn Store>,
    policies: Policies,
    hub: Arc<Hub>,
    flights: Arc<Flights>,
    dice: Dice,
    draining: CancellationToken,
    tasks: TaskTracker,
}

/// What became of a grant.
enum Granting {
    /// The caller has the lease; how the entry is now.
    Granted(Answer, Loaded),
    /// Something has changed: how it is now.
    Conflict(Loaded),
}

/// What a question came to, short of waiting.
enum Asked {
    /// It is answered.
    Answered(Acquired),
    /// It is to wait for the lease with this number; `when_over` is what it gets if nothing better comes of that.
    Waits { on: Seq, when_over: Acquired },
}

impl Coordinator {
    /// Over a store, with the policies in force and room for so many parked callers. From now on it hears what the store commits.
    pub fn new(
        store: Arc<dyn Store>,
        policies: Policies,
        hub: Arc<Hub>,
        dice: Dice,
        max_waiters: usize,
    ) -> Arc<Coordinator> {
        let coordinator = Arc::new(Coordinator {
            store,
            policies,
            hub,
            flights: Arc::new(Flights::new(max_waiters)),
            dice,
            draining: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        // Not the coordinator itself: the store would keep alive who keeps the store alive.
        coordinator.store.feed().listen(coordinator.flights.clone());
        coordinator
    }

    /// The watchers.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// The policies in force.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Callers parked at this replica.
    pub fn parked(&self) -> usize {
        self.flights.parked()
    }

    /// Answers everybody who is parked, and parks nobody any more. Reports, renewals and invalidations go on.
    pub fn drain(&self) {
        self.draining.cancel();
        for flight in self.flights.all() {
            flight.bell.notify_one();
        }
    }

    /// Waits until everything that was begun is finished; after [`Coordinator::drain`].
    pub async fn finished(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    fn policy(&self, namespace: &str) -> Result<Arc<Policy>, Error> {
        self.policies
            .of(namespace)
            .ok_or_else(|| Error::UnknownNamespace(namespace.to_owned()))
    }

    /// May the caller rebuild, is there something to use, or is somebody on it? May park the caller.
    ///
    /// What happens before and after a wait is boxed: thousands may be parked, and each of them is as large as all that its future
    /// might still have to hold.
    pub async fn acquire(self: &Arc<Self>, request: &Acquire) -> Result<Acquired, Error> {
        let policy = self.policy(request.key.namespace())?;
        let asked = Box::pin(self.ask(request, &policy)).await?;
        let (on, over) = match asked {
            Asked::Answered(acquired) => return Ok(acquired),
            Asked::Waits { on, when_over } => (on, Box::new(when_over)),
        };
        self.park(request, on, over, &policy).await
    }

    /// Everything but the wait.
    async fn ask(self: &Arc<Self>, request: &Acquire, policy: &Policy) -> Result<Asked, Error> {
        let Acquire { key, ask, .. } = request;
        let want = Want {
            bytes: !ask.omit_value,
            rings: false,
        };
        let mut loaded = self.store.load(key, decision::tags_asked(ask), want).await?;
        if let Some(field) = ask.too_far_ahead(loaded.now) {
            let problem =
                "more than a day ahead of the store's time; send a number that a grant or your own store has shown";
            return Err(Error::InvalidField {
                field,
                problem: problem.to_owned(),
            });
        }
        loop {
            let granting = match decision::acquire(&loaded.view(), ask, policy, self.dice.draw()) {
                Decision::Answer(answer @ Answer::Rebuild(_)) => self.take_again(&loaded, answer).await?,
                Decision::Answer(answer) => return Ok(Asked::Answered(Acquired::at_once(answer, &loaded))),
                Decision::Wait(wait) => {
                    let when_over = Acquired::at_once(wait.when_over, &loaded);
                    return Ok(Asked::Waits { on: wait.on, when_over });
                }
                Decision::Grant(_) if self.is_draining() => return Err(Error::Draining),
                // Others have been waiting for longer: the newcomer stands at the end of their queue.
                Decision::Grant(grant) if self.flights.get(key).is_some_and(|flight| flight.len() > 0) => {
                    let instead = decision::instead(*grant, self.dice.draw());
                    let when_over = Acquired::at_once(instead, &loaded);
                    return Ok(Asked::Waits {
                        on: Seq::NONE,
                        when_over,
                    });
                }
                Decision::Grant(grant) => self.grant(&loaded, ask, *grant, policy).await?,
            };
            match granting {
                Granting::Granted(answer, _) => return Ok(Asked::Answered(Acquired::at_once(answer, &loaded))),
                Granting::Conflict(now) => loaded = now,
            }
        }
    }

    /// Commits a grant. It is finished even if its caller leaves, and then given back.
    async fn grant(
        self: &Arc<Self>,
        loaded: &Loaded,
        ask: &Ask,
        grant: Grant,
        policy: &Policy,
    ) -> Result<Granting, StoreError> {
        let key = &loaded.snapshot.key;
        let mut commit = Commit::new(key, loaded, grant.draft.clone());
        commit.not_before = grant.not_before;
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
        match self.commit_for_caller(commit).await? {
            Outcome::Conflict(now) => Ok(Granting::Conflict(now)),
            Outcome::Committed(committed) => {
                let after = Loaded {
                    snapshot: committed.snapshot,
                    generations: loaded.generations.clone(),
                    now: committed.now,
                };
                match after.snapshot.entry.lease.as_deref() {
                    Some(lease) => {
                        tracing::debug!(?key, holder = %ask.holder, token = lease.token.0, cause = grant.cause.as_str(), "granted");
                        let answer =
                            decision::granted(&grant, lease, after.now, after.snapshot.entry.cost.length(), policy);
                        Ok(Granting::Granted(answer, after))
                    }
                    None => Err(StoreError::Unknown(
                        "a grant was committed without its lease; this is a bug in the store".to_owned(),
                    )),
                }
            }
        }
    }

    /// A retry is told of the lease that another try at the question got. The entry is written as it is, for a revision of its own: who
    /// would give the lease back because that other try has left finds it taken. It is not given back if this caller leaves too,
    /// because the other one may have been told.
    async fn take_again(&self, loaded: &Loaded, answer: Answer) -> Result<Granting, StoreError> {
        let entry = &loaded.snapshot.entry;
        let mut commit = Commit::new(&loaded.snapshot.key, loaded, entry.draft());
        commit.until = entry.lease.as_ref().map_or(commit.until, |lease| lease.deadline);
        match self.store.commit(commit).await? {
            Outcome::Conflict(now) => Ok(Granting::Conflict(now)),
            Outcome::Committed(committed) => {
                let after = Loaded {
                    snapshot: committed.snapshot,
                    generations: loaded.generations.clone(),
                    now: committed.now,
                };
                Ok(Granting::Granted(answer, after))
            }
        }
    }

    /// A commit that gives its caller a lease: if the caller leaves first, it is finished all the same, and then given back.
    async fn commit_for_caller(self: &Arc<Self>, commit: Commit) -> Result<Outcome, StoreError> {
        let (store, coordinator) = (self.store.clone(), self.clone());
        detach::finish(&self.tasks, async move { store.commit(commit).await }, move |outcome| {
            if let Ok(Outcome::Committed(committed)) = outcome {
                coordinator.give_back_later(committed.snapshot);
            }
        })
        .await
    }

    /// Gives a lease back whose caller left before it was told.
    fn give_back_later(self: &Arc<Self>, granted: Arc<Snapshot>) {
        let coordinator = self.clone();
        self.tasks.spawn(async move { coordinator.give_back(&granted).await });
    }

    /// Only from the entry as it was granted: where that has changed, the lease has ended, or a retry has it.
    async fn give_back(&self, granted: &Arc<Snapshot>) {
        let (key, generations) = (&granted.key, Generations::default());
        let view = View {
            entry: &granted.entry,
            generations: &generations,
            now: StoreTime::ZERO,
        };
        let Some(lease) = granted.entry.lease.as_deref() else {
            return;
        };
        let token = lease.token.0;
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
        };
        match self.store.commit(commit).await {
            Ok(Outcome::Committed(_)) => {
                tracing::debug!(?key, token, "a grant whose caller had left was given back")
            }
            Ok(Outcome::Conflict(_)) => {}
            Err(error) => {
                tracing::warn!(?key, token, %error, "a grant whose caller had left could not be given back; it ends with its time")
            }
        }
    }

    /// Commits what `decide` makes of the entry, again for as long as somebody else is faster. `None` from it: there is nothing to do.
    async fn change(&self, key: &Key, decide: impl Fn(&Loaded) -> Option<Commit>) -> Result<bool, StoreError> {
        let mut loaded = self.store.load(key, &[], Want::default()).await?;
        loop {
            let Some(commit) = decide(&loaded) else {
                return Ok(false);
            };
            match self.store.commit(commit).await? {
                Outcome::Committed(_) => return Ok(true),
                Outcome::Conflict(now) => loaded = now,
            }
        }
    }
}

impl Acquired {
    fn at_once(answer: Answer, loaded: &Loaded) -> Acquired {
        let bytes = answer.hit().and_then(|_| loaded.snapshot.bytes.clone());
        Acquired {
            answer,
            bytes,
            degraded: false,
            waited: Duration::ZERO,
        }
    }
}

impl Listener for Flights {
    fn rung(&self, key: &Key) {
        self.ring(key);
    }

    fn logged(&self, _: &Record) {}

    fn reset(&self, _: ResetReason) {
        // Rings may have been lost with the log.
        for flight in self.all() {
            flight.bell.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
