//! Real replicas of drover over a real Redis, real clients over real connections, and everything that goes wrong; what the clients saw is
//! held against the twelve invariants.
//!
//! ```text
//!  clients,
//!  workers ──▶ cable ──▶ drover × 3 ──▶ cable ──▶ Redis
//!     └──────▶ history ──▶ checker      (faults: processes, cables, clocks, the store's own)
//! ```
//!
//! Here each fault has a few seconds. The long run, of which `tests/history/long --help` tells more, prints a table:
//!
//! ```text
//!  tests/history/long
//! ```

// Every task ends with the runtime of its run, and the clock of a history is nobody's to pause.
#![allow(clippy::disallowed_methods)]

#[path = "../checker/mod.rs"]
mod checker;
#[path = "../support/redis.rs"]
mod support;

mod bugs;
mod calls;
mod client;
mod faults;
mod field;
mod names;
mod proxy;
mod recorder;
mod replica;
mod rest;
mod round;
mod table;
mod watcher;
mod worker;

use std::io::Write as _;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::faults::Fault;
use crate::round::{Measure, Round};

/// One run at a time: what they measure is time.
static ALONE: Mutex<()> = Mutex::const_new(());

fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    let read = text.parse();
    Some(read.unwrap_or_else(|_| panic!("{name} is to be a number, not {text:?}")))
}

fn seed() -> u64 {
    setting("DROVER_HISTORY_SEED").unwrap_or_else(|| rand::random::<u32>().into())
}

/// A few seconds, on a machine that has other things to do.
async fn keeps_every_promise(fault: Fault) {
    let _alone = ALONE.lock().await;
    let measure = Measure {
        seed: seed(),
        length: setting("DROVER_HISTORY_SECONDS").map_or(fault.shortest(), Duration::from_secs),
        clients: 24,
        pause: Duration::from_millis(20),
        // What must not happen is held against it in full; how soon something must happen, on a machine that runs other tests at the same
        // time, loosely. The long run has the machine to itself.
        slack: Duration::from_secs(5),
        thorough: false,
    };
    let round = round::run(fault, measure).await;
    let details = table::details(&round, measure.seed);
    println!("{}\n{}\n\n{details}", table::head(), table::line(&round));
    keep(&round, measure.seed);
    assert_eq!(round.found.count, 0, "{details}");
}

/// Writes what is wrong to a file of its own, if somebody wants it.
fn keep(round: &Round, seed: u64) {
    let Ok(folder) = std::env::var("DROVER_HISTORY_KEEP") else {
        return;
    };
    if round.found.count > 0 {
        let file = format!("{folder}/{:?}-{seed}.txt", round.fault);
        let _ = std::fs::write(file, table::story(round, seed));
    }
}

/// The old primary comes back at once and empty, as under a supervisor, and until the sentinels tell it that it is a replica it takes writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_is_killed_under_sentinels() {
    keeps_every_promise(Fault::SentinelFailover).await;
}

/// Each fault for so long, in a row; the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it takes a quarter of an hour: tests/history/long"]
async fn the_long_run() {
    let _alone = ALONE.lock().await;
    let seed = seed();
    let measure = Measure {
        seed,
        length: Duration::from_secs(setting("DROVER_HISTORY_SECONDS").unwrap_or(25)),
        clients: 64,
        pause: Duration::from_millis(15),
        slack: Duration::from_secs(1),
        thorough: true,
    };
    let only = std::env::var("DROVER_HISTORY_ONLY").unwrap_or_default();
    let chosen = Fault::ALL.iter().filter(|fault| fault.as_str().contains(&only));
    println!("seed {seed}, {} s each\n\n{}", measure.length.as_secs(), table::head());
    let (mut rounds, mut details) = (Vec::new(), String::new());
    for fault in chosen {
        let round = round::run(*fault, measure).await;
        println!("{}", table::line(&round));
        let _ = std::io::stdout().flush();
        details.push_str(&table::details(&round, seed));
        keep(&round, seed);
        rounds.push(Round {
            history: round.history.without_calls(),
            ..round
        });
    }
    println!("{}\n{details}", table::foot(&rounds));
    let violations: usize = rounds.iter().map(|round| round.found.count).sum();
    let missed: Vec<String> = rounds.iter().flat_map(Round::misses).collect();
    assert!(
        violations == 0 && missed.is_empty(),
        "seed {seed}: {violations} violations, {missed:#?}"
    );
}

macro_rules! each {
    ($($name:ident: $fault:ident),* $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            keeps_every_promise(Fault::$fault).await;
        }
    )*};
}

each! {
    nothing_goes_wrong: Nothing,
    nothing_goes_wrong_with_one_replica_and_the_embedded_store: OneReplica,
    every_call_is_made_twice: CallsTwice,
    subscribers_are_slow: SlowSubscribers,
    a_replica_is_killed: ReplicaKilled,
    a_replica_is_stopped_for_less_than_a_lease: ReplicaStopped,
    a_replica_is_stopped_for_more_than_a_lease: ReplicaStoppedLong,
    the_replicas_are_restarted_in_turn: RollingRestart,
    redis_is_stopped_for_less_than_a_lease: RedisStopped,
    redis_is_stopped_for_more_than_a_lease: RedisStoppedLong,
    redis_is_killed_and_has_its_data: RedisKilled,
    redis_is_killed_and_is_empty: RedisEmptied,
    redis_is_flushed: FlushAll,
    the_scripts_are_flushed: ScriptFlush,
    memory_is_short: MemoryPressure,
    the_log_is_trimmed: LogTrimmed,
    a_replica_that_lags_becomes_the_primary: LaggingFailover,
    slots_of_a_cluster_migrate: SlotMigration,
    a_node_of_a_cluster_is_killed: NodeKilled,
    a_replica_and_redis_hear_each_other_one_way: StoreHalfOpen,
    a_replica_and_redis_hear_each_other_late: StoreStalled,
    a_replica_and_redis_lose_their_connections: StoreReset,
    clients_and_a_replica_hear_each_other_one_way: ClientHalfOpen,
    clients_and_a_replica_hear_each_other_late: ClientStalled,
    the_clocks_of_replicas_are_wrong: ReplicaClocks,
    the_clock_of_redis_is_set: RedisClock,
}
