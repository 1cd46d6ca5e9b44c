//! What only a Cluster can do.

use super::Rhythm;
use super::stores::{linked, role};
use crate::checker::model::Kind;
use crate::field::{Field, Shared, pass};
use crate::support::{Cluster, PATIENCE, Server};

fn cluster(field: &mut Field) -> &mut Cluster {
    match &mut field.shared {
        Shared::Cluster(cluster) => cluster,
        _ => panic!("this fault needs a Cluster"),
    }
}

/// One partition after the other moves to the next node, with what it has, while it is used. Nothing is lost by that.
pub async fn slot_migration(field: &mut Field, rhythm: &mut Rhythm) {
    let mut moved = 0;
    while rhythm.goes_on(1_000).await {
        let partition = rhythm.one_of(16);
        // While a slot is between two nodes, a script that names several of its keys is told to try again.
        let away = field.recorder.begin(Kind::Away(None));
        let name = format!("{{drover.{partition}}}:h");
        let migrated = tokio::task::block_in_place(|| migrate(cluster(field), &name));
        field.recorder.end(away);
        match migrated {
            Ok(keys) => moved += keys,
            Err(problem) => {
                let what = format!("partition {partition} does not migrate: {problem}");
                field.recorder.wrong(what);
            }
        }
    }
    if moved == 0 {
        field.recorder.wrong("no key migrated".to_owned());
    }
}

/// How many keys went with it.
fn migrate(cluster: &Cluster, key: &str) -> redis::RedisResult<usize> {
    let nodes = &cluster.primaries;
    let slot: u16 = nodes[0].command(&["CLUSTER", "KEYSLOT", key])?;
    let slot = slot.to_string();
    let ids: Vec<String> = nodes
        .iter()
        .map(|node| node.command(&["CLUSTER", "MYID"]))
        .collect::<Result<_, _>>()?;
    let from = nodes.iter().position(|node| owns(node, &slot)).unwrap_or_default();
    let to = (from + 1) % nodes.len();
    nodes[to].command::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[from]])?;
    nodes[from].command::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[to]])?;
    let port = nodes[to].port().to_string();
    // More come while these go.
    let mut moved = 0;
    for _ in 0..1_000 {
        let keys: Vec<String> = nodes[from].command(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])?;
        if keys.is_empty() {
            break;
        }
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        nodes[from].command::<()>(&words)?;
        moved += keys.len();
    }
    for node in [&nodes[to], &nodes[from]].into_iter().chain(nodes) {
        node.command::<()>(&["CLUSTER", "SETSLOT", &slot, "NODE", &ids[to]])?;
    }
    Ok(moved)
}

fn owns(node: &Server, slot: &str) -> bool {
    let nodes: String = node.ask(&["CLUSTER", "NODES"]);
    let Some(own) = nodes.lines().find(|line| line.contains("myself")) else {
        return false;
    };
    let slot: u16 = slot.parse().unwrap_or_default();
    let mut ranges = own.split_whitespace().skip(8);
    ranges.any(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let read = |text: &str| text.parse::<u16>().ok();
        matches!((read(first), read(last)), (Some(first), Some(last)) if (first..=last).contains(&slot))
    })
}

/// A primary dies, its replica takes its place, and it comes back as the replica of that.
pub async fn node_killed(field: &mut Field, rhythm: &mut Rhythm) {
    while rhythm.goes_on(5_000).await {
        let number = rhythm.one_of(3);
        let failover = field.recorder.begin(Kind::Failover);
        pass(1_000).await;
        let away = field.recorder.begin(Kind::Away(None));
        let cluster = cluster(field);
        tokio::task::block_in_place(|| cluster.primaries[number].kill());
        let begun = tokio::time::Instant::now();
        while role(&cluster.replicas[number][0]) != "master" {
            assert!(begun.elapsed() < PATIENCE, "no replica is promoted");
            pass(20).await;
        }
        // The other nodes hear of it, and clients from them.
        pass(300).await;
        field.recorder.end(away);
        field.recorder.end(failover);
        let cluster = self::cluster(field);
        let Cluster { primaries, replicas } = cluster;
        tokio::task::block_in_place(|| primaries[number].restart());
        std::mem::swap(&mut primaries[number], &mut replicas[number][0]);
        let begun = tokio::time::Instant::now();
        while linked(&replicas[number][0]) != "up" {
            assert!(begun.elapsed() < PATIENCE, "the old primary does not follow");
            pass(50).await;
        }
    }
}
