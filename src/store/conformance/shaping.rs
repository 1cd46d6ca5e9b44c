//! What replicas share of a namespace: the places of its rebuild budget, and its circuit.

// Each promise waits for its racers.
#![allow(clippy::disallowed_methods)]

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::feed::Heard;
use super::write::*;
use super::{Harness, eventually};
use crate::decision::{Key, StoreTime};
use crate::store::{Budgeted, Budgeting, Changed, Store};

const A_WHILE: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_millis(120);

/// As large as a secret may be.
fn secret(number: u64) -> NonZeroU64 {
    NonZeroU64::new(u64::MAX - number).unwrap_or(NonZeroU64::MIN)
}

async fn budget(store: &Arc<dyn Store>, key: &Key, lease: u64, what: Budgeting) -> Budgeted {
    store.budget(key, secret(lease), what).await.expect("it answers")
}

async fn take(store: &Arc<dyn Store>, name: &str, lease: u64, limit: u32, length: Duration) -> bool {
    let take = Budgeting::Take {
        limit,
        length,
        others_wait: false,
    };
    budget(store, &key(name), lease, take).await.has
}

async fn give_back(store: &Arc<dyn Store>, name: &str, lease: u64) -> Budgeted {
    let left_for = Duration::ZERO;
    budget(store, &key(name), lease, Budgeting::GiveBack { left_for }).await
}

/// In each namespace for itself; given back by whoever has them, and by nobody else.
pub async fn there_are_as_many_places_as_the_limit_says(harness: &impl Harness) {
    let store = harness.store();
    assert!(take(store, "a", 1, 2, LONG).await && take(store, "b", 2, 2, LONG).await);
    assert!(!take(store, "c", 3, 2, LONG).await);
    let elsewhere = Budgeting::Take {
        limit: 1,
        length: LONG,
        others_wait: false,
    };
    assert!(budget(store, &Key::new("news", "c"), 3, elsewhere).await.has);
    assert!(take(store, "c", 3, 3, LONG).await, "the limit is that of the call");
    assert_eq!(give_back(store, "a", 7).await.taken, 3, "no lease of that key");
    assert_eq!(give_back(store, "d", 1).await.taken, 3, "no key of that lease");
    assert_eq!(give_back(store, "a", 1).await.taken, 2);
    assert_eq!(give_back(store, "a", 1).await.taken, 2, "once");
    assert!(!take(store, "d", 4, 2, LONG).await);
    assert_eq!(give_back(store, "b", 2).await.taken, 1);
    assert!(take(store, "d", 4, 2, LONG).await);
}

/// A grant under way beside the lease that is about to end, in whatever order that is told; and none is taken away by one that failed.
pub async fn a_key_that_has_a_place_keeps_it_while_any_lease_of_it_lives(harness: &impl Harness) {
    let store = harness.store();
    assert!(take(store, "a", 1, 1, LONG).await);
    assert!(take(store, "a", 2, 0, LONG).await, "whatever the limit");
    assert!(!take(store, "b", 3, 0, LONG).await);
    give_back(store, "a", 1).await;
    assert!(!take(store, "b", 3, 1, LONG).await, "the second lives");
    assert!(take(store, "a", 4, 1, LONG).await);
    give_back(store, "a", 4).await;
    assert!(!take(store, "b", 3, 1, LONG).await);
    let hold = Budgeting::Hold {
        length: LONG,
        at_most: StoreTime::NEVER,
        instead_of: Some(secret(2)),
    };
    budget(store, &key("a"), 5, hold).await;
    assert_eq!(give_back(store, "a", 2).await.taken, 1, "it was replaced");
    assert_eq!(give_back(store, "a", 5).await.taken, 0);
}

/// That of a crashed holder, and one that nobody has come for; not one that was renewed.
pub async fn a_place_comes_back_with_its_time(harness: &impl Harness) {
    let store = harness.store();
    assert!(take(store, "a", 1, 2, SHORT).await && take(store, "b", 2, 2, SHORT).await);
    let hold = Budgeting::Hold {
        length: LONG,
        at_most: StoreTime::NEVER,
        instead_of: None,
    };
    budget(store, &key("b"), 2, hold).await;
    let take_more = Budgeting::Take {
        limit: 2,
        length: LONG,
        others_wait: false,
    };
    let refused = budget(store, &key("c"), 3, take_more).await;
    assert!(!refused.has && refused.taken == 2);
    assert!(refused.next.is_some_and(|next| next <= SHORT), "{refused:?}");
    harness.pass(SHORT).await;
    assert!(take(store, "c", 3, 2, LONG).await);
    assert!(!take(store, "d", 4, 2, LONG).await);
    let no_longer = Budgeting::Hold {
        length: LONG,
        at_most: store.ping().await.expect("it answers").after(SHORT),
        instead_of: None,
    };
    let held = budget(store, &key("c"), 3, no_longer).await;
    assert!(held.has && held.next.is_some_and(|next| next <= SHORT), "{held:?}");
    harness.pass(SHORT).await;
    assert!(take(store, "d", 4, 2, LONG).await);
}

