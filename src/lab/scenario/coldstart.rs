//! `coldstart`: the cache is empty and everybody comes at once, for many keys.
//!
//! Two callers a key: so each key is wanted by somebody who rebuilds it and by somebody who waits for that. Without a budget the origin
//! gets a query for each key at once, more than it has connections; what it then does is its own affair, here they queue. With a budget of as many
//! rebuilds as it has connections, callers queue at drover instead. The strategies go one after the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Plan, World, draws};
use crate::lab::human::{count, time};
use crate::lab::measure::{Herd, Sample};
use crate::lab::origin::Origin;
use crate::lab::own_server::{BUDGET, PATIENT};
use crate::lab::strategy::{Kind, Strategy};

/// Callers that want each key.
const CALLERS_A_KEY: usize = 2;
/// What a namespace with a budget is called.
const WITH_BUDGET: &str = "with a budget";

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    let mut herds = Vec::new();
    for &kind in &plan.strategies {
        // Early expiry has nothing to do with values that are not there.
        if matches!(kind, Kind::Xfetch | Kind::XfetchLock) {
            continue;
        }
        let origin = Arc::new(Origin::new(plan.query, plan.connections));
        let strategy = match kind {
            Kind::Drover => world.drover(PATIENT, &origin, plan.lives)?,
            _ => world.strategy(kind, &origin, plan.lives)?,
        };
        herds.push(one(kind, "", plan, world, origin, strategy).await?);
        if kind == Kind::Drover && world.is_own {
            let origin = Arc::new(Origin::new(plan.query, plan.connections));
            let strategy = world.drover(BUDGET, &origin, plan.lives)?;
            herds.push(one(kind, WITH_BUDGET, plan, world, origin, strategy).await?);
        }
    }
    Ok(herds)
}

async fn one(
    kind: Kind,
    variant: &'static str,
    plan: &Plan,
    world: &World,
    origin: Arc<Origin>,
    strategy: Strategy,
) -> anyhow::Result<Herd> {
    let keys = plan.callers.div_ceil(CALLERS_A_KEY);
    let bar = world.bars.add(kind, plan.callers as u64);
    let (let_go, gate) = watch::channel(None::<Instant>);
    let mut herd = JoinSet::new();
    for caller in 0..plan.callers {
        let (strategy, mut gate, mut rng) = (strategy.clone(), gate.clone(), draws(plan.seed, caller));
        let key = world.key(&format!("coldstart/{variant}/{}", caller % keys));
        herd.spawn(async move {
            let began = gate.wait_for(Option::is_some).await.ok().and_then(|began| *began);
            let got = strategy.get(&key, &mut rng).await;
            Sample {
                took: began.map_or(Duration::ZERO, |began| began.elapsed()),
                got,
            }
        });
    }
    let_go.send_replace(Some(origin.begin()));
    let mut samples = Vec::with_capacity(plan.callers);
    while let Some(sample) = herd.join_next().await {
        samples.push(sample?);
        bar.inc(1);
        bar.set_message(format!("{} at the origin", count(origin.running() as u64)));
    }
    strategy.settle().await;
    bar.finish();
    let herd = Herd::new(kind, samples, origin.queries(), strategy.background_trouble());
    Ok(Herd { variant, ..herd })
}

/// What was seen.
pub fn say(plan: &Plan, herds: &[Herd]) -> String {
    let keys = plan.callers.div_ceil(CALLERS_A_KEY);
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
