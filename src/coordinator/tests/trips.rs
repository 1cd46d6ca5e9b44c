//! What a store that is far away is asked, counted call by call.

use tokio::time::{Instant, advance, sleep};

use super::*;
use crate::decision::{Intent, Rejection};
use crate::store::faulty::{Call, Fault, Faults, Faulty, Forgetful, Remote};
use crate::store::{StoreError, Want};

use Call::{Commit, Load};

/// A replica whose store is far away, and how far: the trips are counted, the calls take time.
struct Far {
    replica: Replica,
    remote: Arc<Remote>,
    faulty: Arc<Faulty>,
}

impl Far {
    fn over(memory: Arc<Memory>, policy: Policy) -> Far {
        let faulty = Faulty::new(memory, 1);
        let remote = Remote::new(faulty.clone(), 1, Forgetful::default());
        Far {
            replica: Replica::over(remote.clone(), policy, 20_000),
            remote,
            faulty,
        }
    }

    fn new() -> Far {
        Far::over(Memory::new(Limits::default()), Policy::default())
    }

    /// Calls take a millisecond there and one back.
    fn slow(&self) {
        self.faulty.set(Faults {
            before: ms(1),
            after: ms(1),
            ..Faults::default()
        });
    }

    async fn granted(&self) -> LeaseId {
        let granted = self.replica.ask(question()).await;
        self.remote.trips();
        rebuild(&granted).lease
    }

    async fn built(&self) {
        let lease = self.granted().await;
        assert!(accepted(&self.replica.report(lease, value()).await));
        self.remote.trips();
    }
}

fn ms(length: u64) -> Duration {
    Duration::from_millis(length)
}

fn at_once() -> Acquire {
    Acquire {
        wait: Some(Duration::ZERO),
        ..question()
    }
}

