//! Who an invalidation waits for.

use super::shared::{Replica, Source};
use super::*;

fn key(name: &str) -> [Target; 1] {
    [Target::Key(Key::new("shop", name))]
}

/// Reads a message and acknowledges it.
fn apply(watching: &mut Watching) {
    let cursor = must(watching).cursor;
    watching.acknowledge(&cursor).expect("a cursor");
}

const LONG: Duration = Duration::from_secs(60);

/// Of a place in the log's one partition.
fn question(at: u64, targets: &[Target], wait: Duration) -> Question {
    Question {
        namespace: "shop".into(),
        targets: targets.to_vec(),
        places: vec![crate::store::Place { partition: 0, at }],
        wait,
    }
}

impl World {
    async fn barrier(&self, position: u64, wait: Duration) -> Barrier {
        self.hub.barrier(&question(position, &key("a"), wait)).await
    }
}

#[tokio::test(start_paused = true)]
async fn without_watchers_it_is_confirmed_at_once() {
    let world = World::new();
    let position = world.drop_key("a");
    let barrier = world.barrier(position, LONG).await;
    assert!(barrier.confirmed);
    assert_eq!(barrier.watchers, 0);
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_the_last_watcher_has_acknowledged() {
    let world = World::new();
    let mut first = world.live(shop());
    let mut second = world.live(shop());
    let begun = tokio::time::Instant::now();
    let position = world.drop_key("a");
    let (barrier, ()) = tokio::join!(world.barrier(position, LONG), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        apply(&mut second);
        tokio::time::sleep(Duration::from_secs(1)).await;
        apply(&mut first);
    });
    assert_eq!(
        (barrier.watchers, barrier.acknowledged, barrier.confirmed),
        (2, 2, true)
    );
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn when_the_time_is_over_it_names_those_that_lag() {
    let world = World::new();
    let mut quick = world.live(named("quick"));
    let _slow: Vec<_> = (0..12).map(|n| world.live(named(&format!("slow-{n}")))).collect();
    let _nameless = world.live(shop());
    let position = world.drop_key("a");
    apply(&mut quick);
    let begun = tokio::time::Instant::now();
    let barrier = world.barrier(position, Duration::from_secs(3)).await;
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    assert_eq!(
        (barrier.watchers, barrier.acknowledged, barrier.confirmed),
        (14, 1, false)
    );
    assert_eq!(barrier.laggards.len(), 10);
    assert!(barrier.laggards.iter().all(|holder| holder.starts_with("slow-")));
}

#[tokio::test(start_paused = true)]
async fn without_a_wait_it_only_counts() {
    let world = World::new();
    let _watching = world.live(shop());
    let position = world.drop_key("a");
    let barrier = world.barrier(position, Duration::ZERO).now_or_never().expect("at once");
    assert_eq!(
        (barrier.watchers, barrier.acknowledged, barrier.confirmed),
        (1, 0, false)
    );
}

#[tokio::test(start_paused = true)]
async fn observers_and_those_whose_filter_leaves_it_out_do_not_count() {
    let world = World::new();
    let _observer = world.live(Subscription {
        observe_only: true,
        ..shop()
    });
    let _other = world.live(Subscription {
        namespaces: vec!["other".into()],
        ..Subscription::default()
    });
    let prefixed = world.live(Subscription {
        key_prefixes: vec!["b".to_owned()],
        ..shop()
    });
    let position = world.drop_key("a");
    assert_eq!(world.barrier(position, LONG).await.watchers, 0);
    let tag = [Target::Tag("t".into())];
    assert_eq!(
        world
            .hub
            .barrier(&question(position, &tag, Duration::ZERO))
            .await
            .watchers,
        1
    );
    drop(prefixed);
}

#[tokio::test(start_paused = true)]
async fn acknowledging_what_was_not_sent_acknowledges_what_was() {
    let world = World::new();
    let mut watching = world.live(shop());
    let mut ahead = world.live(shop());
    let position = world.drop_key("a");
    let future = must(&mut ahead).cursor;
    drop(ahead);
    tokio::time::sleep(MAX_SILENCE).await;
    watching.acknowledge(&future).expect("a cursor");
    assert_eq!(world.barrier(position, Duration::ZERO).await.acknowledged, 0);
    must(&mut watching);
    assert_eq!(
        world.barrier(position, Duration::ZERO).await.acknowledged,
        0,
        "it was not acknowledged since"
    );
    watching.acknowledge(&future).expect("a cursor");
    assert_eq!(world.barrier(position, Duration::ZERO).await.acknowledged, 1);
}

#[tokio::test(start_paused = true)]
async fn a_forged_cursor_does_not_acknowledge_the_future() {
    let world = World::new();
    let mut forged = Cursor::decode(&must(&mut world.watch(shop())).cursor).expect("a cursor");
    tokio::time::sleep(MAX_SILENCE).await;
    forged.positions = vec![u64::MAX];
    let watching = world.watch(resuming(&forged.encode()));
    watching.acknowledge(&forged.encode()).expect("a cursor");
    let position = world.drop_key("a");
    assert_eq!(world.barrier(position, Duration::ZERO).await.acknowledged, 0);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_of_an_earlier_event_takes_nothing_back() {
    let world = World::new();
    let mut watching = world.live(shop());
    world.drop_key("a");
    let first = must(&mut watching).cursor;
    let position = world.drop_key("a");
    apply(&mut watching);
    watching.acknowledge(&first).expect("a cursor");
    assert!(world.barrier(position, Duration::ZERO).await.confirmed);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_cursor_acknowledges_nothing_and_a_malformed_one_is_refused() {
    let world = World::new();
    let mut watching = world.live(shop());
    let position = world.drop_key("a");
    must(&mut watching);
    let foreign = must(&mut World::new().watch(shop())).cursor;
    assert_eq!(watching.acknowledge(&foreign), Ok(()));
    assert_eq!(watching.acknowledge("nonsense"), Err(BadCursor));
    assert_eq!(world.barrier(position, Duration::ZERO).await.acknowledged, 0);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_has_left_counts_until_its_client_trusts_its_copies_no_more() {
    let world = World::new();
    let watching = world.live(named("gone"));
    let position = world.drop_key("a");
    drop(watching);
    let begun = tokio::time::Instant::now();
    let early = world.barrier(position, Duration::from_secs(5)).await;
    assert_eq!((early.watchers, early.confirmed), (1, false));
    assert_eq!(early.laggards, [Arc::from("gone")]);
    let late = world.barrier(position, LONG).await;
    assert_eq!((late.watchers, late.confirmed), (0, true));
    assert_eq!(begun.elapsed(), MAX_SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_leaves_during_the_wait_is_waited_for_until_it_is_silent() {
    let world = World::new();
    let watching = world.live(shop());
    let position = world.drop_key("a");
    let begun = tokio::time::Instant::now();
    let (barrier, ()) = tokio::join!(world.barrier(position, LONG), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        drop(watching);
    });
    assert_eq!((barrier.watchers, barrier.confirmed), (0, true));
    assert_eq!(begun.elapsed(), Duration::from_secs(2) + MAX_SILENCE);
}

#[tokio::test(start_paused = true)]
async fn a_new_stream_of_the_same_holder_does_not_speak_for_the_broken_one() {
    let world = World::new();
    let mut broken = world.live(named("me"));
    world.drop_key("b");
    let cursor = must(&mut broken).cursor;
    drop(broken);
    let position = world.drop_key("a");
    let mut again = world.watch(Subscription {
        holder: "me".into(),
        ..resuming(&cursor)
    });
    let replayed = must(&mut again);
    again.acknowledge(&replayed.cursor).expect("a cursor");
    let barrier = world.barrier(position, Duration::ZERO).await;
    assert_eq!((barrier.watchers, barrier.acknowledged), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_begins_after_the_commit_has_nothing_to_acknowledge() {
    let world = World::new();
    let position = world.drop_key("a");
    let _watching = world.live(shop());
    assert!(world.barrier(position, Duration::ZERO).await.confirmed);
}

#[tokio::test(start_paused = true)]
async fn acknowledging_a_reset_acknowledges_what_it_swallowed() {
    let world = World::new();
    let mut watching = world.live(shop());
    let position = world.drop_key("a");
    world.feed.reset(ResetReason::LogLost);
    let event = must(&mut watching);
    assert_eq!(reset(&event), Some(ResetReason::LogLost));
    watching.acknowledge(&event.cursor).expect("a cursor");
    assert!(world.barrier(position, Duration::ZERO).await.confirmed);
}

#[tokio::test(start_paused = true)]
async fn places_in_several_partitions_must_all_be_acknowledged() {
    let mut source = Source::new(3);
    let mut replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    let places = vec![source.drop_key(0, "a"), source.drop_key(2, "a")];
    replica.catch_up(&source);
    let question = Question {
        places,
        ..question(0, &key("a"), LONG)
    };
    let counted = Question {
        wait: Duration::ZERO,
        ..question.clone()
    };
    let hub = replica.hub.clone();
    let (barrier, ()) = tokio::join!(hub.barrier(&question), async {
        apply(&mut watching);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(hub.barrier(&counted).await.acknowledged, 0);
        apply(&mut watching);
    });
    assert_eq!((barrier.watchers, barrier.confirmed), (1, true));
}

#[tokio::test(start_paused = true)]
async fn a_log_that_has_not_come_up_confirms_nothing_also_without_watchers() {
    let mut source = Source::new(1);
    let mut replica = Replica::live(&source);
    let begun = tokio::time::Instant::now();
    let late = replica.hub.barrier(&question(1, &key("a"), LONG)).await;
    assert_eq!((late.watchers, late.acknowledged, late.confirmed), (1, 0, false));
    assert_eq!(begun.elapsed(), LONG);
    let counted = replica.hub.barrier(&question(1, &key("a"), Duration::ZERO)).await;
    assert_eq!((counted.watchers, counted.confirmed), (0, false));
    let (asked, hub) = (question(1, &key("a"), LONG), replica.hub.clone());
    let (barrier, ()) = tokio::join!(hub.barrier(&asked), async {
        source.drop_key(0, "a");
        replica.catch_up(&source);
    });
    assert!(barrier.confirmed);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_before_a_new_epoch_does_not_speak_for_what_came_in_it() {
    let mut source = Source::new(1);
    let mut replica = Replica::live(&source);
    let mut watching = replica.live_watch(shop());
    source.drop_key(0, "b");
    replica.catch_up(&source);
    let old = must(&mut watching).cursor;
    source.lose(0, 1);
    let place = source.drop_key(0, "a");
    replica.catch_up(&source);
    let asked = question(place.at, &key("a"), Duration::ZERO);
    watching.acknowledge(&old).expect("a cursor");
    assert_eq!(replica.hub.barrier(&asked).await.acknowledged, 0);
    apply(&mut watching);
    assert!(replica.hub.barrier(&asked).await.confirmed, "the reset swallowed it");
}

#[test]
fn barriers_of_several_replicas_are_confirmed_only_together_and_name_ten_that_lag() {
    let one = |n: usize| Barrier {
        watchers: 2,
        acknowledged: 1,
        confirmed: n == 0,
        laggards: vec![Arc::from(n.to_string()); 6],
    };
    let both = one(0).and(one(1));
    assert_eq!((both.watchers, both.acknowledged, both.confirmed), (4, 2, false));
    assert_eq!(both.laggards.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn there_is_room_for_so_many_barriers() {
    let limits = HubLimits {
        barriers: 1,
        ..HubLimits::default()
    };
    let hub = Hub::new(&Feed::new(), limits);
    let room = hub.room_for_barrier();
    assert!(room.is_ok());
    assert_eq!(hub.room_for_barrier().err(), Some(Refused::Overloaded));
    drop(room);
    assert!(hub.room_for_barrier().is_ok());
}
