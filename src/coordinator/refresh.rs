//! Giving due refreshes to workers.
//!
//! *Owns* the loop of a replica that claims tasks from the store's schedule, and the way of each: load, `offer`, commit, hand over. *Never*
//! decides whether a key is refreshed; and that no key is given to two is the store's doing, since what a worker gets is a lease.
//!
//! *When it looks*: when the next task is due, once a second in any case, and when it is rung for: a worker has come or has a place free, a
//! task has come near. So a ring that is lost costs a second.
//!
//! *Where there is no worker in the fleet*, what was planned is taken out of the schedule when its time comes, and its key's entry is marked as
//! due: the next caller is asked to rebuild it. Any replica does that.
//!
//! *A key for which callers are parked here* is left to them: they have come first.

mod give;
mod unattended;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::Instant;

use super::{Acquire, Coordinator, RETRY_SOON};
use crate::decision::{self, Cause, Dropped, Key, Seq, StoreTime};
use crate::store::{Claim, Claimed, Settled, StoreError, Task, Want};

/// Without a ring, it is looked again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The store is told so often of the workers that are here.
const STAFF_EVERY: Duration = Duration::from_secs(10);
/// And commits keep the schedule for so long after the last word of them: a worker that connects anew must find it kept.
const STAFF_LASTS: Duration = Duration::from_secs(60);
/// A claimed task is this replica's for so long.
const HOLD: Duration = Duration::from_secs(5);
/// So many tasks are under way to workers at the same time, and claimed at once.
const AT_ONCE: usize = 64;
/// So many marks of demand are handed on in one call.
const MARKS: usize = 1_000;

/// What became of a refresh, for those who count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshNews {
    /// A worker was to have it.
    Offered,
    /// A worker has it, so long after it was due.
    Dispatched {
        /// From due to the lease.
        late: Duration,
        /// Of the grant.
        cause: Cause,
    },
    /// It is not needed.
    Dropped(Dropped),
}

/// Hears of refreshes.
pub(super) type News = Box<dyn Fn(&str, RefreshNews) + Send + Sync>;

/// What the fleet's workers are, as far as this replica has heard.
#[derive(Default)]
pub(super) struct Fleet {
    any: AtomicBool,
    workers: ArcSwap<HashMap<Arc<str>, u32>>,
}

impl Fleet {
    fn heard(&self, workers: Vec<(Arc<str>, u32)>) {
        let workers: HashMap<Arc<str>, u32> = workers.into_iter().filter(|(_, count)| *count > 0).collect();
        self.any.store(!workers.is_empty(), Ordering::Release);
        self.workers.store(Arc::new(workers));
    }

    fn of(&self, namespace: &str) -> u32 {
        if !self.any.load(Ordering::Acquire) {
            return 0;
        }
        self.workers.load().get(namespace).copied().unwrap_or_default()
    }
}

/// What the loop knows from one round to the next.
#[derive(Default)]
struct Rounds {
    staffed: Option<Instant>,
    /// There were workers here before: the store is told that there are none.
    had_staff: bool,
    looked_around: Option<Instant>,
    /// The namespace that was served last: the next one begins.
    turn: Option<Arc<str>>,
    next: Option<Instant>,
}

/// What became of a task.
enum Done {
    /// It goes back to the schedule, or out of it.
    Settle(Task, Option<StoreTime>),
    /// It goes back to the schedule, and a worker at another replica may take it.
    Pass(Task, StoreTime),
    /// A worker has it, and the commit of its lease has seen to the schedule; or it was lost, and comes back when its hold is over.
    Nothing,
}

impl Coordinator {
    /// Gives due refreshes to workers, until this replica drains.
    pub async fn refresh(self: Arc<Self>) {
        let mut rounds = Rounds::default();
        while !self.is_draining() {
            rounds.next = None;
            self.round(&mut rounds).await;
            let latest = Instant::now() + LOOK_AGAIN;
            let next = rounds.next.map_or(latest, |next| next.min(latest));
            tokio::select! {
                // So that the same seed of a simulation gives the same rounds.
                biased;
                () = self.workers.rung() => {}
                () = tokio::time::sleep_until(next) => {}
                () = self.draining.cancelled() => {}
            }
        }
        if rounds.had_staff {
            let _ = self.store.staff(self.replica, &[], STAFF_LASTS).await;
        }
    }

