//! One run: a store, replicas over it, actors, and in the end the questions whether anything is left behind.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use drover::config::{Policies, PolicySet};
use drover::coordinator::{Acquire, Coordinator, Dice, Invalidate, Renew, ReportValue};
use drover::decision::{Answer, Ask, Intent, Key, StoreTime, TAKE_UP};
use drover::fanout::{Hub, HubLimits, ResetReason, Subscription, What};
use drover::store::faulty::{Faults, Faulty, Remote};
use drover::store::memory::{Limits, Memory};
use drover::store::{Clock, Store};
use futures_util::StreamExt;
use rand::RngExt;

use crate::client::{self, Client};
use crate::history::{Asked, Ended, History, Records};
use crate::plan::{Plan, ms, one_of, stream};
use crate::truth::{Done, Tap};
use crate::worker::Worker;

/// When the store's time begins, in every run.
pub const START: StoreTime = StoreTime(1_800_000_000_000_000);

/// After a loss, the first grants come within so much: a random half of a second, and the pace for a few keys.
pub const REENTRY: Duration = Duration::from_millis(800);

/// What is wrong with the service on purpose, to see whether the checker notices.
pub struct Sabotage {
    /// Put between the store and everybody.
    pub store: fn(Arc<dyn Store>) -> Arc<dyn Store>,
    /// A report counts for whoever holds the lease.
    pub release_by_name: bool,
    /// On top of the plan's, and not told to the checker.
    pub faults: fn(&mut Faults),
    /// No replica is told that its store is there again.
    pub never_regained: bool,
}

impl Sabotage {
    pub fn none() -> Sabotage {
        Sabotage {
            store: |store| store,
            release_by_name: false,
            faults: |_| (),
            never_regained: false,
        }
    }
}

pub struct Replica {
    pub coordinator: Arc<Coordinator>,
    pub faulty: Arc<Faulty>,
}

pub struct World {
    pub plan: Plan,
    pub replicas: Vec<Replica>,
    pub history: Arc<History>,
    pub release_by_name: bool,
    never_regained: bool,
    tap: Arc<Tap>,
}

/// What a run leaves for the checker.
pub struct Run {
    pub plan: Plan,
    pub records: Records,
    pub account: Vec<Done>,
}

impl Run {
    /// All that happened, but for what is of the machine's own clock.
    pub fn story(&self) -> String {
        let mut calls = self.records.calls.clone();
        for call in &mut calls {
            if let Asked::Acquire(asked) = &mut call.asked {
                asked.answer_by = None;
            }
        }
        let calls: Vec<String> = calls.iter().map(|call| format!("{call:?}\n")).collect();
        let account: Vec<String> = self.account.iter().map(|done| format!("{done:?}\n")).collect();
        let watched: Vec<String> = self.records.watched.iter().map(|told| format!("{told:?}\n")).collect();
        [calls.concat(), account.concat(), watched.concat()].concat()
    }
}

/// Runs a plan to its end, on a thread and a clock of its own.
pub fn run(plan: Plan, sabotage: &Sabotage) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without drivers needs nothing");
    runtime.block_on(async {
        let world = World::start(plan, sabotage);
        // The history begins as the store's time does.
        world.history.lock().moment();
        if tokio::time::timeout(Duration::from_secs(3_600), world.live())
            .await
            .is_err()
        {
            world.stuck("the run does not come to an end".to_owned());
        }
        Run {
            plan: world.plan.clone(),
            account: world.tap.account(),
            records: std::mem::take(&mut *world.history.lock()),
        }
    })
}

pub fn key(number: usize) -> Key {
    Key::new("shop", &format!("k{number}"))
}

impl World {
    fn start(plan: Plan, sabotage: &Sabotage) -> Arc<World> {
        let memory = Memory::with_clock(Limits::default(), Clock::start_at(START));
        let tap = Tap::new((sabotage.store)(memory));
        let mut faults = plan.faults;
        (sabotage.faults)(&mut faults);
        let replica = |number: usize| {
            let faulty = Faulty::new(tap.clone(), stream(plan.seed, 100 + number as u64).random());
            faulty.set(faults);
            let hub = Hub::new(faulty.feed(), HubLimits::default());
            let set = PolicySet {
                defaults: Arc::new(plan.policy.clone()),
                ..PolicySet::default()
            };
            let dice = Dice::seeded(stream(plan.seed, 200 + number as u64).random());
            let store: Arc<dyn Store> = match plan.far {
                Some(forgetful) => Remote::new(
                    faulty.clone(),
                    stream(plan.seed, 300 + number as u64).random(),
                    forgetful,
                ),
                None => faulty.clone(),
            };
            Replica {
                coordinator: Coordinator::new(store, Policies::new(set), hub, dice, 1_000),
                faulty,
            }
        };
        Arc::new(World {
            replicas: (0..plan.replicas).map(replica).collect(),
            history: Arc::default(),
            release_by_name: sabotage.release_by_name,
            never_regained: sabotage.never_regained,
            plan,
            tap,
        })
    }

