//! While the store does not answer, and after.

use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::decision::{BusyCause, LostReason, Rejection, Seq, StoreDown};
use crate::store::StoreError;
use crate::store::faulty::{Call, Fault, Faulty, Forgetful, Remote};

/// A replica whose store can be lost.
fn losable(policy: Policy) -> (Replica, Arc<Faulty>) {
    let faulty = Faulty::new(Memory::new(Limits::default()), 1);
    (Replica::over(faulty.clone(), policy, 10_000), faulty)
}

fn ms(length: u64) -> Duration {
    Duration::from_millis(length)
}

fn other(name: &str) -> Acquire {
    Acquire {
        key: Key::new("shop", name),
        ..question()
    }
}

fn refuses() -> Policy {
    Policy {
        store_down: StoreDown::Refuse,
        ..Policy::default()
    }
}

fn unavailable<T: std::fmt::Debug>(answer: Result<T, Error>) {
    assert!(
        matches!(answer, Err(Error::Store(StoreError::Unavailable(_)))),
        "{answer:?}"
    );
}

/// Marked, and without a number of its own.
fn degraded_rebuild(acquired: &Acquired) -> LeaseId {
    let lease = rebuild(acquired).lease;
    assert!(acquired.degraded && lease.is_degraded());
    assert_eq!(lease.fencing_token(), Seq::NONE);
    lease
}

#[tokio::test(start_paused = true)]
async fn a_replica_without_its_store_decides_alone_and_says_so() {
    let (replica, store) = losable(Policy::default());
    store.go_down();
    let lease = degraded_rebuild(&replica.ask(question()).await);
    let waiting = replica.park(question()).await;
    assert_eq!(replica.0.parked(), 1);
    let reported = replica.report(lease, value()).await;
    assert!(reported.degraded);
    let ReportAnswer::Accepted { version, expiry } = reported.answer else {
        panic!("expected to be accepted: {reported:?}")
    };
    let expiry = expiry.expect("a value has a life");
    assert_eq!(version, Seq::NONE);
    assert!(expiry.fresh_for <= seconds(5) && expiry.stale_for.is_zero() && expiry.stale_if_error_for.is_zero());
    let handed = ended(waiting).await;
    let asked = replica.ask(question()).await;
    for acquired in [handed, asked] {
        assert!(acquired.degraded && hit(&acquired).fresh);
        assert_eq!(hit(&acquired).version, Seq::NONE);
        assert_eq!(acquired.bytes.as_deref(), Some(&b"value"[..]));
    }
    advance(seconds(5)).await;
    degraded_rebuild(&replica.ask(question()).await);
}

#[tokio::test(start_paused = true)]
async fn numbers_that_a_caller_has_seen_in_the_store_do_not_make_it_rebuild_for_ever() {
    let (replica, store) = losable(Policy::default());
    let first = replica.ask(question()).await;
    replica.report(rebuild(&first).lease, value()).await;
    let seen = hit(&replica.ask(question()).await).version;
    store.go_down();
    let knowing = || {
        question_with(|ask| {
            (ask.newer_than, ask.min_token, ask.known_version) = (seen, seen, seen);
        })
    };
    let lease = degraded_rebuild(&replica.ask(knowing()).await);
    replica.report(lease, value()).await;
    let again = replica.ask(knowing()).await;
    assert!(hit(&again).fresh);
    assert_eq!(
        again.bytes.as_deref(),
        Some(&b"value"[..]),
        "no unchanged: it has another value"
    );
}

