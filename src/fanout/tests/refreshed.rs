//! Refreshed events: on request only.

use super::*;

fn refreshes() -> Subscription {
    Subscription {
        include_refreshed: true,
        ..shop()
    }
}

#[tokio::test(start_paused = true)]
async fn they_come_only_to_those_who_asked() {
    let world = World::new();
    let mut plain = world.live(shop());
    let mut asked = world.live(refreshes());
    world.commit(refreshed("a", 5));
    world.drop_key("b");
    world.commit(refreshed("c", 6));
    assert_eq!(words(&seen(&mut plain)), ["drop b"]);
    assert_eq!(words(&seen(&mut asked)), ["refreshed a 5", "drop b", "refreshed c 6"]);
}

#[tokio::test(start_paused = true)]
async fn they_tell_what_is_left_of_the_life_when_they_are_sent() {
    let world = World::new();
    let mut watching = world.live(refreshes());
    world.commit(refreshed("a", 5));
    tokio::time::sleep(Duration::from_secs(20)).await;
    let What::Refreshed { expiry, .. } = must(&mut watching).what else {
        panic!()
    };
    assert_eq!(expiry.fresh_for, Duration::from_secs(40));
    assert_eq!(expiry.stale_for, Duration::from_secs(50));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_recorded_while_nobody_asks() {
    let world = World::new();
    let _plain = world.live(shop());
    assert!(!world.feed.wants_refreshed());
    let before = world.drop_key("a");
    assert_eq!(world.commit(refreshed("a", 5)), before);
}

#[tokio::test(start_paused = true)]
async fn only_the_latest_of_a_key_is_replayed() {
    let world = World::new();
    let mut watching = world.live(refreshes());
    world.commit(refreshed("a", 1));
    world.commit(refreshed("b", 2));
    world.drop_key("a");
    world.commit(refreshed("a", 3));
    assert_eq!(
        words(&seen(&mut watching)),
        ["refreshed b 2", "drop a", "refreshed a 3"]
    );
}

#[tokio::test(start_paused = true)]
async fn they_are_recorded_five_minutes_beyond_the_last_who_asked() {
    let world = World::new();
    let cursor = must(&mut world.watch(refreshes())).cursor;
    tokio::time::sleep(Duration::from_secs(299)).await;
    world.commit(refreshed("a", 1));
    let resume = Subscription {
        include_refreshed: true,
        ..resuming(&cursor)
    };
    assert_eq!(
        words(&seen(&mut world.watch(resume.clone()))),
        ["refreshed a 1", "started"]
    );
    tokio::time::sleep(Duration::from_secs(300)).await;
    world.commit(refreshed("a", 2));
    assert!(!world.feed.wants_refreshed());
    assert_eq!(
        words(&seen(&mut world.watch(resume.clone()))),
        ["reset cursor_too_old", "started"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_cursor_from_before_they_were_recorded_is_too_old_for_them_alone() {
    let world = World::new();
    let cursor = must(&mut world.watch(shop())).cursor;
    world.commit(refreshed("a", 1));
    let resume = Subscription {
        include_refreshed: true,
        ..resuming(&cursor)
    };
    assert_eq!(
        words(&seen(&mut world.watch(resume))),
        ["reset cursor_too_old", "started"]
    );
    assert_eq!(words(&seen(&mut world.watch(resuming(&cursor)))), ["started"]);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_reports_does_not_push_invalidations_out() {
    let world = World::bounded(Bounds {
        records: 10,
        refreshed_records: 10,
        ..Bounds::default()
    });
    let _asked = world.live(refreshes());
    let cursor = must(&mut world.watch(shop())).cursor;
    world.drop_key("a");
    for n in 0..1_000 {
        world.commit(refreshed(&n.to_string(), n));
    }
    assert_eq!(words(&seen(&mut world.watch(resuming(&cursor)))), ["drop a", "started"]);
    let resume = Subscription {
        include_refreshed: true,
        ..resuming(&cursor)
    };
    assert_eq!(
        words(&seen(&mut world.watch(resume))),
        ["reset cursor_too_old", "started"]
    );
}
