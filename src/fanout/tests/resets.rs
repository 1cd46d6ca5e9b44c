//! Every gap is said.

use super::*;

fn small() -> World {
    World::bounded(Bounds {
        records: 10,
        ..Bounds::default()
    })
}

#[tokio::test(start_paused = true)]
async fn a_malformed_cursor_is_an_unknown_one() {
    let world = World::new();
    for cursor in ["x", "AAAA", "not a cursor"] {
        let mut watching = world.watch(resuming(cursor));
        assert_eq!(words(&seen(&mut watching)), ["reset unknown_cursor", "started"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_another_deployment_is_an_unknown_one() {
    let cursor = must(&mut World::new().watch(shop())).cursor;
    let mut watching = World::new().watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut watching)), ["reset unknown_cursor", "started"]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_the_future_or_of_more_partitions_is_an_unknown_one() {
    let world = World::new();
    let real = Cursor::decode(&must(&mut world.watch(shop())).cursor).expect("a cursor");
    let future = Cursor {
        positions: vec![99],
        ..real.clone()
    };
    let next_epoch = Cursor {
        epoch: real.epoch + 1,
        ..real.clone()
    };
    let wide = Cursor {
        positions: vec![0, 0],
        ..real
    };
    for cursor in [future, next_epoch, wide] {
        let mut watching = world.watch(resuming(&cursor.encode()));
        assert_eq!(
            words(&seen(&mut watching)),
            ["reset unknown_cursor", "started"],
            "{cursor:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_cursor_older_than_the_log_is_too_old_and_the_stream_goes_on_from_now() {
    let world = small();
    let cursor = must(&mut world.watch(shop())).cursor;
    for n in 0..11 {
        world.drop_key(&n.to_string());
    }
    let mut watching = world.watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut watching)), ["reset cursor_too_old", "started"]);
    world.drop_key("next");
    assert_eq!(words(&seen(&mut watching)), ["drop next"]);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_cursor_that_the_log_covers_is_replayed() {
    let world = small();
    world.drop_key("0");
    let cursor = must(&mut world.watch(shop())).cursor;
    for n in 1..=10 {
        world.drop_key(&n.to_string());
    }
    let events = seen(&mut world.watch(resuming(&cursor)));
    assert_eq!(words(&events), ["drop 1 2 3 4 5 6 7 8 9 10", "started"]);
}

#[tokio::test(start_paused = true)]
async fn records_are_kept_for_five_minutes_and_go_as_new_ones_come() {
    let world = World::new();
    let cursor = must(&mut world.watch(shop())).cursor;
    world.drop_key("a");
    tokio::time::sleep(Duration::from_secs(299)).await;
    world.drop_key("b");
    assert_eq!(
        words(&seen(&mut world.watch(resuming(&cursor)))),
        ["drop a b", "started"]
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.drop_key("c");
    assert_eq!(
        words(&seen(&mut world.watch(resuming(&cursor)))),
        ["reset cursor_too_old", "started"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_log_is_bounded_in_bytes_too() {
    let world = World::bounded(Bounds {
        bytes: 10_000,
        ..Bounds::default()
    });
    let cursor = must(&mut world.watch(shop())).cursor;
    let long = "k".repeat(1_000);
    for _ in 0..20 {
        world.drop_key(&long);
    }
    assert_eq!(
        reset(&must(&mut world.watch(resuming(&cursor)))),
        Some(ResetReason::CursorTooOld)
    );
}

#[tokio::test(start_paused = true)]
async fn who_falls_behind_is_reset_and_disturbs_nobody() {
    let world = small();
    let mut slow = world.live(shop());
    let mut quick = world.live(shop());
    for n in 0..30 {
        world.drop_key(&n.to_string());
        assert_eq!(words(&seen(&mut quick)), [format!("drop {n}")]);
    }
    assert_eq!(words(&seen(&mut slow)), ["reset slow_consumer"]);
    world.drop_key("next");
    assert_eq!(words(&seen(&mut slow)), ["drop next"]);
    assert!(
        world
            .hub
            .stats()
            .resets()
            .any(|count| count == (ResetReason::SlowConsumer, 1))
    );
}

#[tokio::test(start_paused = true)]
async fn who_falls_behind_during_the_replay_is_reset_before_started() {
    let world = small();
    let cursor = must(&mut world.watch(shop())).cursor;
    world.drop_key("a");
    world.commit(invalidated_target(Target::Everything, Mode::Drop));
    let mut watching = world.watch(resuming(&cursor));
    assert_eq!(keys(&must(&mut watching)), ["a"]);
    for n in 0..30 {
        world.drop_key(&n.to_string());
    }
    assert_eq!(words(&seen(&mut watching)), ["reset slow_consumer", "started"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_log_resets_those_who_watch_and_those_who_were_away() {
    let world = World::new();
    let mut live = world.live(shop());
    world.drop_key("a");
    let cursor = must(&mut live).cursor;
    world.feed.reset(ResetReason::LogLost);
    world.drop_key("b");
    assert_eq!(words(&seen(&mut live)), ["reset log_lost"]);
    assert_eq!(
        words(&seen(&mut world.watch(resuming(&cursor)))),
        ["reset log_lost", "started"]
    );
    world.drop_key("c");
    let event = must(&mut live);
    assert_eq!(keys(&event), ["c"]);
    assert_eq!(words(&seen(&mut world.watch(resuming(&event.cursor)))), ["started"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_degraded_decisions_resets_those_who_watch_and_those_who_were_away() {
    let world = World::new();
    let mut live = world.live(shop());
    let away = must(&mut world.watch(shop())).cursor;
    world.feed.reset(ResetReason::DegradedEnded);
    let event = must(&mut live);
    assert_eq!(reset(&event), Some(ResetReason::DegradedEnded));
    assert_eq!(
        words(&seen(&mut world.watch(resuming(&away)))),
        ["reset degraded_ended", "started"]
    );
    assert_eq!(words(&seen(&mut world.watch(resuming(&event.cursor)))), ["started"]);
}

#[tokio::test(start_paused = true)]
async fn a_reset_waits_for_a_watcher_that_does_not_read() {
    let world = World::new();
    let mut watching = world.live(shop());
    world.feed.reset(ResetReason::DegradedEnded);
    tokio::time::sleep(Duration::from_secs(600)).await;
    for n in 0..2_000 {
        world.drop_key(&n.to_string());
    }
    assert_eq!(words(&seen(&mut watching)), ["reset degraded_ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_reset_wakes_a_watcher_that_waits() {
    let world = World::new();
    let mut watching = world.live(shop());
    let (event, ()) = tokio::join!(watching.next(), async { world.feed.reset(ResetReason::LogLost) });
    let event = event.expect("a message");
    assert_eq!(reset(&event), Some(ResetReason::LogLost));
}
