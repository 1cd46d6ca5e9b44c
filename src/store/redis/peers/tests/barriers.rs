//! One invalidation, and the watchers of all replicas.

use super::*;

#[tokio::test(start_paused = true)]
async fn it_is_confirmed_when_the_watchers_of_all_replicas_have_acknowledged() {
    let wall = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let (mut here, mut there) = (one.watch("here"), other.watch("there"));
    let begun = Instant::now();
    let (barrier, ()) = tokio::join!(one.ask(1, LONG), async {
        one.arrives(1);
        other.arrives(1);
        sleep(Duration::from_millis(200)).await;
        apply(&mut here);
        sleep(Duration::from_millis(200)).await;
        apply(&mut there);
    });
    assert_eq!(counts(&barrier), (true, 2, 2));
    assert_eq!(begun.elapsed(), Duration::from_millis(400));
}

#[tokio::test(start_paused = true)]
async fn a_replica_without_watchers_has_nothing_to_wait_for() {
    let wall = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    one.arrives(1);
    other.arrives(1);
    assert_eq!(counts(&one.ask(1, LONG).await), (true, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn who_lags_at_another_replica_is_named_in_time() {
    let wall = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let (mut here, _there) = (one.watch("here"), other.watch("there"));
    one.arrives(1);
    other.arrives(1);
    apply(&mut here);
    let begun = Instant::now();
    let barrier = one.ask(1, WAIT).await;
    assert_eq!(counts(&barrier), (false, 2, 1));
    assert_eq!(barrier.laggards, [Arc::from("there")]);
    assert!(begun.elapsed() <= WAIT, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_has_left_another_replica_counts_until_its_client_trusts_its_copies_no_more() {
    let wall = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    drop(other.watch("gone"));
    one.arrives(1);
    other.arrives(1);
    let _runs = (one.runs(1), other.runs(1));
    let early = one.ask(1, WAIT).await;
    assert_eq!(
        (counts(&early), early.laggards),
        ((false, 1, 0), vec![Arc::from("gone")])
    );
    assert_eq!(counts(&one.ask(1, LONG).await), (true, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_not_heard_counts_with_its_registered_watchers_and_at_least_one() {
    let wall: Arc<Wall> = Arc::default();
    let (one, busy, idle) = (
        Replica::new(&wall).await,
        Replica::new(&wall).await,
        Replica::new(&wall).await,
    );
    let _watching: Vec<_> = (0..3).map(|n| busy.watch(&n.to_string())).collect();
    busy.registers().await;
    wall.deaf.lock().extend([busy.fleet.id, idle.fleet.id]);
    one.arrives(1);
    let begun = Instant::now();
    let barrier = one.ask(1, WAIT).await;
    assert_eq!(counts(&barrier), (false, 4, 0));
    assert!(barrier.laggards.is_empty(), "their holders are not known");
    assert_eq!(begun.elapsed(), WAIT);
}

#[tokio::test(start_paused = true)]
async fn a_dead_replica_is_waited_for_until_its_registration_has_lapsed() {
    let wall: Arc<Wall> = Arc::default();
    let (one, dead) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let _watching = dead.watch("me");
    dead.registers().await;
    wall.deaf.lock().insert(dead.fleet.id);
    one.arrives(1);
    let _runs = one.runs(1);
    let begun = Instant::now();
    assert_eq!(counts(&one.ask(1, LONG).await), (true, 0, 0));
    assert_eq!(begun.elapsed(), LAPSES_IN);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_lives_but_does_not_answer_is_waited_for_to_the_end() {
    let wall: Arc<Wall> = Arc::default();
    let (one, mute) = (Replica::new(&wall).await, Replica::new(&wall).await);
    wall.mute.lock().insert(mute.fleet.id);
    one.arrives(1);
    mute.arrives(1);
    let _runs = (one.runs(1), mute.runs(1));
    let begun = Instant::now();
    assert_eq!(counts(&one.ask(1, LONG).await), (false, 1, 0));
    assert_eq!(begun.elapsed(), LONG);
}

/// The interleaving of which `fanout::barrier` tells.
#[tokio::test(start_paused = true)]
async fn a_client_that_resumes_at_a_replica_whose_log_lags_is_waited_for() {
    let wall = Arc::default();
    let (one, lags) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let mut first = lags.hub.watch(&named("me")).expect("the store is up");
    let old = first.next().await.expect("started").cursor;
    drop(first);
    // Long enough for the broken stream not to count any more.
    let runs = (one.runs(0), lags.runs(0));
    sleep(MAX_SILENCE).await;
    [runs.0, runs.1]
        .concat()
        .iter()
        .for_each(tokio::task::AbortHandle::abort);
    one.arrives(1);
    let (barrier, ()) = tokio::join!(one.ask(1, WAIT), async {
        sleep(Duration::from_millis(100)).await;
        let resume = Subscription {
            resume_from: old.to_string(),
            ..named("me")
        };
        let mut resumed = lags.hub.watch(&resume).expect("the store is up");
        assert!(
            matches!(seen(&mut resumed)[..], [What::Started { .. }]),
            "it trusts its copies"
        );
        sleep(Duration::from_millis(100)).await;
        lags.arrives(1);
        sleep(LONG).await;
        drop(resumed);
    });
    assert_eq!(
        (counts(&barrier), barrier.laggards),
        ((false, 1, 0), vec![Arc::from("me")])
    );
}

#[tokio::test(start_paused = true)]
async fn a_replica_whose_log_does_not_come_up_has_acknowledged_nothing() {
    let wall = Arc::default();
    let (one, lags) = (Replica::new(&wall).await, Replica::new(&wall).await);
    one.arrives(1);
    assert_eq!(counts(&one.ask(1, Duration::from_millis(100)).await), (false, 1, 0));
    let _watching = (lags.watch("a"), lags.watch("b"));
    assert_eq!(counts(&one.ask(1, WAIT).await), (false, 2, 0));
}

/// It is by the end of the time that a client that hears nothing has stopped trusting its copies.
#[tokio::test(start_paused = true)]
async fn what_is_not_confirmed_is_answered_when_the_time_is_over_and_not_before() {
    let wall = Arc::default();
    let (one, _lags) = (Replica::new(&wall).await, Replica::new(&wall).await);
    one.arrives(1);
    let begun = Instant::now();
    assert!(!one.ask(1, WAIT).await.confirmed);
    assert_eq!(begun.elapsed(), WAIT);
}

#[tokio::test(start_paused = true)]
async fn messages_that_come_twice_count_once() {
    let wall: Arc<Wall> = Arc::default();
    wall.again.store(2, Ordering::Relaxed);
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let (mut here, mut there) = (one.watch("here"), other.watch("there"));
    one.arrives(1);
    other.arrives(1);
    apply(&mut here);
    let (barrier, ()) = tokio::join!(one.ask(1, LONG), async {
        sleep(Duration::from_secs(1)).await;
        apply(&mut there);
    });
    assert_eq!(counts(&barrier), (true, 2, 2));
    assert_eq!(wall.posted.load(Ordering::Relaxed), 2, "one question, one answer");
}

#[tokio::test(start_paused = true)]
async fn answers_to_a_question_that_is_over_are_forgotten() {
    let wall: Arc<Wall> = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    one.arrives(1);
    let _gives_up = one.ask(1, LONG).now_or_never();
    other.arrives(1);
    other.tasks.close();
    other.tasks.wait().await;
    assert!(one.fleet.rounds.open() == 0 && other.fleet.answering.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_nobody_is_asked_and_registered_watchers_are_counted() {
    let wall: Arc<Wall> = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let _watching = (one.watch("here"), other.watch("there"), other.watch("there too"));
    other.registers().await;
    one.registers().await;
    one.arrives(1);
    let barrier = one.ask(1, Duration::ZERO).now_or_never().expect("at once");
    assert_eq!(counts(&barrier), (false, 3, 0));
    assert_eq!(wall.posted.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_nothing_is_confirmed_while_others_may_have_come() {
    let wall: Arc<Wall> = Arc::default();
    let one = Replica::new(&wall).await;
    let other = Replica::new(&wall).await;
    let (mut here, _there) = (one.watch("here"), other.watch("there"));
    one.arrives(1);
    apply(&mut here);
    let barrier = one.ask(1, Duration::ZERO).now_or_never().expect("at once");
    assert_eq!(counts(&barrier), (false, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_leaves_it_unconfirmed() {
    let wall: Arc<Wall> = Arc::default();
    let (one, _other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    one.arrives(1);
    *wall.down.lock() = true;
    assert_eq!(counts(&one.ask(1, WAIT).await), (false, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_asked_by_too_many_answers_at_once_and_then_not_at_all() {
    let wall: Arc<Wall> = Arc::default();
    let replica = Replica::new(&wall).await;
    let _watching = replica.watch("me");
    for round in 0..(ANSWERING as u64 + 10) {
        let message = Message {
            from: 1,
            round,
            said: Said::Question(question(1, LONG)),
        };
        replica.fleet.heard(&message.encode());
    }
    assert_eq!(replica.fleet.answering.lock().len(), ANSWERING);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(replica.fleet.answering.lock().len(), WAITING);
    sleep(LONG).await;
    assert_eq!(replica.fleet.answering.lock().len(), 0);
}
