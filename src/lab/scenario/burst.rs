//! `burst`: a herd meets an empty key, all at once.
//!
//! Each caller's time counts from the one moment when the whole herd is let go, so what the machine needs to get them all
//! moving is part of it. The strategies go one after the other: none disturbs another.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Plan, World, draws, of, said_one_by_one};
use crate::lab::human::{counted, time};
use crate::lab::measure::{Herd, Sample};
use crate::lab::origin::Origin;
use crate::lab::strategy::Kind;

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    let mut herds = Vec::new();
    for &kind in &plan.strategies {
        herds.push(one(kind, plan, world).await?);
    }
    Ok(herds)
}

async fn one(kind: Kind, plan: &Plan, world: &World) -> anyhow::Result<Herd> {
    let origin = Arc::new(Origin::new(plan.query, plan.connections));
    let strategy = world.strategy(kind, &origin, plan.lives)?;
    let bar = world.bars.add(kind, plan.callers as u64);
    let key: Arc<str> = world.key("burst").into();
    let (let_go, gate) = watch::channel(None::<Instant>);

    let mut herd = JoinSet::new();
    for caller in 0..plan.callers {
        let (strategy, key, mut gate, mut rng) =
            (strategy.clone(), key.clone(), gate.clone(), draws(plan.seed, caller));
        herd.spawn(async move {
            let began = gate
                .wait_for(Option::is_some)
                .await
                .ok()
                .and_then(|began| *began)
                .unwrap_or_else(Instant::now);
            let got = strategy.get(&key, &mut rng).await;
            Sample {
                took: began.elapsed(),
                got,
            }
        });
    }
    let_go.send_replace(Some(origin.begin()));

    let mut samples = Vec::with_capacity(plan.callers);
    while let Some(sample) = herd.join_next().await {
        samples.push(sample?);
        bar.inc(1);
        bar.set_message(counted(origin.count() as u64, "query", "queries"));
    }
    strategy.settle().await;
    bar.finish();
    Ok(Herd::new(
        kind,
        samples,
        origin.queries(),
        strategy.background_trouble(),
    ))
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
