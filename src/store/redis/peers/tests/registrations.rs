//! Who is registered, and what watchers hear while this replica is not.

use super::*;

#[tokio::test(start_paused = true)]
async fn watchers_that_may_trust_their_copies_are_registered_observers_are_not() {
    let wall: Arc<Wall> = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let _watching = other.watch("me");
    drop(other.watch("gone"));
    let _observer = other.hub.watch(&Subscription {
        observe_only: true,
        ..named("looks on")
    });
    other.registers().await;
    one.registers().await;
    assert_eq!(one.fleet.registered("shop"), [2]);
    assert_eq!(one.fleet.registered("elsewhere"), [0]);
    assert_eq!(other.fleet.registered("shop"), [0]);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_live_before_the_others_know_of_its_replica() {
    let wall: Arc<Wall> = Arc::default();
    let replica = Replica::unregistered(&wall);
    replica.begin();
    let mut watching = replica.hub.watch(&named("me")).expect("the store is up");
    assert_eq!(seen(&mut watching), []);
    replica.registers().await;
    replica.feed.advance(0, 0);
    assert_eq!(
        seen(&mut watching),
        [],
        "this may have been read before it was registered"
    );
    replica.feed.advance(0, 0);
    assert!(matches!(seen(&mut watching)[..], [What::Started { .. }]));
}

#[tokio::test(start_paused = true)]
async fn a_registration_is_renewed_and_failures_are_tried_again() {
    let wall: Arc<Wall> = Arc::default();
    let replica = Replica::new(&wall).await;
    let mut watching = replica.watch("me");
    let _runs = replica.runs(0);
    *wall.down.lock() = true;
    sleep(Duration::from_secs(4)).await;
    *wall.down.lock() = false;
    sleep(Duration::from_secs(56)).await;
    assert!(wall.all()[0].lapses_in > LAPSES_IN - RENEWED - Duration::from_millis(1));
    assert!(matches!(seen(&mut watching)[..], [What::Progress { draining: false }]));
}

#[tokio::test(start_paused = true)]
async fn watchers_of_a_replica_that_cannot_register_hear_nothing_soon_and_are_reset_once_barriers_went_without_them() {
    let wall: Arc<Wall> = Arc::default();
    let replica = Replica::new(&wall).await;
    let mut watching = replica.watch("me");
    let runs = replica.runs(0);
    *wall.down.lock() = true;
    sleep(SPEAKS_FOR).await;
    replica.arrives(1);
    assert_eq!(seen(&mut watching), [], "not even an event: it would be a word");
    let still = wall.all().len();
    sleep(MAX_SILENCE).await;
    assert_eq!((still, wall.all().len()), (1, 0));
    assert_eq!(seen(&mut watching), []);
    *wall.down.lock() = false;
    sleep(Duration::from_secs(3)).await;
    assert!(matches!(seen(&mut watching)[..], [What::Reset { .. }, ..]));
    runs.iter().for_each(tokio::task::AbortHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_short_while_without_a_registration_costs_no_reset() {
    let wall: Arc<Wall> = Arc::default();
    let replica = Replica::new(&wall).await;
    let mut watching = replica.watch("me");
    let _runs = replica.runs(0);
    *wall.down.lock() = true;
    sleep(SPEAKS_FOR + Duration::from_secs(1)).await;
    replica.arrives(1);
    *wall.down.lock() = false;
    sleep(Duration::from_secs(4)).await;
    assert!(matches!(seen(&mut watching)[..], [What::Invalidated(_)]));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_says_so_only_when_nobody_can_trust_its_copies() {
    let wall: Arc<Wall> = Arc::default();
    let (one, busy, idle) = (
        Replica::new(&wall).await,
        Replica::new(&wall).await,
        Replica::new(&wall).await,
    );
    drop(busy.watch("gone"));
    one.registers().await;
    wall.deaf.lock().extend([busy.fleet.id, idle.fleet.id]);
    one.arrives(1);
    assert_eq!(counts(&one.ask(1, WAIT).await), (false, 2, 0));
    busy.fleet.leave().await;
    idle.fleet.leave().await;
    assert_eq!(counts(&one.ask(1, WAIT).await), (false, 1, 0));
    sleep(MAX_SILENCE - 2 * WAIT).await;
    busy.fleet.leave().await;
    assert_eq!(counts(&one.ask(1, WAIT).await), (true, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn registrations_that_the_store_has_lost_count_until_they_would_have_lapsed() {
    let wall: Arc<Wall> = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    let _watching = (other.watch("a"), other.watch("b"));
    other.registers().await;
    one.registers().await;
    wall.registered.lock().clear();
    wall.deaf.lock().insert(other.fleet.id);
    one.arrives(1);
    let _runs = one.runs(1);
    let begun = Instant::now();
    assert_eq!(counts(&one.ask(1, WAIT).await), (false, 2, 0));
    assert_eq!(counts(&one.ask(1, LONG).await), (true, 0, 0));
    assert_eq!(begun.elapsed(), LAPSES_IN);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_is_gone_answers_that_nobody_was_heard() {
    let wall: Arc<Wall> = Arc::default();
    let (one, other) = (Replica::new(&wall).await, Replica::new(&wall).await);
    one.arrives(1);
    drop(other.hub);
    assert_eq!(counts(&one.ask(1, WAIT).await), (false, 1, 0));
    other.fleet.leave().await;
    assert_eq!(
        counts(&one.ask(1, WAIT).await),
        (false, 1, 0),
        "nobody knows who trusts what"
    );
}

/// The invariant on which everything rests: whoever is not registered has nobody who trusts its copies.
#[tokio::test(start_paused = true)]
async fn the_last_word_is_so_early_that_its_trust_ends_before_the_registration_does() {
    let wall: Arc<Wall> = Arc::default();
    let replica = Replica::new(&wall).await;
    let mut watching = replica.watch("me");
    let _runs = replica.runs(0);
    let mut last_word = Instant::now();
    let mut lapses = Instant::now();
    for step in 1..400 {
        // Just after it was renewed, so that it lives as long as it can.
        if step == 41 {
            *wall.down.lock() = true;
            lapses = Instant::now() + wall.all()[0].lapses_in;
        }
        replica.arrives(step);
        if !seen(&mut watching).is_empty() {
            last_word = Instant::now();
        }
        sleep(Duration::from_millis(100)).await;
    }
    assert!(last_word + MAX_SILENCE <= lapses);
    assert!(
        last_word + MAX_SILENCE + Duration::from_millis(200) > lapses,
        "and not much earlier"
    );
}
