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
//! | a question | [`Coordinator::acquire`], `ask` and `grant`; then `parked` for the caller's side and `flight` for the queue's |
//! | a store that does not answer | `degraded`, and `losses` for what it knows |
//! | a report or a renewal | `report` |
//! | an invalidation | `invalidate` |
//! | a refresh that is due, and its worker | `refresh`, `workers`; `schedule` for what is planned, `demand` for what is wanted |
//! | how rebuilds are spread and held back | `shaping` |
//! | what operators see | `inspect` |

mod api;
mod ask;
mod degraded;
mod demand;
mod detach;
mod dice;
mod flight;
mod flights;
mod grant;
mod inspect;
mod invalidate;
mod losses;
mod parked;
mod refresh;
mod report;
mod schedule;
mod shaping;
mod workers;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::ask::Asked;
use self::degraded::Ears;
use self::demand::Demand;
use self::flights::Flights;
use self::losses::Losses;
use self::parked::Patience;
use self::refresh::{Fleet, News};
use self::shaping::Shaping;
use self::workers::Workers;
use crate::config::Policies;
use crate::decision::{Answer, Key, Policy};
use crate::fanout::Hub;
use crate::store::{Commit, Loaded, Outcome, Store, StoreError, Want};
pub use api::{
    Acquire, Acquired, Description, Error, Invalidate, Invalidated, LeaseInfo, MAX_TAGS, NamespaceInfo, Renew, Renewed,
    ReportValue, Reported,
};
pub use dice::Dice;
pub use refresh::RefreshNews;
pub use schedule::{MOST_PLANNED, RefreshScheduled, ScheduleRefresh};
pub use workers::{Pulled, Pulling, RefreshTask, Registration};

/// When to try again after something that passes soon.
const RETRY_SOON: Duration = Duration::from_millis(100);

/// How often a change is decided anew because somebody else was faster, before its caller is sent away: a key that changes that fast
/// has more callers than it can serve, and one that tries for ever is one of them for ever.
const MOST_CONFLICTS: u32 = 16;

/// The coordinator of a replica.
pub struct Coordinator {
    store: Arc<dyn Store>,
    policies: Policies,
    hub: Arc<Hub>,
    flights: Arc<Flights>,
    dice: Dice,
    draining: CancellationToken,
    tasks: TaskTracker,
    losses: Losses,
    /// Names this replica among those that have workers.
    replica: u64,
    workers: Arc<Workers>,
    fleet: Fleet,
    demand: Demand,
    news: OnceLock<News>,
    shaping: Shaping,
    /// It decides alone, beside one whose store does not answer.
    is_alone: bool,
    /// That store answers again.
    closed: AtomicBool,
}

/// How far a question came in one place.
enum Ended {
    /// To its end.
    With(Result<Acquired, Error>),
    /// The store does not answer.
    Lost(StoreError),
    /// It does again.
    Back,
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
            replica: Dice::id(),
            shaping: Shaping::new(&dice),
            dice,
            draining: CancellationToken::new(),
            tasks: TaskTracker::new(),
            losses: Losses::default(),
            workers: Workers::new(),
            fleet: Fleet::default(),
            demand: Demand::default(),
            news: OnceLock::new(),
            is_alone: false,
            closed: AtomicBool::new(false),
        });
        coordinator.store.feed().listen(Arc::new(Ears::of(&coordinator)));
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
        let alone = self.losses.all_alone();
        self.flights.parked() + alone.iter().map(|alone| alone.flights.parked()).sum::<usize>()
    }

    /// Answers everybody who is parked, and parks nobody any more. Reports, renewals and invalidations go on.
    pub fn drain(&self) {
        self.draining.cancel();
        self.workers.drain();
        self.flights.ring_all(|_| true);
        for alone in self.losses.all_alone() {
            alone.flights.ring_all(|_| true);
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
        match self.policies.of(namespace) {
            Some(policy) if self.is_alone => Ok(Arc::new(policy.degraded())),
            Some(policy) => Ok(policy),
            None => Err(Error::UnknownNamespace(namespace.to_owned())),
        }
    }

    /// May the caller rebuild, is there something to use, or is somebody on it? May park the caller.
    pub async fn acquire(self: &Arc<Self>, request: &Acquire) -> Result<Acquired, Error> {
        let policy = self.policy(request.key.namespace())?;
        let with_workers = self.with_workers(request);
        let request = with_workers.as_deref().unwrap_or(request);
        let hint = self.shaping.hot.asked(&request.key, request.hits.saturating_add(1));
        let result = self.acquire_anywhere(request, &policy).await;
        result.map(|acquired| Acquired { hint, ..acquired })
    }

    /// From the store, or alone while that does not answer.
    async fn acquire_anywhere(self: &Arc<Self>, request: &Acquire, policy: &Policy) -> Result<Acquired, Error> {
        let mut patience = Patience::default();
        let elsewhere = match self.acquire_from_store(request, policy, &mut patience).await {
            Ended::With(result) => return result,
            ended => Box::pin(self.acquire_elsewhere(request, policy, patience, ended)),
        };
        elsewhere.await
    }

    /// The same, as long as the store answers.
    ///
    /// What happens before and after a wait is boxed: thousands may be parked, and each of them is as large as all that its future
    /// might still have to hold.
    async fn acquire_from_store(
        self: &Arc<Self>,
        request: &Acquire,
        policy: &Policy,
        patience: &mut Patience,
    ) -> Ended {
        if let Some(error) = self.losses.lost(self, &request.key) {
            return Ended::Lost(error);
        }
        match Box::pin(self.ask(request, policy, patience)).await {
            Ok(Asked::Answered(acquired)) => Ended::With(Ok(acquired)),
            Ok(Asked::Waits(waits)) => self.park(request, Box::new(waits), policy, patience).await,
            Err(error) => self.ended_with(&request.key, error),
        }
    }

    /// Commits what `decide` makes of the entry, again for as long as somebody else is faster. `None` from it: there is nothing to do.
    async fn change(&self, key: &Key, decide: impl Fn(&Loaded) -> Option<Commit>) -> Result<bool, Error> {
        let mut loaded = self.store.load(key, &[], Want::default()).await?;
        for _ in 0..MOST_CONFLICTS {
            let Some(commit) = decide(&loaded) else {
                return Ok(false);
            };
            match self.store.commit(commit).await? {
                Outcome::Committed(_) => return Ok(true),
                Outcome::Conflict(now) => loaded = now,
            }
        }
        Err(Error::contended())
    }
}

impl Error {
    /// Others have changed the key each time before this call could.
    fn contended() -> Error {
        Error::Overloaded {
            what: "too many calls change this key at the same time",
            retry_after: RETRY_SOON,
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
            hint: None,
        }
    }
}

#[cfg(test)]
mod tests;