    async fn round(self: &Arc<Self>, rounds: &mut Rounds) {
        if let Err(error) = self.tell_staff(rounds).await {
            tracing::debug!(%error, "the store could not be told of the workers here; trying again");
            rounds.soon(Instant::now() + RETRY_SOON);
        }
        self.look_after_leases(rounds).await;
        if rounds.is_to_look_around() {
            self.look_around().await;
        }
        if let Err(error) = self.give_out(rounds).await {
            tracing::debug!(%error, "due refreshes could not be claimed; trying again");
        }
    }

    /// Tells the store who works here.
    async fn tell_staff(&self, rounds: &mut Rounds) -> Result<(), StoreError> {
        let changed = self.workers.changed_staff();
        let overdue = rounds.staffed.is_none_or(|told| told.elapsed() >= STAFF_EVERY);
        let (staff, new) = match changed {
            Some((staff, new)) => (staff, new),
            None if overdue && rounds.had_staff => (self.workers.staff(), Vec::new()),
            None => return Ok(()),
        };
        rounds.had_staff |= !staff.is_empty();
        let told = self.store.staff(self.replica, &staff, STAFF_LASTS).await;
        if told.is_err() {
            self.workers.tell_again();
        }
        told?;
        rounds.staffed = Some(Instant::now());
        self.fleet.heard(self.store.workers());
        self.workers.started(&new);
        Ok(())
    }

    /// What is done once a second: the fleet's workers are counted, demand is handed on, and what is planned where no worker is, is seen to.
    async fn look_around(self: &Arc<Self>) {
        self.fleet.heard(self.store.workers());
        if self.store.peers().is_some() {
            self.hand_on_demand().await;
        }
        let planned = match self.store.planned().await {
            Ok(planned) => planned,
            Err(error) => {
                tracing::debug!(%error, "what is planned could not be listed");
                return;
            }
        };
        for namespace in planned.iter().filter(|name| self.fleet.of(name) == 0) {
            if let Err(error) = self.see_to_planned(namespace).await {
                tracing::debug!(%error, namespace = &**namespace, "what is planned could not be claimed");
            }
        }
    }

    async fn hand_on_demand(&self) {
        loop {
            let marks = self.demand.drain(MARKS);
            let full = marks.len() == MARKS;
            if marks.is_empty() {
                return;
            }
            if let Err(error) = self.store.asked(marks.clone()).await {
                tracing::debug!(%error, "demand could not be handed on; trying again");
                marks.iter().for_each(|key| self.demand.mark(key));
                return;
            }
            if !full {
                return;
            }
        }
    }

    /// The leases of tasks that workers here have: those that have ended are in hand no more.
    async fn look_after_leases(&self, rounds: &mut Rounds) {
        let (looks, next) = self.workers.to_look_at();
        rounds.soon_if(next);
        let look = |(key, token): (Key, Seq)| async move {
            let want = Want {
                bytes: false,
                rings: true,
            };
            let Ok(seen) = self.see(&key, &[], want).await else {
                // It is looked at again when it is rung for; the lease's time has not changed.
                self.workers.renewed(&key, token, Instant::now() + LOOK_AGAIN);
                return;
            };
            match seen.loaded.view().lease().filter(|lease| lease.token == token) {
                Some(lease) => {
                    let until = seen.sent + lease.deadline.since(seen.loaded.now);
                    self.workers.renewed(&key, token, until);
                }
                None => self.workers.ended(
                    &key,
                    token,
                    decision::was_given_back(&seen.loaded.snapshot.entry, token),
                ),
            }
        };
        stream::iter(looks).for_each_concurrent(AT_ONCE, look).await;
    }

