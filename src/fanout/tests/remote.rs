//! A feed that follows the log of a shared store.

use super::shared::{LOG, Replica, Source, pass};
use super::*;

struct Heard(parking_lot::Mutex<Vec<String>>);

impl Listener for Heard {
    fn rung(&self, key: &Key) {
        self.0.lock().push(format!("rung {}", key.name()));
    }

    fn logged(&self, record: &Record) {
        self.0.lock().push(format!("logged {}", record.place.at));
    }

    fn reset(&self, reason: ResetReason) {
        self.0.lock().push(format!("reset {}", reason.as_str()));
    }

    fn lost(&self, partition: u16) {
        self.0.lock().push(format!("lost {partition}"));
    }

    fn regained(&self, partition: u16) {
        self.0.lock().push(format!("regained {partition}"));
    }
}

fn listener(feed: &Feed) -> Arc<Heard> {
    let heard = Arc::new(Heard(parking_lot::Mutex::default()));
    feed.listen(heard.clone());
    heard
}

impl Heard {
    fn all(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

fn refreshes() -> Subscription {
    Subscription {
        include_refreshed: true,
        ..shop()
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_watches_before_every_partition_has_begun_and_was_filled() {
    let feed = Feed::remote(2);
    let hub = Hub::new(&feed, HubLimits::default());
    let refused = || hub.watch(&shop()).err();
    assert_eq!(refused(), Some(Refused::StoreDown));
    feed.begin(0, LOG, 5, 0, 0);
    feed.advance(0, 0);
    assert_eq!(refused(), Some(Refused::StoreDown));
    feed.begin(1, LOG, 5, 0, 0);
    assert_eq!(refused(), Some(Refused::StoreDown));
    feed.advance(1, 0);
    assert_eq!(refused(), None);
}

#[tokio::test(start_paused = true)]
async fn events_of_all_partitions_come_and_a_cursor_resumes_at_another_replica() {
    let mut source = Source::new(3);
    let (mut one, mut other) = (Replica::live(&source), Replica::live(&source));
    let mut watching = one.live_watch(shop());
    source.drop_key(0, "a");
    source.drop_key(2, "b");
    one.catch_up(&source);
    let events = seen(&mut watching);
    assert_eq!(words(&events), ["drop a", "drop b"]);
    source.drop_key(1, "c");
    other.catch_up(&source);
    let mut resumed = other.watch(resuming(&events[0].cursor));
    let mut told = words(&seen(&mut resumed));
    assert_eq!(told.pop().as_deref(), Some("started"));
    told.sort();
    assert_eq!(told, ["drop b", "drop c"]);
}

#[tokio::test(start_paused = true)]
async fn a_partition_with_very_much_to_say_does_not_silence_the_others() {
    let mut source = Source::new(2);
    let mut replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    for n in 0..5_000 {
        source.drop_key(0, &n.to_string());
    }
    source.drop_key(1, "other");
    replica.catch_up(&source);
    let told = seen(&mut watching);
    let at = told
        .iter()
        .position(|event| keys(event) == ["other"])
        .expect("it is told");
    assert!(at <= 1, "it was told after {at} messages");
    assert_eq!(told.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn one_message_holds_one_partition_because_numbers_of_two_do_not_compare() {
    let mut source = Source::new(2);
    let mut replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    for (partition, key) in [(0, "a"), (1, "x"), (0, "b"), (1, "y")] {
        source.drop_key(partition, key);
    }
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut watching)), ["drop a b", "drop x y"]);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_is_begun_again_where_it_was_goes_on_and_what_comes_twice_is_ignored() {
    let mut source = Source::new(1);
    let mut replica = Replica::live(&source);
    let heard = listener(&replica.feed);
    let mut watching = replica.live_watch(shop());
    source.drop_key(0, "a");
    replica.catch_up(&source);
    source.drop_key(0, "b");
    replica.begin(&source, 0, 0);
    replica.begin(&source, 0, 1);
    assert_eq!(words(&seen(&mut watching)), ["drop a b"]);
    assert_eq!(heard.all(), ["logged 1", "logged 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_hole_resets_those_who_watch_and_a_cursor_from_before_it_is_too_old() {
    let mut source = Source::new(2);
    let mut replica = Replica::live(&source);
    let heard = listener(&replica.feed);
    let mut watching = replica.live_watch(shop());
    let cursor = must(&mut replica.watch(shop())).cursor;
    for key in ["a", "b", "c"] {
        source.drop_key(1, key);
    }
    source.trim(1, 1);
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut watching)), ["reset log_lost"]);
    assert_eq!(heard.all(), ["reset log_lost"]);
    let mut resumed = replica.watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut resumed)), ["reset cursor_too_old", "started"]);
    source.drop_key(1, "d");
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut watching)), ["drop d"]);
}

