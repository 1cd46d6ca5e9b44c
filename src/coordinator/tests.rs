//! The coordinator over the embedded store, on paused time.

mod budget;
mod circuit;
mod degraded;
mod leases;
mod parking;
mod planning;
mod refreshing;
mod shaping;
mod trips;
mod working;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{
    Acquire, Acquired, Coordinator, Dice, Error, Invalidate, Invalidated, Renew, Renewed, ReportValue, Reported,
};
use crate::config::{Policies, PolicySet};
use crate::decision::{
    Answer, Ask, Cause, Content, Hit, Intent, Key, LeaseId, Lifetimes, Mode, Outcome, Policy, Rebuild, Report,
    ReportAnswer, Tag,
};
use crate::fanout::{Hub, HubLimits};
use crate::store::memory::{Limits, Memory};
use crate::store::{Store, Target};

/// A replica to be asked.
struct Replica(Arc<Coordinator>);

fn replica() -> Replica {
    Replica::with(Policy::default())
}

impl Replica {
    fn with(policy: Policy) -> Replica {
        Replica::over(Memory::new(Limits::default()), policy, 10_000)
    }

    fn over(store: Arc<dyn Store>, policy: Policy, max_waiters: usize) -> Replica {
        let hub = Hub::new(store.feed(), HubLimits::default());
        let set = PolicySet {
            defaults: Arc::new(policy),
            ..PolicySet::default()
        };
        Replica(Coordinator::new(
            store,
            Policies::new(set),
            hub,
            Dice::seeded(1),
            max_waiters,
        ))
    }

    async fn ask(&self, request: Acquire) -> Acquired {
        self.0.acquire(&request).await.expect("the store answers")
    }

    /// Asks in the background, and lets the question get as far as it can.
    async fn park(&self, request: Acquire) -> JoinHandle<Result<Acquired, Error>> {
        let coordinator = self.0.clone();
        let asking = tokio::spawn(async move { coordinator.acquire(&request).await });
        settle().await;
        asking
    }

    async fn report(&self, lease: LeaseId, outcome: Outcome) -> Reported {
        self.report_with(lease, outcome, |_| ()).await
    }

    async fn report_with(&self, lease: LeaseId, outcome: Outcome, change: impl FnOnce(&mut Report)) -> Reported {
        let bytes = matches!(outcome, Outcome::Built(Content::Bytes(_))).then(|| Arc::from(&b"value"[..]));
        let mut report = Report {
            lease,
            outcome,
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        };
        change(&mut report);
        let reported = self
            .0
            .report(ReportValue {
                key: key(),
                report,
                bytes,
            })
            .await
            .expect("the store answers");
        settle().await;
        reported
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration) -> Renewed {
        self.0
            .renew(Renew {
                key: key(),
                lease,
                ttl: Some(ttl),
            })
            .await
            .expect("the store answers")
    }

    async fn invalidate(&self, target: Target, mode: Mode) -> Invalidated {
        let request = Invalidate {
            namespace: "shop".into(),
            targets: vec![target],
            mode,
            reason: String::new(),
            wait_for_watchers: Duration::ZERO,
            settle: Duration::ZERO,
        };
        let invalidated = self.0.invalidate(request).await.expect("the store answers");
        settle().await;
        invalidated
    }
}

fn key() -> Key {
    Key::new("shop", "front page")
}

fn question() -> Acquire {
    Acquire {
        key: key(),
        ask: Ask::plain(),
        wait: None,
        answer_by: None,
        hits: 0,
    }
}

fn question_with(change: impl FnOnce(&mut Ask)) -> Acquire {
    let mut request = question();
    change(&mut request.ask);
    request
}

fn value() -> Outcome {
    Outcome::Built(Content::Bytes(5))
}

fn failure() -> Outcome {
    Outcome::Failed {
        message: "the origin is down".into(),
        retry_after: None,
    }
}

/// Lets everything run that can, without letting time pass.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

async fn ended(parked: JoinHandle<Result<Acquired, Error>>) -> Acquired {
    settle().await;
    assert!(parked.is_finished(), "still parked");
    parked.await.expect("no panic").expect("the store answers")
}

fn rebuild(acquired: &Acquired) -> &Rebuild {
    match &acquired.answer {
        Answer::Rebuild(rebuild) => rebuild,
        other => panic!("expected a rebuild: {other:?}"),
    }
}

fn hit(acquired: &Acquired) -> &Hit {
    match &acquired.answer {
        Answer::Hit(hit) => hit,
        other => panic!("expected a hit: {other:?}"),
    }
}

fn accepted(reported: &Reported) -> bool {
    matches!(reported.answer, ReportAnswer::Accepted { .. })
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