    pub fn stuck(&self, what: String) {
        self.history.lock().stuck.push(what);
    }

    async fn live(self: &Arc<World>) {
        for replica in 0..self.replicas.len() {
            tokio::spawn(self.clone().watch(replica));
        }
        for replica in self.replicas.iter().filter(|_| self.plan.workers > 0) {
            tokio::spawn(replica.coordinator.clone().refresh());
        }
        for number in 0..self.plan.workers {
            let worker = Worker::start(self.clone(), number).await;
            tokio::spawn(worker.live());
        }
        let disruption = tokio::spawn(self.clone().disrupt());
        let clients: Vec<_> = (0..self.plan.clients)
            .map(|number| tokio::spawn(Client::new(self.clone(), number).live()))
            .collect();
        for client in clients {
            if let Err(error) = client.await {
                self.stuck(format!("a client's task ended badly: {error}"));
            }
        }
        disruption.abort();
        let _ = disruption.await;
        self.heal();
        tokio::time::sleep(self.plan.call() * 4 + ms(5)).await;
        if self.plan.workers > 0 {
            // What is due is refreshed without anybody asking.
            tokio::time::sleep(ms(3_000)).await;
        }
        for number in 0..self.plan.keys {
            self.probe(&key(number)).await;
        }
        self.leave().await;
    }

    fn heal(&self) {
        for replica in &self.replicas {
            let mut faults = self.plan.faults;
            (faults.unavailable, faults.unknown) = (0.0, 0.0);
            replica.faulty.set(faults);
            if replica.faulty.is_down() {
                replica.faulty.come_up();
            }
        }
        let mut records = self.history.lock();
        let to = records.moment().at;
        for down in &mut records.downs {
            down.2 = down.2.min(to);
        }
    }

    /// Everything that goes wrong at large.
    async fn disrupt(self: Arc<World>) {
        let mut rng = stream(self.plan.seed, 1);
        for round in 0.. {
            tokio::time::sleep(ms(rng.random_range(50..1_500))).await;
            let replica = rng.random_range(0..self.replicas.len());
            if self.plan.jumps && rng.random_bool(0.3) {
                let length = ms(rng.random_range(1..1_200));
                {
                    let mut records = self.history.lock();
                    let moment = records.moment();
                    records.jumps.push((moment, length.as_micros() as u64));
                }
                tokio::time::advance(length).await;
            }
            if rng.random_bool(self.plan.downs) {
                let length = one_of(&mut rng, &[40, 900, 900, 6_500]);
                let replicas = if rng.random_bool(0.3) {
                    0..self.replicas.len()
                } else {
                    replica..replica + 1
                };
                self.take_down(replicas, ms(rng.random_range(1..length)), rng.random_bool(0.3))
                    .await;
            }
            if self.plan.drain && self.replicas.len() > 1 && round == 2 {
                let mut records = self.history.lock();
                let moment = records.moment();
                records.drained.push((0, moment));
                drop(records);
                self.replicas[0].coordinator.drain();
            }
        }
    }

    async fn take_down(&self, replicas: Range<usize>, length: Duration, log_lost: bool) {
        for replica in replicas.clone() {
            let from = self.history.lock().moment().at;
            self.history.lock().downs.push((replica, from, u64::MAX));
            self.replicas[replica].faulty.go_down();
        }
        tokio::time::sleep(length).await;
        for replica in replicas {
            let faulty = &self.replicas[replica].faulty;
            faulty.come_up();
            if self.never_regained {
                faulty.feed().lost(0);
            }
            if log_lost {
                faulty.lose_log(ResetReason::DegradedEnded);
            }
            let mut records = self.history.lock();
            let to = records.moment().at;
            let mut downs = records.downs.iter_mut();
            if let Some(down) = downs.find(|(of, _, to)| *of == replica && *to == u64::MAX) {
                down.2 = to;
            }
        }
    }

