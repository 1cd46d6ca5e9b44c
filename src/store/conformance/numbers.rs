//! One growing sequence for grants and invalidations, and what invalidations leave behind.

use super::Harness;
use super::write::*;
use crate::decision::{Mode, Seq, Tag, Verdict};
use crate::store::{Commit, Guard, Revision};

/// Of keys, tags and namespaces; each is greater than all that were answered before.
pub async fn numbers_grow_over_grants_and_invalidations_of_every_kind(harness: &impl Harness) {
    let store = harness.store();
    let tag: Tag = "t".into();
    let mut last = Seq::NONE;
    for round in 0..3 {
        for name in ["a", "b"] {
            let granted = grant(store, &key(name), &[]).await;
            assert_eq!(token(&granted), granted.number);
            assert!(granted.number > last, "round {round}: {granted:?} after {last:?}");
            last = granted.number;
        }
        let loaded = load(store, &key("a")).await;
        let mut write = Commit::new(&key("a"), &loaded, marked(&loaded));
        write.events = vec![event(&key("a"))];
        let done = committed(store, write).await;
        let mark = done.snapshot.entry.mark.as_deref().map(|mark| mark.number);
        assert_eq!(mark, Some(done.number));
        assert!(done.number > last);
        last = done.number;
        for covered in [Some(&tag), None] {
            for mode in [Mode::Drop, Mode::Expire] {
                let done = invalidate(store, covered, mode).await;
                assert!(done.number > last, "{covered:?} {mode:?}: {done:?} after {last:?}");
                last = done.number;
            }
        }
    }
}

/// The callers' own store has seen it; and the sequence goes on from there.
pub async fn a_number_exceeds_what_the_caller_has_seen(harness: &impl Harness) {
    let store = harness.store();
    let first = grant(store, &key("b"), &[]).await.number;
    let seen = Seq(first.0 + 3_600_000_000);
    let loaded = load(store, &key("b")).await;
    let mut write = Commit::new(&key("b"), &loaded, with_lease(&loaded, LONG, &[]));
    write.above = seen;
    let number = committed(store, write).await.number;
    assert!(number > seen);
    assert!(grant(store, &key("b"), &[]).await.number > number);
}

/// A renewal and a report have none of their own.
pub async fn a_commit_that_needs_no_number_takes_none(harness: &impl Harness) {
    let store = harness.store();
    let granted = grant(store, &key("a"), &[]).await;
    let loaded = load(store, &key("a")).await;
    let renewed = committed(store, Commit::new(&key("a"), &loaded, loaded.snapshot.entry.draft())).await;
    assert_eq!(renewed.number, Seq::NONE);
    assert_eq!(token(&renewed), granted.number);
}

/// So that it grows over a restart without data.
pub async fn a_number_is_not_below_the_store_s_time(harness: &impl Harness) {
    let store = harness.store();
    let granted = grant(store, &key("a"), &[]).await;
    assert!(granted.number.0 >= granted.now.0);
    let invalidated = invalidate(store, None, Mode::Drop).await;
    assert!(invalidated.number.0 >= invalidated.now.0);
}

/// It is ordered with the grants all the same.
pub async fn an_invalidation_of_an_absent_key_takes_a_number_and_leaves_no_entry(harness: &impl Harness) {
    let store = harness.store();
    let before = grant(store, &key("b"), &[]).await.number;
    let loaded = load(store, &key("a")).await;
    let mut write = Commit::new(&key("a"), &loaded, kept_for(LONG));
    (write.draft, write.events) = (None, vec![event(&key("a"))]);
    let done = committed(store, write).await;
    assert!(done.number > before && done.place.at > 0, "{done:?}");
    assert_eq!(load(store, &key("a")).await.snapshot.revision, Revision::ABSENT);
}