#[tokio::test(start_paused = true)]
async fn a_cold_grant_a_report_a_renewal_and_an_invalidation_take_one_trip_each() {
    let far = Far::new();
    let granted = far.replica.ask(question()).await;
    assert_eq!(far.remote.trips(), [Commit], "a cold grant");
    let lease = rebuild(&granted).lease;
    assert_eq!(far.replica.renew(lease, seconds(5)).await.lost, None);
    assert_eq!(far.remote.trips(), [Commit], "a renewal");
    assert!(accepted(&far.replica.report(lease, value()).await));
    assert_eq!(far.remote.trips(), [Commit], "a report");
    far.replica.invalidate(Target::Key(key()), Mode::Drop).await;
    assert_eq!(far.remote.trips(), [Commit], "an invalidation of a key");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_answer_takes_one_trip_whether_the_key_was_seen_or_not() {
    let memory = Memory::new(Limits::default());
    let (here, there) = (
        Far::over(memory.clone(), Policy::default()),
        Far::over(memory, Policy::default()),
    );
    here.built().await;
    let seen = here.replica.ask(question()).await;
    assert!(hit(&seen).fresh && seen.bytes.is_some());
    assert_eq!(here.remote.trips(), [Load]);
    let never_seen = there.replica.ask(question()).await;
    assert!(hit(&never_seen).fresh && never_seen.bytes.is_some());
    assert_eq!(
        there.remote.trips(),
        [Commit],
        "the guess was wrong, and brought the value"
    );
}

#[tokio::test(start_paused = true)]
async fn a_grant_on_an_expired_entry_takes_one_trip_where_it_was_seen_last_else_two() {
    let policy = Policy {
        fresh_ttl: seconds(10),
        stale_while_revalidate: Duration::ZERO,
        stale_if_error: Duration::ZERO,
        ..Policy::default()
    };
    let memory = Memory::new(Limits::default());
    let (here, there) = (Far::over(memory.clone(), policy.clone()), Far::over(memory, policy));
    here.built().await;
    advance(seconds(20)).await;
    let lease = rebuild(&there.replica.ask(question()).await).lease;
    assert_eq!(there.remote.trips(), [Commit, Commit]);
    assert!(accepted(&there.replica.report(lease, value()).await));
    there.remote.trips();
    advance(seconds(20)).await;
    rebuild(&there.replica.ask(question()).await);
    assert_eq!(there.remote.trips(), [Commit]);
}

#[tokio::test(start_paused = true)]
async fn a_grant_beside_a_stale_value_is_made_from_what_the_store_says() {
    let far = Far::new();
    far.built().await;
    advance(seconds(340)).await;
    let granted = far.replica.ask(question()).await;
    assert!(rebuild(&granted).fallback.is_some() && granted.bytes.is_some());
    assert_eq!(far.remote.trips(), [Load, Commit]);
}

#[tokio::test(start_paused = true)]
async fn a_herd_at_a_replica_takes_four_trips() {
    let far = Far::new();
    far.slow();
    let mut herd = Vec::new();
    for _ in 0..1_000 {
        let coordinator = far.replica.0.clone();
        herd.push(tokio::spawn(async move { coordinator.acquire(&question()).await }));
    }
    settle().await;
    assert_eq!(far.replica.0.parked(), 999);
    sleep(ms(10)).await;
    let (granted, parked): (Vec<_>, Vec<_>) = herd.into_iter().partition(|caller| caller.is_finished());
    assert_eq!((granted.len(), parked.len()), (1, 999));
    let mut lease = None;
    for caller in granted {
        lease = Some(rebuild(&caller.await.expect("no panic").expect("it answers")).lease);
    }
    sleep(ms(500)).await;
    far.replica.report(lease.expect("one was granted"), value()).await;
    for caller in parked {
        let acquired = caller.await.expect("no panic").expect("it answers");
        assert!(hit(&acquired).fresh && acquired.bytes.is_some());
    }
    assert_eq!(far.remote.trips(), [Commit, Load, Commit, Load]);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_callers_at_three_replicas_take_few_trips_together() {
    let memory = Memory::new(Limits::default());
    let fleet = [(); 3].map(|()| Far::over(memory.clone(), Policy::default()));
    let mut herd = Vec::new();
    for (number, far) in (0..10_000).zip(fleet.iter().cycle()) {
        far.slow();
        let coordinator = far.replica.0.clone();
        // They come within half a second, so that many come when the lease is known.
        herd.push(tokio::spawn(async move {
            tokio::time::sleep(ms(number % 500)).await;
            coordinator.acquire(&question()).await
        }));
    }
    tokio::time::sleep(seconds(2)).await;
    let (granted, parked): (Vec<_>, Vec<_>) = herd.into_iter().partition(|caller| caller.is_finished());
    assert_eq!(granted.len(), 1);
    for caller in granted {
        let lease = rebuild(&caller.await.expect("no panic").expect("it answers")).lease;
        assert!(accepted(&fleet[0].replica.report(lease, value()).await));
    }
    for caller in parked {
        assert!(hit(&caller.await.expect("no panic").expect("it answers")).fresh);
    }
    let trips: Vec<Vec<Call>> = fleet.iter().map(|far| far.remote.trips()).collect();
    let all = trips.iter().map(Vec::len).sum::<usize>();
    assert!(all <= 18, "{all}: {trips:?}");
}

#[tokio::test(start_paused = true)]
async fn callers_that_do_not_wait_are_answered_beside_a_grant_that_is_under_way() {
    let far = Far::new();
    far.slow();
    let first = far.replica.park(question()).await;
    let busy = far.replica.ask(at_once()).await;
    assert!(matches!(busy.answer, Answer::Busy(_)), "{busy:?}");
    sleep(ms(5)).await;
    rebuild(&ended(first).await);
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_grant_that_failed_are_looked_after() {
    let far = Far::new();
    far.slow();
    far.faulty.script(Commit, Fault::Unknown);
    let brief = question_with(|ask| ask.lease_ttl = Some(seconds(3)));
    let first = far.replica.park(brief).await;
    let behind = [far.replica.park(question()).await, far.replica.park(question()).await];
    sleep(ms(20)).await;
    assert!(matches!(
        first.await.expect("no panic"),
        Err(Error::Store(StoreError::Unknown(_)))
    ));
    // The store took the grant, and nobody has it: it ends with its time.
    sleep(seconds(2)).await;
    assert_eq!(far.replica.0.parked(), 2);
    sleep(seconds(1)).await;
    assert_eq!(behind.iter().filter(|caller| caller.is_finished()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn those_behind_a_grant_whose_caller_has_left_take_over() {
    let far = Far::new();
    far.slow();
    let first = far.replica.park(question()).await;
    let behind = [far.replica.park(question()).await, far.replica.park(question()).await];
    first.abort();
    sleep(ms(20)).await;
    assert_eq!(behind.iter().filter(|caller| caller.is_finished()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_never_given_from_memory() {
    let memory = Memory::new(Limits::default());
    let (here, there) = (
        Far::over(memory.clone(), Policy::default()),
        Far::over(memory, Policy::default()),
    );
    let lease = here.granted().await;
    there.replica.invalidate(Target::Tag("t".into()), Mode::Drop).await;
    // Here the invalidation has not been seen: accepting is left to the store, which knows.
    let refused = here
        .replica
        .report_with(lease, value(), |report| report.tags = vec!["t".into()])
        .await;
    assert_eq!(
        refused.answer,
        ReportAnswer::Rejected(crate::decision::Rejection::Invalidated)
    );
    // A renewal relies on what was seen, so the store checks it too.
    let lease = here.granted().await;
    there.replica.invalidate(Target::Everything, Mode::Drop).await;
    let renewed = here.replica.renew(lease, seconds(5)).await;
    assert_eq!(renewed.lost, Some(crate::decision::LostReason::Invalidated));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_replica_granted_is_renewed_and_reported_here() {
    let memory = Memory::new(Limits::default());
    let (here, there) = (
        Far::over(memory.clone(), Policy::default()),
        Far::over(memory, Policy::default()),
    );
    let lease = here.granted().await;
    assert_eq!(there.replica.renew(lease, seconds(5)).await.lost, None);
    assert_eq!(there.remote.trips(), [Load, Commit]);
    // Here an older state of it is remembered.
    assert_eq!(here.replica.renew(lease, seconds(8)).await.lost, None);
    assert_eq!(here.remote.trips(), [Commit, Commit]);
    assert!(accepted(&there.replica.report(lease, value()).await));
    assert_eq!(there.remote.trips(), [Commit, Commit]);
    assert!(
        accepted(&here.replica.report(lease, value()).await),
        "the same report again"
    );
    assert_eq!(here.remote.trips(), [Commit]);
}

#[tokio::test(start_paused = true)]
async fn what_is_left_of_a_lease_counts_from_when_the_store_was_asked() {
    let far = Far::new();
    far.faulty.script(Commit, Fault::AnswerLate(seconds(3)));
    let granted = far.replica.ask(question()).await;
    assert_eq!(rebuild(&granted).ttl, seconds(7));
    assert_eq!(rebuild(&granted).max_hold, seconds(117));
    far.faulty.script(Commit, Fault::AnswerLate(seconds(2)));
    let renewed = far.replica.renew(rebuild(&granted).lease, seconds(5)).await;
    assert_eq!(renewed.ttl, seconds(3));
    let left = far.remote.load(&key(), &[], Want::default()).await.expect("it answers");
    let lease = left.snapshot.entry.lease.as_deref().expect("it is held");
    assert_eq!(renewed.ttl, lease.deadline.since(left.now));
    // A retry is told what is left now, whatever its trips took.
    let named = || question_with(|ask| ask.request_id = "q1".into());
    advance(seconds(10)).await;
    let first = far.replica.ask(named()).await;
    far.faulty.script(Load, Fault::AnswerLate(seconds(1)));
    far.faulty.script(Commit, Fault::AnswerLate(seconds(1)));
    let again = far.replica.ask(named()).await;
    assert_eq!(rebuild(&again).lease, rebuild(&first).lease);
    assert_eq!(rebuild(&again).ttl, seconds(8));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_somebody_else_is_always_faster_with_ends_with_a_clear_refusal() {
    /// Each commit finds that the entry has just been written.
    struct Contended(Arc<Memory>);
    impl Store for Contended {
        fn load<'a>(
            &'a self,
            key: &'a Key,
            tags: &'a [Tag],
            want: Want,
        ) -> crate::store::Answer<'a, crate::store::Loaded> {
            self.0.load(key, tags, want)
        }
        fn commit<'a>(&'a self, commit: crate::store::Commit) -> crate::store::Answer<'a, crate::store::Outcome> {
            Box::pin(async move {
                let now = self.0.load(&commit.key, &[], Want::default()).await?;
                Ok(crate::store::Outcome::Conflict(now))
            })
        }
        fn invalidate<'a>(
            &'a self,
            covering: crate::store::Covering,
        ) -> crate::store::Answer<'a, crate::store::Invalidated> {
            self.0.invalidate(covering)
        }
        fn leases<'a>(&'a self, of: Option<&'a str>) -> crate::store::Answer<'a, Vec<Arc<crate::store::Snapshot>>> {
            self.0.leases(of)
        }
        fn census(&self) -> crate::store::Answer<'_, Vec<crate::store::Census>> {
            self.0.census()
        }
        fn ping(&self) -> crate::store::Answer<'_, crate::decision::StoreTime> {
            self.0.ping()
        }
        fn feed(&self) -> &Arc<crate::fanout::Feed> {
            self.0.feed()
        }

        fn budget<'a>(
            &'a self,
            key: &'a Key,
            lease: std::num::NonZeroU64,
            what: crate::store::Budgeting,
        ) -> crate::store::Answer<'a, crate::store::Budgeted> {
            self.0.budget(key, lease, what)
        }

        fn circuit<'a>(
            &'a self,
            namespace: &'a str,
            expected: &'a str,
            new: Option<&'a str>,
        ) -> crate::store::Answer<'a, Arc<str>> {
            self.0.circuit(namespace, expected, new)
        }
    }
    let memory = Memory::new(Limits::default());
    let lease = rebuild(
        &Replica::over(memory.clone(), Policy::default(), 10)
            .ask(question())
            .await,
    )
    .lease;
    let replica = Replica::over(Arc::new(Contended(memory)), Policy::default(), 10);
    let report = ReportValue {
        key: key(),
        report: Report {
            lease,
            outcome: value(),
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        },
        bytes: Some(Arc::from(&b"value"[..])),
    };
    assert!(matches!(replica.0.report(report).await, Err(Error::Overloaded { .. })));
    let renewal = Renew {
        key: key(),
        lease,
        ttl: None,
    };
    assert!(matches!(replica.0.renew(renewal).await, Err(Error::Overloaded { .. })));
    let other = Acquire {
        key: Key::new("shop", "another"),
        ..question()
    };
    assert!(matches!(replica.0.acquire(&other).await, Err(Error::Overloaded { .. })));
}

