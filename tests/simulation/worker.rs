//! Workers: one that does what it is told at once, and others that give back, fail, forget, renew, leave and come again.

use std::sync::Arc;

use drover::coordinator::{Pulled, Pulling, RefreshTask, Registration, Renew, ScheduleRefresh};
use drover::decision::Outcome;
use futures_util::StreamExt;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{sleep, timeout};

use crate::client::value;
use crate::plan::{ms, one_of, stream};
use crate::world::{World, key};

/// Leases of workers are told apart by their holders.
pub fn holder(number: usize) -> String {
    format!("w{number}")
}

pub struct Worker {
    world: Arc<World>,
    number: usize,
    replica: usize,
    rng: StdRng,
    pulling: Option<Pulling>,
}

impl Worker {
    /// The first is at the replica that stays, and is there before anybody asks.
    pub async fn start(world: Arc<World>, number: usize) -> Worker {
        let mut rng = stream(world.plan.seed, 400 + number as u64);
        let last = world.replicas.len() - 1;
        let replica = if number == 0 { last } else { rng.random_range(0..=last) };
        let mut worker = Worker {
            world,
            number,
            replica,
            rng,
            pulling: None,
        };
        worker.register();
        if let Some(pulling) = &mut worker.pulling {
            let _ = timeout(ms(5_000), pulling.next()).await;
        }
        worker
    }

    fn register(&mut self) {
        let registration = Registration {
            namespaces: vec!["shop".into()],
            key_prefixes: Vec::new(),
            holder: holder(self.number).into(),
            max_in_flight: if self.number == 0 { 1_000 } else { 1 },
        };
        self.pulling = self.world.replicas[self.replica].coordinator.pull(registration).ok();
    }

    pub async fn live(mut self) {
        while let Some(pulling) = &mut self.pulling {
            match pulling.next().await {
                Some(Pulled::Task(task)) => {
                    self.world.history.pulled(self.replica, task.clone());
                    if self.number == 0 {
                        tokio::spawn(done(self.world.clone(), self.replica, task));
                    } else {
                        self.try_it(task).await;
                    }
                }
                Some(Pulled::Started { .. } | Pulled::Progress { draining: false }) => {}
                Some(Pulled::Progress { draining: true }) | None => return,
            }
        }
    }

    async fn try_it(&mut self, task: RefreshTask) {
        let longest = task.ttl.as_millis() as u64;
        let work = match self.rng.random_range(0..10) {
            0..4 => 0,
            4..9 => self.rng.random_range(0..=longest),
            _ => self.rng.random_range(longest..=2 * longest + 1),
        };
        sleep(ms(work / 2)).await;
        if self.rng.random_bool(0.2) {
            let renew = Renew {
                key: task.key.clone(),
                lease: task.lease,
                ttl: None,
            };
            let replica = self.anywhere();
            self.world.renew(replica, renew).await;
        }
        sleep(ms(work - work / 2)).await;
        let mut report = value(&task.key, task.lease);
        match self.rng.random_range(0..100) {
            0..50 => {}
            50..65 => report.report.outcome = Outcome::Abandoned,
            65..75 => {
                report.report.outcome = Outcome::Failed {
                    message: "the origin is down".into(),
                    retry_after: None,
                }
            }
            75..85 => report.report.outcome = Outcome::NotModified,
            85..92 => return,
            _ => return self.come_again().await,
        }
        if report.report.outcome != value(&task.key, task.lease).report.outcome {
            report.bytes = None;
        }
        let replica = self.anywhere();
        self.world.report(replica, report).await;
        if self.rng.random_bool(0.1) {
            self.plan().await;
        }
    }

    /// It crashed, with what it had in hand and on the way.
    async fn come_again(&mut self) {
        self.pulling = None;
        sleep(ms(one_of(&mut self.rng, &[0, 10, 700]))).await;
        self.register();
    }

    fn anywhere(&mut self) -> usize {
        self.rng.random_range(0..self.world.replicas.len())
    }

    async fn plan(&mut self) {
        let replica = self.anywhere();
        let request = ScheduleRefresh {
            namespace: "shop".into(),
            keys: (0..self.world.plan.keys).map(key).collect(),
            spread_over: ms(one_of(&mut self.rng, &[0, 200, 2_000])),
            only_if_missing: self.rng.random_bool(0.5),
            traceparent: None,
        };
        let _ = self.world.replicas[replica].coordinator.schedule(request).await;
    }
}

async fn done(world: Arc<World>, replica: usize, task: RefreshTask) {
    for _ in 0..4 {
        if world.report(replica, value(&task.key, task.lease)).await {
            return;
        }
        sleep(ms(10)).await;
    }
}
