//! `outage`: the origin fails for a while under a herd that reads many keys.
//!
//! The values live shorter than the outage lasts. A query that fails takes as long as one that does not, and somebody waits for it: what the origin
//! gets while it is down is what keeps it down. The recipes have neither stale values nor back-off, as they are found. The strategies run side
//! by side, each with a cache and an origin of its own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::sleep_until;

use super::trial::Trial;
use super::{Plan, World, of, said_one_by_one};
use crate::lab::human::{count, counted, time};
use crate::lab::measure::Herd;
use crate::lab::strategy::Kind;

/// Keys that are read.
pub const KEYS: usize = 50;
/// How long all is well first.
pub const BEFORE: Duration = Duration::from_secs(3);
/// How long the origin fails.
pub const OUTAGE: Duration = Duration::from_secs(10);
/// By then each key has failed once.
pub const SETTLED: Duration = Duration::from_secs(3);
/// How long it is watched afterwards.
const AFTER: Duration = Duration::from_secs(12);

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    try_join_all(plan.strategies.iter().map(|&kind| one(kind, plan, world))).await
}

async fn one(kind: Kind, plan: &Plan, world: &World) -> anyhow::Result<Herd> {
    let trial = Trial::new(kind, plan, world)?;
    let keys: Arc<[String]> = (0..KEYS).map(|key| world.key(&format!("outage/{key}"))).collect();
    trial.fill(&keys).await?;
    let weather = |began| {
        let origin = trial.origin.clone();
        async move {
            for (at, fails) in [(BEFORE, true), (BEFORE + OUTAGE, false)] {
                sleep_until(began + at).await;
                origin.set_failing(fails);
            }
        }
    };
    trial.again_and_again(keys, BEFORE + OUTAGE + AFTER, weather).await
}

/// Queries that arrived while the origin failed; of them, those that did so after its first few seconds, in which each key has failed.
pub fn during(herd: &Herd) -> (u64, u64) {
    let within = |from: Duration| {
        let arrived = herd.queries.iter().map(|query| query.arrived);
        arrived.filter(|at| (from..BEFORE + OUTAGE).contains(at)).count() as u64
    };
    (within(BEFORE), within(BEFORE + SETTLED))
}

/// What was seen.
pub fn say(herds: &[Herd]) -> String {
    let line = |herd: &Herd| {
        let (all, late) = during(herd);
        format!(
            "{} while it failed, {} of them after the first {}, and {} without a value",
            counted(all, "query", "queries"),
            count(late),
            time(SETTLED),
            counted(herd.failed, "request", "requests")
        )
    };
    match (of(herds, Kind::None), of(herds, Kind::Drover)) {
        (Some(none), Some(drover)) => format!(
            "Unprotected, the origin got {}. With drover it got {}.",
            line(none),
            line(drover)
        ),
        _ => said_one_by_one(herds, line),
    }
}
