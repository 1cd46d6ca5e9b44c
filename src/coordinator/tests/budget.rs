//! How many rebuilds of a namespace run at once, who is next, and what gives a place back.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, advance};

use super::*;
use crate::decision::BusyCause;
use crate::store::faulty::{Call, Fault, Faulty, Forgetful, Remote};

fn limited(limit: u32) -> Policy {
    Policy {
        max_concurrent_rebuilds: limit,
        ..Policy::default()
    }
}

fn about(name: &str) -> Acquire {
    Acquire {
        key: Key::new("shop", name),
        ..question()
    }
}

fn at_once(name: &str) -> Acquire {
    Acquire {
        wait: Some(Duration::ZERO),
        ..about(name)
    }
}

fn is_out_of_budget(acquired: &Acquired) -> bool {
    matches!(&acquired.answer, Answer::Busy(busy) if busy.cause == BusyCause::RebuildBudget)
}

impl Replica {
    async fn report_of(&self, name: &str, lease: LeaseId, outcome: Outcome) -> Reported {
        let bytes = matches!(outcome, Outcome::Built(Content::Bytes(_))).then(|| Arc::from(&b"value"[..]));
        let report = Report {
            lease,
            outcome,
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        };
        let key = Key::new("shop", name);
        let reported = self.0.report(ReportValue { key, report, bytes }).await;
        settle().await;
        reported.expect("the store answers")
    }

    /// Holds a key; its lease.
    async fn holds(&self, name: &str) -> LeaseId {
        rebuild(&self.ask(at_once(name)).await).lease
    }

    async fn live(&self) -> usize {
        self.0.leases(Some("shop")).await.expect("the store answers").len()
    }
}

fn gives_up() -> Outcome {
    Outcome::Abandoned
}

