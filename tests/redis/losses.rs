//! What Redis may lose or keep wrongly, and what then holds.

use std::time::Duration;

use drover::decision::{Generation, Mode};
use drover::store::redis::condition::Condition;
use drover::store::{Covering, StoreError};

use crate::acts::*;
use crate::support::{Server, until};
use crate::world::{Replica, World};

async fn world(lines: &[&str]) -> (World, Replica) {
    let world = World::over(Server::with(lines));
    let replica = world.replica().await;
    (world, replica)
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_go_on_growing_when_all_data_is_lost() {
    let (world, replica) = world(&[]).await;
    let store = &replica.store;
    let before = build(store, &key("a"), "one", &[]).await;
    world.server.ask::<()>(&["FLUSHALL"]);
    assert_eq!(fresh(store, &key("a")).await, None);
    let after = build(store, &key("a"), "two", &[]).await;
    assert!(after > before, "{before:?} then {after:?}");
    assert_eq!(replica.met(Condition::DataLost), 1);
}

/// Also where the server that has lost them has a clock that is behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_exceeds_every_number_that_this_replica_has_seen() {
    let (world, replica) = world(&[]).await;
    let store = &replica.store;
    let lease = grant(store, &key("a")).await.expect("nobody holds it");
    let ahead = (lease.token.0 + 3_600_000_000).to_string();
    world.server.ask::<()>(&["HSET", "{drover.0}:h", "s", &ahead]);
    let far = build(store, &key("b"), "one", &[]).await;
    world.server.ask::<()>(&["FLUSHALL"]);
    assert!(grant(store, &key("c")).await.expect("nobody holds it").token > far);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_a_store_that_has_lost_its_data_is_none() {
    let (world, replica) = world(&[]).await;
    let store = &replica.store;
    let lease = grant(store, &key("a")).await.expect("nobody holds it");
    world.server.ask::<()>(&["FLUSHALL"]);
    assert!(!give(store, &key("a"), lease, "late", &[]).await);
    assert_eq!(fresh(store, &key("a")).await, None);
}

/// A snapshot from before the invalidations is what the server comes back with.
#[tokio::test(flavor = "multi_thread")]
async fn invalidations_that_the_store_has_lost_are_committed_again() {
    let (mut world, replica) = world(&[]).await;
    let other = world.replica().await;
    let store = &replica.store;
    for (name, tag) in [("a", "red"), ("b", "blue"), ("c", "none"), ("d", "none"), ("e", "none")] {
        build(store, &key(name), "old", &[tag]).await;
    }
    let held = grant(store, &key("f")).await.expect("nobody holds it");
    world.server.ask::<()>(&["SAVE"]);
    invalidate(store, Some("red"), Mode::Drop).await;
    invalidate(&other.store, Some("blue"), Mode::Expire).await;
    let dropped = invalidate_key(store, &key("c"), Mode::Drop).await;
    invalidate_key(&other.store, &key("d"), Mode::Expire).await;
    invalidate_key(&other.store, &key("f"), Mode::Drop).await;
    until("every replica has read the log", || {
        [&replica, &other].iter().all(|replica| replica.heard() >= 5)
    })
    .await;
    world.server.kill();
    world.server.start_again();
    replica.answers().await;
    for name in ["a", "b", "c", "d"] {
        assert_eq!(fresh(store, &key(name)).await, None, "{name}");
    }
    assert!(fresh(store, &key("e")).await.is_some(), "it was not invalidated");
    assert!(
        !give(store, &key("f"), held, "late", &[]).await,
        "its lease was revoked"
    );
    assert!(build(store, &key("c"), "new", &[]).await > dropped);
    // Both may notice before either has taken over.
    assert!(replica.met(Condition::NewPrimary) + other.met(Condition::NewPrimary) >= 1);
}

/// Somebody else has accepted what the server came back with, and filled caches from it.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_accepted_a_new_primary_before_is_told_of_what_others_commit_again() {
    let (mut world, late) = {
        let world = World::over(Server::with(&[]));
        let late = world.passive_replica().await;
        (world, late)
    };
    for (name, tag) in [("a", "red"), ("b", "none")] {
        build(&late.store, &key(name), "old", &[tag]).await;
    }
    world.server.ask::<()>(&["SAVE"]);
    invalidate(&late.store, Some("red"), Mode::Drop).await;
    invalidate_key(&late.store, &key("b"), Mode::Drop).await;
    world.server.kill();
    world.server.start_again();
    let early = world.replica().await;
    assert_eq!(early.met(Condition::NewPrimary), 1);
    for name in ["a", "b"] {
        assert!(
            fresh(&early.store, &key(name)).await.is_some(),
            "{name}: nobody has told"
        );
    }
    let heard = early.heard();
    late.takes_calls().await;
    until("it is told of both", || early.heard() == heard + 2).await;
    for name in ["a", "b"] {
        assert_eq!(fresh(&early.store, &key(name)).await, None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_have_committed_again_is_not_taken_for_a_new_invalidation_at_the_next_loss() {
    let mut world = World::over(Server::with(&[]));
    let late = world.passive_replica().await;
    build(&late.store, &key("a"), "old", &["red"]).await;
    world.server.ask::<()>(&["SAVE"]);
    invalidate(&late.store, Some("red"), Mode::Drop).await;
    world.server.kill();
    world.server.start_again();
    let early = world.replica().await;
    // Newer than the invalidation, older than its repetition.
    let version = build(&early.store, &key("b"), "new", &["red"]).await;
    let heard = early.heard();
    late.takes_calls().await;
    until("it is told", || early.heard() == heard + 1).await;
    world.server.ask::<()>(&["SAVE"]);
    world.server.kill();
    world.server.start_again();
    early.answers().await;
    until("the new primary is taken over", || {
        early.met(Condition::NewPrimary) == 2
    })
    .await;
    assert_eq!(fresh(&early.store, &key("a")).await, None);
    let found = fresh(&early.store, &key("b")).await;
    assert_eq!(found, Some((version, "new".to_owned())));
}

/// A server that evicts what it likes may evict any of these, alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_evicted_alone_makes_nothing_fresh_that_is_old() {
    for (evicted, survives) in [
        ("{drover.0}:v:shop/a", false),
        ("{drover.0}:e:shop/a", false),
        ("{drover.0}:h", false),
        ("{drover.0}:g", false),
        ("{drover.0}:a", true),
        ("{drover.0}:l", true),
        ("{drover.0}:log", true),
    ] {
        let (world, replica) = world(&[]).await;
        let store = &replica.store;
        invalidate(store, Some("other"), Mode::Drop).await;
        build(store, &key("old"), "old", &["red"]).await;
        invalidate(store, Some("red"), Mode::Drop).await;
        let version = build(store, &key("a"), "value", &["red"]).await;
        grant(store, &key("b")).await.expect("nobody holds it");
        world.server.ask::<()>(&["DEL", evicted]);
        let found = fresh(store, &key("a")).await;
        assert_eq!(found.is_some(), survives, "without {evicted}");
        assert_eq!(fresh(store, &key("old")).await, None, "without {evicted}");
        invalidate(store, Some("red"), Mode::Drop).await;
        assert_eq!(fresh(store, &key("a")).await, None, "without {evicted}");
        if let Some(lease) = grant(store, &key("a")).await {
            assert!(lease.token > version);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_holds_another_type_counts_as_missing_and_is_replaced() {
    let (world, replica) = world(&[]).await;
    let store = &replica.store;
    world.server.ask::<()>(&["RPUSH", "{drover.0}:e:shop/a", "x"]);
    world.server.ask::<()>(&["RPUSH", "{drover.0}:v:shop/a", "x"]);
    build(store, &key("a"), "value", &[]).await;
    assert_eq!(
        fresh(store, &key("a")).await.map(|(_, value)| value),
        Some("value".to_owned())
    );
    assert!(replica.met(Condition::WrongType) >= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_can_not_be_read_counts_as_empty_and_is_replaced() {
    let (world, replica) = world(&[]).await;
    let store = &replica.store;
    build(store, &key("a"), "one", &[]).await;
    world
        .server
        .ask::<()>(&["SETRANGE", "{drover.0}:e:shop/a", "19", "\u{7f}"]);
    assert_eq!(fresh(store, &key("a")).await, None);
    build(store, &key("a"), "two", &[]).await;
    assert_eq!(
        fresh(store, &key("a")).await.map(|(_, value)| value),
        Some("two".to_owned())
    );
    assert!(replica.met(Condition::UnreadableEntry) >= 1);
}

/// The newer release may be running beside this one.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_newer_release_is_left_alone() {
    let (world, replica) = world(&[]).await;
    let store = &replica.store;
    build(store, &key("a"), "one", &[]).await;
    world
        .server
        .ask::<()>(&["SETRANGE", "{drover.0}:e:shop/a", "0", "\u{7f}"]);
    let answer = store.load(&key("a"), &[], Default::default()).await;
    assert!(
        matches!(&answer, Err(StoreError::Unavailable(text)) if text.contains("newer")),
        "{answer:?}"
    );
    build(store, &key("b"), "one", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_redis_refuses_a_commit_whole() {
    let (world, replica) = world(&["enable-debug-command yes"]).await;
    let store = &replica.store;
    let lease = grant(store, &key("a")).await.expect("nobody holds it");
    world.server.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let before: String = world.server.ask(&["DEBUG", "DIGEST"]);
    let loaded = load(store, &key("b")).await;
    let draft = loaded.snapshot.entry.draft();
    let mut commit = drover::store::Commit::new(&key("a"), &load(store, &key("a")).await, draft);
    commit.events = vec![drover::store::Event::Invalidated {
        namespace: "shop".into(),
        target: drover::store::Target::Everything,
        mode: Mode::Drop,
    }];
    assert!(matches!(store.commit(commit).await, Err(StoreError::Full(_))));
    let covering = Covering {
        namespace: "shop".into(),
        tag: None,
        mode: Mode::Drop,
        settle: Duration::ZERO,
    };
    assert!(matches!(store.invalidate(covering).await, Err(StoreError::Full(_))));
    let after: String = world.server.ask(&["DEBUG", "DIGEST"]);
    assert_eq!(before, after, "something was written");
    world.server.ask::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    assert!(give(store, &key("a"), lease, "value", &[]).await);
    assert!(replica.met(Condition::Full) >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_has_an_expiry() {
    let (world, replica) = world(&[]).await;
    let store = &replica.store;
    build(store, &key("a"), "one", &["red"]).await;
    grant(store, &key("b")).await.expect("nobody holds it");
    invalidate(store, Some("red"), Mode::Drop).await;
    invalidate_key(store, &key("a"), Mode::Expire).await;
    let parked = drover::store::Want {
        bytes: true,
        rings: true,
    };
    store.load(&key("b"), &[], parked).await.expect("an answer");
    replica.looked_after().await;
    let keys: Vec<String> = world.server.ask(&["KEYS", "*"]);
    assert!(keys.len() >= 7, "{keys:?}");
    for name in keys {
        let left: i64 = world.server.ask(&["PTTL", &name]);
        assert!(left > 0, "{name} stays for ever");
    }
}

/// The one rule that a script has too.
#[tokio::test(flavor = "multi_thread")]
async fn a_generation_in_redis_is_what_the_rule_makes_of_its_invalidations() {
    let (_world, replica) = world(&[]).await;
    let store = &replica.store;
    build(store, &key("old"), "value", &["red"]).await;
    let mut generation = Generation::default();
    for round in 0..60_u64 {
        let mode = if round % 25 == 24 { Mode::Drop } else { Mode::Expire };
        tokio::time::sleep(Duration::from_millis(round * 7 % 5)).await;
        let done = invalidate(store, Some("red"), mode).await;
        generation.invalidate(mode, done.number, done.now, done.now);
        let loaded = store
            .load(&key("old"), &["red".into()], Default::default())
            .await
            .expect("an answer");
        assert_eq!(
            loaded.generations.tags,
            [("red".into(), generation.clone())],
            "after {round}"
        );
    }
}
