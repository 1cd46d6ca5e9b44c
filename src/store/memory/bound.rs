//! The bound on memory, and how expired entries leave.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::advance;

use super::{Limits, Memory};
use crate::decision::{
    Backoff, Content, Decision, Draw, Key, LeaseId, Lifetimes, Outcome as Ending, Policy, Report, ReportDecision,
    acquire, report,
};
use crate::store::{Commit, NewBytes, Outcome, Store, StoreError, Want};

const DRAW: Draw = Draw { secret: 7, seed: 7 };

fn store(entries: usize) -> Arc<Memory> {
    Memory::new(Limits {
        entries,
        bytes: usize::MAX,
    })
}

fn key(number: usize) -> Key {
    Key::new("shop", &format!("item {number}"))
}

/// Grants a lease on a key that nobody knows.
async fn grant(store: &Memory, key: &Key) -> Result<LeaseId, StoreError> {
    let loaded = store.load(key, &[], Want::default()).await?;
    let ask = crate::decision::Ask::plain();
    let Decision::Grant(grant) = acquire(&loaded.view(), &ask, &Policy::default(), DRAW) else {
        panic!("{key:?} is known already");
    };
    match store.commit(Commit::new(key, &loaded, grant.draft)).await? {
        Outcome::Committed(done) => Ok(done.snapshot.entry.lease.as_deref().expect("a lease").id()),
        Outcome::Conflict(now) => panic!("nobody else is here: {now:?}"),
    }
}

async fn end(store: &Memory, key: &Key, lease: LeaseId, outcome: Ending, policy: &Policy) {
    let ended = Report {
        lease,
        outcome,
        cost: None,
        tags: Vec::new(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    };
    let loaded = store.load(key, &[], Want::default()).await.expect("it answers");
    let ReportDecision::Accept { draft, .. } = report(&loaded.view(), &ended, policy, DRAW) else {
        panic!("the grant is current");
    };
    let commit = Commit {
        bytes: NewBytes::Put(Arc::from(&[0; 100][..])),
        ..Commit::new(key, &loaded, *draft)
    };
    let done = store.commit(commit).await.expect("it answers");
    assert!(matches!(done, Outcome::Committed(_)));
}

async fn fill(store: &Memory, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let lease = grant(store, &key(number)).await.expect("room");
        end(
            store,
            &key(number),
            lease,
            Ending::Built(Content::Bytes(100)),
            &Policy::default(),
        )
        .await;
    }
}

async fn is_known(store: &Memory, number: usize) -> bool {
    let loaded = store
        .load(&key(number), &[], Want::default())
        .await
        .expect("it answers");
    loaded.snapshot.entry.value.is_some() || loaded.snapshot.entry.lease.is_some()
}

#[tokio::test(start_paused = true)]
async fn at_the_bound_values_make_room_for_new_ones() {
    let store = store(1_000);
    fill(&store, 0..3_000).await;
    let usage = store.usage();
    // One more than the bound may be there while its own shard has nothing to give.
    assert!(usage.entries <= 1_001, "{usage:?}");
    assert!(usage.evicted >= 1_999, "{usage:?}");
    assert!(is_known(&store, 2_999).await, "the newest is kept");
}

#[tokio::test(start_paused = true)]
async fn a_live_lease_is_never_pushed_out_and_without_anything_else_the_store_is_full() {
    let store = store(100);
    let mut held = Vec::new();
    let refused = loop {
        match grant(&store, &key(held.len())).await {
            Ok(lease) => held.push(lease),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StoreError::Full(_)), "{refused:?}");
    assert_eq!(held.len(), 100);
    for number in 0..held.len() {
        assert!(is_known(&store, number).await, "item {number}");
    }
    assert!(
        !is_known(&store, held.len()).await,
        "what was refused leaves nothing behind"
    );
    assert_eq!(store.usage().entries, 100);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_back_off_is_not_forgotten_at_the_bound() {
    let store = store(64);
    let long = Duration::from_secs(3_600);
    let policy = Policy {
        backoff: Backoff { base: long, max: long },
        ..Policy::default()
    };
    let failing = Key::new("shop", "failing");
    let lease = grant(&store, &failing).await.expect("room");
    let failed = Ending::Failed {
        message: "down".into(),
        retry_after: None,
    };
    end(&store, &failing, lease, failed, &policy).await;
    fill(&store, 0..2_000).await;
    let loaded = store.load(&failing, &[], Want::default()).await.expect("it answers");
    assert!(loaded.snapshot.entry.trouble.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_bound_on_bytes_counts_keys_values_and_a_flat_sum_an_entry() {
    let store = Memory::new(Limits {
        entries: usize::MAX,
        bytes: 100_000,
    });
    fill(&store, 0..1_000).await;
    let usage = store.usage();
    assert!(usage.bytes <= 100_500 && usage.evicted > 0, "{usage:?}");
    assert!(
        (200..=250).contains(&usage.entries),
        "about 100 + 300 + a key's 12 bytes each: {usage:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn expired_entries_leave_by_themselves_and_give_their_memory_back() {
    let store = store(100_000);
    fill(&store, 0..5_000).await;
    let sweeping = tokio::spawn(store.clone().sweep());
    advance(Duration::from_secs(2 * 3_600)).await;
    // A pass through all shards.
    for _ in 0..70 {
        advance(Duration::from_secs(1)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    let usage = store.usage();
    assert_eq!((usage.entries, usage.bytes, usage.evicted), (0, 0, 0));
    sweeping.abort();
}
