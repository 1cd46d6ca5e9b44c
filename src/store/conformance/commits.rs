//! Compare and set: whole or not at all.

use std::sync::Arc;
use std::time::Duration;

use super::Harness;
use super::write::*;
use crate::decision::{Entry, Key};
use crate::store::{Bytes, Commit, NewBytes, Revision};

/// No entry, no bytes, no revision.
pub async fn a_key_that_was_never_written_loads_as_absent(harness: &impl Harness) {
    let loaded = load(harness.store(), &key("a")).await;
    assert_eq!(loaded.snapshot.key, key("a"));
    assert_eq!(loaded.snapshot.revision, Revision::ABSENT);
    assert_eq!(loaded.snapshot.entry, Entry::default());
    assert_eq!(loaded.snapshot.bytes, None);
}

/// A load that begins after a commit was answered shows it.
pub async fn what_was_committed_is_loaded(harness: &impl Harness) {
    let store = harness.store();
    let tag = "t".into();
    let done = grant(store, &key("a"), &[tag]).await;
    let loaded = load(store, &key("a")).await;
    assert_eq!(loaded.snapshot, done.snapshot);
    assert_ne!(done.snapshot.revision, Revision::ABSENT);
    assert!(loaded.now >= done.now);
}

/// Neither the entry nor its bytes; and no number is used up that anybody could see.
pub async fn a_commit_against_another_revision_changes_nothing_and_answers_how_it_is(harness: &impl Harness) {
    let store = harness.store();
    let before = load(store, &key("a")).await;
    let mut first = Commit::new(&key("a"), &before, with_lease(&before, LONG, &[]));
    first.bytes = put("first");
    let done = committed(store, first).await;
    let mut late = Commit::new(&key("a"), &before, kept_for(LONG));
    late.bytes = put("late");
    let now = refused(store, late).await;
    assert_eq!(
        (now.snapshot.revision, &now.snapshot.entry),
        (done.snapshot.revision, &done.snapshot.entry)
    );
    let loaded = load(store, &key("a")).await;
    assert_eq!(loaded.snapshot.entry, done.snapshot.entry);
    assert_eq!(loaded.snapshot.bytes, bytes("first"));
    // Nor is what was never there created by a commit that expects something.
    let mut for_nothing = Commit::new(&key("b"), &loaded, kept_for(LONG));
    for_nothing.events = vec![event(&key("b"))];
    assert_eq!(refused(store, for_nothing).await.snapshot.revision, Revision::ABSENT);
    assert_eq!(load(store, &key("b")).await.snapshot.revision, Revision::ABSENT);
}

/// So that nobody who loaded in between can commit; also over a removal, and although the entry is the same.
pub async fn each_commit_has_a_revision_of_its_own(harness: &impl Harness) {
    let store = harness.store();
    let mut seen = vec![Revision::ABSENT];
    for round in 0..6 {
        let loaded = load(store, &key("a")).await;
        let mut write = Commit::new(&key("a"), &loaded, loaded.snapshot.entry.draft());
        write.draft = (round != 3).then(|| match round {
            0 | 4 => kept_for(LONG),
            _ => loaded.snapshot.entry.draft(),
        });
        let done = committed(store, write).await;
        if round == 3 {
            assert_eq!(done.snapshot.revision, Revision::ABSENT);
        } else {
            assert!(!seen.contains(&done.snapshot.revision), "{seen:?} then {done:?}");
            seen.push(done.snapshot.revision);
        }
    }
}

/// As the commit says, whatever the entry says of its content.
pub async fn bytes_are_put_kept_and_cleared(harness: &impl Harness) {
    let store = harness.store();
    for (change, then) in [
        (put("one"), bytes("one")),
        (NewBytes::Keep, bytes("one")),
        (put("two"), bytes("two")),
        (put(""), bytes("")),
        (NewBytes::Clear, None),
        (NewBytes::Keep, None),
    ] {
        let loaded = load(store, &key("a")).await;
        let mut write = Commit::new(&key("a"), &loaded, kept_for(LONG));
        write.bytes = change.clone();
        committed(store, write).await;
        assert_eq!(load(store, &key("a")).await.snapshot.bytes, then, "after {change:?}");
    }
}

/// With its bytes; and it may be created again.
pub async fn a_commit_without_a_draft_removes_the_entry(harness: &impl Harness) {
    let store = harness.store();
    let loaded = load(store, &key("a")).await;
    let mut write = Commit::new(&key("a"), &loaded, kept_for(LONG));
    write.bytes = put("old");
    let done = committed(store, write).await;
    let loaded = load(store, &key("a")).await;
    let mut remove = Commit::new(&key("a"), &loaded, kept_for(LONG));
    remove.draft = None;
    remove.bytes = NewBytes::Clear;
    let stale = remove.clone();
    committed(store, remove).await;
    let loaded = load(store, &key("a")).await;
    assert_eq!(
        (loaded.snapshot.revision, &loaded.snapshot.entry, &loaded.snapshot.bytes),
        (Revision::ABSENT, &Entry::default(), &None)
    );
    assert_eq!(stale.expected, done.snapshot.revision);
    refused(store, stale).await;
    committed(store, Commit::new(&key("a"), &loaded, kept_for(LONG))).await;
    assert_eq!(load(store, &key("a")).await.snapshot.bytes, None);
}

/// Also when the keys are called the same.
pub async fn keys_of_different_namespaces_are_different(harness: &impl Harness) {
    let store = harness.store();
    let (here, there) = (Key::new("shop", "a"), Key::new("news", "a"));
    grant(store, &here, &[]).await;
    assert_eq!(load(store, &there).await.snapshot.revision, Revision::ABSENT);
    harness.pass(Duration::from_millis(1)).await;
    assert_ne!(load(store, &here).await.snapshot.revision, Revision::ABSENT);
}

fn put(text: &str) -> NewBytes {
    NewBytes::Put(Arc::from(text.as_bytes()))
}

fn bytes(text: &str) -> Option<Bytes> {
    Some(Arc::from(text.as_bytes()))
}