#[tokio::test(start_paused = true)]
async fn the_policy_may_refuse_instead_and_then_at_once() {
    let (replica, store) = losable(refuses());
    let first = replica.ask(question()).await;
    let parked = replica.park(question()).await;
    let started = Instant::now();
    store.go_down();
    settle().await;
    unavailable(parked.await.expect("no panic"));
    unavailable(replica.0.acquire(&question()).await);
    let report = ReportValue {
        key: key(),
        report: Report {
            lease: rebuild(&first).lease,
            outcome: value(),
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        },
        bytes: Some(Arc::from(&b"value"[..])),
    };
    unavailable(replica.0.report(report).await);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_single_call_that_finds_no_store_is_decided_alone_too() {
    let (replica, store) = losable(Policy::default());
    store.script(Call::Load, Fault::Unavailable);
    let lease = degraded_rebuild(&replica.ask(question()).await);
    assert!(!replica.ask(question()).await.degraded, "the store answers");
    // It may fail every other call: then what was decided alone holds for those.
    store.script(Call::Load, Fault::Unavailable);
    assert!(matches!(
        replica
            .ask(Acquire {
                wait: Some(Duration::ZERO),
                ..question()
            })
            .await,
        Acquired {
            answer: Answer::Busy(_),
            degraded: true,
            ..
        }
    ));
    // A second without a failure ends that.
    advance(seconds(1)).await;
    replica
        .ask(Acquire {
            wait: Some(Duration::ZERO),
            ..question()
        })
        .await;
    assert_eq!(
        replica.report(lease, value()).await.answer,
        ReportAnswer::Rejected(Rejection::UnknownLease)
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_fate_is_unknown_is_not_decided_alone() {
    let (replica, store) = losable(Policy::default());
    store.script(Call::Commit, Fault::Unknown);
    let answer = replica.0.acquire(&question()).await;
    assert!(
        matches!(answer, Err(Error::Store(StoreError::Unknown(_)))),
        "{answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn those_who_are_parked_when_the_store_is_lost_get_one_rebuild_between_them() {
    let (replica, store) = losable(Policy::default());
    let first = replica.ask(question()).await;
    let mut herd = Vec::new();
    for _ in 0..100 {
        herd.push(replica.park(question()).await);
    }
    store.go_down();
    settle().await;
    let (mut granted, mut parked) = (Vec::new(), Vec::new());
    for caller in herd {
        if caller.is_finished() {
            granted.push(ended(caller).await);
        } else {
            parked.push(caller);
        }
    }
    assert_eq!((granted.len(), parked.len(), replica.0.parked()), (1, 99, 99));
    assert_eq!(replica.0.flights.parked(), 0, "they are parked where it is decided");
    let lease = degraded_rebuild(&granted[0]);
    // The store's lease cannot be reported, and may be later.
    unavailable(
        replica
            .0
            .renew(Renew {
                key: key(),
                lease: rebuild(&first).lease,
                ttl: None,
            })
            .await,
    );
    replica.report(lease, value()).await;
    for caller in parked {
        assert!(hit(&ended(caller).await).fresh);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_alone_is_dropped_when_the_store_is_back() {
    let (replica, store) = losable(Policy::default());
    let shared = rebuild(&replica.ask(question()).await).lease;
    store.go_down();
    let built = degraded_rebuild(&replica.ask(other("built")).await);
    replica
        .0
        .report(ReportValue {
            key: Key::new("shop", "built"),
            report: Report {
                lease: built,
                outcome: Outcome::Built(Content::NotFound),
                cost: None,
                tags: Vec::new(),
                lifetimes: Lifetimes::default(),
                do_not_store: false,
            },
            bytes: None,
        })
        .await
        .expect("it is taken");
    let alone = degraded_rebuild(&replica.ask(question()).await);
    assert_eq!(replica.renew(alone, seconds(5)).await.lost, None);
    let parked = replica.park(question()).await;
    store.come_up();
    settle().await;
    assert_eq!(
        (replica.0.flights.parked(), replica.0.parked()),
        (1, 1),
        "it waits for the store's lease"
    );
    assert_eq!(
        replica.report(alone, value()).await.answer,
        ReportAnswer::Rejected(Rejection::UnknownLease)
    );
    assert_eq!(
        replica.renew(alone, seconds(5)).await.lost,
        Some(LostReason::UnknownLease)
    );
    let reported = replica.report(shared, value()).await;
    assert!(accepted(&reported) && !reported.degraded);
    let handed = ended(parked).await;
    assert!(!handed.degraded && hit(&handed).version == shared.token);
    let missing = replica.ask(other("built")).await;
    assert!(!missing.degraded && !rebuild(&missing).lease.is_degraded());
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_as_long_as_it_was_wherever_its_caller_is_sent() {
    let (replica, store) = losable(Policy::default());
    replica.ask(question()).await;
    let started = Instant::now();
    let wait = Some(seconds(4));
    let parked = replica.park(Acquire { wait, ..question() }).await;
    sleep(seconds(1)).await;
    store.go_down();
    let (granted, also) = (replica.park(other("x")).await, replica.park(question()).await);
    degraded_rebuild(&ended(granted).await);
    sleep(seconds(1)).await;
    store.come_up();
    drop(also);
    let acquired = parked.await.expect("no panic").expect("it answers");
    match acquired.answer {
        // The one rebuild, or the end of the wait.
        Answer::Rebuild(_) => assert!(acquired.degraded),
        answer => panic!("{answer:?}"),
    }
    assert_eq!(started.elapsed(), seconds(2));
}

#[tokio::test(start_paused = true)]
async fn grants_come_back_at_a_pace_that_doubles() {
    let (replica, store) = losable(Policy::default());
    store.go_down();
    settle().await;
    store.come_up();
    let started = Instant::now();
    let mut herd = Vec::new();
    for number in 0..400 {
        let coordinator = replica.0.clone();
        herd.push(tokio::spawn(async move {
            let acquired = coordinator.acquire(&other(&format!("k{number}"))).await;
            (acquired.expect("it answers"), Instant::now())
        }));
    }
    let mut times = Vec::new();
    for caller in herd {
        let (acquired, at) = caller.await.expect("no panic");
        assert!(!acquired.degraded);
        rebuild(&acquired);
        times.push(at.duration_since(started));
    }
    times.sort_unstable();
    let first = times[0];
    assert!(first <= ms(500), "{first:?}");
    let within = |tenths: u32| {
        times
            .iter()
            .filter(|at| **at < first + ms(100) * tenths - ms(2))
            .count()
    };
    // 1 and 2 and 4 and…, each of them not before its time.
    for tenths in 1..=8 {
        let most = (1 << tenths) - 1;
        assert!(within(tenths) <= most, "{} in {tenths} tenths", within(tenths));
    }
    assert!(times[399] <= first + ms(1_000), "{:?}", times[399]);
}

#[tokio::test(start_paused = true)]
async fn re_entry_holds_up_only_grants() {
    let (replica, store) = losable(Policy::default());
    let first = replica.ask(question()).await;
    replica.report(rebuild(&first).lease, value()).await;
    let held = replica.ask(other("held")).await;
    store.go_down();
    settle().await;
    store.come_up();
    assert!(hit(&replica.ask(question()).await).fresh);
    assert_eq!(
        replica
            .0
            .renew(Renew {
                key: Key::new("shop", "held"),
                lease: rebuild(&held).lease,
                ttl: None
            })
            .await
            .expect("it answers")
            .lost,
        None
    );
    let at_once = replica
        .ask(Acquire {
            wait: Some(Duration::ZERO),
            ..other("new")
        })
        .await;
    assert!(matches!(at_once.answer, Answer::Busy(busy) if busy.cause == BusyCause::WaitElapsed));
    // Long after, nothing is held up.
    sleep(seconds(5)).await;
    rebuild(
        &replica
            .ask(Acquire {
                wait: Some(Duration::ZERO),
                ..other("new")
            })
            .await,
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_does_not_park_a_caller_of_a_fresh_key_during_re_entry() {
    let memory = Memory::new(Limits::default());
    let other = Replica::over(memory.clone(), Policy::default(), 10);
    let faulty = Faulty::new(memory, 1);
    let replica = Replica::over(
        Remote::new(faulty.clone(), 1, Forgetful::default()),
        Policy::default(),
        10,
    );
    let lease = rebuild(&other.ask(question()).await).lease;
    other.report(lease, value()).await;
    faulty.go_down();
    settle().await;
    faulty.come_up();
    let started = Instant::now();
    assert!(hit(&replica.ask(question()).await).fresh);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_shared_store_that_is_full_leaves_grants_to_this_replica_alone() {
    let memory = Memory::new(Limits {
        entries: 1,
        ..Limits::default()
    });
    let far = Replica::over(
        Remote::new(memory.clone(), 1, Forgetful::default()),
        Policy::default(),
        10,
    );
    let near = Replica::over(memory, Policy::default(), 10);
    rebuild(&far.ask(question()).await);
    degraded_rebuild(&far.ask(other("no room")).await);
    // The embedded store is in this process: there is no more room beside it.
    assert!(matches!(
        near.0.acquire(&other("no room")).await,
        Err(Error::Store(StoreError::Full(_)))
    ));
}

#[tokio::test(start_paused = true)]
async fn invalidations_are_never_degraded() {
    let (replica, store) = losable(Policy::default());
    store.go_down();
    degraded_rebuild(&replica.ask(question()).await);
    for target in [Target::Key(key()), Target::Tag("t".into()), Target::Everything] {
        let request = Invalidate {
            namespace: "shop".into(),
            targets: vec![target],
            mode: Mode::Drop,
            reason: String::new(),
            wait_for_watchers: Duration::ZERO,
            settle: Duration::ZERO,
        };
        unavailable(replica.0.invalidate(request).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_reaches_those_who_are_parked_where_a_replica_decides_alone() {
    let (replica, store) = losable(Policy::default());
    store.go_down();
    replica.ask(question()).await;
    let parked = replica.park(question()).await;
    replica.0.drain();
    settle().await;
    assert!(matches!(parked.await.expect("no panic"), Err(Error::Draining)));
    replica.0.finished().await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_that_the_feed_knows_nothing_of_ends_by_itself() {
    let (replica, store) = losable(Policy::default());
    store.script(Call::Load, Fault::Unavailable);
    degraded_rebuild(&replica.ask(question()).await);
    store.script(Call::Load, Fault::Unavailable);
    let parked = replica.park(question()).await;
    assert_eq!((replica.0.flights.parked(), replica.0.parked()), (0, 1));
    sleep(ms(2_100)).await;
    let sent_back = ended(parked).await;
    assert!(!sent_back.degraded, "the store has no lease of the key");
    rebuild(&sent_back);
}
