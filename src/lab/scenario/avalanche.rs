//! `avalanche`: many keys are filled together. When do they come due?
//!
//! Nobody waits for them to expire: the report's answer says how long the value is fresh, and that is counted as if all keys
//! had been filled in the same instant, so that the time that filling takes flatters nobody. `none` needs no calls: without
//! jitter each key lives exactly as long as it was told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::{Plan, World};
use crate::lab::human::{count, time};
use crate::lab::strategy::Kind;
use crate::lab::strategy::client::{Client, proto_duration};
use crate::proto::Lifetimes;
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::report_value_request::Outcome;

/// The width of drover's default jitter, as a part of the lifetime: ± 10 %.
const USUAL_WIDTH: f64 = 0.2;

/// When the keys of one strategy come due.
#[derive(Debug)]
pub struct Fill {
    /// `none` or `drover`.
    pub kind: Kind,
    /// How many keys.
    pub keys: usize,
    /// From filling to the first key that comes due.
    pub first: Duration,
    /// How many come due in each second from then on.
    pub due: Vec<u64>,
    /// The mean a second, if they were spread evenly over the range of the jitter.
    pub mean: f64,
}

impl Fill {
    /// Counts what comes due; `range` is what the mean is taken over, without it as long as the keys need.
    pub fn new(kind: Kind, mut lives: Vec<Duration>, range: Option<Duration>) -> Self {
        lives.sort_unstable();
        let first = lives.first().copied().unwrap_or_default();
        let span = lives.last().copied().unwrap_or_default() - first;
        // Seconds count from the first key: the range of the jitter is a whole number of them, give or take what was lost on the way.
        let seconds = (span.as_secs_f64().round() as usize).max(1);
        let mut due = vec![0; seconds];
        for life in &lives {
            due[((*life - first).as_secs() as usize).min(seconds - 1)] += 1;
        }
        let range = range.map_or(seconds as f64, |range| range.as_secs_f64().max(1.0));
        Self {
            kind,
            keys: lives.len(),
            first,
            due,
            mean: lives.len() as f64 / range,
        }
    }

    /// How many come due in the busiest second.
    pub fn busiest(&self) -> u64 {
        self.due.iter().copied().max().unwrap_or_default()
    }

    /// The busiest second against the mean; 1 is perfectly level.
    pub fn ratio(&self) -> f64 {
        self.busiest() as f64 / self.mean.max(f64::MIN_POSITIVE)
    }

    /// From the first to the last key that comes due, in whole seconds.
    pub fn range(&self) -> Duration {
        Duration::from_secs(self.due.len() as u64)
    }
}

/// Runs it: `drover` if it takes part, beside no jitter at all.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Fill>> {
    let drover = match plan.strategies.contains(&Kind::Drover) {
        true => Some(Fill::new(Kind::Drover, fill(plan, world).await?, None)),
        false => None,
    };
    let range = drover.as_ref().map_or(plan.lives.mul_f64(USUAL_WIDTH), Fill::range);
    let none = plan.strategies.contains(&Kind::None);
    let none = none.then(|| Fill::new(Kind::None, vec![plan.lives; plan.keys], Some(range)));
    anyhow::ensure!(
        none.is_some() || drover.is_some(),
        "`avalanche` compares `none` and `drover`; name one of them"
    );
    Ok([none, drover].into_iter().flatten().collect())
}

/// Fills the keys through drover; answers how long each is fresh.
async fn fill(plan: &Plan, world: &World) -> anyhow::Result<Vec<Duration>> {
    let client = world.client()?;
    let bar = world.bars.add(Kind::Drover, plan.keys as u64);
    bar.set_message("keys filled");
    let (next, stem) = (Arc::new(AtomicUsize::new(0)), world.key("avalanche"));
    let mut workers = JoinSet::new();
    for _ in 0..plan.callers.min(plan.keys) {
        let (client, next, stem, bar) = (client.clone(), next.clone(), stem.clone(), bar.clone());
        let (keys, lives) = (plan.keys, plan.lives);
        workers.spawn(async move {
            let mut fresh = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= keys {
                    return Ok::<_, anyhow::Error>(fresh);
                }
                fresh.push(fill_one(&client, &format!("{stem}/{number}"), lives).await?);
                bar.inc(1);
            }
        });
    }
    let mut all = Vec::with_capacity(plan.keys);
    while let Some(worker) = workers.join_next().await {
        all.extend(worker??);
    }
    bar.finish();
    Ok(all)
}

async fn fill_one(client: &Client, key: &str, lives: Duration) -> anyhow::Result<Duration> {
    let Some(Decision::Rebuild(rebuild)) = client.acquire(key).await?.decision else {
        anyhow::bail!("drover would not let the lab fill `{key}`, a key that nobody else can know");
    };
    let lease = rebuild.lease.context("drover granted a rebuild without a lease")?;
    // No stale windows: the keys leave when they come due.
    let none = proto_duration(Duration::ZERO);
    let lifetimes = Lifetimes {
        fresh_ttl: proto_duration(lives),
        stale_while_revalidate: none,
        stale_if_error: none,
    };
    let told = client
        .report(
            key,
            &lease.lease_id,
            Outcome::Value(Bytes::from_static(b"1")),
            &lifetimes,
        )
        .await?;
    anyhow::ensure!(
        told.accepted,
        "drover refused the value of `{key}`, which nobody has invalidated"
    );
    let fresh = told
        .expiry
        .and_then(|expiry| expiry.fresh_for)
        .context("drover's answer to a report has no lifetime")?;
    Duration::try_from(fresh)
        .ok()
        .context("drover answered a lifetime that is negative")
}

/// What was seen.
pub fn say(fills: &[Fill]) -> String {
    let mut said = Vec::new();
    for fill in fills {
        said.push(match fill.kind {
            Kind::Drover => format!(
                "drover spreads {} keys over {}: {} in the busiest second, {:.2} × the mean.",
                count(fill.keys as u64),
                time(fill.range()),
                count(fill.busiest()),
                fill.ratio()
            ),
            _ => format!(
                "Without jitter all {} keys come due in the same second, {} after they were filled.",
                count(fill.keys as u64),
                time(fill.first)
            ),
        });
    }
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(lives: &[f64]) -> Vec<Duration> {
        lives.iter().map(|&life| Duration::from_secs_f64(life)).collect()
    }

    #[test]
    fn keys_are_counted_in_the_second_in_which_they_come_due() {
        let fill = Fill::new(Kind::Drover, seconds(&[270.0, 270.5, 271.2, 272.99]), None);
        assert_eq!(fill.due, [2, 1, 1]);
        assert_eq!((fill.busiest(), fill.range()), (2, Duration::from_secs(3)));
        assert!((fill.ratio() - 1.5).abs() < 1e-9);
    }

    #[test]
    fn a_moment_lost_on_the_way_adds_no_second() {
        // The range is 2 s; the first answer was a little late, the last key falls just beyond.
        let fill = Fill::new(Kind::Drover, seconds(&[269.999, 270.5, 271.4, 272.0]), None);
        assert_eq!(fill.due, [2, 2]);
    }

    #[test]
    fn without_jitter_everything_comes_due_at_once() {
        let fill = Fill::new(Kind::None, seconds(&[300.0; 600]), Some(Duration::from_secs(60)));
        assert_eq!(
            (fill.due.as_slice(), fill.first),
            (&[600][..], Duration::from_secs(300))
        );
        assert!((fill.ratio() - 60.0).abs() < 1e-9);
    }
}
