//! `steady`: a herd reads some keys that expire again and again.
//!
//! The keys are filled first; neither that nor its queries are counted. The strategies run side by side, each with a cache and
//! an origin of its own: together they are a light load, and it is the same moment's machine for all.
//!
//! drover goes through it twice. The second time its callers only read: workers pull the refreshes, and what fills the keys is one
//! warming call (`ScheduleRefresh`).

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::{try_join, try_join_all};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::trial::Trial;
use super::{Plan, World, of, said_one_by_one};
use crate::lab::human::{count, counted, time};
use crate::lab::measure::{Herd, SLOW, Worked};
use crate::lab::own_server::WORKERS;
use crate::lab::strategy::drover::Drover;
use crate::lab::strategy::{Kind, Strategy};

/// What drover is called whose callers only read.
const WITH_WORKERS: &str = "with workers";
/// The warming call's rebuilds may take so much longer than the origin needs for them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs it.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Herd>> {
    let without = try_join_all(plan.strategies.iter().map(|&kind| one(kind, plan, world)));
    if plan.workers == 0 || !plan.strategies.contains(&Kind::Drover) {
        return without.await;
    }
    let with = with_workers(plan, world);
    let (mut herds, with) = match world.is_own {
        true => try_join(without, with).await?,
        // In one namespace with the others: there, who has workers asks no caller to refresh.
        false => (without.await?, with.await?),
    };
    herds.push(with);
    Ok(herds)
}

async fn one(kind: Kind, plan: &Plan, world: &World) -> anyhow::Result<Herd> {
    let trial = Trial::new(kind, plan, world)?;
    let keys = keys("steady", plan, world);
    trial.fill(&keys).await?;
    trial.again_and_again(keys, plan.duration, async |_| ()).await
}

fn keys(stem: &str, plan: &Plan, world: &World) -> Arc<[String]> {
    (0..plan.keys).map(|key| world.key(&format!("{stem}/{key}"))).collect()
}

async fn with_workers(plan: &Plan, world: &World) -> anyhow::Result<Herd> {
    let trial = Trial::of_drover(WORKERS, WITH_WORKERS, plan, world)?;
    let Strategy::Drover(drover) = &trial.strategy else {
        anyhow::bail!("only drover has workers");
    };
    let keys = keys("worked", plan, world);
    let mut workers = JoinSet::new();
    for _ in 0..plan.workers {
        let most = plan.connections.div_ceil(plan.workers);
        let pull = drover.register(&world.key("worked/"), most).await?;
        workers.spawn(drover.clone().work_off(pull));
    }
    drover.warm(&keys).await?;
    let rounds = u32::try_from(keys.len().div_ceil(plan.connections)).unwrap_or(u32::MAX);
    timeout(plan.query.saturating_mul(rounds) + PATIENCE, filled(drover, keys.len()))
        .await
        .context("workers did not rebuild what the warming call named")?;
    let warmed = trial.origin.count() as u64;

    let mut began = Instant::now();
    let herd = trial
        .again_and_again(keys, plan.duration, async |at| {
            began = at;
            sleep_until(at + plan.duration).await;
            workers.abort_all();
        })
        .await?;
    let worked = Worked::new(plan.workers, warmed, drover.ledger(), began, plan.duration, plan.query);
    Ok(Herd {
        worked: Some(worked),
        ..herd
    })
}

async fn filled(drover: &Drover, keys: usize) {
    while drover.ledger().keys() < keys {
        sleep(Duration::from_millis(5)).await;
    }
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
    let mut said = vec![match (of(herds, Kind::None), of(herds, Kind::Drover)) {
        (Some(none), Some(drover)) => format!(
            "Unprotected, each expiry sent up to {} queries at once to the origin: {}. With drover: {}.",
            count(none.most_at_once()),
            line(none),
            line(drover)
        ),
        _ => said_one_by_one(herds, line),
    }];
    said.extend(
        herds
            .iter()
            .filter_map(|herd| Some(say_worked(herd, herd.worked.as_ref()?))),
    );
    said.join(" ")
}

fn say_worked(herd: &Herd, worked: &Worked) -> String {
    let none_or = |number| match number {
        0 => "none".to_owned(),
        number => count(number),
    };
    format!(
        "With {}: of {} {} waited, {} saw an expired value, {} had to rebuild. The origin got {}, and {} before that for the one warming \
         call. The least that lifetimes and costs allow is {} (each rebuild begun at the last moment), or {} with the room that drover \
         leaves for one of twice its cost; no key was rebuilt more than {} beyond the least.",
        counted(worked.workers as u64, "worker", "workers"),
        counted(herd.requests(), "request", "requests"),
        none_or(worked.served.waited),
        none_or(worked.served.expired),
        none_or(worked.served.asked),
        counted(herd.queried(), "query", "queries"),
        count(worked.warmed),
        count(worked.least),
        count(worked.with_room),
        match worked.over {
            1 => "once".to_owned(),
            times => format!("{} times", count(times)),
        }
    )
}