#[tokio::test(start_paused = true)]
async fn another_epoch_of_one_partition_resets_everybody_also_who_was_away() {
    let mut source = Source::new(2);
    let mut replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    source.drop_key(0, "a");
    replica.catch_up(&source);
    let cursor = must(&mut watching).cursor;
    source.lose(1, 0);
    source.drop_key(1, "b");
    replica.catch_up(&source);
    let reset = must(&mut watching);
    assert_eq!(words(std::slice::from_ref(&reset)), ["reset log_lost"]);
    let mut resumed = replica.watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut resumed)), ["reset log_lost", "started"]);
    assert_eq!(words(&seen(&mut replica.watch(resuming(&reset.cursor)))), ["started"]);
}

#[tokio::test(start_paused = true)]
async fn another_log_resets_everybody_also_who_was_away() {
    let source = Source::new(1);
    let replica = Replica::live(&source);
    let mut watching = replica.watch(shop());
    let cursor = must(&mut watching).cursor;
    replica.feed.begin(0, LOG + 1, 5, 0, 0);
    replica.feed.advance(0, 0);
    assert_eq!(words(&seen(&mut watching)), ["reset log_lost"]);
    let mut resumed = replica.watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut resumed)), ["reset log_lost", "started"]);
}

#[tokio::test(start_paused = true)]
async fn who_is_reset_by_a_new_log_is_not_sent_what_it_held_before() {
    let mut source = Source::new(1);
    let mut replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    source.lose(0, 0);
    for n in 0..10 {
        source.drop_key(0, &n.to_string());
    }
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut watching)), ["reset log_lost"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_store_resets_at_once_and_then_watchers_hear_nothing_until_it_is_back() {
    let source = Source::new(2);
    let mut replica = Replica::live(&source);
    let heard = listener(&replica.feed);
    let mut watching = replica.live_watch(shop());
    replica.feed.lost(1);
    replica.feed.lost(1);
    assert_eq!(words(&seen(&mut watching)), ["reset log_lost"]);
    assert_eq!(replica.hub.watch(&shop()).err(), Some(Refused::StoreDown));
    pass(60, &source, &mut [&mut replica]).await;
    assert_eq!(
        next(&mut watching),
        None,
        "a sign of life would let its client trust its copies"
    );
    replica.feed.regained(1);
    replica.feed.regained(1);
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut watching)), ["reset degraded_ended"]);
    assert_eq!(heard.all(), ["lost 1", "regained 1"]);
    pass(5, &source, &mut [&mut replica]).await;
    assert_eq!(words(&seen(&mut watching)), ["progress"]);
}

#[tokio::test(start_paused = true)]
async fn a_reset_wakes_who_waits_when_the_store_is_lost_and_when_it_is_back() {
    let source = Source::new(1);
    let replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    let (event, ()) = tokio::join!(watching.next(), async { replica.feed.lost(0) });
    assert_eq!(event.as_ref().and_then(reset), Some(ResetReason::LogLost));
    let (event, ()) = tokio::join!(watching.next(), async { replica.feed.regained(0) });
    assert_eq!(event.as_ref().and_then(reset), Some(ResetReason::DegradedEnded));
}

#[tokio::test(start_paused = true)]
async fn who_was_away_while_the_store_was_lost_is_reset_and_once_is_enough_when_something_happened() {
    let mut source = Source::new(1);
    let mut replica = Replica::live(&source);
    let cursor = must(&mut replica.watch(shop())).cursor;
    replica.feed.lost(0);
    replica.feed.regained(0);
    replica.catch_up(&source);
    let mut resumed = replica.watch(resuming(&cursor));
    assert_eq!(words(&seen(&mut resumed)), ["reset degraded_ended", "started"]);
    source.drop_key(0, "a");
    replica.catch_up(&source);
    let cursor = must(&mut resumed).cursor;
    assert_eq!(words(&seen(&mut replica.watch(resuming(&cursor)))), ["started"]);
}