/// For a while, or until they have left.
pub async fn a_place_may_be_left_to_those_who_wait_for_its_key(harness: &impl Harness) {
    let store = harness.store();
    let leave_for = |left_for| Budgeting::GiveBack { left_for };
    assert!(take(store, "a", 1, 1, LONG).await);
    assert_eq!(budget(store, &key("a"), 1, leave_for(LONG)).await.taken, 1);
    assert!(!take(store, "b", 2, 1, LONG).await);
    assert!(take(store, "a", 3, 1, LONG).await);
    assert_eq!(give_back(store, "a", 3).await.taken, 0, "what was left is used up");
    assert!(take(store, "a", 4, 1, LONG).await);
    budget(store, &key("a"), 4, leave_for(SHORT)).await;
    harness.pass(SHORT).await;
    assert!(take(store, "b", 2, 1, LONG).await);
    budget(store, &key("b"), 2, leave_for(LONG)).await;
    assert_eq!(budget(store, &key("b"), 9, Budgeting::Leave).await.taken, 0);
    // To who has come already nothing is left.
    assert!(take(store, "c", 5, 1, LONG).await && take(store, "c", 6, 1, LONG).await);
    budget(store, &key("c"), 5, leave_for(LONG)).await;
    assert_eq!(give_back(store, "c", 6).await.taken, 0);
}

/// Once, for whoever was refused or said that others wait.
pub async fn a_place_that_is_given_back_rings_where_somebody_waits(harness: &impl Harness) {
    let store = harness.store();
    let heard = Heard::of(store);
    let name = Changed::Budget.ring("shop");
    let rung = || heard.rings.lock().iter().filter(|ring| **ring == name).count();
    assert!(take(store, "a", 1, 1, LONG).await);
    give_back(store, "a", 1).await;
    harness.pass(A_WHILE).await;
    assert_eq!(rung(), 0, "nobody waited");
    assert!(take(store, "a", 2, 2, LONG).await && take(store, "b", 3, 2, LONG).await);
    assert!(!take(store, "c", 4, 2, LONG).await);
    give_back(store, "a", 2).await;
    assert!(eventually(harness, || rung() == 1).await);
    give_back(store, "b", 3).await;
    harness.pass(A_WHILE).await;
    assert_eq!(rung(), 1);
    let with_others = Budgeting::Take {
        limit: 1,
        length: LONG,
        others_wait: true,
    };
    assert!(budget(store, &key("d"), 5, with_others).await.has);
    give_back(store, "d", 5).await;
    assert!(eventually(harness, || rung() == 2).await);
    assert_eq!(Changed::read(&name), Some((Changed::Budget, "shop")));
}

/// And it rings, each time that it is another.
pub async fn a_circuit_is_set_only_by_whoever_knows_how_it_is(harness: &impl Harness) {
    let store = harness.store();
    let heard = Heard::of(store);
    let circuit = async |namespace: &str, expected: &str, new: Option<&str>| {
        let is = store.circuit(namespace, expected, new).await.expect("it answers");
        is.to_string()
    };
    assert_eq!(circuit("shop", "", None).await, "");
    assert_eq!(circuit("shop", "other", Some("1 open 1 5")).await, "");
    assert_eq!(circuit("shop", "", Some("1 open 1 5")).await, "1 open 1 5");
    assert_eq!(circuit("shop", "", Some("1 open 1 7")).await, "1 open 1 5");
    assert_eq!(circuit("shop", "1 open 1 5", Some("1 open 1 5")).await, "1 open 1 5");
    assert_eq!(circuit("shop", "1 open 1 5", Some("1 open 2 9")).await, "1 open 2 9");
    assert_eq!(circuit("shop", "1 open 2 9", None).await, "1 open 2 9");
    assert_eq!(circuit("news", "", None).await, "");
    let name = Changed::Circuit.ring("shop");
    let rung = || heard.rings.lock().iter().filter(|ring| **ring == name).count();
    assert!(eventually(harness, || rung() == 2).await);
    harness.pass(A_WHILE).await;
    assert_eq!(rung(), 2);
}

/// As many as there are, and each is had by one.
pub async fn of_those_that_race_for_the_last_places_as_many_have_one_as_there_are(harness: &impl Harness) {
    let store = harness.store();
    for round in 0..10 {
        let racers: Vec<_> = (0..8)
            .map(|racer| {
                let store = store.clone();
                tokio::spawn(async move { take(&store, &format!("{round}.{racer}"), racer, 3, LONG).await })
            })
            .collect();
        let mut entered = Vec::new();
        for (racer, taken) in racers.into_iter().enumerate() {
            if taken.await.expect("no panic") {
                entered.push(racer);
            }
        }
        assert_eq!(entered.len(), 3, "{entered:?}");
        for racer in entered {
            give_back(store, &format!("{round}.{racer}"), racer as u64).await;
        }
    }
}
