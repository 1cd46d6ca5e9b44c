//! What the feed tells: the log, and rings for keys that somebody waits for.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::write::*;
use super::{Harness, eventually};
use crate::decision::{Key, Mode, Tag};
use crate::fanout::{Listener, Record, ResetReason};
use crate::store::{Commit, Event, Store, Target};

/// What a listener heard.
#[derive(Default)]
pub(super) struct Heard {
    pub rings: Mutex<Vec<Key>>,
    pub records: Mutex<Vec<Record>>,
}

impl Heard {
    pub fn of(store: &Arc<dyn Store>) -> Arc<Heard> {
        let heard = Arc::new(Heard::default());
        store.feed().listen(heard.clone());
        heard
    }

    fn positions(&self, partition: u16) -> Vec<u64> {
        let records = self.records.lock();
        let own = records.iter().filter(|record| record.place.partition == partition);
        own.map(|record| record.place.at).collect()
    }

    fn rung(&self) -> usize {
        self.rings.lock().len()
    }
}

impl Listener for Heard {
    fn rung(&self, key: &Key) {
        self.rings.lock().push(key.clone());
    }

    fn logged(&self, record: &Record) {
        self.records.lock().push(record.clone());
    }

    fn reset(&self, _: ResetReason) {}
}

/// Time for a ring that must not come.
const A_WHILE: Duration = Duration::from_millis(100);

/// Each with the number and the moment of its commit, and in its partition in their order, up to the position that the commit answered.
pub async fn the_log_has_the_events_of_the_commits_in_their_order(harness: &impl Harness) {
    let store = harness.store();
    let heard = Heard::of(store);
    let mut told = Vec::new();
    for name in ["a", "b", "a"] {
        let loaded = load(store, &key(name)).await;
        let mut write = Commit::new(&key(name), &loaded, marked(&loaded));
        write.events = vec![event(&key(name)), event(&key("also"))];
        let events = write.events.clone();
        let done = committed(store, write).await;
        told.extend(
            events
                .into_iter()
                .map(|event| (done.place.partition, done.number, done.now, event)),
        );
        let tag: Tag = "t".into();
        let covered = invalidate(store, Some(&tag), Mode::Expire).await;
        let event = Event::Invalidated {
            namespace: "shop".into(),
            target: Target::Tag(tag),
            mode: Mode::Expire,
        };
        told.push((covered.place.partition, covered.number, covered.now, event));
        let there = || heard.records.lock().len() == told.len();
        assert!(eventually(harness, there).await, "{:?}", heard.records.lock());
        for place in [done.place, covered.place] {
            let positions = heard.positions(place.partition);
            let is_last = place == covered.place || place.partition != covered.place.partition;
            assert!(
                positions.is_sorted() && positions.contains(&place.at),
                "{place:?}: {positions:?}"
            );
            assert_eq!(positions.last() == Some(&place.at), is_last, "{place:?}: {positions:?}");
        }
    }
    // Partitions have no order among each other.
    let mut heard: Vec<_> = heard.records.lock().clone();
    heard.sort_by_key(|record| record.place.partition);
    told.sort_by_key(|(partition, ..)| *partition);
    let heard: Vec<_> = heard
        .into_iter()
        .map(|record| (record.place.partition, record.number, record.at, record.event))
        .collect();
    assert_eq!(heard, told);
}

/// Neither the log nor those who wait.
pub async fn a_commit_that_was_refused_tells_nobody(harness: &impl Harness) {
    let store = harness.store();
    let before = load(store, &key("a")).await;
    grant(store, &key("a"), &[]).await;
    load_with(store, &key("a"), &[], PARKED).await;
    let heard = Heard::of(store);
    let mut late = Commit::new(&key("a"), &before, marked(&before));
    late.events = vec![event(&key("a"))];
    refused(store, late).await;
    harness.pass(A_WHILE).await;
    assert!(heard.records.lock().is_empty());
    assert_eq!(heard.rung(), 0);
}

/// Whoever waits on must load again to hear of the next.
pub async fn a_commit_rings_for_a_key_that_is_waited_for_and_only_once(harness: &impl Harness) {
    let store = harness.store();
    let heard = Heard::of(store);
    grant(store, &key("a"), &[]).await;
    harness.pass(A_WHILE).await;
    assert_eq!(heard.rung(), 0, "nobody waited");
    for rings in 1..=3 {
        load_with(store, &key("a"), &[], PARKED).await;
        load_with(store, &key("a"), &[], PARKED).await;
        grant(store, &key("a"), &[]).await;
        assert!(eventually(harness, || heard.rung() == rings).await);
        grant(store, &key("a"), &[]).await;
        harness.pass(A_WHILE).await;
        assert_eq!(heard.rung(), rings);
    }
}

/// Nor does a load that waits for nothing undo one that does.
pub async fn a_commit_rings_for_no_other_key(harness: &impl Harness) {
    let store = harness.store();
    let heard = Heard::of(store);
    load_with(store, &key("a"), &[], PARKED).await;
    load(store, &key("a")).await;
    grant(store, &key("b"), &[]).await;
    grant(store, &Key::new("news", "a"), &[]).await;
    harness.pass(A_WHILE).await;
    assert_eq!(heard.rung(), 0);
    grant(store, &key("a"), &[]).await;
    assert!(eventually(harness, || *heard.rings.lock() == [key("a")]).await);
}

/// A key that is waited for may have no entry before, or none afterwards.
pub async fn a_removal_rings_too(harness: &impl Harness) {
    let store = harness.store();
    let heard = Heard::of(store);
    for rings in 1..=2 {
        let loaded = load_with(store, &key("a"), &[], PARKED).await;
        let mut write = Commit::new(&key("a"), &loaded, kept_for(LONG));
        if rings == 2 {
            write.draft = None;
        }
        committed(store, write).await;
        assert!(eventually(harness, || heard.rung() == rings).await, "{rings}");
    }
}