/// Of its namespace, of the tags of its lease, and of the tags asked about; none of other namespaces.
pub async fn a_load_brings_the_generations_that_bear_on_it(harness: &impl Harness) {
    let store = harness.store();
    let [leased, asked, other]: [Tag; 3] = ["leased".into(), "asked".into(), "other".into()];
    let granted = grant(store, &key("a"), std::slice::from_ref(&leased)).await.number;
    let verdict = async |tags: &[Tag]| {
        let loaded = load_with(store, &key("a"), tags, ALL).await;
        loaded
            .generations
            .verdict(granted, &[tags, std::slice::from_ref(&leased)].concat())
    };
    assert_eq!(verdict(&[]).await, Verdict::Valid);
    invalidate(store, Some(&other), Mode::Drop).await;
    invalidate(store, Some(&asked), Mode::Drop).await;
    assert_eq!(verdict(&[]).await, Verdict::Valid);
    assert_eq!(verdict(std::slice::from_ref(&asked)).await, Verdict::Dropped);
    invalidate(store, Some(&leased), Mode::Drop).await;
    assert_eq!(verdict(&[]).await, Verdict::Dropped);
    let elsewhere = crate::decision::Key::new("news", "a");
    let untouched = load_with(store, &elsewhere, &[leased.clone(), asked], ALL).await;
    assert_eq!(untouched.generations.newest(), untouched.generations.floor);
    let whole = invalidate(store, None, Mode::Drop).await;
    // In the partition whose number is the invalidation's.
    let names = (0..1_000).map(|number| key(&format!("never written {number}")));
    let beside = |key: &crate::decision::Key| store.partition(key) == whole.place.partition;
    let loaded = load(store, &names.into_iter().find(beside).expect("one of so many")).await;
    assert_eq!(loaded.generations.verdict(granted, &[]), Verdict::Dropped);
    assert_eq!(loaded.generations.newest(), whole.number);
}

/// What is built before it was fresh until then at most, what is built after it does not know of it.
pub async fn a_soft_invalidation_says_since_when(harness: &impl Harness) {
    let store = harness.store();
    let before = grant(store, &key("a"), &[]).await.number;
    let done = invalidate(store, None, Mode::Expire).await;
    let generations = load(store, &key("a")).await.generations;
    assert_eq!(generations.verdict(before, &[]), Verdict::ExpiredAt(done.now));
    let after = grant(store, &key("a"), &[]).await.number;
    assert_eq!(generations.verdict(after, &[]), Verdict::Valid);
}

/// Also a tag that the entry itself does not have.
pub async fn a_guard_holds_off_a_commit_whose_tag_was_invalidated_since_the_load(harness: &impl Harness) {
    let tag: Tag = "t".into();
    guarded(harness, Some(&tag)).await;
}

/// Whatever tags it names.
pub async fn a_guard_holds_off_a_commit_whose_namespace_was_invalidated_since_the_load(harness: &impl Harness) {
    guarded(harness, None).await;
}

async fn guarded(harness: &impl Harness, covered: Option<&Tag>) {
    let store = harness.store();
    let tags: Vec<Tag> = vec!["t".into(), "other".into()];
    let granted = grant(store, &key("a"), &[]).await;
    for mode in [Mode::Drop, Mode::Expire] {
        let loaded = load_with(store, &key("a"), &tags, ALL).await;
        let write = |newest| Commit {
            guard: Some(Guard {
                tags: tags.clone(),
                newest,
            }),
            events: vec![event(&key("a"))],
            ..Commit::new(&key("a"), &loaded, loaded.snapshot.entry.draft())
        };
        invalidate(store, covered, mode).await;
        let now = refused(store, write(loaded.generations.newest())).await;
        assert_eq!(now.snapshot.revision, loaded.snapshot.revision, "nothing was written");
        assert_ne!(now.generations.verdict(granted.number, &tags), Verdict::Valid);
        assert!(now.generations.newest() > loaded.generations.newest());
        committed(store, write(now.generations.newest())).await;
    }
}

/// It is about what happened since, and about its own tags.
pub async fn a_guard_lets_pass_what_it_knew_and_what_does_not_concern_it(harness: &impl Harness) {
    let store = harness.store();
    let [named, other]: [Tag; 2] = ["named".into(), "other".into()];
    invalidate(store, Some(&named), Mode::Drop).await;
    let tags = vec![named];
    let loaded = load_with(store, &key("a"), &tags, ALL).await;
    invalidate(store, Some(&other), Mode::Drop).await;
    let mut write = Commit::new(&key("a"), &loaded, kept_for(LONG));
    write.guard = Some(Guard {
        tags,
        newest: loaded.generations.newest(),
    });
    committed(store, write).await;
}