    /// Claims what is due for those who have places free, namespace after namespace, until nothing is left or nobody wants more.
    async fn give_out(self: &Arc<Self>, rounds: &mut Rounds) -> Result<(), StoreError> {
        loop {
            let mut wanting = self.workers.wanting();
            let begins = rounds
                .turn
                .as_ref()
                .map_or(0, |turn| wanting.partition_point(|name| name <= turn));
            let count = wanting.len();
            wanting.rotate_left(if begins < count { begins } else { 0 });
            let mut any = false;
            for namespace in wanting {
                let Some(wants) = self.workers.wants(&namespace) else {
                    continue;
                };
                let room = match self.room_for_tasks(&namespace) {
                    Ok(room) => room,
                    Err(wait) => {
                        rounds.soon(Instant::now() + wait);
                        continue;
                    }
                };
                let claim = Claim {
                    namespace: namespace.clone(),
                    prefixes: wants.prefixes,
                    most: wants.free.div_ceil(count).min(AT_ONCE).min(room),
                    hold: HOLD,
                };
                let sent = Instant::now();
                let Claimed { tasks, now, next } = self.store.claim(claim).await?;
                any |= !tasks.is_empty();
                if !tasks.is_empty() {
                    rounds.turn = Some(namespace);
                    self.give_all(tasks, now).await?;
                } else if let Some(next) = next {
                    // What is due already was looked at in vain: other workers may come for it.
                    let least = if next <= now {
                        RETRY_SOON / 2
                    } else {
                        Duration::from_millis(1)
                    };
                    rounds.soon(sent + next.since(now).max(least));
                }
            }
            if !any || self.is_draining() {
                return Ok(());
            }
        }
    }

    async fn give_all(self: &Arc<Self>, tasks: Vec<Task>, now: StoreTime) -> Result<(), StoreError> {
        let trying = stream::iter(tasks).map(|task| self.give(task, now));
        let done: Vec<Done> = trying.buffered(AT_ONCE).collect().await;
        self.settle(done).await
    }

    async fn settle(&self, done: Vec<Done>) -> Result<(), StoreError> {
        let settled = |done| match done {
            Done::Settle(task, at) => Some(Settled {
                task,
                at,
                for_others: false,
            }),
            Done::Pass(task, at) => Some(Settled {
                task,
                at: Some(at),
                for_others: true,
            }),
            Done::Nothing => None,
        };
        let settled: Vec<Settled> = done.into_iter().filter_map(settled).collect();
        if settled.is_empty() {
            return Ok(());
        }
        self.store.settle(settled).await
    }

    /// Whether a namespace has workers anywhere.
    pub(super) fn has_workers(&self, namespace: &str) -> bool {
        self.fleet.of(namespace) > 0
    }

    /// A question of a caller, with what there is to know of workers. `None`: there are none for it. To ask is demand.
    pub(super) fn with_workers(&self, request: &Acquire) -> Option<Box<Acquire>> {
        if !self.has_workers(request.key.namespace()) {
            return None;
        }
        self.demand.mark(&request.key);
        let mut request = Box::new(request.clone());
        request.ask.workers = true;
        Some(request)
    }

    /// Tells of each refresh from now on: of its namespace, and what became of it. Only the first who asks is told.
    pub fn on_refresh(&self, news: impl Fn(&str, RefreshNews) + Send + Sync + 'static) {
        let _ = self.news.set(Box::new(news));
    }

    fn tell(&self, key: &Key, news: RefreshNews) {
        if let Some(told) = self.news.get() {
            told(key.namespace(), news);
        }
    }

    /// Workers connected to this replica, and the tasks that they have in hand.
    pub fn workers(&self) -> (usize, usize) {
        self.workers.count()
    }

    /// Bounds the workers that may be connected.
    pub fn allow_workers(&self, most: usize) {
        self.workers.limit(most);
    }
}

impl Rounds {
    fn soon(&mut self, at: Instant) {
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    fn soon_if(&mut self, at: Option<Instant>) {
        if let Some(at) = at {
            self.soon(at);
        }
    }

    fn is_to_look_around(&mut self) -> bool {
        let due = self.looked_around.is_none_or(|at| at.elapsed() >= LOOK_AGAIN);
        if due {
            self.looked_around = Some(Instant::now());
        }
        due
    }
}