#[tokio::test(start_paused = true)]
async fn those_who_park_while_the_queue_is_looked_at_do_not_cause_another_look() {
    let far = Far::new();
    far.granted().await;
    far.faulty.script(Load, Fault::AnswerLate(ms(10)));
    let mut parked = vec![far.replica.park(question()).await];
    for _ in 0..20 {
        parked.push(far.replica.park(question()).await);
        advance(ms(1)).await;
    }
    settle().await;
    assert_eq!(far.remote.trips(), [Load]);
    assert_eq!(far.replica.0.parked(), 21);
}

#[tokio::test(start_paused = true)]
async fn those_who_insist_are_parked_behind_what_they_can_use_and_others_get_it_at_once() {
    let far = Far::new();
    far.built().await;
    far.faulty.script(Commit, Fault::Late(ms(50)));
    let early = far.replica.park(question_with(|ask| ask.intent = Intent::Early)).await;
    let started = Instant::now();
    let other = far.replica.ask(question_with(|ask| ask.intent = Intent::Early)).await;
    assert!(hit(&other).fresh && hit(&other).rebuilding);
    assert_eq!(started.elapsed(), Duration::ZERO);
    let insists = far.replica.park(question_with(|ask| ask.intent = Intent::Force)).await;
    sleep(ms(60)).await;
    assert!(!insists.is_finished());
    rebuild(&ended(early).await);
}