#[tokio::test(start_paused = true)]
async fn the_embedded_stores_feed_can_be_lost_too() {
    let world = World::new();
    let mut watching = world.live(shop());
    world.feed.lost(0);
    assert_eq!(words(&seen(&mut watching)), ["reset log_lost"]);
    world.feed.regained(0);
    assert_eq!(words(&seen(&mut watching)), ["reset degraded_ended"]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_a_replica_that_is_ahead_waits_until_this_one_has_come_up() {
    let mut source = Source::new(2);
    let (mut quick, mut slow) = (Replica::live(&source), Replica::live(&source));
    let mut watching = quick.live_watch(shop());
    source.drop_key(0, "a");
    quick.catch_up(&source);
    let cursor = must(&mut watching).cursor;
    let mut resumed = slow.watch(resuming(&cursor));
    assert_eq!(next(&mut resumed), None, "not live yet");
    source.drop_key(1, "b");
    slow.pull(&source, 1, 1);
    assert_eq!(words(&seen(&mut resumed)), ["drop b"]);
    let (event, ()) = tokio::join!(resumed.next(), async { slow.catch_up(&source) });
    assert!(event.as_ref().is_some_and(started), "{event:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_what_never_happens_is_an_unknown_one_after_a_while() {
    let source = Source::new(1);
    let mut replica = Replica::live(&source);
    let mut future = Cursor::decode(&must(&mut replica.watch(shop())).cursor).expect("a cursor");
    future.positions = vec![u64::MAX];
    let mut watching = replica.watch(resuming(&future.encode()));
    assert_eq!(next(&mut watching), None);
    pass(4, &source, &mut [&mut replica]).await;
    assert_eq!(next(&mut watching), None);
    pass(1, &source, &mut [&mut replica]).await;
    assert_eq!(words(&seen(&mut watching)), ["reset unknown_cursor", "started"]);
}

#[tokio::test(start_paused = true)]
async fn no_sign_of_life_comes_from_a_replica_that_does_not_hear_from_the_store() {
    let source = Source::new(2);
    let mut replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        replica.pull(&source, 0, 1);
        assert_eq!(next(&mut watching), None);
    }
    let (event, ()) = tokio::join!(watching.next(), async { replica.pull(&source, 1, 1) });
    assert_eq!(words(event.as_slice()), ["progress"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_closed_while_nothing_may_be_said_ends_without_a_word() {
    let source = Source::new(1);
    let replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    tokio::time::sleep(CURRENT).await;
    replica.hub.close();
    assert_eq!(watching.next().now_or_never(), Some(None));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_comes_late_is_as_old_as_it_is() {
    let source = Source::new(1);
    let mut replica = Replica::live(&source);
    let mut watching = replica.watch(refreshes());
    replica.feed.records(0, 0);
    assert_eq!(words(&seen(&mut watching)), ["started"]);
    // The model's records are of the second 1, and live 60 s.
    replica.feed.tell_time(StoreTime(41_000_000));
    let mut source = source;
    source.commit(0, refreshed("a", 5));
    replica.catch_up(&source);
    let What::Refreshed { expiry, .. } = must(&mut watching).what else {
        panic!()
    };
    assert_eq!(expiry.fresh_for, Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn refreshed_that_were_not_recorded_are_said_to_those_alone_who_want_them() {
    let mut source = Source::new(1);
    let mut replica = Replica::live(&source);
    let mut wants = replica.watch(refreshes());
    replica.feed.records(0, 0);
    assert_eq!(words(&seen(&mut wants)), ["started"]);
    let mut plain = replica.live_watch(shop());
    let cursor = must(&mut replica.watch(shop())).cursor;
    replica.feed.refreshed_since(0, 2);
    source.drop_key(0, "a");
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut wants)), ["drop a"], "it has not come to there yet");
    source.drop_key(0, "b");
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut wants)), ["reset cursor_too_old"]);
    assert_eq!(words(&seen(&mut plain)), ["drop a b"]);
    let resume = Subscription {
        include_refreshed: true,
        ..resuming(&cursor)
    };
    assert_eq!(
        words(&seen(&mut replica.watch(resume))),
        ["reset cursor_too_old", "started"]
    );
    source.commit(0, refreshed("c", 7));
    replica.catch_up(&source);
    assert_eq!(words(&seen(&mut wants)), ["refreshed c 7"]);
}

#[tokio::test(start_paused = true)]
async fn who_wants_refreshed_is_live_once_the_store_records_them() {
    let mut source = Source::new(1);
    let mut replica = Replica::live(&source);
    let mut wants = replica.feed.wants();
    let mut watching = replica.watch(refreshes());
    assert!(*wants.borrow_and_update() && replica.feed.wants_refreshed());
    assert_eq!(next(&mut watching), None);
    // The record by which the store begins takes a place of its own.
    source.drop_key(0, "begins");
    replica.feed.records(0, 1);
    assert_eq!(next(&mut watching), None);
    replica.feed.refreshed_since(0, 1);
    let (event, ()) = tokio::join!(watching.next(), async { replica.catch_up(&source) });
    assert!(event.as_ref().is_some_and(started), "{event:?}");
    drop(watching);
    assert!(replica.feed.wants_refreshed());
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(!replica.feed.wants_refreshed() && !*wants.borrow_and_update());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_says_that_it_records_holds_nobody_up_for_long() {
    let source = Source::new(1);
    let mut replica = Replica::live(&source);
    let mut watching = replica.watch(refreshes());
    assert_eq!(next(&mut watching), None);
    pass(5, &source, &mut [&mut replica]).await;
    assert_eq!(words(&seen(&mut watching)), ["started"]);
}
