//! What calls cost at Redis, by its own count of commands.

use std::sync::Arc;
use std::time::{Duration, Instant};

use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::{AcquireRebuildRequest, RenewLeaseRequest};
use tokio::task::JoinSet;

use crate::fleet::{Calls, Fleet, Granted as _, acquire, report};
use crate::support::until;

/// Trips since the last look. What a replica does once a second or more rarely is told apart: reading the log, looking after partitions.
fn trips(fleet: &Fleet) -> (u64, u64) {
    let text: String = fleet.server.ask(&["INFO", "commandstats"]);
    let (mut calls, mut reads) = (0, 0);
    for line in text.lines() {
        let Some((name, rest)) = line
            .strip_prefix("cmdstat_")
            .and_then(|line| line.split_once(":calls="))
        else {
            continue;
        };
        let count: u64 = rest
            .split(',')
            .next()
            .and_then(|count| count.parse().ok())
            .unwrap_or_default();
        // What a script runs is counted too; a trip is what comes over the wire.
        match name {
            "evalsha" | "eval" | "script|load" | "ping" | "unwatch" | "scan" | "xrange" => calls += count,
            "xread" => reads += count,
            _ => {}
        }
    }
    fleet.server.ask::<()>(&["CONFIG", "RESETSTAT"]);
    (calls, reads)
}

/// The calls of one act, the regular ones subtracted by waiting for a moment in which there are none.
async fn cost<T>(fleet: &Fleet, act: impl AsyncFnOnce() -> T) -> (T, u64) {
    trips(fleet);
    let done = act().await;
    (done, trips(fleet).0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_an_answer_a_report_and_a_renewal_cost_one_trip_each() {
    let fleet = Fleet::of(2).await;
    let (one, other) = (fleet.calls(0).await, fleet.calls(1).await);
    // The first call of all learns the store's time and the scripts.
    acquire(&one, "warm").await;
    acquire(&other, "warm").await;

    let (lease, granted) = cost(&fleet, async || acquire(&one, "a").await.granted()).await;
    assert_eq!(granted, 1, "a cold grant");
    let renew = RenewLeaseRequest {
        lease_id: lease.clone(),
        namespace: "shop".to_owned(),
        key: "a".to_owned(),
        ..Default::default()
    };
    let (renewed, trips) = cost(&fleet, async || one.clone().renew_lease(renew).await).await;
    assert_eq!((renewed.is_ok(), trips), (true, 1), "a renewal");
    let (taken, reported) = cost(&fleet, async || report(&one, "a", &lease, "value").await).await;
    assert_eq!((taken, reported), (true, 1), "a report");
    let (decision, answered) = cost(&fleet, async || acquire(&one, "a").await.decision).await;
    assert!(matches!(decision, Some(Decision::Hit(_))), "{decision:?}");
    assert_eq!(answered, 1, "a fresh answer, of a key that this replica knows");
    let (decision, answered) = cost(&fleet, async || acquire(&other, "a").await.decision).await;
    assert!(matches!(decision, Some(Decision::Hit(_))), "{decision:?}");
    assert_eq!(answered, 1, "and of one that it does not");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_on_an_expired_entry_costs_one_trip_where_this_replica_saw_it_last_and_else_two() {
    let fleet = Fleet::of(2).await;
    let (one, other) = (fleet.calls(0).await, fleet.calls(1).await);
    acquire(&other, "warm").await;
    for key in ["a", "b"] {
        let lease = acquire(&one, key).await.granted();
        assert!(fleet.report_for(&one, key, &lease, Duration::from_millis(50)).await);
    }
    tokio::time::sleep(Duration::from_millis(120)).await;
    let (_, same) = cost(&fleet, async || acquire(&one, "a").await.granted()).await;
    let (_, another) = cost(&fleet, async || acquire(&other, "b").await.granted()).await;
    assert_eq!((same, another), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_costs_its_namespace_a_trip_a_lease_s_beginning_and_end_and_a_closed_circuit_costs_nothing() {
    let fleet = Fleet::with(1, |policy| policy.max_concurrent_rebuilds = 5).await;
    let calls = fleet.calls(0).await;
    // The first calls learn the store's time and the scripts.
    let lease = acquire(&calls, "warm").await.granted();
    assert!(report(&calls, "warm", &lease, "value").await);
    acquire(&calls, "warm").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let (lease, granted) = cost(&fleet, async || acquire(&calls, "a").await.granted()).await;
    assert_eq!(granted, 2, "a place, and the grant");
    let (taken, reported) = cost(&fleet, async || {
        let taken = report(&calls, "a", &lease, "value").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        taken
    })
    .await;
    assert_eq!((taken, reported), (true, 2), "the report, and the place on the side");
    let (decision, answered) = cost(&fleet, async || acquire(&calls, "a").await.decision).await;
    assert!(matches!(decision, Some(Decision::Hit(_))), "{decision:?}");
    assert_eq!(answered, 1, "a fresh answer");
}

/// Reading the log is counted too. Each replica reads it once a second and looks after those who are parked once a second: that is six trips a
/// second, and all that grows with time; nothing grows with the herd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_herd_of_ten_thousand_at_three_replicas_costs_at_most_thirty_trips() {
    const HERD: usize = 10_000;
    let fleet = Arc::new(Fleet::of(3).await);
    let mut connections = Vec::new();
    for replica in 0..3 {
        for _ in 0..10 {
            connections.push(fleet.calls(replica).await);
        }
        acquire(&connections[connections.len() - 1], "warm").await;
    }
    trips(&fleet);
    let began = Instant::now();
    let mut herd = JoinSet::new();
    for number in 0..HERD {
        let calls = connections[number % connections.len()].clone();
        herd.spawn(one_of_the_herd(fleet.clone(), calls, HERD - 1));
    }
    let rebuilds: u32 = herd.join_all().await.into_iter().sum();
    let seconds = began.elapsed().as_secs_f64();
    let (calls, reads) = trips(&fleet);
    println!("herd: {rebuilds} rebuild(s), {calls} calls and {reads} reads of the log in {seconds:.1} s");
    assert_eq!(rebuilds, 1);
    let most = 12 + 6 * seconds.ceil() as u64;
    assert!(
        calls + reads <= most,
        "{calls} calls and {reads} reads of the log in {seconds:.1} s; at most {most}"
    );
}

/// Asks; whoever may rebuild reports after two seconds, or later if it takes longer until all others are parked. How many rebuilds.
async fn one_of_the_herd(fleet: Arc<Fleet>, mut calls: Calls, others: usize) -> u32 {
    let question = AcquireRebuildRequest {
        namespace: "shop".to_owned(),
        key: "hot".to_owned(),
        wait: Some(prost_types::Duration { seconds: 9, nanos: 0 }),
        lease_ttl: Some(prost_types::Duration { seconds: 60, nanos: 0 }),
        ..Default::default()
    };
    let answer = calls.acquire_rebuild(question).await.expect("an answer").into_inner();
    let lease = match answer.decision.expect("a decision") {
        Decision::Rebuild(rebuild) => rebuild.lease.expect("a lease").lease_id,
        Decision::Hit(_) => return 0,
        other => panic!("{other:?}"),
    };
    tokio::time::sleep(Duration::from_secs(2)).await;
    let parked = || fleet.replicas.iter().map(|replica| replica.parked()).sum::<usize>() == others;
    until("all others are parked", parked).await;
    assert!(report(&calls, "hot", &lease, "value").await);
    1
}
