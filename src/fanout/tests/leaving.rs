//! Ends, limits and numbers.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_drain_is_told_and_the_stream_goes_on_until_it_is_closed_with_a_last_cursor() {
    let world = World::new();
    let mut watching = world.live(shop());
    world.hub.drain();
    assert_eq!(words(&seen(&mut watching)), ["draining"]);
    world.drop_key("a");
    assert_eq!(words(&seen(&mut watching)), ["drop a"]);
    world.hub.close();
    let last = must(&mut watching);
    assert_eq!(last.what, What::Progress { draining: true });
    assert_eq!(watching.next().await, None);
    assert_eq!(watching.next().await, None, "also when it is asked again");
    world.drop_key("b");
    let cursor = Cursor::decode(&last.cursor).expect("a cursor");
    assert_eq!(cursor.positions, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_waits_is_woken_by_the_drain() {
    let world = World::new();
    let mut watching = world.live(shop());
    let (told, ()) = tokio::join!(watching.next(), async { world.hub.drain() });
    let (last, ()) = tokio::join!(watching.next(), async { world.hub.close() });
    let end = watching.next().await;
    assert_eq!(
        words(&[told.expect("told"), last.expect("last")]),
        ["draining", "draining"]
    );
    assert_eq!(end, None);
}

#[tokio::test(start_paused = true)]
async fn nobody_subscribes_while_it_drains() {
    let world = World::new();
    world.hub.drain();
    assert_eq!(world.hub.watch(&shop()).err(), Some(Refused::Draining));
}

#[tokio::test(start_paused = true)]
async fn there_are_no_more_watchers_than_allowed() {
    let feed = Feed::new();
    let hub = Hub::new(
        &feed,
        HubLimits {
            watchers: 2,
            ..HubLimits::default()
        },
    );
    let refreshes = Subscription {
        include_refreshed: true,
        ..shop()
    };
    let first = hub.watch(&shop()).expect("there is room");
    let _second = hub.watch(&shop()).expect("there is room");
    assert_eq!(hub.watch(&refreshes).err(), Some(Refused::Overloaded));
    drop(first);
    assert!(hub.watch(&refreshes).is_ok());
}

#[tokio::test(start_paused = true)]
async fn watchers_are_counted_and_leave_nothing_behind() {
    let world = World::new();
    let both = Subscription {
        namespaces: vec!["shop".into(), "other".into(), "shop".into()],
        ..named("me")
    };
    let first = world.live(both);
    let second = world.live(shop());
    assert_eq!(
        (
            world.hub.watchers(),
            world.hub.watchers_of("shop"),
            world.hub.watchers_of("other")
        ),
        (2, 2, 1)
    );
    drop((first, second));
    assert_eq!(
        (
            world.hub.watchers(),
            world.hub.watchers_of("shop"),
            world.hub.watchers_of("other")
        ),
        (0, 0, 0)
    );
    world.drop_key("a");
    assert_eq!(Arc::strong_count(&world.hub), 1);
}

#[tokio::test(start_paused = true)]
async fn messages_are_counted_by_kind() {
    let world = World::new();
    let mut watching = world.live(shop());
    world.drop_key("a");
    seen(&mut watching);
    let counted: Vec<_> = world.hub.stats().events().filter(|(_, count)| *count > 0).collect();
    assert_eq!(counted, [("started", 1), ("invalidated", 1)]);
}
