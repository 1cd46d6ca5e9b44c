//! Who waits, for how long, and what the end of the wait brings.

use futures_util::FutureExt as _;
use tokio::time::{Instant, advance};

use super::*;
use crate::decision::BusyCause;
use crate::store::faulty::{Call, Fault, Faulty, Forgetful, Remote};

#[tokio::test(start_paused = true)]
async fn a_herd_is_reduced_to_one_rebuild_and_everybody_is_handed_its_value() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let mut herd = Vec::new();
    for _ in 0..1_000 {
        herd.push(replica.park(question()).await);
    }
    assert_eq!(replica.0.parked(), 1_000);
    assert!(accepted(&replica.report(rebuild(&first).lease, value()).await));
    for caller in herd {
        let acquired = ended(caller).await;
        assert!(hit(&acquired).fresh);
        assert_eq!(acquired.bytes.as_deref(), Some(&b"value"[..]));
    }
    assert_eq!(replica.0.parked(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_lease_promotes_the_oldest_parked_caller_and_nobody_else() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let (oldest, second) = (replica.park(question()).await, replica.park(question()).await);
    replica.report(rebuild(&first).lease, Outcome::Abandoned).await;
    let promoted = ended(oldest).await;
    assert_eq!(rebuild(&promoted).cause, Cause::Takeover);
    assert!(rebuild(&promoted).lease.token > rebuild(&first).lease.token);
    assert!(!second.is_finished());
    replica.report(rebuild(&promoted).lease, value()).await;
    assert!(hit(&ended(second).await).fresh);
}

/// The task that looked after those who have left has had no time yet to see that nobody is there.
#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_wait_is_not_sent_behind_those_who_have_left() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let asked = question();
    let mut leaving = Box::pin(replica.0.acquire(&asked));
    assert!((&mut leaving).now_or_never().is_none(), "it is parked");
    settle().await;
    drop(leaving);
    let report = Report {
        lease: rebuild(&first).lease,
        outcome: Outcome::Abandoned,
        cost: None,
        tags: Vec::new(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    let given_up = ReportValue {
        key: key(),
        report,
        bytes: None,
    };
    replica.0.report(given_up).await.expect("the store answers");
    let at_once = Acquire {
        wait: Some(Duration::ZERO),
        ..question()
    };
    rebuild(&replica.ask(at_once).await);
}

#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_replaced_when_its_lease_is_over() {
    let replica = replica();
    let started = Instant::now();
    let first = replica.ask(question_with(|ask| ask.lease_ttl = Some(seconds(3)))).await;
    let waiting = replica.park(question()).await;
    let promoted = waiting.await.expect("no panic").expect("the store answers");
    assert_eq!(rebuild(&promoted).cause, Cause::Takeover);
    assert!(
        started.elapsed() >= seconds(3) && started.elapsed() < Duration::from_millis(3_050),
        "{:?}",
        started.elapsed()
    );
    assert!(!accepted(&replica.report(rebuild(&first).lease, value()).await));
}

#[tokio::test(start_paused = true)]
async fn a_promoted_caller_that_left_gives_way_to_the_next() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let (leaves, stays) = (replica.park(question()).await, replica.park(question()).await);
    leaves.abort();
    replica.report(rebuild(&first).lease, Outcome::Abandoned).await;
    assert_eq!(rebuild(&ended(stays).await).cause, Cause::Takeover);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_cancels_leaves_alone() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let (leaves, stays) = (replica.park(question()).await, replica.park(question()).await);
    leaves.abort();
    settle().await;
    assert_eq!(replica.0.parked(), 1);
    replica.report(rebuild(&first).lease, value()).await;
    assert!(hit(&ended(stays).await).fresh);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_by_its_own_time() {
    let replica = replica();
    replica.ask(question()).await;
    let started = Instant::now();
    let acquired = replica
        .ask(Acquire {
            wait: Some(seconds(2)),
            ..question()
        })
        .await;
    assert!(matches!(acquired.answer, Answer::Busy(busy) if busy.cause == BusyCause::WaitElapsed));
    assert_eq!((started.elapsed(), acquired.waited), (seconds(2), seconds(2)));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_before_the_deadline_of_its_call() {
    let replica = replica();
    replica.ask(question()).await;
    let started = Instant::now();
    replica
        .ask(Acquire {
            answer_by: Some(started + seconds(1)),
            ..question()
        })
        .await;
    assert_eq!(started.elapsed(), seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_caller_without_time_to_wait_is_answered_at_once() {
    let replica = replica();
    replica.ask(question()).await;
    let acquired = replica
        .ask(Acquire {
            wait: Some(Duration::ZERO),
            ..question()
        })
        .await;
    assert!(matches!(acquired.answer, Answer::Busy(_)));
    assert_eq!(acquired.waited, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_failure_sends_everybody_away_for_the_back_off_and_then_one_may_try() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let waiting = replica.park(question()).await;
    replica.report(rebuild(&first).lease, failure()).await;
    let Answer::KeepOff(keep_off) = ended(waiting).await.answer else {
        panic!("expected a back-off")
    };
    assert_eq!((keep_off.failures, &*keep_off.message), (1, "the origin is down"));
    assert!(matches!(replica.ask(question()).await.answer, Answer::KeepOff(_)));
    advance(seconds(2)).await;
    assert_eq!(rebuild(&replica.ask(question()).await).cause, Cause::Miss);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_not_to_be_stored_reaches_those_who_were_parked_and_nobody_else() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let waiting = replica.park(question()).await;
    replica
        .report_with(rebuild(&first).lease, value(), |report| report.do_not_store = true)
        .await;
    let handed = ended(waiting).await;
    assert!(hit(&handed).fresh && hit(&handed).expiry.fresh_for.is_zero());
    assert_eq!(handed.bytes.as_deref(), Some(&b"value"[..]));
    rebuild(&replica.ask(question()).await);
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_does_not_overtake_those_who_wait() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let waiting = replica.park(question()).await;
    // The lease ends, and before the queue has been looked at a newcomer asks.
    let coordinator = replica.0.clone();
    let report = Report {
        lease: rebuild(&first).lease,
        outcome: Outcome::Abandoned,
        cost: None,
        tags: Vec::new(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    coordinator
        .report(ReportValue {
            key: key(),
            report,
            bytes: None,
        })
        .await
        .expect("the store answers");
    let newcomer = replica
        .ask(Acquire {
            wait: Some(Duration::ZERO),
            ..question()
        })
        .await;
    assert!(matches!(newcomer.answer, Answer::Busy(_)), "{newcomer:?}");
    assert_eq!(rebuild(&ended(waiting).await).cause, Cause::Takeover);
}

#[tokio::test(start_paused = true)]
async fn those_who_only_read_wait_for_whoever_takes_over() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let reads = replica.park(question_with(|ask| ask.intent = Intent::Read)).await;
    let takes_over = replica.park(question()).await;
    replica.report(rebuild(&first).lease, Outcome::Abandoned).await;
    let promoted = ended(takes_over).await;
    assert!(!reads.is_finished(), "there is a rebuild to wait for");
    replica.report(rebuild(&promoted).lease, value()).await;
    assert!(hit(&ended(reads).await).fresh);
}

#[tokio::test(start_paused = true)]
async fn those_who_only_read_get_a_miss_when_nobody_takes_over() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let reads = replica.park(question_with(|ask| ask.intent = Intent::Read)).await;
    replica.report(rebuild(&first).lease, Outcome::Abandoned).await;
    assert_eq!(ended(reads).await.answer, Answer::Miss);
}

#[tokio::test(start_paused = true)]
async fn a_value_without_a_life_reaches_those_who_were_parked_before_its_grant_at_another_replica() {
    let memory = Memory::new(Limits::default());
    let [here, there] = [1, 2].map(|seed| {
        let remote = Remote::new(memory.clone(), seed, Forgetful::default());
        Replica::over(remote, Policy::default(), 10_000)
    });
    let first = here.ask(question()).await;
    let at_once = Acquire {
        wait: Some(Duration::ZERO),
        ..question()
    };
    assert!(matches!(there.ask(at_once).await.answer, Answer::Busy(_)));
    here.report(rebuild(&first).lease, Outcome::Abandoned).await;
    // It waits for a lease that is over, as its replica remembers it.
    let reads = there.park(question_with(|ask| ask.intent = Intent::Read)).await;
    assert!(!reads.is_finished(), "somebody elsewhere may take over");
    // Granted and reported before the other replica has looked.
    let second = here.ask(question()).await;
    here.report_with(rebuild(&second).lease, value(), |report| report.do_not_store = true)
        .await;
    assert!(hit(&ended(reads).await).fresh);
}

#[tokio::test(start_paused = true)]
async fn callers_that_an_open_circuit_sends_away_do_not_keep_those_who_only_read() {
    let remote = Remote::new(Memory::new(Limits::default()), 1, Forgetful::default());
    let replica = Replica::over(remote, Policy::default(), 10_000);
    let lease = rebuild(&replica.ask(question()).await).lease;
    let reads = replica.park(question_with(|ask| ask.intent = Intent::Read)).await;
    // Its namespace's circuit opens: one key after the other fails.
    for number in 0..40 {
        let key = Key::new("shop", &format!("failing {number}"));
        let Answer::Rebuild(rebuild) = replica
            .ask(Acquire {
                key: key.clone(),
                ..question()
            })
            .await
            .answer
        else {
            break;
        };
        let report = Report {
            lease: rebuild.lease,
            outcome: failure(),
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        };
        let reported = replica
            .0
            .report(ReportValue {
                key,
                report,
                bytes: None,
            })
            .await;
        assert!(accepted(&reported.expect("the store answers")));
        settle().await;
    }
    replica.report(lease, Outcome::Abandoned).await;
    let began = Instant::now();
    while !reads.is_finished() {
        let sent_away = replica.park(question()).await;
        advance(Duration::from_millis(40)).await;
        settle().await;
        assert!(matches!(ended(sent_away).await.answer, Answer::KeepOff(_)));
        assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
    }
    assert_eq!(ended(reads).await.answer, Answer::Miss);
}

#[tokio::test(start_paused = true)]
async fn a_retry_takes_the_place_of_its_first_try() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let named = || question_with(|ask| ask.request_id = "q1".into());
    let (try_one, other) = (replica.park(named()).await, replica.park(question()).await);
    let try_two = replica.park(named()).await;
    assert!(matches!(ended(try_one).await.answer, Answer::Busy(_)));
    assert_eq!(replica.0.parked(), 2);
    replica.report(rebuild(&first).lease, Outcome::Abandoned).await;
    rebuild(&ended(try_two).await);
    assert!(!other.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_key_has_no_more_parked_callers_than_its_policy_allows() {
    let replica = Replica::with(Policy {
        max_waiters_per_key: 2,
        ..Policy::default()
    });
    replica.ask(question()).await;
    let _parked = (replica.park(question()).await, replica.park(question()).await);
    let acquired = replica.ask(question()).await;
    assert!(matches!(acquired.answer, Answer::Busy(busy) if busy.cause == BusyCause::TooManyWaiters));
}

#[tokio::test(start_paused = true)]
async fn a_replica_has_no_more_parked_callers_than_it_has_room_for() {
    let replica = Replica::over(Memory::new(Limits::default()), Policy::default(), 1);
    replica.ask(question()).await;
    let _parked = replica.park(question()).await;
    assert!(matches!(
        replica.0.acquire(&question()).await,
        Err(Error::Overloaded { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn two_replicas_over_one_store_promote_one_caller_between_them() {
    let store = Memory::new(Limits::default());
    let here = Replica::over(store.clone(), Policy::default(), 100);
    let there = Replica::over(store, Policy::default(), 100);
    let first = here.ask(question()).await;
    let waiting = [
        here.park(question()).await,
        there.park(question()).await,
        there.park(question()).await,
    ];
    here.report(rebuild(&first).lease, Outcome::Abandoned).await;
    assert_eq!(waiting.iter().filter(|caller| caller.is_finished()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_at_one_replica_ends_waits_at_the_other() {
    let store = Memory::new(Limits::default());
    let here = Replica::over(store.clone(), Policy::default(), 100);
    let there = Replica::over(store, Policy::default(), 100);
    let first = here.ask(question()).await;
    let waiting = there.park(question()).await;
    here.report(rebuild(&first).lease, value()).await;
    assert!(hit(&ended(waiting).await).fresh);
}

#[tokio::test(start_paused = true)]
async fn a_drain_sends_parked_callers_elsewhere_and_still_takes_reports() {
    let replica = replica();
    let first = replica.ask(question()).await;
    let waiting = replica.park(question()).await;
    replica.0.drain();
    settle().await;
    assert!(matches!(waiting.await.expect("no panic"), Err(Error::Draining)));
    assert!(accepted(&replica.report(rebuild(&first).lease, value()).await));
    assert!(hit(&replica.ask(question()).await).fresh);
    replica.0.finished().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_its_caller_was_told_of_in_the_last_moment_is_not_given_back() {
    let store = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = Replica::over(store.clone(), Policy::default(), 100);
    replica.ask(question_with(|ask| ask.lease_ttl = Some(seconds(1)))).await;
    let named = question_with(|ask| ask.request_id = "q1".into());
    let wait = Some(Duration::from_millis(1_005));
    let asking = replica.park(Acquire { wait, ..named }).await;
    // The queue grants it the lease when the first one's time is over, and hears of the commit when the wait is over too: by then the
    // caller has looked for itself and found the lease that answers its question.
    store.script(Call::Commit, Fault::AnswerLate(Duration::from_millis(50)));
    let told = asking.await.expect("no panic").expect("the store answers");
    advance(Duration::from_millis(100)).await;
    settle().await;
    let other = Acquire {
        wait: Some(Duration::ZERO),
        ..question()
    };
    assert!(matches!(replica.ask(other).await.answer, Answer::Busy(_)));
    assert!(accepted(&replica.report(rebuild(&told).lease, value()).await));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_a_retry_was_told_of_is_not_given_back_when_its_first_try_left() {
    let store = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = Replica::over(store.clone(), Policy::default(), 100);
    let named = || question_with(|ask| ask.request_id = "q1".into());
    store.script(Call::Commit, Fault::AnswerLate(Duration::from_millis(50)));
    let leaves = replica.park(named()).await;
    leaves.abort();
    let told = replica.ask(named()).await;
    advance(Duration::from_millis(100)).await;
    settle().await;
    assert!(accepted(&replica.report(rebuild(&told).lease, value()).await));
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_that_queues_up_during_a_look_is_not_left_until_the_next_regular_one() {
    let ms = Duration::from_millis;
    let store = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = Replica::over(store.clone(), Policy::default(), 100);
    let first = replica.ask(question()).await;
    let oldest = replica.park(question()).await;
    // Of the second: it parks while the queue looks already. Of the report. Of the two looks that follow: the first one answers the
    // oldest, the other one the second.
    for fault in [
        Fault::AnswerLate(ms(5)),
        Fault::Late(ms(0)),
        Fault::Late(ms(10)),
        Fault::Late(ms(10)),
    ] {
        store.script(Call::Load, fault);
    }
    let second = replica.park(question()).await;
    replica.report(rebuild(&first).lease, value()).await;
    for step in [6, 5, 4] {
        advance(ms(step)).await;
        settle().await;
    }
    assert!(hit(&ended(oldest).await).fresh);
    let newcomer = replica.park(question_with(|ask| ask.intent = Intent::Force)).await;
    assert!(!second.is_finished() && !newcomer.is_finished());
    advance(ms(10)).await;
    assert!(hit(&ended(second).await).fresh);
    rebuild(&ended(newcomer).await);
}

#[tokio::test(start_paused = true)]
async fn a_parked_caller_s_future_is_small() {
    let replica = replica();
    let size = std::mem::size_of_val(&replica.0.acquire(&question()));
    assert!(
        size <= 1_024,
        "{size} bytes: box what does not have to be there while a caller is parked"
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_is_granted_at_the_end_of_its_wait_by_a_replica_that_has_begun_to_leave() {
    let store = Faulty::new(Memory::new(Limits::default()), 1);
    let replica = Replica::over(store.clone(), Policy::default(), 100);
    let first = replica.ask(question()).await;
    let wait = Some(Duration::from_millis(500));
    let asking = replica.park(Acquire { wait, ..question() }).await;
    store.script(Call::Load, Fault::Late(Duration::from_millis(20)));
    advance(Duration::from_millis(500)).await;
    settle().await;
    assert_eq!(replica.0.parked(), 0, "its wait is over, and it looks a last time");
    replica.report(rebuild(&first).lease, Outcome::Abandoned).await;
    replica.0.drain();
    assert!(matches!(asking.await.expect("no panic"), Err(Error::Draining)));
}
