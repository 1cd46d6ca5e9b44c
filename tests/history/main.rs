//! Real replicas of drover over a real Redis, real clients over real connections, and everything that goes wrong; what the clients saw is
//! held against the twelve invariants.
//!
//! ```text
//!  clients ──▶ cable ──▶ drover × 3 ──▶ cable ──▶ Redis
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

mod calls;
mod client;
mod faults;
mod field;
mod names;
mod proxy;
mod recorder;
mod replica;
mod round;
mod table;
mod watcher;

use std::time::Duration;

use tokio::sync::Mutex;

use crate::faults::Fault;
use crate::round::Measure;

/// One run at a time: what they measure is time.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn keeps_every_promise(fault: Fault) {
    let _alone = ALONE.lock().await;
    let seed = match std::env::var("DROVER_HISTORY_SEED") {
        Ok(text) => text.parse().expect("DROVER_HISTORY_SEED is to be a number"),
        Err(_) => rand::random::<u32>().into(),
    };
    let measure = Measure {
        seed,
        length: Duration::from_secs(5),
        clients: 24,
        pause: Duration::from_millis(20),
        slack: Duration::from_millis(500),
    };
    let round = round::run(fault, measure).await;
    println!("seed {seed}\n{}\n{}", table::head(), table::line(&round));
    print!("{}", table::details(&round));
    assert_eq!(round.found.count, 0, "seed {seed}: {}", table::details(&round));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_breaks_one_replica() {
    keeps_every_promise(Fault::OneReplica).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_breaks() {
    keeps_every_promise(Fault::Nothing).await;
}
