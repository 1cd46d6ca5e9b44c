//! `burst`: a herd meets an empty key, all at once.
//!
//! The strategies go one after the other: none disturbs another.

use super::trial::Trial;
use super::{Plan, World, of, said_one_by_one};
use crate::lab::human::{counted, time};
use crate::lab::measure::Herd;
use crate::lab::strategy::Kind;

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    let (mut herds, key) = (Vec::new(), world.key("burst"));
    for &kind in &plan.strategies {
        herds.push(Trial::new(kind, plan, world)?.all_at_once(|_| key.clone()).await?);
    }
    Ok(herds)
}

/// What was seen.
pub fn say(herds: &[Herd]) -> String {
    let line = |herd: &Herd| {
        let queries = counted(herd.queried(), "query", "queries");
        (queries, time(herd.slowest()))
    };
    match (of(herds, Kind::None), of(herds, Kind::Drover)) {
        (Some(none), Some(drover)) => {
            let ((many, long), (few, short)) = (line(none), line(drover));
            format!(
                "Unprotected, one missing value cost the origin {many} and its slowest caller {long}. With drover it cost {few}, \
                 and the slowest caller had the value after {short}, of which the query itself took {}.",
                time(drover.longest_query())
            )
        }
        _ => said_one_by_one(herds, |herd| {
            let (queries, slowest) = line(herd);
            format!("{queries}, slowest caller {slowest}")
        }),
    }
}
