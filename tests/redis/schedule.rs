//! The schedule where only Redis has it so: demand, which replicas tell each other, and a Cluster of which a part is away.

use std::time::Duration;

use drover::decision::{Content, Draft, Drafted, Key, Refresh, Seq, Span, Value, When};
use drover::store::{Claim, Commit, Outcome, Plan, Want};

use crate::support::Cluster;
use crate::world::{Replica, World};

const SECOND: Duration = Duration::from_secs(1);

/// Writes a value whose refresh is due now.
async fn store_due(replica: &Replica, key: &Key) {
    let value: Value<Drafted> = Value {
        version: Seq(1),
        since: Seq(1),
        content: Content::NotFound,
        stored_at: When::now(),
        fresh_until: When::after(60 * SECOND),
        stale_while_revalidate: Span::ZERO,
        stale_if_error: Span::ZERO,
        labels: None,
    };
    let loaded = replica.store.load(key, &[], Want::default()).await.expect("an answer");
    let draft = Draft {
        value: Some(value),
        refresh: Refresh::NONE.with_gap(60 * SECOND),
        ..loaded.snapshot.entry.draft()
    };
    let done = replica.store.commit(Commit::new(key, &loaded, draft)).await;
    assert!(matches!(done, Ok(Outcome::Committed(_))), "{done:?}");
}

/// Each key that is due, and whether it was asked for.
async fn claimed(replica: &Replica) -> Vec<(String, bool)> {
    let claim = Claim {
        namespace: "shop".into(),
        prefixes: Vec::new(),
        most: 10,
        hold: Duration::ZERO,
    };
    let tasks = replica.store.claim(claim).await.expect("an answer").tasks;
    let mut keys: Vec<_> = tasks
        .iter()
        .map(|task| (task.key.name().to_owned(), task.asked_for))
        .collect();
    keys.sort_unstable();
    keys
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_for_at_one_replica_is_known_to_the_one_that_claims_it_once_and_for_one_value() {
    let world = World::single().await;
    let (one, other) = (world.replica().await, world.replica().await);
    let workers = [("shop".into(), 1)];
    one.store.staff(1, &workers, 60 * SECOND).await.expect("an answer");
    let keys = ["asked", "not asked", "replaced"].map(|name| Key::new("shop", name));
    for key in &keys {
        store_due(&one, key).await;
    }
    let unknown = Key::new("shop", "without a task");
    let asked = vec![keys[0].clone(), keys[2].clone(), unknown];
    other.store.asked(asked).await.expect("an answer");
    store_due(&other, &keys[2]).await;
    let found = |asked: bool| {
        let all = [("asked", asked), ("not asked", false), ("replaced", false)];
        all.map(|(name, asked)| (name.to_owned(), asked)).to_vec()
    };
    assert_eq!(claimed(&one).await, found(true));
    assert_eq!(claimed(&other).await, found(false), "it was taken off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_on_the_other_nodes_of_a_cluster_is_claimed_while_one_is_away() {
    let mut cluster = Cluster::with(0, &["cluster-require-full-coverage no"]);
    let replica = Replica::at(&cluster.url()).await;
    let keys = (0..100).map(|number| (Key::new("shop", &format!("k{number}")), Duration::ZERO));
    let plan = Plan {
        namespace: "shop".into(),
        keys: keys.collect(),
        only_if_missing: false,
        traceparent: None,
        most: 1_000,
    };
    assert_eq!(replica.store.schedule(plan).await.expect("an answer").new, 100);
    cluster.primaries[2].kill();
    let claim = Claim {
        namespace: "shop".into(),
        prefixes: Vec::new(),
        most: 200,
        hold: 60 * SECOND,
    };
    let claimed = replica.store.claim(claim).await.expect("two of three nodes answer");
    assert!((34..100).contains(&claimed.tasks.len()), "{}", claimed.tasks.len());
}