    /// One watcher of everything, which acknowledges what it is told.
    async fn watch(self: Arc<World>, replica: usize) {
        let subscription = Subscription {
            namespaces: vec!["shop".into()],
            holder: client::holder(0).into(),
            ..Subscription::default()
        };
        let Ok(mut watching) = self.replicas[replica].coordinator.hub().watch(&subscription) else {
            return self.stuck(format!("replica {replica} takes no watcher"));
        };
        while let Some(event) = watching.next().await {
            let is_news = !matches!(event.what, What::Progress { .. });
            if is_news {
                let mut records = self.history.lock();
                let moment = records.moment();
                records.watched.push((replica, moment, event.what));
            }
            let _ = watching.acknowledge(&event.cursor);
        }
    }

    /// Once everything is well again, whoever insists on rebuilding is let, in the time that leases and pauses can take.
    async fn probe(self: &Arc<World>, key: &Key) {
        let policy = &self.plan.policy;
        let lease = policy.lease_ttl.max(client::LONGEST_LEASE);
        let mut bound = lease + policy.backoff.max * 2 + self.plan.notice() * 2 + REENTRY;
        if !self.plan.outage.is_zero() {
            // The circuit may be open, or wait for a probe that never comes back.
            bound += lease + policy.backoff.max * 2;
        }
        if policy.max_concurrent_rebuilds > 0 {
            // Of the last leases, and what could not be given back.
            bound += lease * 2 + TAKE_UP;
        }
        let replica = self.replicas.len() - 1;
        let started = tokio::time::Instant::now();
        loop {
            let ask = Ask {
                intent: Intent::Force,
                ..Ask::plain()
            };
            match self
                .acquire(
                    replica,
                    Acquire {
                        key: key.clone(),
                        ask,
                        wait: None,
                        answer_by: None,
                        hits: 0,
                    },
                )
                .await
            {
                Some(Answer::Rebuild(rebuild)) => {
                    let report = client::value(key, rebuild.lease);
                    self.report(replica, report).await;
                    break;
                }
                Some(Answer::KeepOff(keep_off)) => tokio::time::sleep(keep_off.retry_after + ms(1)).await,
                _ => tokio::time::sleep(ms(10)).await,
            }
            if started.elapsed() > bound {
                return self.stuck(format!("nobody is granted {key:?} for {:?}", started.elapsed()));
            }
        }
    }

    /// Every replica leaves: nobody stays parked, nothing stays unfinished.
    async fn leave(&self) {
        for (number, replica) in self.replicas.iter().enumerate() {
            replica.coordinator.drain();
            if tokio::time::timeout(Duration::from_secs(60), replica.coordinator.finished())
                .await
                .is_err()
            {
                self.stuck(format!("replica {number} does not finish what it has begun"));
            }
            if replica.coordinator.parked() != 0 {
                self.stuck(format!("replica {number} has parked callers and nobody calls"));
            }
        }
    }

    pub async fn acquire(&self, replica: usize, request: Acquire) -> Option<Answer> {
        let pending = self.history.invoke(replica, Asked::Acquire(request.clone()));
        match self.replicas[replica].coordinator.acquire(&request).await {
            Ok(acquired) => {
                let answer = acquired.answer.clone();
                pending.end(Ended::Acquired(acquired));
                Some(answer)
            }
            Err(error) => {
                pending.end(Ended::Failed(error));
                None
            }
        }
    }

    /// `false`: nobody knows whether it counts, it may be repeated.
    pub async fn report(&self, replica: usize, request: ReportValue) -> bool {
        let pending = self.history.invoke(replica, Asked::Report(request.clone()));
        let mut sent = request;
        if self.release_by_name
            && let Ok(leases) = self.tap.leases(None).await
            && let Some(current) = leases
                .iter()
                .find(|held| held.key == sent.key)
                .and_then(|held| held.entry.lease.as_ref())
        {
            sent.report.lease = current.id();
        }
        match self.replicas[replica].coordinator.report(sent).await {
            Ok(reported) => {
                pending.end(Ended::Reported(reported));
                true
            }
            Err(error) => {
                pending.end(Ended::Failed(error));
                false
            }
        }
    }

    pub async fn renew(&self, replica: usize, request: Renew) {
        let pending = self.history.invoke(replica, Asked::Renew(request.clone()));
        match self.replicas[replica].coordinator.renew(request).await {
            Ok(renewed) => pending.end(Ended::Renewed(renewed)),
            Err(error) => pending.end(Ended::Failed(error)),
        }
    }

    pub async fn invalidate(&self, replica: usize, request: Invalidate) {
        let pending = self.history.invoke(replica, Asked::Invalidate(request.clone()));
        match self.replicas[replica].coordinator.invalidate(request).await {
            Ok(done) => pending.end(Ended::Invalidated(done)),
            Err(error) => pending.end(Ended::Failed(error)),
        }
    }
}
