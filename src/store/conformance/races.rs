//! Many at once, on several threads.

// Each promise waits for its racers.
#![allow(clippy::disallowed_methods)]

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::feed::Heard;
use super::write::*;
use super::{Harness, eventually};
use crate::decision::{Mode, Seq, Tag};
use crate::store::{Commit, Outcome, Place, Revision, Store};

const RACERS: u64 = 8;
const ROUNDS: u64 = 40;

/// Exactly one: each of so many increments counts once, and no revision is committed upon twice.
pub async fn of_those_that_race_for_a_revision_one_wins(harness: &impl Harness) {
    let store = harness.store();
    let racers: Vec<_> = (0..RACERS).map(|_| tokio::spawn(increment(store.clone()))).collect();
    let mut won_on = HashSet::new();
    for racer in racers {
        for revision in racer.await.expect("no panic") {
            assert!(won_on.insert(revision), "two commits upon {revision:?}");
        }
    }
    let entry = &load(store, &key("a")).await.snapshot.entry;
    assert_eq!(entry.cost.length(), Duration::from_micros(RACERS * ROUNDS));
}

/// Adds one so often; upon which revisions.
async fn increment(store: Arc<dyn Store>) -> Vec<Revision> {
    let mut upon = Vec::new();
    let mut loaded = load(&store, &key("a")).await;
    while upon.len() < ROUNDS as usize {
        let mut draft = kept_for(LONG);
        draft.cost = (loaded.snapshot.entry.cost.length() + Duration::from_micros(1)).into();
        match commit(&store, Commit::new(&key("a"), &loaded, draft)).await {
            Outcome::Conflict(now) => loaded = now,
            Outcome::Committed(_) => {
                upon.push(loaded.snapshot.revision);
                tokio::task::yield_now().await;
                loaded = load(&store, &key("a")).await;
            }
        }
    }
    upon
}

/// Of grants and of invalidations, on different keys of a partition.
pub async fn numbers_taken_at_the_same_time_are_different(harness: &impl Harness) {
    let store = harness.store();
    let racers: Vec<_> = (0..RACERS)
        .map(|racer| tokio::spawn(take(store.clone(), racer)))
        .collect();
    let mut taken = HashSet::new();
    for racer in racers {
        let mut numbers = racer.await.expect("no panic");
        // A stable order: of one partition they stay as they came.
        numbers.sort_by_key(|(partition, _)| *partition);
        assert!(numbers.is_sorted(), "one after the other, but {numbers:?}");
        for number in numbers {
            assert!(taken.insert(number), "{number:?} was taken twice");
        }
    }
}

/// In which partitions, and which.
async fn take(store: Arc<dyn Store>, racer: u64) -> Vec<(u16, Seq)> {
    let (own, tag): (_, Tag) = (key(&format!("k{racer}")), format!("t{racer}").into());
    let mut numbers = Vec::new();
    for _ in 0..ROUNDS {
        numbers.push((store.partition(&own), grant(&store, &own, &[]).await.number));
        let invalidated = invalidate(&store, Some(&tag), Mode::Drop).await;
        numbers.push((invalidated.place.partition, invalidated.number));
        tokio::task::yield_now().await;
    }
    numbers
}

/// For one key and for one tag, the records come with growing numbers, none is missing and none comes twice.
pub async fn the_log_has_the_order_of_commits_that_race(harness: &impl Harness) {
    let store = harness.store();
    let heard = Heard::of(store);
    let racers: Vec<_> = (0..RACERS)
        .map(|racer| tokio::spawn(tell(store.clone(), racer)))
        .collect();
    let mut told = Vec::new();
    for racer in racers {
        told.extend(racer.await.expect("no panic"));
    }
    assert!(eventually(harness, || heard.records.lock().len() == told.len()).await);
    let mut records = heard.records.lock().clone();
    records.sort_by_key(|record| record.place);
    for event in [event(&key("a")), event(&key("b"))] {
        let numbers: Vec<Seq> = records
            .iter()
            .filter(|record| record.event == event)
            .map(|record| record.number)
            .collect();
        assert!(numbers.is_sorted(), "{event:?}: {numbers:?}");
    }
    let mut logged: Vec<(Place, Seq)> = records.iter().map(|record| (record.place, record.number)).collect();
    told.sort_unstable();
    logged.sort_unstable();
    assert_eq!(logged, told);
}

/// Marks one of two keys again and again; at which positions, with which numbers.
async fn tell(store: Arc<dyn Store>, racer: u64) -> Vec<(Place, Seq)> {
    let shared = key(if racer.is_multiple_of(2) { "a" } else { "b" });
    let mut told = Vec::new();
    while told.len() < ROUNDS as usize {
        let loaded = load(&store, &shared).await;
        let mut write = Commit::new(&shared, &loaded, marked(&loaded));
        write.events = vec![event(&shared)];
        if let Outcome::Committed(done) = commit(&store, write).await {
            told.push((done.place, done.number));
        }
        tokio::task::yield_now().await;
    }
    told
}
