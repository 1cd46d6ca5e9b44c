//! Several primaries: one that is lost takes only its own partitions with it.

use std::time::Duration;

use drover::store::redis::link::Link;

use super::Linked;
use crate::support::{Cluster, Server, until};

/// The partitions that a node has, by its own map.
fn partitions_of(node: &Server) -> Vec<u16> {
    let has = |partition: &u16| {
        node.command::<Option<String>>(&["GET", &super::key(*partition)])
            .is_ok()
    };
    (0..16).filter(has).collect()
}

#[tokio::test]
async fn a_node_that_is_killed_takes_only_its_own_partitions_with_it() {
    let mut cluster = Cluster::with(0, &["cluster-require-full-coverage no"]);
    let linked = Linked::to(&cluster.url());
    for partition in 0..16 {
        linked.works(partition).await;
    }
    let lost = partitions_of(&cluster.primaries[0]);
    assert!(!lost.is_empty() && lost.len() < 16, "{lost:?}");
    cluster.primaries[0].kill();
    for partition in &lost {
        linked.refused(*partition).await;
    }
    for partition in (0..16).filter(|partition| !lost.contains(partition)) {
        assert_eq!(linked.put(partition, "1").await.as_deref(), Ok("done"), "{partition}");
    }
    assert_eq!(linked.link.watch().borrow().down(), lost.len());
    cluster.primaries[0].restart();
    for partition in 0..16 {
        linked.works(partition).await;
    }
    until("all are up", || linked.link.watch().borrow().down() == 0).await;
}

#[tokio::test]
async fn a_replica_that_takes_over_is_found() {
    let mut cluster = Cluster::start(1);
    let linked = Linked::to(&cluster.url());
    for partition in 0..16 {
        linked.works(partition).await;
    }
    let lost = partitions_of(&cluster.primaries[0]);
    cluster.primaries[0].kill();
    for partition in 0..16 {
        linked.works(partition).await;
    }
    assert!(lost.iter().all(|partition| linked.link.is_up(*partition)));
    assert_eq!(cluster.replicas[0][0].info("role"), "master");
}

#[tokio::test]
async fn a_slot_that_moves_is_followed_while_it_moves_and_after() {
    let cluster = Cluster::start(0);
    let linked = Linked::to(&cluster.url());
    linked.works(5).await;
    let slot: String = cluster.primaries[0]
        .ask::<u16>(&["CLUSTER", "KEYSLOT", &super::key(5)])
        .to_string();
    let [from, to] = {
        let from = (0..3)
            .find(|at| partitions_of(&cluster.primaries[*at]).contains(&5))
            .expect("somebody has it");
        [from, (from + 1) % 3].map(|at| &cluster.primaries[at])
    };
    let ids = [from, to].map(|node| node.ask::<String>(&["CLUSTER", "MYID"]));
    to.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]);
    from.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]);
    from.ask::<String>(&[
        "MIGRATE",
        "127.0.0.1",
        &to.port().to_string(),
        &super::key(5),
        "0",
        "5000",
    ]);
    // The slot is still the old node's, the key is at the new one: ASK, and once more for a script that the new one does not know.
    assert_eq!(linked.get::<String>(5).await.as_deref(), Ok("works"));
    assert_eq!(linked.put(5, "moved").await.as_deref(), Ok("done"));
    assert_eq!(to.calls("asking"), 4);
    for node in [to, from] {
        node.ask::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[1]]);
    }
    // And now it is the new node's: MOVED, once.
    assert_eq!(linked.get::<String>(5).await.as_deref(), Ok("moved"));
    assert_eq!(linked.put(5, "there").await.as_deref(), Ok("done"));
    assert_eq!(to.calls("asking"), 4);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(linked.get::<String>(5).await.as_deref(), Ok("there"));
    assert_eq!(Link::partitions(&linked.link), 16);
}
