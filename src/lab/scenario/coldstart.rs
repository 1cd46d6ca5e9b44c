//! `coldstart`: the cache is empty and everybody comes at once, for many keys.
//!
//! Two callers a key: so each key is wanted by somebody who rebuilds it and by somebody who waits for that. Without a budget the origin
//! gets a query for each key at once, more than it has connections; what it then does is its own affair, here they queue. With a budget of as many
//! rebuilds as it has connections, callers queue at drover instead. The strategies go one after the other.

use super::trial::Trial;
use super::{Plan, World, of, said_one_by_one};
use crate::lab::human::{count, counted, time};
use crate::lab::measure::Herd;
use crate::lab::own_server::{BUDGET, PATIENT};
use crate::lab::strategy::Kind;

/// Callers that want each key.
const CALLERS_A_KEY: usize = 2;
/// What a namespace with a budget is called.
const WITH_BUDGET: &str = "with a budget";

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    let mut herds = Vec::new();
    for &kind in &plan.strategies {
        let trials = match kind {
            // Early expiry has nothing to do with values that are not there.
            Kind::Xfetch | Kind::XfetchLock => continue,
            Kind::Drover if world.is_own => vec![
                Trial::of_drover(PATIENT, "", plan, world)?,
                Trial::of_drover(BUDGET, WITH_BUDGET, plan, world)?,
            ],
            _ => vec![Trial::new(kind, plan, world)?],
        };
        for (at, trial) in trials.into_iter().enumerate() {
            let key = |caller| world.key(&format!("coldstart/{at}/{}", caller % keys(plan)));
            herds.push(trial.all_at_once(key).await?);
        }
    }
    anyhow::ensure!(
        !herds.is_empty(),
        "`coldstart` compares `none`, `lock` and `drover`; name one of them"
    );
    Ok(herds)
}

fn keys(plan: &Plan) -> usize {
    plan.callers.div_ceil(CALLERS_A_KEY)
}

/// What was seen.
pub fn say(plan: &Plan, herds: &[Herd]) -> String {
    let capacity = plan.query.mul_f64(keys(plan) as f64 / plan.connections as f64);
    let line = |herd: &Herd| {
        format!(
            "{}, at most {} at once, done in {:.2} times that",
            counted(herd.queried(), "query", "queries"),
            count(herd.most_at_once()),
            herd.last_query().as_secs_f64() / capacity.as_secs_f64().max(f64::MIN_POSITIVE)
        )
    };
    let needs = format!(
        "The origin needs {} for {}.",
        time(capacity),
        counted(keys(plan) as u64, "key", "keys")
    );
    let budget = herds.iter().find(|herd| herd.variant == WITH_BUDGET);
    match (of(herds, Kind::None), of(herds, Kind::Drover), budget) {
        (Some(none), Some(drover), Some(budget)) => format!(
            "{needs} Unprotected, it got {}. With drover: {}. With a budget of {}: {}.",
            line(none),
            line(drover),
            counted(plan.connections as u64, "rebuild", "rebuilds"),
            line(budget)
        ),
        _ => format!("{needs} {}", said_one_by_one(herds, line)),
    }
}