#[tokio::test(start_paused = true)]
async fn whether_a_number_is_too_far_ahead_is_judged_by_the_store_s_time() {
    let memory = Memory::new(Limits::default());
    let (here, there) = (
        Far::over(memory.clone(), Policy::default()),
        Far::over(memory, Policy::default()),
    );
    let token = here.granted().await.token;
    let ahead = |by: u64| Acquire {
        key: Key::new("shop", "another"),
        ..question_with(|ask| ask.min_token = crate::decision::Seq(token.0 + by))
    };
    // It has never heard the store's time.
    let far_ahead = there.replica.0.acquire(&ahead(48 * 3_600 * 1_000_000)).await;
    assert!(
        matches!(
            far_ahead,
            Err(Error::InvalidField {
                field: "min_fencing_token",
                ..
            })
        ),
        "{far_ahead:?}"
    );
    assert_eq!(there.remote.trips(), [Load]);
    assert!(rebuild(&there.replica.ask(ahead(1)).await).lease.token > token);
}

#[tokio::test(start_paused = true)]
async fn a_report_is_held_against_a_tag_that_it_is_the_first_to_name_whatever_else_is_remembered() {
    for mode in [Mode::Drop, Mode::Expire] {
        let memory = Memory::new(Limits::default());
        let (here, there) = (
            Far::over(memory.clone(), Policy::default()),
            Far::over(memory, Policy::default()),
        );
        here.built().await;
        let forced = question_with(|ask| ask.intent = Intent::Force);
        let lease = rebuild(&here.replica.ask(forced).await).lease;
        there.replica.invalidate(Target::Tag("named".into()), mode).await;
        there.replica.invalidate(Target::Tag("other".into()), mode).await;
        // What is remembered from here on knows of the other tag, which is the newer one.
        let other = question_with(|ask| ask.tags = Some(Arc::from([Tag::from("other")])));
        assert!(hit(&here.replica.ask(other).await).fresh);
        let reported = here
            .replica
            .report_with(lease, value(), |report| report.tags = vec!["named".into()]);
        let answer = reported.await.answer;
        assert!(
            matches!(answer, ReportAnswer::Rejected(Rejection::Invalidated)),
            "{answer:?}"
        );
    }
}

/// They come while the first look is under way, and know from memory whom they wait for.
#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_stored_goes_to_all_who_were_parked_whenever_they_were_looked_at() {
    let far = Far::new();
    let lease = far.granted().await;
    far.slow();
    let mut parked = Vec::new();
    for _ in 0..8 {
        parked.push(far.replica.park(question()).await);
        sleep(Duration::from_micros(300)).await;
    }
    sleep(ms(100)).await;
    let reported = far
        .replica
        .report_with(lease, value(), |report| report.do_not_store = true);
    assert!(accepted(&reported.await));
    sleep(ms(20)).await;
    for caller in parked {
        let acquired = ended(caller).await;
        assert!(
            hit(&acquired).fresh && hit(&acquired).expiry.fresh_for.is_zero(),
            "{acquired:?}"
        );
    }
}