#[tokio::test(start_paused = true)]
async fn no_more_rebuilds_run_than_the_budget_allows_and_each_end_lets_the_next_in() {
    let replica = Replica::with(limited(2));
    let mut held = vec![("a", replica.holds("a").await), ("b", replica.holds("b").await)];
    assert!(is_out_of_budget(&replica.ask(at_once("c")).await));
    let mut waiting = Vec::new();
    for name in ["c", "d", "e", "f"] {
        waiting.push((name, replica.park(about(name)).await));
    }
    assert_eq!((replica.live().await, replica.0.parked()), (2, 4));
    for outcome in [value(), failure(), gives_up(), value()] {
        let (name, lease) = held.remove(0);
        assert!(accepted(&replica.report_of(name, lease, outcome).await));
        let (name, next) = waiting.remove(0);
        held.push((name, rebuild(&ended(next).await).lease));
        assert_eq!(replica.live().await, 2, "after {name} came in");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_place_ends_by_its_time_and_is_told_why_and_so_are_those_behind() {
    let replica = Replica::with(limited(1));
    replica.holds("a").await;
    let began = Instant::now();
    let wait = Acquire {
        wait: Some(seconds(3)),
        ..about("b")
    };
    let (first, behind) = (replica.park(wait.clone()).await, replica.park(wait).await);
    for caller in [first, behind] {
        let acquired = caller.await.expect("no panic").expect("the store answers");
        assert!(is_out_of_budget(&acquired), "{acquired:?}");
        assert_eq!(acquired.waited, seconds(3));
    }
    assert_eq!(began.elapsed(), seconds(3));
    settle().await;
    assert_eq!(replica.0.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_place_what_is_there_is_served_whatever_the_caller_insists_on() {
    let replica = Replica::with(limited(1));
    for (name, lifetime) in [("stale", 1), ("fresh", 300), ("on error", 1)] {
        let lease = replica.holds(name).await;
        let report = Report {
            lease,
            outcome: value(),
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes {
                fresh_ttl: Some(seconds(lifetime)),
                stale_while_revalidate: (name == "on error").then_some(Duration::ZERO),
                ..Lifetimes::default()
            },
            do_not_store: false,
        };
        let reported = replica.0.report(ReportValue {
            key: Key::new("shop", name),
            report,
            bytes: Some(Arc::from(&b"value"[..])),
        });
        assert!(accepted(&reported.await.expect("the store answers")));
    }
    replica.holds("a").await;
    advance(seconds(3)).await;
    for (name, intent, fresh) in [
        ("stale", Intent::Use, false),
        ("stale", Intent::Force, false),
        ("on error", Intent::Use, false),
        ("fresh", Intent::Early, true),
        ("fresh", Intent::Force, true),
    ] {
        let mut asked = about(name);
        asked.ask.intent = intent;
        let acquired = replica.park(asked).await;
        let acquired = ended(acquired).await;
        assert_eq!(hit(&acquired).fresh, fresh, "{name} {intent:?}");
        assert!(acquired.bytes.is_some() && !hit(&acquired).rebuilding);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_nothing_goes_before_those_who_can_serve_something() {
    let replica = Replica::with(limited(1));
    let lease = replica.holds("stale").await;
    let short = Lifetimes {
        fresh_ttl: Some(seconds(1)),
        ..Lifetimes::default()
    };
    let report = Report {
        lease,
        outcome: value(),
        cost: None,
        tags: Vec::new(),
        lifetimes: short,
        do_not_store: false,
    };
    let reported = replica.0.report(ReportValue {
        key: Key::new("shop", "stale"),
        report,
        bytes: Some(Arc::from(&b"value"[..])),
    });
    assert!(accepted(&reported.await.expect("the store answers")));
    advance(seconds(2)).await;
    let lease = replica.holds("a").await;
    let missing = replica.park(about("missing")).await;
    assert!(!hit(&replica.ask(at_once("stale")).await).rebuilding);
    // Before the parked caller's task has run, one comes that could be let in.
    let key = Key::new("shop", "a");
    let report = Report {
        lease,
        outcome: gives_up(),
        cost: None,
        tags: Vec::new(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    let report = ReportValue {
        key,
        report,
        bytes: None,
    };
    replica.0.report(report).await.expect("the store answers");
    assert!(
        !hit(&replica.ask(at_once("stale")).await).rebuilding,
        "somebody with nothing waits"
    );
    let lease = rebuild(&ended(missing).await).lease;
    replica.report_of("missing", lease, value()).await;
    assert_eq!(rebuild(&replica.ask(at_once("stale")).await).cause, Cause::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_promoted_waiter_inherits_the_place_of_its_key_before_those_in_line() {
    let mut policy = limited(1);
    policy.max_wait = seconds(60);
    let replica = Replica::with(policy);
    let lease = replica.holds("a").await;
    let (in_line, heir) = (replica.park(about("b")).await, replica.park(about("a")).await);
    replica.report_of("a", lease, gives_up()).await;
    let inherited = ended(heir).await;
    assert_eq!(rebuild(&inherited).cause, Cause::Takeover);
    assert_eq!(replica.live().await, 1);
    assert!(!in_line.is_finished());
    // Also of a holder that never came back.
    let second = replica.park(about("a")).await;
    advance(seconds(10)).await;
    let inherited = ended(second).await;
    assert_eq!(rebuild(&inherited).cause, Cause::Takeover);
    assert!(!in_line.is_finished());
    // And of one whose lease was revoked.
    let third = replica.park(about("a")).await;
    replica.invalidate(Target::Key(Key::new("shop", "a")), Mode::Drop).await;
    let inherited = ended(third).await;
    assert_eq!(replica.live().await, 1);
    assert!(!in_line.is_finished());
    replica.report_of("a", rebuild(&inherited).lease, value()).await;
    rebuild(&ended(in_line).await);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_left_to_those_who_wait_is_free_once_they_have_left() {
    let replica = Replica::with(limited(1));
    let lease = replica.holds("a").await;
    let (in_line, heir) = (replica.park(about("b")).await, replica.park(about("a")).await);
    let key = Key::new("shop", "a");
    let report = Report {
        lease,
        outcome: gives_up(),
        cost: None,
        tags: Vec::new(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    let report = ReportValue {
        key,
        report,
        bytes: None,
    };
    replica.0.report(report).await.expect("the store answers");
    heir.abort();
    rebuild(&ended(in_line).await);
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_let_in_as_soon_as_a_crashed_holder_s_lease_is_over() {
    let mut policy = limited(1);
    policy.max_wait = seconds(60);
    let replica = Replica::with(policy);
    replica.holds("a").await;
    let began = Instant::now();
    let next = replica.park(about("b")).await;
    rebuild(&next.await.expect("no panic").expect("the store answers"));
    let waited = began.elapsed();
    assert!(
        waited >= seconds(10) && waited <= Duration::from_millis(10_300),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewal_keeps_the_place_and_an_end_after_it_gives_it_back() {
    let mut policy = limited(1);
    policy.max_wait = seconds(60);
    let replica = Replica::with(policy);
    let first = replica.ask(question()).await;
    let lease = rebuild(&first).lease;
    let next = replica.park(about("b")).await;
    for _ in 0..4 {
        advance(seconds(8)).await;
        settle().await;
        assert_eq!(replica.renew(lease, seconds(10)).await.lost, None);
        assert!(!next.is_finished());
    }
    replica.report(lease, value()).await;
    rebuild(&ended(next).await);
    // Who renews too late has no place to keep.
    assert!(replica.renew(lease, seconds(10)).await.lost.is_some());
    assert_eq!(replica.live().await, 1);
    assert!(is_out_of_budget(&replica.ask(at_once("c")).await));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_the_longest_hold_cuts_keeps_the_place_no_longer_than_the_lease() {
    let mut policy = limited(1);
    (policy.max_hold, policy.max_wait) = (seconds(12), seconds(60));
    let replica = Replica::with(policy);
    let lease = rebuild(&replica.ask(question()).await).lease;
    advance(seconds(8)).await;
    assert_eq!(replica.renew(lease, seconds(10)).await.ttl, seconds(4));
    let next = replica.park(about("b")).await;
    let renewed = Instant::now();
    rebuild(&next.await.expect("no panic").expect("the store answers"));
    let waited = renewed.elapsed();
    assert!(
        waited >= seconds(4) && waited < Duration::from_millis(4_300),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewal_for_a_shorter_time_shortens_the_place_once_it_is_committed_and_not_before() {
    let faulty = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = Replica::over(faulty.clone(), limited(1), 10_000);
    let lease = rebuild(&replica.ask(question()).await).lease;
    let renewal = || Renew {
        key: key(),
        lease,
        ttl: Some(seconds(1)),
    };
    faulty.script(Call::Commit, Fault::Unavailable);
    assert!(replica.0.renew(renewal()).await.is_err());
    advance(seconds(2)).await;
    assert!(is_out_of_budget(&replica.ask(at_once("b")).await), "the lease lives");
    assert_eq!(replica.live().await, 1);
    assert_eq!(
        replica.0.renew(renewal()).await.expect("the store answers").ttl,
        seconds(1)
    );
    let next = replica.park(about("b")).await;
    let renewed = Instant::now();
    rebuild(&next.await.expect("no panic").expect("the store answers"));
    let waited = renewed.elapsed();
    assert!(
        waited >= seconds(1) && waited < Duration::from_millis(1_300),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalidation_of_the_whole_namespace_gives_the_places_of_revoked_leases_back() {
    let replica = Replica::with(limited(2));
    let leases = [replica.holds("a").await, replica.holds("b").await];
    replica.invalidate(Target::Everything, Mode::Drop).await;
    for name in ["c", "d"] {
        replica.holds(name).await;
    }
    // What the lost holders say now changes nothing.
    for (name, lease) in ["a", "b"].into_iter().zip(leases) {
        assert!(!accepted(&replica.report_of(name, lease, value()).await));
    }
    assert!(is_out_of_budget(&replica.ask(at_once("e")).await));
    assert_eq!(replica.live().await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_the_line_gives_way_to_the_next() {
    let replica = Replica::with(limited(1));
    let lease = replica.holds("a").await;
    let (leaves, stays) = (replica.park(about("b")).await, replica.park(about("c")).await);
    leaves.abort();
    replica.report_of("a", lease, value()).await;
    rebuild(&ended(stays).await);
    assert_eq!(replica.live().await, 1);
}

#[tokio::test(start_paused = true)]
async fn somebody_else_s_value_is_as_good_as_a_place() {
    let memory = Memory::new(Limits::default());
    let limited_here = Replica::over(memory.clone(), limited(1), 10_000);
    let free = Replica::over(memory, Policy::default(), 10_000);
    limited_here.holds("a").await;
    let waiting = limited_here.park(about("b")).await;
    // A replica with another policy has rebuilt it.
    let lease = free.holds("b").await;
    free.report_of("b", lease, value()).await;
    assert!(hit(&ended(waiting).await).fresh);
}

#[tokio::test(start_paused = true)]
async fn replicas_share_the_places_and_one_that_is_given_back_at_one_lets_in_at_the_other() {
    let memory = Memory::new(Limits::default());
    let far = |seed| {
        let remote = Remote::new(memory.clone(), seed, Forgetful::default());
        (Replica::over(remote.clone(), limited(2), 10_000), remote)
    };
    let ((here, _), (there, _)) = (far(1), far(2));
    let lease = here.holds("a").await;
    there.holds("b").await;
    assert!(is_out_of_budget(&here.ask(at_once("c")).await));
    let waiting = there.park(about("c")).await;
    here.report_of("a", lease, value()).await;
    rebuild(&ended(waiting).await);
    assert_eq!(here.live().await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_budget_costs_its_namespace_a_trip_a_grant_and_other_namespaces_none() {
    for (policy, granted) in [
        (Policy::default(), vec![Call::Commit]),
        (limited(5), vec![Call::Budget, Call::Commit]),
    ] {
        let remote = Remote::new(Memory::new(Limits::default()), 1, Forgetful::default());
        let replica = Replica::over(remote.clone(), policy, 10_000);
        replica.ask(about("warm")).await;
        remote.trips();
        replica.ask(about("cold")).await;
        assert_eq!(remote.trips(), granted);
    }
}

/// Steps of 50 ms within which somebody who waits is let in while places are free: those of crashed holders come back a moment after their
/// leases, and there may be one after the other.
const BOUND: usize = 16;

/// Many keys, holders that end as they like or never, callers that come and go: for an hour of their time.
#[tokio::test(start_paused = true)]
async fn there_are_never_more_leases_than_places_nor_fewer_while_somebody_waits() {
    for seed in 0..6 {
        let mut rng = StdRng::seed_from_u64(seed);
        let limit = rng.random_range(1..4);
        let memory = Memory::new(Limits::default());
        let replicas: Vec<Replica> = (0..2)
            .map(|number| {
                let mut policy = limited(limit);
                policy.max_wait = seconds(30);
                policy.backoff.max = seconds(2);
                let remote = Remote::new(memory.clone(), number, Forgetful::default());
                Replica::over(remote, policy, 10_000)
            })
            .collect();
        let mut held: BTreeMap<String, LeaseId> = BTreeMap::new();
        let mut waiting: Vec<(String, JoinHandle<Result<Acquired, Error>>)> = Vec::new();
        for step in 0..600 {
            let replica = &replicas[rng.random_range(0..2)];
            let name = format!("k{}", rng.random_range(0..12));
            match rng.random_range(0..10) {
                0..5 => {
                    let mut asked = about(&name);
                    asked.wait = Some(seconds(rng.random_range(0..20)));
                    asked.ask.lease_ttl = Some(seconds(rng.random_range(1..6)));
                    waiting.push((name, replica.park(asked).await));
                }
                5..8 => {
                    if let Some((name, lease)) = held.pop_first() {
                        let outcome = match rng.random_range(0..4) {
                            0 => gives_up(),
                            1 => failure(),
                            _ => value(),
                        };
                        replica.report_of(&name, lease, outcome).await;
                        let dropped = Target::Key(Key::new("shop", &name));
                        replica.invalidate(dropped, Mode::Drop).await;
                    }
                }
                8 => {
                    if !waiting.is_empty() {
                        waiting.swap_remove(rng.random_range(0..waiting.len())).1.abort();
                    }
                }
                _ => {
                    replica
                        .invalidate(Target::Key(Key::new("shop", &name)), Mode::Drop)
                        .await;
                }
            }
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..700))).await;
            settle().await;
            let mut left = Vec::new();
            for (name, caller) in waiting {
                if !caller.is_finished() {
                    left.push((name, caller));
                } else if let Ok(Ok(acquired)) = caller.await
                    && let Answer::Rebuild(rebuild) = acquired.answer
                {
                    // Every eighth holder crashes.
                    if rng.random_range(0..8) > 0 {
                        held.insert(name, rebuild.lease);
                    }
                }
            }
            waiting = left;
            let live = replicas[0].live().await;
            assert!(
                live <= limit as usize,
                "seed {seed}, step {step}: {live} leases, {limit} places"
            );
            let mut stuck: Vec<&String> = waiting.iter().map(|(name, _)| name).collect();
            for _ in 0..BOUND {
                let leases = replicas[0].0.leases(Some("shop")).await.expect("the store answers");
                stuck.retain(|name| {
                    let waits = waiting
                        .iter()
                        .any(|(other, caller)| other == *name && !caller.is_finished());
                    waits && leases.iter().all(|lease| lease.key.name() != name.as_str())
                });
                if leases.len() >= limit as usize || stuck.is_empty() {
                    stuck.clear();
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                settle().await;
            }
            assert!(
                stuck.is_empty(),
                "seed {seed}, step {step}: below {limit}, and {stuck:?} wait"
            );
        }
    }
}

/// Planned work gets each place as soon as it is free, and whoever has nothing goes before it.
#[tokio::test(start_paused = true)]
async fn workers_are_given_as_many_tasks_as_there_are_places_and_callers_with_nothing_go_first() {
    use super::working::{giving, item, items};
    use crate::coordinator::ScheduleRefresh;
    const KEYS: usize = 60;
    let replica = giving(limited(3));
    let mut worker = replica.worker("worker", 100).await;
    let warm = ScheduleRefresh {
        namespace: "shop".into(),
        keys: items(KEYS),
        spread_over: Duration::ZERO,
        only_if_missing: false,
        traceparent: None,
    };
    replica.0.schedule(warm).await.expect("the store answers");
    let began = Instant::now();
    let (mut running, mut done) = (std::collections::VecDeque::new(), 0);
    let mut caller = None;
    while done < KEYS {
        let live = replica.live().await;
        assert!(live <= 3, "{live}");
        running.extend(worker.tasks().await.into_iter().map(|task| (Instant::now(), task)));
        if done == 10 && caller.is_none() {
            caller = Some((replica.park(about("missing")).await, Instant::now()));
        }
        if caller.as_ref().is_some_and(|(parked, _)| parked.is_finished()) {
            let (parked, since) = caller.take().expect("it was there");
            assert!(since.elapsed() <= Duration::from_millis(150), "{:?}", since.elapsed());
            replica
                .report_of("missing", rebuild(&ended(parked).await).lease, value())
                .await;
        }
        // Each takes a tenth of a second.
        if let Some((since, _)) = running.front()
            && since.elapsed() >= Duration::from_millis(100)
            && let Some((_, task)) = running.pop_front()
        {
            replica.done(&task).await;
            done += 1;
            continue;
        }
        advance(Duration::from_millis(5)).await;
    }
    // Sixty at three at a time, and a moment to hand out each.
    let took = began.elapsed();
    assert!(took <= Duration::from_millis(2_500), "{took:?}");
    assert!(hit(&replica.ask(at_once(item("item 000").name())).await).fresh);
}
