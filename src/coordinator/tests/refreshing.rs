//! Who is given a key's own refresh, and when.

use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep};

use super::working::*;
use super::*;
use crate::coordinator::Pulled;
use crate::decision::Rejection;
use crate::store::faulty::{Call, Fault, Faulty};

#[tokio::test(start_paused = true)]
async fn a_due_refresh_goes_to_one_worker_in_time_with_its_lease() {
    let replica = giving(policy());
    let (mut one, mut other) = (replica.worker("one", 5).await, replica.worker("other", 5).await);
    replica.fill(&key()).await;
    let stored = Instant::now();
    let version = hit(&replica.ask(ask_for(&key())).await).version;
    until(stored, REFRESHED_AFTER - Duration::from_millis(5)).await;
    assert!(one.tasks().await.is_empty() && other.tasks().await.is_empty());
    let task = tokio::select! {
        task = one.task() => task,
        task = other.task() => task,
    };
    assert!(stored.elapsed() >= REFRESHED_AFTER - Duration::from_millis(1));
    assert!(stored.elapsed() <= REFRESHED_AFTER + IN_TIME, "{:?}", stored.elapsed());
    assert_eq!((&task.key, task.cause, task.version), (&key(), Cause::Early, version));
    assert_eq!((task.ttl, task.cost), (seconds(4), seconds(1)));
    assert!(hit(&replica.ask(ask_for(&key())).await).rebuilding);
    sleep(seconds(1)).await;
    replica.done(&task).await;
    assert!(
        one.tasks().await.is_empty() && other.tasks().await.is_empty(),
        "there was one task"
    );
    assert!(hit(&replica.ask(ask_for(&key())).await).version > version);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_lost_gives_way_when_its_lease_is_over() {
    let replica = giving(policy());
    let mut lost = replica.worker("lost", 1).await;
    replica.fill(&key()).await;
    let task = lost.task().await;
    let given = Instant::now();
    drop(lost);
    let mut next = replica.worker("next", 1).await;
    let again = next.task().await;
    assert!(given.elapsed() >= seconds(4) && given.elapsed() <= seconds(4) + IN_TIME);
    assert_eq!(again.cause, Cause::Takeover);
    let late = replica.end(&key(), task.lease, value()).await;
    assert_eq!(late.answer, ReportAnswer::Rejected(Rejection::Superseded));
    replica.done(&again).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_stalls_loses_its_task_and_gets_its_place_back() {
    let replica = giving(policy());
    let mut worker = replica.worker("slow", 1).await;
    replica.fill(&key()).await;
    let first = worker.task().await;
    let given = Instant::now();
    let renewed = Renew {
        key: key(),
        lease: first.lease,
        ttl: Some(seconds(6)),
    };
    sleep(seconds(3)).await;
    assert_eq!(replica.0.renew(renewed).await.expect("it answers").lost, None);
    let second = worker.task().await;
    assert!(
        given.elapsed() >= seconds(9) && given.elapsed() <= seconds(9) + IN_TIME,
        "{:?}",
        given.elapsed()
    );
    assert!(second.lease.token > first.lease.token);
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_offered_again_after_its_back_off() {
    let replica = giving(policy());
    let mut worker = replica.worker("worker", 1).await;
    replica.fill(&key()).await;
    let task = worker.task().await;
    replica.end(&key(), task.lease, failure()).await;
    let failed = Instant::now();
    let again = worker.task().await;
    assert!(
        failed.elapsed() >= Duration::from_millis(500),
        "back-off: {:?}",
        failed.elapsed()
    );
    assert!(failed.elapsed() <= seconds(1) + IN_TIME);
    replica.done(&again).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_given_back_goes_to_another_at_once_and_to_the_same_only_later() {
    let replica = giving(policy());
    let mut first = replica.worker("first", 1).await;
    replica.fill(&key()).await;
    let task = first.task().await;
    let mut second = replica.worker("second", 1).await;
    replica.end(&key(), task.lease, Outcome::Abandoned).await;
    let again = second.tasks().await;
    assert_eq!(again.len(), 1, "at once");
    assert!(first.tasks().await.is_empty());
    drop(second);
    replica.end(&key(), again[0].lease, Outcome::Abandoned).await;
    let given_back = Instant::now();
    let third = first.task().await;
    assert!(given_back.elapsed() <= seconds(1) + IN_TIME, "there is nobody else");
    replica.end(&key(), third.lease, Outcome::Abandoned).await;
    let given_back = Instant::now();
    first.task().await;
    assert!(given_back.elapsed() >= seconds(1) && given_back.elapsed() < seconds(2));
}

#[tokio::test(start_paused = true)]
async fn workers_share_what_is_due() {
    let replica = giving(policy());
    let mut workers = Vec::new();
    for (holder, most) in [("a", 4), ("b", 4), ("big", 8)] {
        workers.push(replica.worker(holder, most).await);
    }
    for key in items(12) {
        replica.fill(&key).await;
    }
    sleep(REFRESHED_AFTER + IN_TIME).await;
    let mut counts = Vec::new();
    for worker in &mut workers {
        counts.push(worker.tasks().await.len());
    }
    assert_eq!(counts, [3, 3, 6], "each the same part of its capacity");
}

#[tokio::test(start_paused = true)]
async fn namespaces_take_turns() {
    let replica = giving(policy());
    let both = ["news", "shop"];
    let mut worker = replica.worker_for("worker", 4, &both, &[]).await;
    for number in 0..20 {
        for namespace in both {
            replica.fill(&Key::new(namespace, &format!("{number}"))).await;
        }
    }
    sleep(REFRESHED_AFTER + IN_TIME).await;
    let mut counts = [0, 0];
    let mut tasks = worker.tasks().await;
    while let Some(task) = tasks.pop() {
        counts[usize::from(task.key.namespace() == "shop")] += 1;
        if counts == [6, 6] {
            return;
        }
        assert!(i32::abs_diff(counts[0], counts[1]) <= 4, "{counts:?}");
        replica.done(&task).await;
        tasks.extend(worker.tasks().await);
    }
    panic!("{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn no_worker_has_more_than_it_said_and_none_while_it_pauses() {
    let replica = giving(policy());
    let mut worker = replica.worker("worker", 2).await;
    for key in items(5) {
        replica.fill(&key).await;
    }
    sleep(REFRESHED_AFTER + IN_TIME).await;
    let tasks = worker.tasks().await;
    assert_eq!(tasks.len(), 2);
    replica.done(&tasks[0]).await;
    assert_eq!(worker.tasks().await.len(), 1, "a place was free");
    let change = |most| registration("worker", most, &["shop"], &[]);
    worker.0.change(change(0)).expect("a namespace that is served");
    replica.done(&tasks[1]).await;
    assert!(worker.tasks().await.is_empty(), "it pauses");
    worker.0.change(change(3)).expect("a namespace that is served");
    assert_eq!(worker.tasks().await.len(), 2, "and goes on");
}

#[tokio::test(start_paused = true)]
async fn tasks_go_to_whoever_takes_their_keys() {
    let replica = giving(policy());
    let mut a = replica.worker_for("a", 9, &["shop"], &["a/", "x/"]).await;
    let mut b = replica.worker_for("b", 9, &["shop"], &["b/"]).await;
    let mut elsewhere = replica.worker_for("news", 9, &["news"], &[]).await;
    for name in ["a/1", "b/1", "c/1", "x/1"] {
        replica.fill(&item(name)).await;
    }
    sleep(REFRESHED_AFTER + IN_TIME).await;
    let names = |tasks: Vec<crate::coordinator::RefreshTask>| -> Vec<String> {
        let mut names: Vec<String> = tasks.iter().map(|task| task.key.name().to_owned()).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(names(a.tasks().await), ["a/1", "x/1"]);
    assert_eq!(names(b.tasks().await), ["b/1"]);
    assert!(elsewhere.tasks().await.is_empty());
    let mut late = replica.worker("late", 9).await;
    assert_eq!(names(late.tasks().await), ["c/1"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_was_not_told_of_is_given_to_others_when_it_leaves() {
    let replica = giving(policy());
    let mut slow = replica.worker("slow", 3).await;
    for key in items(3) {
        replica.fill(&key).await;
    }
    sleep(REFRESHED_AFTER + IN_TIME).await;
    let told = slow.task().await;
    let mut next = replica.worker("next", 9).await;
    assert!(next.tasks().await.is_empty());
    drop(slow);
    let mut given: Vec<Key> = next.tasks().await.into_iter().map(|task| task.key).collect();
    given.sort_unstable();
    let mut expected = items(3);
    expected.retain(|key| *key != told.key);
    assert_eq!(given, expected);
    replica.done(&told).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_asks_for_is_refreshed_three_times_and_lapses() {
    let replica = giving(policy());
    let mut worker = replica.worker("worker", 9).await;
    replica.fill(&key()).await;
    for _ in 0..3 {
        let task = worker.task().await;
        replica.done(&task).await;
    }
    assert_eq!(worker.task_within(seconds(8)).await, None);
    assert!(
        hit(&replica.ask(ask_for(&key())).await).fresh,
        "it is served to its end"
    );
    sleep(seconds(4)).await;
    assert_eq!(rebuild(&replica.ask(ask_for(&key())).await).cause, Cause::Stale);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_or_reads_a_local_copy_keeps_a_key_alive() {
    let replica = giving(policy());
    let mut worker = replica.worker("worker", 9).await;
    replica.fill(&key()).await;
    for round in 0..8 {
        let task = worker.task().await;
        replica.done(&task).await;
        match round % 4 {
            1 => drop(replica.ask(ask_for(&key())).await),
            3 => replica.0.read_locally("shop", key().name(), 2),
            _ => replica.0.read_locally("shop", key().name(), 0),
        }
    }
    for _ in 0..3 {
        let task = worker.task().await;
        replica.done(&task).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_invalidated_is_not_refreshed_ahead() {
    for (target, mode) in [
        (Target::Key(key()), Mode::Drop),
        (Target::Key(key()), Mode::Expire),
        (Target::Everything, Mode::Drop),
        (Target::Everything, Mode::Expire),
    ] {
        let replica = giving(policy());
        let mut worker = replica.worker("worker", 9).await;
        replica.fill(&key()).await;
        sleep(seconds(1)).await;
        replica.invalidate(target, mode).await;
        assert_eq!(worker.task_within(seconds(30)).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn with_workers_callers_refresh_only_what_no_worker_came_for() {
    let replica = giving(policy());
    let mut paused = replica.worker("paused", 0).await;
    replica.fill(&key()).await;
    sleep(REFRESHED_AFTER + IN_TIME).await;
    assert!(hit(&replica.ask(ask_for(&key())).await).fresh);
    // Half of the gap is over.
    sleep(seconds(1)).await;
    assert_eq!(rebuild(&replica.ask(ask_for(&key())).await).cause, Cause::Early);
    assert!(paused.tasks().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_workers_the_next_caller_refreshes() {
    let replica = giving(policy());
    replica.fill(&key()).await;
    sleep(REFRESHED_AFTER - IN_TIME).await;
    assert!(hit(&replica.ask(ask_for(&key())).await).fresh);
    sleep(IN_TIME * 2).await;
    assert_eq!(rebuild(&replica.ask(ask_for(&key())).await).cause, Cause::Early);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_closes_its_side_finishes_what_it_has() {
    let replica = giving(policy());
    let mut worker = replica.worker("worker", 1).await;
    for key in items(2) {
        replica.fill(&key).await;
    }
    let task = worker.task().await;
    worker.0.retire();
    assert!(worker.tasks().await.is_empty());
    replica.done(&task).await;
    assert_eq!(worker.0.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_draining_replica_says_so_and_gives_nothing_out_any_more() {
    let replica = giving(policy());
    let mut worker = replica.worker("worker", 9).await;
    for key in items(2) {
        replica.fill(&key).await;
    }
    sleep(REFRESHED_AFTER + IN_TIME).await;
    let task = worker.task().await;
    replica.0.drain();
    assert_eq!(worker.0.next().await, Some(Pulled::Progress { draining: true }));
    assert_eq!(worker.0.next().await, None);
    drop(worker);
    settle().await;
    replica.done(&task).await;
    assert!(matches!(
        replica.0.pull(registration("late", 1, &["shop"], &[])),
        Err(Error::Draining)
    ));
    let other = replica.0.leases(None).await.expect("it answers");
    assert_eq!(other.len(), 0, "what was not told was given back");
    replica.0.finished().await;
}

#[tokio::test(start_paused = true)]
async fn there_are_no_more_workers_than_allowed() {
    let replica = giving(policy());
    replica.0.allow_workers(1);
    let worker = replica.worker("one", 1).await;
    let more = replica.0.pull(registration("more", 1, &["shop"], &[]));
    assert!(matches!(more, Err(Error::Overloaded { .. })));
    drop(worker);
    replica.worker("more", 1).await;
}

#[tokio::test(start_paused = true)]
async fn over_replicas_a_refresh_goes_to_one_worker_and_its_report_anywhere_frees_the_place() {
    let memory = Memory::new(Limits::default());
    let here = giving_over(memory.clone(), policy());
    let there = giving_over(memory, policy());
    let (mut one, mut other) = (here.worker("one", 1).await, there.worker("other", 1).await);
    for key in items(4) {
        here.fill(&key).await;
    }
    sleep(REFRESHED_AFTER + IN_TIME).await;
    let (first, second) = (one.tasks().await, other.tasks().await);
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first[0].key, second[0].key);
    there.done(&first[0]).await;
    here.done(&second[0]).await;
    assert_eq!((one.tasks().await.len(), other.tasks().await.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_delays_tasks_and_loses_none() {
    let faulty = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = giving_over(faulty.clone(), policy());
    let mut worker = replica.worker("worker", 9).await;
    for key in items(3) {
        replica.fill(&key).await;
    }
    faulty.script(Call::Load, Fault::Unavailable);
    faulty.script(Call::Commit, Fault::Unavailable);
    let due = Instant::now() + REFRESHED_AFTER;
    let mut keys: Vec<Key> = Vec::new();
    for _ in 0..3 {
        let task = worker.task().await;
        replica.done(&task).await;
        keys.push(task.key);
    }
    keys.sort_unstable();
    assert_eq!(keys, items(3));
    assert!(
        due.elapsed() <= seconds(5) + IN_TIME,
        "claimed tasks come back after 5 s"
    );
}
