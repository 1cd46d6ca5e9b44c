//! What operators see.

use std::time::Duration;

use super::Harness;
use super::write::*;
use crate::decision::Key;
use crate::store::{Commit, Store};

/// Of one namespace or of all, and as they are now.
pub async fn leases_are_listed_while_they_live(harness: &impl Harness) {
    let store = harness.store();
    let (here, there, short) = (key("a"), Key::new("news", "a"), key("short"));
    grant(store, &here, &[]).await;
    grant(store, &there, &[]).await;
    let loaded = load(store, &short).await;
    let draft = with_lease(&loaded, Duration::from_millis(200), &[]);
    committed(store, Commit::new(&short, &loaded, draft)).await;
    committed(
        store,
        Commit::new(&key("without"), &load(store, &key("without")).await, kept_for(LONG)),
    )
    .await;
    assert_eq!(leases(&**store, Some("shop")).await, [here.clone(), short.clone()]);
    assert_eq!(leases(&**store, Some("news")).await, *std::slice::from_ref(&there));
    assert_eq!(leases(&**store, None).await, [there.clone(), here.clone(), short]);
    harness.pass(Duration::from_millis(250)).await;
    assert_eq!(leases(&**store, None).await, [there.clone(), here.clone()]);
    let loaded = load(store, &here).await;
    committed(store, Commit::new(&here, &loaded, marked(&loaded))).await;
    assert_eq!(leases(&**store, None).await, [there]);
}

/// Those that are gone count no more.
pub async fn the_census_counts_entries_and_live_leases_by_namespace(harness: &impl Harness) {
    let store = harness.store();
    grant(store, &key("a"), &[]).await;
    grant(store, &Key::new("news", "a"), &[]).await;
    for (name, length) in [("b", LONG), ("c", Duration::from_millis(200))] {
        let loaded = load(store, &key(name)).await;
        committed(store, Commit::new(&key(name), &loaded, kept_for(length))).await;
    }
    assert_eq!(
        census(&**store).await,
        [("news".to_owned(), 1, 1), ("shop".to_owned(), 3, 1)]
    );
    harness.pass(Duration::from_millis(250)).await;
    assert_eq!(
        census(&**store).await,
        [("news".to_owned(), 1, 1), ("shop".to_owned(), 2, 1)]
    );
}

async fn leases(store: &dyn Store, namespace: Option<&str>) -> Vec<Key> {
    let found = store.leases(namespace).await.expect("the store lists leases");
    let mut keys: Vec<Key> = found.iter().map(|snapshot| snapshot.key.clone()).collect();
    keys.sort_unstable();
    keys
}

async fn census(store: &dyn Store) -> Vec<(String, u64, u64)> {
    let found = store.census().await.expect("the store counts");
    let counted = found.into_iter().filter(|census| census.entries > 0);
    let mut counts: Vec<_> = counted
        .map(|census| (census.namespace, census.entries, census.leases))
        .collect();
    counts.sort_unstable();
    counts
}
