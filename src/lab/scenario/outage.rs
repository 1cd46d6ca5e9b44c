//! `outage`: the origin fails for a while under a herd that reads many keys.
//!
//! The values live shorter than the outage lasts. A query that fails takes as long as one that does not, and somebody waits for it: what the origin
//! gets while it is down is what keeps it down. The recipes have neither stale values nor back-off, as they are found. The strategies run side
//! by side, each with a cache and an origin of its own.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use rand::RngExt as _;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep, sleep_until};

use super::{Plan, World, draws};
use crate::lab::human::{count, counted, time};
use crate::lab::measure::{Herd, Sample};
use crate::lab::origin::Origin;
use crate::lab::strategy::{Kind, Strategy};

/// Keys that are read.
const KEYS: usize = 50;
/// How long all is well first.
pub const BEFORE: Duration = Duration::from_secs(3);
/// How long the origin fails.
pub const OUTAGE: Duration = Duration::from_secs(10);
/// By then each key has failed once.
const SETTLED: Duration = Duration::from_secs(3);
/// How long it is watched afterwards.
const AFTER: Duration = Duration::from_secs(12);
/// A caller asks again after a time drawn from this, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=100;

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    try_join_all(plan.strategies.iter().map(|&kind| one(kind, plan, world))).await
}

async fn one(kind: Kind, plan: &Plan, world: &World) -> anyhow::Result<Herd> {
    let origin = Arc::new(Origin::new(plan.query, plan.connections));
    let strategy = world.strategy(kind, &origin, plan.lives)?;
    let all = BEFORE + OUTAGE + AFTER;
    let bar = world.bars.add(kind, all.as_millis() as u64);
    let keys: Arc<[String]> = (0..KEYS).map(|key| world.key(&format!("outage/{key}"))).collect();
    let mut rng = draws(plan.seed, usize::MAX);
    for key in keys.iter() {
        strategy.get(key, &mut rng).await?;
        bar.set_message("filling");
    }
    strategy.settle().await;

    let began = origin.begin();
    let mut herd = JoinSet::new();
    for caller in 0..plan.callers {
        let (strategy, keys) = (strategy.clone(), keys.clone());
        herd.spawn(ask_again_and_again(strategy, keys, caller, plan.seed, began + all));
    }
    let failing = [(began + BEFORE, true), (began + BEFORE + OUTAGE, false)];
    let weather = async {
        for (at, fails) in failing {
            sleep_until(at).await;
            origin.set_failing(fails);
        }
        std::future::pending::<()>().await;
    };
    tokio::pin!(weather);
    let mut samples = Vec::new();
    let mut tick = interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            one = herd.join_next() => match one {
                Some(asked) => samples.extend(asked?),
                None => break,
            },
            () = &mut weather => {}
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
    keys: Arc<[String]>,
    caller: usize,
    seed: u64,
    until: Instant,
) -> Vec<Sample> {
    let mut rng = draws(seed, caller);
    let mut samples = Vec::new();
    sleep(Duration::from_millis(rng.random_range(0..=*PAUSE_MS.end()))).await;
    while Instant::now() < until {
        let key = &keys[rng.random_range(0..keys.len())];
        let asked = Instant::now();
        let got = strategy.get(key, &mut rng).await;
        samples.push(Sample {
            took: asked.elapsed(),
            got,
        });
        sleep(Duration::from_millis(rng.random_range(PAUSE_MS))).await;
    }
    samples
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
    let lines: Vec<String> = herds
        .iter()
        .map(|herd| {
            let (all, late) = during(herd);
            format!(
                "{}: {} while it failed, {} of them after its first {}, and {} without a value.",
                herd.kind.as_str(),
                counted(all, "query", "queries"),
                count(late),
                time(SETTLED),
                counted(herd.failed, "request", "requests")
            )
        })
        .collect();
    format!("The origin fails for {}. {}", time(OUTAGE), lines.join(" "))
}
