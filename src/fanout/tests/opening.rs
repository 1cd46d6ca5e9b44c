//! How a stream begins and goes on.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_new_watcher_hears_started_and_then_what_happens() {
    let world = World::new();
    world.drop_key("before");
    let mut watching = world.watch(shop());
    world.drop_key("meanwhile");
    assert_eq!(words(&seen(&mut watching)), ["drop meanwhile", "started"]);
    world.drop_key("after");
    assert_eq!(words(&seen(&mut watching)), ["drop after"]);
}

#[tokio::test(start_paused = true)]
async fn started_tells_how_often_something_comes_and_how_long_silence_may_last() {
    let world = World::new();
    let What::Started {
        progress_interval,
        max_silence,
    } = must(&mut world.watch(shop())).what
    else {
        panic!("not started");
    };
    assert_eq!((progress_interval.as_secs(), max_silence.as_secs()), (5, 15));
}

#[tokio::test(start_paused = true)]
async fn who_resumes_is_sent_what_was_missed_before_started() {
    let world = World::new();
    let mut first = world.live(shop());
    world.drop_key("a");
    let cursor = must(&mut first).cursor;
    drop(first);
    world.commit(invalidated_target(Target::Tag("t".into()), Mode::Drop));
    world.drop_key("b");
    let mut second = world.watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut second)), ["drop #t", "drop b", "started"]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_one_filter_resumes_a_watcher_with_another() {
    let world = World::new();
    let mut first = world.live(Subscription {
        namespaces: vec!["other".into()],
        ..Subscription::default()
    });
    world.drop_key("unseen");
    tokio::time::sleep(PROGRESS_INTERVAL).await;
    let cursor = must(&mut first).cursor;
    world.drop_key("a");
    world.drop_key("b");
    let mut second = world.watch(Subscription {
        key_prefixes: vec!["b".to_owned()],
        ..resuming(&cursor)
    });
    assert_eq!(words(&seen(&mut second)), ["drop b", "started"]);
}

#[tokio::test(start_paused = true)]
async fn the_cursor_of_started_resumes_without_a_gap_and_without_a_repetition() {
    let world = World::new();
    world.drop_key("a");
    let cursor = must(&mut world.watch(shop())).cursor;
    let mut again = world.watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut again)), ["started"]);
    drop(again);
    world.drop_key("b");
    assert_eq!(words(&seen(&mut world.watch(resuming(&cursor)))), ["drop b", "started"]);
}

#[tokio::test(start_paused = true)]
async fn prefixes_hold_for_keys_alone() {
    let world = World::new();
    let mut watching = world.live(Subscription {
        key_prefixes: vec!["user:".to_owned(), "cart:".to_owned()],
        ..shop()
    });
    world.drop_key("item:1");
    world.drop_key("user:1");
    world.drop_key("cart:1");
    world.commit(invalidated_target(Target::Tag("t".into()), Mode::Drop));
    world.commit(invalidated_target(Target::Everything, Mode::Expire));
    assert_eq!(
        words(&seen(&mut watching)),
        ["drop user:1 cart:1", "drop #t", "expire *"]
    );
}

#[tokio::test(start_paused = true)]
async fn other_namespaces_stay_unseen() {
    let world = World::new();
    let mut watching = world.live(shop());
    world.commit(Event::Invalidated {
        namespace: "other".into(),
        target: Target::Everything,
        mode: Mode::Drop,
    });
    assert_eq!(next(&mut watching), None);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_lease_is_told_to_its_holder_whatever_it_watches_and_to_nobody_else() {
    let world = World::new();
    let mut holder = world.live(named("me"));
    let mut other = world.live(named("you"));
    let mut nameless = world.live(shop());
    world.commit(revoked("elsewhere", "me"));
    world.commit(revoked("shop", ""));
    assert_eq!(words(&seen(&mut holder)), ["revoked k"]);
    assert_eq!(next(&mut other), None);
    assert_eq!(next(&mut nameless), None);
}

#[tokio::test(start_paused = true)]
async fn a_sign_of_life_comes_after_five_silent_seconds_and_not_before() {
    let world = World::new();
    let mut watching = world.live(shop());
    tokio::time::sleep(Duration::from_secs(3)).await;
    world.drop_key("a");
    assert_eq!(words(&seen(&mut watching)), ["drop a"]);
    tokio::time::sleep(Duration::from_millis(4_999)).await;
    assert_eq!(next(&mut watching), None);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(words(&seen(&mut watching)), ["progress"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_watcher_is_woken_by_what_it_watches_and_by_the_time_alone() {
    let world = World::new();
    let mut watching = world.live(shop());
    let begun = tokio::time::Instant::now();
    let (event, _) = tokio::join!(watching.next(), async { world.drop_key("a") });
    assert_eq!(words(event.as_slice()), ["drop a"]);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(words(watching.next().await.as_slice()), ["progress"]);
    assert_eq!(begun.elapsed(), PROGRESS_INTERVAL);
}
