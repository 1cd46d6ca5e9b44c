//! `steady`: a herd reads a key that expires again and again.
//!
//! One call fills the key first; neither it nor its query is counted. The strategies run side by side, each with a cache and
//! an origin of its own: together they are a light load, and it is the same moment's machine for all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use rand::RngExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use super::{Plan, World, draws, of, said_one_by_one};
use crate::lab::human::{count, counted, time};
use crate::lab::measure::{Herd, SLOW, Sample};
use crate::lab::origin::Origin;
use crate::lab::strategy::{Kind, Strategy};

/// A caller asks again after a time drawn from this, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=100;

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    try_join_all(plan.strategies.iter().map(|&kind| one(kind, plan, world))).await
}

async fn one(kind: Kind, plan: &Plan, world: &World) -> anyhow::Result<Herd> {
    let origin = Arc::new(Origin::new(plan.query, plan.connections));
    let strategy = world.strategy(kind, &origin, plan.lives)?;
    let bar = world.bars.add(kind, plan.duration.as_millis() as u64);
    let key: Arc<str> = world.key("steady").into();
    strategy.get(&key, &mut draws(plan.seed, usize::MAX)).await?;
    strategy.settle().await;

    let began = origin.begin();
    let mut herd = JoinSet::new();
    for caller in 0..plan.callers {
        herd.spawn(ask_again_and_again(
            strategy.clone(),
            key.clone(),
            caller,
            plan.seed,
            began + plan.duration,
        ));
    }
    let mut samples = Vec::new();
    let mut tick = interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            one = herd.join_next() => match one {
                Some(asked) => samples.extend(asked?),
                None => break,
            },
            _ = tick.tick() => {
                bar.set_position(began.elapsed().as_millis() as u64);
                bar.set_message(counted(origin.count() as u64, "query", "queries"));
            }
        }
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

async fn ask_again_and_again(
    strategy: Strategy,
    key: Arc<str>,
    caller: usize,
    seed: u64,
    until: Instant,
) -> Vec<Sample> {
    let mut rng = draws(seed, caller);
    let mut samples = Vec::new();
    // Not all in step from the beginning.
    sleep(Duration::from_millis(rng.random_range(0..=*PAUSE_MS.end()))).await;
    while Instant::now() < until {
        let asked = Instant::now();
        let got = strategy.get(&key, &mut rng).await;
        samples.push(Sample {
            took: asked.elapsed(),
            got,
        });
        sleep(Duration::from_millis(rng.random_range(PAUSE_MS))).await;
    }
    samples
}

/// What was seen.
pub fn say(herds: &[Herd]) -> String {
    let line = |herd: &Herd| {
        let slow = match herd.slow() {
            0 => format!("no request took over {}", time(SLOW)),
            slow => format!("{} over {}", counted(slow, "request took", "requests took"), time(SLOW)),
        };
        format!("{} and {slow}", counted(herd.queried(), "query", "queries"))
    };
    match (of(herds, Kind::None), of(herds, Kind::Drover)) {
        (Some(none), Some(drover)) => format!(
            "Unprotected, each expiry sent up to {} queries at once to the origin: {}. With drover: {}.",
            count(none.most_at_once()),
            line(none),
            line(drover)
        ),
        _ => said_one_by_one(herds, line),
    }
}
