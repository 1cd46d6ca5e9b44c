//! What tests of refreshes share: replicas that give them out, and workers that take them.

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::time::Instant;

use super::*;
use crate::coordinator::{Pulled, Pulling, RefreshTask, Registration};
use crate::decision::{Jitter, JitterAmount, JitterMode};

/// Fresh for 10 s; a rebuild costs 1 s, so that it is refreshed 2.05 s before the end.
pub fn policy() -> Policy {
    Policy {
        fresh_ttl: seconds(10),
        stale_while_revalidate: seconds(5),
        stale_if_error: seconds(60),
        jitter: Jitter {
            mode: JitterMode::Both,
            amount: JitterAmount::Ratio(0.0),
            level: false,
        },
        beta: 1e-9,
        lease_ttl: seconds(4),
        ..Policy::default()
    }
}

/// From a report to the refresh.
pub const REFRESHED_AFTER: Duration = Duration::from_millis(7_950);
/// A task is late by no more.
pub const IN_TIME: Duration = Duration::from_millis(50);

/// A replica that gives refreshes out.
pub fn giving(policy: Policy) -> Replica {
    giving_over(Memory::new(Limits::default()), policy)
}

pub fn giving_over(store: Arc<dyn Store>, policy: Policy) -> Replica {
    let replica = Replica::over(store, policy, 10_000);
    tokio::spawn(replica.0.clone().refresh());
    replica
}

/// A worker's stream.
pub struct Worker(pub Pulling);

impl Replica {
    /// A worker that has been told that it is registered.
    pub async fn worker(&self, holder: &str, max_in_flight: usize) -> Worker {
        self.worker_for(holder, max_in_flight, &["shop"], &[]).await
    }

    pub async fn worker_for(&self, holder: &str, most: usize, namespaces: &[&str], prefixes: &[&str]) -> Worker {
        let registration = registration(holder, most, namespaces, prefixes);
        let mut worker = Worker(self.0.pull(registration).expect("there is room"));
        match worker.0.next().await {
            Some(Pulled::Started { .. }) => worker,
            other => panic!("not started: {other:?}"),
        }
    }

    /// A caller rebuilds a key.
    pub async fn fill(&self, key: &Key) {
        let asked = self.ask(ask_for(key)).await;
        let lease = rebuild(&asked).lease;
        assert!(accepted(&self.end(key, lease, value()).await));
    }

    pub async fn end(&self, key: &Key, lease: LeaseId, outcome: Outcome) -> Reported {
        let bytes = matches!(outcome, Outcome::Built(Content::Bytes(_))).then(|| Arc::from(&b"value"[..]));
        let report = Report {
            lease,
            outcome,
            cost: Some(seconds(1)),
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        };
        let key = key.clone();
        let reported = self.0.report(ReportValue { key, report, bytes }).await;
        settle().await;
        reported.expect("the store answers")
    }

    /// The worker has done it.
    pub async fn done(&self, task: &RefreshTask) {
        assert!(accepted(&self.end(&task.key, task.lease, value()).await));
    }
}

impl Worker {
    /// The next task, however long that takes.
    pub async fn task(&mut self) -> RefreshTask {
        loop {
            match self.0.next().await {
                Some(Pulled::Task(task)) => return task,
                Some(Pulled::Progress { draining: false }) => {}
                other => panic!("no task but {other:?}"),
            }
        }
    }

    /// The task that comes within so long.
    pub async fn task_within(&mut self, length: Duration) -> Option<RefreshTask> {
        tokio::time::timeout(length, self.task()).await.ok()
    }

    /// The tasks that are there now.
    pub async fn tasks(&mut self) -> Vec<RefreshTask> {
        settle().await;
        let mut tasks = Vec::new();
        while let Some(pulled) = self.0.next().now_or_never() {
            match pulled {
                Some(Pulled::Task(task)) => tasks.push(task),
                Some(Pulled::Progress { draining: false }) => {}
                other => panic!("no task but {other:?}"),
            }
        }
        tasks
    }
}

pub fn registration(holder: &str, max_in_flight: usize, namespaces: &[&str], prefixes: &[&str]) -> Registration {
    Registration {
        namespaces: namespaces.iter().map(|name| Arc::from(*name)).collect(),
        key_prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect(),
        holder: holder.into(),
        max_in_flight,
    }
}

pub fn item(name: &str) -> Key {
    Key::new("shop", name)
}

pub fn items(count: usize) -> Vec<Key> {
    (0..count).map(|number| item(&format!("item {number:03}"))).collect()
}

/// Waits for nothing.
pub fn ask_for(key: &Key) -> Acquire {
    Acquire {
        key: key.clone(),
        wait: Some(Duration::ZERO),
        ..question()
    }
}

/// Sleeps until so long after `since`.
pub async fn until(since: Instant, after: Duration) {
    tokio::time::sleep_until(since + after).await;
    settle().await;
}
