//! Thousands of short lives of the service, each decided by a seed, and a checker that looks at what its clients saw.
//!
//! ```text
//!  clients ──▶ coordinators (1–2) ──▶ Faulty, one a replica ──▶ Tap (account) ──▶ embedded store
//!     └────────▶ history ──▶ checker ◀── account ──────────────────┘
//! ```
//!
//! Time is tokio's, paused: a run of a minute takes milliseconds, and the same seed gives the same run. More seeds, or one alone:
//!
//! ```text
//!  DROVER_SIM_SEEDS=100000 cargo test --test simulation every_seed
//!  DROVER_SIM_SEED=4711    cargo test --test simulation every_seed -- --nocapture
//! ```

// Every task ends with the runtime of its run, and the number of seeds is no setting of the service.
#![allow(clippy::disallowed_methods)]

mod bugs;
mod checker;
mod client;
mod history;
mod plan;
#[path = "../checker/mod.rs"]
mod shared;
mod told;
mod truth;
mod worker;
mod world;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use drover::coordinator::Error;
use drover::decision::{Answer, Cause, ReportAnswer};
use drover::store::StoreError;

use crate::checker::{Violation, check};
use crate::history::Ended;
use crate::plan::Plan;
use crate::world::{Run, Sabotage, run};

/// As many seeds, unless the environment says otherwise.
const SEEDS: u64 = 2_000;

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is to be a number, not {text:?}")),
    )
}

/// Runs seeds until one fails; on all processors.
fn first_failure(seeds: std::ops::Range<u64>, sabotage: &Sabotage) -> Option<(u64, Violation)> {
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            if let Err(violation) = check(&run(Plan::of(seed), sabotage)) {
                next.store(seeds.end, Ordering::Relaxed);
                let mut failed = failed.lock().expect("no panic while it is held");
                if failed.as_ref().is_none_or(|(first, _)| seed < *first) {
                    *failed = Some((seed, violation));
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    failed.into_inner().expect("no panic while it was held")
}

/// What happened in a run, a line a call.
fn tell(run: &Run) {
    println!("{:#?}", run.plan);
    for call in &run.records.calls {
        println!("{call:?}");
    }
    for done in &run.account {
        println!("{done:?}");
    }
    for (replica, moment, what) in &run.records.watched {
        println!("watcher {replica} at {moment:?}: {what:?}");
    }
    println!(
        "jumps {:?}, downs {:?}, drained {:?}",
        run.records.jumps, run.records.downs, run.records.drained
    );
}

#[test]
fn every_seed_keeps_every_promise() {
    if let Some(seed) = number("DROVER_SIM_SEED") {
        let run = run(Plan::of(seed), &Sabotage::none());
        tell(&run);
        if let Err(violation) = check(&run) {
            panic!("seed {seed}: {violation}");
        }
        return;
    }
    let seeds = number("DROVER_SIM_SEEDS").unwrap_or(SEEDS);
    if let Some((seed, violation)) = first_failure(0..seeds, &Sabotage::none()) {
        panic!(
            "seed {seed} breaks a promise. {violation}\n\nTo see all of it:\n  \
             DROVER_SIM_SEED={seed} cargo test --test simulation every_seed -- --nocapture\n"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    for seed in 0..120 {
        let [one, other] = [(), ()].map(|()| run(Plan::of(seed), &Sabotage::none()));
        let (one, other) = (one.story(), other.story());
        let differ = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        assert_eq!((differ, one.len()), (None, other.len()), "seed {seed}");
    }
}

/// A checker that is shown nothing finds nothing.
#[test]
fn the_seeds_bring_about_whatever_a_client_can_see() {
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        for call in run(Plan::of(seed), &Sabotage::none()).records.calls {
            let end = match call.ended {
                Some((_, Ended::Acquired(acquired))) if acquired.degraded => match acquired.answer {
                    Answer::Rebuild(_) => "rebuild alone",
                    Answer::Hit(_) => "hit alone",
                    _ => "nothing alone",
                },
                Some((_, Ended::Acquired(acquired))) => match acquired.answer {
                    Answer::Rebuild(rebuild) => rebuild.cause.as_str(),
                    answer => answer.as_str(),
                },
                Some((_, Ended::Reported(reported))) if reported.degraded => "reported alone",
                Some((_, Ended::Reported(reported))) => match reported.answer {
                    ReportAnswer::Accepted { .. } => "accepted",
                    ReportAnswer::Rejected(why) => why.as_str(),
                },
                Some((_, Ended::Renewed(renewed))) => renewed.lost.map_or("renewed", |why| why.as_str()),
                Some((_, Ended::Invalidated(done))) if done.confirmed => "confirmed",
                Some((_, Ended::Invalidated(_))) => "invalidated, not confirmed",
                Some((_, Ended::Failed(Error::Store(StoreError::Unknown(_))))) => "fate unknown",
                Some((_, Ended::Failed(Error::Store(_)))) => "store unavailable",
                Some((_, Ended::Failed(Error::Draining))) => "draining",
                Some((_, Ended::Failed(error))) => panic!("seed {seed}: {error}"),
                Some((_, Ended::Pulled(task))) => match task.cause {
                    Cause::Takeover => "given to a worker after another",
                    Cause::Scheduled => "given to a worker as planned",
                    _ => "given to a worker",
                },
                Some((_, Ended::Aborted)) => "aborted",
                None => "without an end",
            };
            seen.insert(end);
        }
    }
    let all = [
        "miss",
        "expired",
        "stale",
        "invalidated",
        "early",
        "forced",
        "takeover",
        "lost",
        "hit_fresh",
        "hit_stale",
        "busy",
        "backoff",
        "accepted",
        "superseded",
        "unknown_lease",
        "no_value",
        "renewed",
        "max_hold",
        "reported",
        "confirmed",
        "invalidated, not confirmed",
        "fate unknown",
        "store unavailable",
        "draining",
        "aborted",
        "given to a worker",
        "given to a worker after another",
        "given to a worker as planned",
        "rebuild alone",
        "hit alone",
        "nothing alone",
        "reported alone",
    ];
    let missing: Vec<_> = all.iter().filter(|end| !seen.contains(**end)).collect();
    assert!(
        missing.is_empty() && !seen.contains("without an end"),
        "never {missing:?}; seen {seen:?}"
    );
}
