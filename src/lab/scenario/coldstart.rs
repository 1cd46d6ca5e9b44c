//! `coldstart`: the cache is empty and everybody comes at once, for many keys.
//!
//! Two callers a key: so each key is wanted by somebody who rebuilds it and by somebody who waits for that. Without a budget the origin
//! gets a query for each key at once, more than it has connections; what it then does is its own affair, here they queue. With a budget of as many
//! rebuilds as it has connections, callers queue at drover instead. The strategies go one after the other.

use super::trial::Trial;
use super::{Plan, World};
use crate::lab::human::{count, time};
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
    let keys = keys(plan);
    let capacity = plan.query.mul_f64(keys as f64 / plan.connections as f64);
    let mut said = vec![format!(
        "The origin needs {} for {} keys, {} at a time.",
        time(capacity),
        count(keys as u64),
        count(plan.connections as u64)
    )];
    said.extend(herds.iter().map(|herd| {
        let (took, most) = (herd.last_query(), herd.most_at_once());
        format!(
            "{}: {} queries, at most {} at once, the last one done after {} ({:.2} × that).",
            herd.name(),
            count(herd.queried()),
            count(most),
            time(took),
            took.as_secs_f64() / capacity.as_secs_f64().max(f64::MIN_POSITIVE)
        )
    }));
    said.join(" ")
}
