//! `race`: a slow reader brings old data back after an invalidation.
//!
//! The interleaving: (1) a reader misses and queries slowly; (2) the data changes and the writer invalidates the key; (3) a
//! second reader asks; (4) the slow reader comes back and writes what it read before the change; (5) somebody reads. What
//! they get is what everybody gets until the value expires.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

use super::{Plan, World, draws};
use crate::lab::origin::{Origin, Query};
use crate::lab::strategy::{Kind, Strategy, Trouble};

/// The slow reader's query takes so many times as long.
const SLOWER: u32 = 4;

/// What happened to one strategy. Times count from the slow reader's question.
#[derive(Debug)]
pub struct Race {
    /// Which strategy.
    pub kind: Kind,
    /// The queries that reached the origin; the slow reader's is the first.
    pub queries: Vec<Query>,
    /// When the invalidation had answered.
    pub invalidated: Duration,
    /// What the second reader got.
    pub second: Read,
    /// Whether the slow reader's old value was refused.
    pub late_write_refused: bool,
    /// What readers get from then on.
    pub last: Read,
    /// The number of the changed data.
    pub newest: u64,
}

/// One read.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    /// When it asked.
    pub asked: Duration,
    /// When it had the answer.
    pub answered: Duration,
    /// The number of the data that it got.
    pub data: u64,
}

impl Race {
    /// Whether readers get the changed data in the end.
    pub fn new_stays(&self) -> bool {
        self.last.data == self.newest
    }
}

/// Runs it, the strategies side by side.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Race>> {
    let races = try_join_all(plan.strategies.iter().map(|&kind| one(kind, plan, world))).await?;
    Ok(races)
}

async fn one(kind: Kind, plan: &Plan, world: &World) -> anyhow::Result<Race> {
    let in_it = || format!("in the race of `{}`", kind.as_str());
    let origin = Arc::new(Origin::new(plan.query * SLOWER, plan.connections.max(2)));
    let strategy = world.strategy(kind, &origin, plan.lives)?;
    let key: Arc<str> = world.key("race").into();
    let bar = world.bars.add(kind, 4);
    let began = origin.begin();

    bar.set_message("a slow reader queries");
    let slow = tokio::spawn({
        let (strategy, key, mut rng) = (strategy.clone(), key.clone(), draws(plan.seed, 0));
        async move { strategy.get(&key, &mut rng).await }
    });
    sleep(plan.query / 2).await;
    while origin.queries().first().is_none_or(|query| query.began.is_none()) && !slow.is_finished() {
        sleep(Duration::from_millis(1)).await;
    }

    bar.inc(1);
    bar.set_message("the data changes, the key is invalidated");
    origin.set_query_time(plan.query);
    let newest = origin.change_data();
    strategy.invalidate(&key).await.with_context(in_it)?;
    let invalidated = began.elapsed();
    sleep(plan.query / 4).await;

    bar.inc(1);
    bar.set_message("a second reader asks");
    let second = read(&strategy, &key, began, plan.seed).await.with_context(in_it)?;

    bar.inc(1);
    bar.set_message("the slow reader comes back");
    slow.await?.with_context(in_it)?;
    strategy.settle().await;
    sleep(plan.query / 4).await;
    let queries = origin.queries();
    let last = read(&strategy, &key, began, plan.seed).await.with_context(in_it)?;
    strategy.settle().await;
    bar.finish();
    Ok(Race {
        kind,
        queries,
        invalidated,
        second,
        late_write_refused: strategy.refused() > 0,
        last,
        newest,
    })
}

async fn read(strategy: &Strategy, key: &str, began: Instant, seed: u64) -> Result<Read, Trouble> {
    let asked = began.elapsed();
    let data = strategy.get(key, &mut draws(seed, 1)).await?;
    Ok(Read {
        asked,
        answered: began.elapsed(),
        data,
    })
}

/// What was seen.
pub fn say(races: &[Race]) -> String {
    let names = |new: bool| {
        let those: Vec<_> = races
            .iter()
            .filter(|race| race.new_stays() == new)
            .map(|race| race.kind.as_str())
            .collect();
        match those.as_slice() {
            [] => None,
            [one] => Some((*one).to_owned()),
            [most @ .., last] => Some(format!("{} and {last}", most.join(", "))),
        }
    };
    let stays_new = |kinds: String| format!("With {kinds} the late write changes nothing: readers get the new value.");
    let stays_old =
        |kinds: String| format!("With {kinds} the old value stays after the invalidation, until it expires.");
    [names(false).map(stays_old), names(true).map(stays_new)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}
