//! What is planned ahead, with workers and without.

use tokio::time::{Instant, sleep};

use super::working::*;
use super::*;
use crate::coordinator::{MOST_PLANNED, RefreshScheduled, ScheduleRefresh};
use crate::store::StoreError;
use crate::store::faulty::Faulty;

fn plan(keys: Vec<Key>, spread_over: Duration) -> ScheduleRefresh {
    ScheduleRefresh {
        namespace: "shop".into(),
        keys,
        spread_over,
        only_if_missing: false,
        traceparent: Some("00-deploy".into()),
    }
}

impl Replica {
    async fn schedule(&self, request: ScheduleRefresh) -> (u32, u32, u32) {
        let scheduled = self.0.schedule(request).await.expect("the store answers");
        settle().await;
        let RefreshScheduled {
            scheduled,
            skipped,
            workers,
        } = scheduled;
        (scheduled, skipped, workers)
    }
}

#[tokio::test(start_paused = true)]
async fn planned_refreshes_come_evenly_over_the_length() {
    let replica = giving(Policy {
        fresh_ttl: seconds(100),
        ..policy()
    });
    let mut worker = replica.worker("worker", 100).await;
    let began = Instant::now();
    assert_eq!(replica.schedule(plan(items(50), seconds(10))).await, (50, 0, 1));
    for number in 0..50_u32 {
        let task = worker.task().await;
        let slot = Duration::from_millis(200) * number;
        let at = began.elapsed();
        assert!(
            at >= slot && at <= slot + Duration::from_millis(200) + IN_TIME,
            "{number}: {at:?}"
        );
        assert_eq!(
            (task.cause, task.traceparent.as_deref()),
            (Cause::Scheduled, Some("00-deploy"))
        );
        replica.done(&task).await;
    }
    assert_eq!(worker.task_within(seconds(5)).await, None, "each once");
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_fresh_or_named_twice_or_planned_already_are_skipped() {
    let replica = giving(policy());
    let keys = items(4);
    replica.fill(&keys[0]).await;
    let twice = [keys.clone(), keys.clone()].concat();
    let missing = ScheduleRefresh {
        only_if_missing: true,
        ..plan(twice, seconds(60))
    };
    assert_eq!(replica.schedule(missing).await, (3, 5, 0));
    assert_eq!(
        replica.schedule(plan(keys, seconds(60))).await,
        (1, 3, 0),
        "all but the fresh one"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_fresh_by_its_time_is_left_alone_if_only_what_misses_was_asked_for() {
    for only_if_missing in [false, true] {
        let replica = giving(policy());
        let mut worker = replica.worker("worker", 1).await;
        let request = ScheduleRefresh {
            only_if_missing,
            ..plan(items(1), seconds(2))
        };
        assert_eq!(replica.schedule(request).await.0, 1);
        replica.fill(&items(1)[0]).await;
        assert_eq!(worker.task_within(seconds(3)).await.is_some(), !only_if_missing);
    }
}

#[tokio::test(start_paused = true)]
async fn a_planned_key_that_fails_is_tried_once_more_after_its_back_off_and_then_dropped() {
    let replica = giving(policy());
    let mut worker = replica.worker("worker", 1).await;
    replica.schedule(plan(items(1), Duration::ZERO)).await;
    let first = worker.tasks().await.remove(0);
    replica.end(&first.key, first.lease, failure()).await;
    let failed = Instant::now();
    let second = worker.task().await;
    assert!(failed.elapsed() >= Duration::from_millis(500) && failed.elapsed() <= seconds(1) + IN_TIME);
    replica.end(&second.key, second.lease, failure()).await;
    assert_eq!(worker.task_within(seconds(300)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_planned_key_whose_worker_dies_or_gives_it_back_goes_to_another() {
    let replica = giving(policy());
    let mut dies = replica.worker("dies", 1).await;
    replica.schedule(plan(items(1), Duration::ZERO)).await;
    dies.tasks().await.remove(0);
    let given = Instant::now();
    drop(dies);
    let mut refuses = replica.worker("refuses", 1).await;
    let task = refuses.task().await;
    assert!(given.elapsed() >= seconds(4) && given.elapsed() <= seconds(4) + IN_TIME);
    let mut works = replica.worker("works", 1).await;
    replica.end(&task.key, task.lease, Outcome::Abandoned).await;
    let task = works.tasks().await.remove(0);
    replica.done(&task).await;
    assert_eq!(works.task_within(seconds(5)).await, None, "it is done");
}

#[tokio::test(start_paused = true)]
async fn without_workers_the_next_caller_of_a_planned_key_rebuilds_it() {
    let replica = giving(policy());
    let keys = items(2);
    replica.fill(&keys[0]).await;
    sleep(seconds(1)).await;
    assert_eq!(replica.schedule(plan(keys.clone(), Duration::ZERO)).await, (2, 0, 0));
    sleep(seconds(2)).await;
    assert_eq!(rebuild(&replica.ask(ask_for(&keys[0])).await).cause, Cause::Early);
    assert_eq!(rebuild(&replica.ask(ask_for(&keys[1])).await).cause, Cause::Miss);
    let mut worker = replica.worker("worker", 9).await;
    assert!(worker.tasks().await.is_empty(), "they were left to their callers");
}

#[tokio::test(start_paused = true)]
async fn a_plan_outlives_the_replica_that_took_it() {
    let memory = Memory::new(Limits::default());
    let takes = giving_over(memory.clone(), policy());
    assert_eq!(takes.schedule(plan(items(3), seconds(3))).await.0, 3);
    takes.0.drain();
    let other = giving_over(memory, policy());
    let mut worker = other.worker("worker", 9).await;
    for _ in 0..3 {
        worker.task().await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_is_planned_than_a_namespace_may_have() {
    let replica = giving(policy());
    let keys = |from: usize| -> Vec<Key> { (from..from + 10_000).map(|number| item(&number.to_string())).collect() };
    for part in 0..MOST_PLANNED / 10_000 {
        assert_eq!(
            replica.schedule(plan(keys(part * 10_000), seconds(600))).await.0,
            10_000
        );
    }
    let more = replica.0.schedule(plan(keys(MOST_PLANNED), seconds(600))).await;
    assert!(matches!(more, Err(Error::Overloaded { .. })));
    let elsewhere = ScheduleRefresh {
        namespace: "news".into(),
        keys: vec![Key::new("news", "a")],
        ..plan(Vec::new(), seconds(600))
    };
    assert_eq!(replica.schedule(elsewhere).await.0, 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_planned_alone() {
    let faulty = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = giving_over(faulty.clone(), policy());
    faulty.go_down();
    let failed = replica.0.schedule(plan(items(1), Duration::ZERO)).await;
    assert!(
        matches!(failed, Err(Error::Store(StoreError::Unavailable(_)))),
        "{failed:?}"
    );
}
