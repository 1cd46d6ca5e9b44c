//! The store's clock decides, at the moment of the commit.

use std::time::Duration;

use super::Harness;
use super::write::*;
use crate::decision::{Draft, Entry, StoreTime, When};
use crate::store::{Commit, NewBytes, Revision};

/// Those that are counted from it; a bound stays a bound.
pub async fn instants_resolve_at_the_moment_of_the_commit(harness: &impl Harness) {
    let store = harness.store();
    let loaded = load(store, &key("a")).await;
    let bound = loaded.now.after(Duration::from_millis(70));
    let mut draft = with_lease(&loaded, Duration::from_millis(50), &[]);
    if let Some(lease) = &mut draft.lease {
        lease.hold_until = When::after(LONG).at_most(bound);
    }
    harness.pass(Duration::from_millis(20)).await;
    let before = ping(harness).await;
    let done = committed(store, Commit::new(&key("a"), &loaded, draft)).await;
    let after = ping(harness).await;
    assert!(before <= done.now && done.now <= after);
    let entry = &load(store, &key("a")).await.snapshot.entry;
    let lease = entry.lease.as_deref().expect("it was committed with a lease");
    assert_eq!(lease.granted_at, done.now);
    assert_eq!(lease.deadline, done.now.after(Duration::from_millis(50)));
    assert_eq!(lease.hold_until, bound);
}

/// It is refused, whatever the revision, until the store's time is there.
pub async fn a_commit_is_not_made_before_its_time(harness: &impl Harness) {
    let store = harness.store();
    let loaded = load(store, &key("a")).await;
    let mut write = Commit::new(&key("a"), &loaded, kept_for(LONG));
    write.not_before = loaded.now.after(Duration::from_millis(200));
    let now = refused(store, write.clone()).await;
    assert_eq!(now.snapshot.revision, Revision::ABSENT);
    harness.pass(Duration::from_millis(250)).await;
    let done = committed(store, write.clone()).await;
    assert!(done.now >= write.not_before);
}

/// It is refused from that very moment on.
pub async fn a_commit_is_not_made_once_its_time_is_over(harness: &impl Harness) {
    let store = harness.store();
    let loaded = load(store, &key("a")).await;
    let mut write = Commit::new(&key("a"), &loaded, kept_for(LONG));
    write.until = loaded.now;
    refused(store, write.clone()).await;
    write.until = loaded.now.after(Duration::from_millis(20));
    harness.pass(Duration::from_millis(25)).await;
    let now = refused(store, write).await;
    assert_eq!(now.snapshot.revision, Revision::ABSENT);
}

/// Whether or not the store has taken its memory back yet. Its bytes do not come back with a new entry.
pub async fn an_entry_that_is_gone_loads_as_absent_and_may_be_created_anew(harness: &impl Harness) {
    let store = harness.store();
    let loaded = load(store, &key("a")).await;
    let mut write = Commit::new(&key("a"), &loaded, kept_for(Duration::from_millis(200)));
    write.bytes = NewBytes::Put((*b"old").into());
    let first = committed(store, write).await;
    assert_eq!(load(store, &key("a")).await.snapshot.revision, first.snapshot.revision);
    harness.pass(Duration::from_millis(250)).await;
    let loaded = load(store, &key("a")).await;
    assert_eq!(
        (loaded.snapshot.revision, &loaded.snapshot.entry, &loaded.snapshot.bytes),
        (Revision::ABSENT, &Entry::default(), &None)
    );
    let late = Commit {
        expected: first.snapshot.revision,
        ..Commit::new(&key("a"), &loaded, kept_for(LONG))
    };
    refused(store, late).await;
    let second = committed(store, Commit::new(&key("a"), &loaded, kept_for(LONG))).await;
    assert_ne!(second.snapshot.revision, first.snapshot.revision);
    assert_eq!(load(store, &key("a")).await.snapshot.bytes, None);
    // One that matters no more than this moment is none.
    let loaded = load(store, &key("b")).await;
    committed(store, Commit::new(&key("b"), &loaded, Draft::default())).await;
    assert_eq!(load(store, &key("b")).await.snapshot.revision, Revision::ABSENT);
}

/// As fast as it passes.
pub async fn time_grows(harness: &impl Harness) {
    let before = ping(harness).await;
    harness.pass(Duration::from_millis(50)).await;
    let after = ping(harness).await;
    assert!(
        after >= before.after(Duration::from_millis(49)),
        "{before:?} then {after:?}"
    );
    assert!(load(harness.store(), &key("a")).await.now >= after);
}

async fn ping(harness: &impl Harness) -> StoreTime {
    harness.store().ping().await.expect("the store answers a ping")
}
