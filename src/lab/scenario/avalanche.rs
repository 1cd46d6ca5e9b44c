//! `avalanche`: many keys are filled together. When do they come due?
//!
//! Nobody waits for them: the report's answer says when the next rebuild is planned, and the value's version when it was filled, by the
//! service's own clock. `none` needs no calls: without jitter each key lives exactly as long as it was told.
//!
//! The lab's own drover is asked four times: with plain jitter and with levelled, for keys whose rebuilds all cost the same and for keys of which a
//! few are far heavier than the rest (Pareto with exponent 1.5, 1 to 200 ms). What is counted then is work, in mean rebuilds. Then both ways again
//! for a restart, which fills many more keys as fast as they can be filled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use rand::RngExt as _;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Plan, World};
use crate::lab::human::{counted, time};
use crate::lab::own_server::{APART, PLAIN, RESTARTED};
use crate::lab::strategy::Kind;
use crate::lab::strategy::client::{Client, proto_duration};
use crate::proto::Lifetimes;
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::report_value_request::Outcome;

/// The width of drover's default jitter, as a part of the lifetime: ± 10 %.
const USUAL_WIDTH: f64 = 0.2;
/// What rebuilds cost that are all alike.
const EVEN_COST: Duration = Duration::from_millis(20);

const PLAIN_EVEN: &str = "plain";
const LEVELLED_EVEN: &str = "levelled";
const PLAIN_UNEVEN: &str = "plain, uneven costs";
const LEVELLED_UNEVEN: &str = "levelled, uneven costs";
const PLAIN_RESTART: &str = "plain, a restart";
const LEVELLED_RESTART: &str = "levelled, a restart";

/// When the keys of one strategy come due.
#[derive(Debug)]
pub struct Fill {
    /// `none` or `drover`.
    pub kind: Kind,
    /// What is special about it; empty where nothing is.
    pub variant: &'static str,
    /// How many keys.
    pub keys: usize,
    /// From the first key that was filled to the last.
    pub took: Duration,
    /// From filling to the first key that comes due.
    pub first: Duration,
    /// How many come due in each second from then on.
    pub due: Vec<u64>,
    /// The mean a second, if they were spread evenly over the range of the jitter.
    pub mean: f64,
    /// What is counted is work, in mean rebuilds, because rebuilds do not all cost the same.
    pub uneven: bool,
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
            variant: "",
            keys: lives.len(),
            took: Duration::ZERO,
            first,
            due,
            mean: lives.len() as f64 / range,
            uneven: false,
        }
    }

    /// Counts, in the seconds of the service's clock, the work that comes due: in mean rebuilds.
    fn planned(kind: Kind, variant: &'static str, filled: &[Filled], range: Duration) -> Self {
        const SECOND: u64 = 1_000_000;
        let began = filled.iter().map(|filled| filled.at).min().unwrap_or_default();
        let ended = filled.iter().map(|filled| filled.at).max().unwrap_or_default();
        let first = filled.iter().map(|filled| filled.due).min().unwrap_or_default() / SECOND;
        let last = filled.iter().map(|filled| filled.due).max().unwrap_or_default() / SECOND;
        let costs: f64 = filled.iter().map(|filled| filled.cost.as_secs_f64()).sum();
        let unit = (costs / filled.len().max(1) as f64).max(f64::MIN_POSITIVE);
        let mut work = vec![0.0; (last - first + 1) as usize];
        for Filled { due, cost, .. } in filled {
            work[(due / SECOND - first) as usize] += cost.as_secs_f64() / unit;
        }
        Self {
            kind,
            variant,
            keys: filled.len(),
            took: Duration::from_micros(ended - began),
            first: Duration::from_secs(((first * SECOND).saturating_sub(began) + SECOND / 2) / SECOND),
            mean: filled.len() as f64 / range.as_secs_f64().max(1.0),
            uneven: filled.windows(2).any(|two| two[0].cost != two[1].cost),
            due: work.into_iter().map(|work: f64| work.round() as u64).collect(),
        }
    }

    /// Its name, with what is special about it.
    pub fn name(&self) -> String {
        match self.variant {
            "" => self.kind.as_str().to_owned(),
            variant => format!("{} {variant}", self.kind.as_str()),
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

/// A key that was filled, in µs of the service's clock.
struct Filled {
    at: u64,
    /// When its rebuild is planned, and what that costs.
    due: u64,
    cost: Duration,
}

/// Runs it: `drover` if it takes part, beside no jitter at all.
pub async fn run(plan: &Plan, world: &World) -> anyhow::Result<Vec<Fill>> {
    let mut fills = Vec::new();
    if plan.strategies.contains(&Kind::None) {
        let range = Some(plan.lives.mul_f64(USUAL_WIDTH));
        fills.push(Fill::new(Kind::None, vec![plan.lives; plan.keys], range));
    }
    if plan.strategies.contains(&Kind::Drover) {
        for way in ways(plan, world)? {
            let filled = fill(plan, world, &way).await?;
            let range = plan.lives.mul_f64(USUAL_WIDTH);
            fills.push(Fill::planned(Kind::Drover, way.variant, &filled, range));
        }
    }
    anyhow::ensure!(
        !fills.is_empty(),
        "`avalanche` compares `none` and `drover`; name one of them"
    );
    Ok(fills)
}

/// One way to fill keys through drover.
struct Way {
    variant: &'static str,
    client: Arc<Client>,
    keys: usize,
    uneven: bool,
}

fn ways(plan: &Plan, world: &World) -> anyhow::Result<Vec<Way>> {
    let way = |variant, client: &Arc<Client>, keys, uneven| Way {
        variant,
        client: client.clone(),
        keys,
        uneven,
    };
    let levelled = world.client()?;
    if !world.is_own {
        return Ok(vec![way("", levelled, plan.keys, false)]);
    }
    // What is planned in one namespace does not matter to the others.
    let (plain, apart) = (world.client_beside(PLAIN)?, world.client_beside(APART)?);
    let mut ways = vec![
        way(PLAIN_EVEN, &plain, plan.keys, false),
        way(LEVELLED_EVEN, levelled, plan.keys, false),
        way(PLAIN_UNEVEN, &plain, plan.keys, true),
        way(LEVELLED_UNEVEN, &apart, plan.keys, true),
    ];
    if plan.restart > 0 {
        let restarted = world.client_beside(RESTARTED)?;
        ways.push(way(PLAIN_RESTART, &plain, plan.restart, false));
        ways.push(way(LEVELLED_RESTART, &restarted, plan.restart, false));
    }
    Ok(ways)
}

/// Fills the keys through drover.
async fn fill(plan: &Plan, world: &World, way: &Way) -> anyhow::Result<Vec<Filled>> {
    let &Way {
        variant, keys, uneven, ..
    } = way;
    let bar = world.bars.add(Kind::Drover, keys as u64);
    bar.set_message(format!("keys filled {variant}"));
    let next = Arc::new(AtomicUsize::new(0));
    let stem: Arc<str> = world.key(&format!("avalanche/{variant}")).into();
    let mut workers = JoinSet::new();
    for _ in 0..plan.callers.min(keys) {
        let (client, next, stem, bar) = (way.client.clone(), next.clone(), stem.clone(), bar.clone());
        let (lives, seed) = (plan.lives, plan.seed);
        workers.spawn(async move {
            let mut filled = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= keys {
                    return Ok::<_, anyhow::Error>(filled);
                }
                let cost = if uneven {
                    uneven_cost(super::draws(seed, number).random())
                } else {
                    EVEN_COST
                };
                filled.push(fill_one(&client, &format!("{stem}/{number}"), lives, cost).await?);
                bar.inc(1);
            }
        });
    }
    let mut all = Vec::with_capacity(keys);
    while let Some(worker) = workers.join_next().await {
        all.extend(worker??);
    }
    bar.finish();
    Ok(all)
}

/// Pareto with exponent 1.5, in milliseconds, at most 200.
fn uneven_cost(unit: f64) -> Duration {
    Duration::from_secs_f64((1.0 - unit).powf(-1.0 / 1.5).min(200.0) / 1e3)
}

async fn fill_one(client: &Client, key: &str, lives: Duration, cost: Duration) -> anyhow::Result<Filled> {
    let Some(Decision::Rebuild(rebuild)) = client.acquire(key).await?.decision else {
        anyhow::bail!("drover would not let the lab fill `{key}`, a key that nobody else can know");
    };
    let (lease, granted) = (
        rebuild.lease.context("drover granted a rebuild without a lease")?,
        Instant::now(),
    );
    // No stale windows: the keys leave when they come due.
    let none = proto_duration(Duration::ZERO);
    let lifetimes = Lifetimes {
        fresh_ttl: proto_duration(lives),
        stale_while_revalidate: none,
        stale_if_error: none,
    };
    let outcome = Outcome::Value(Bytes::from_static(b"1"));
    let told = client
        .report_at_cost(key, &lease.lease_id, outcome, &lifetimes, Some(cost))
        .await?;
    anyhow::ensure!(
        told.accepted,
        "drover refused the value of `{key}`, which nobody has invalidated"
    );
    let expiry = told.expiry.context("drover's answer to a report has no lifetime")?;
    let left = expiry
        .refresh_in
        .or(expiry.fresh_for)
        .and_then(|left| Duration::try_from(left).ok())
        .context("drover answered no lifetime, or one that is negative")?;
    // A version is the number of its grant, which is its time in µs.
    let at = u64::try_from(told.version).unwrap_or_default();
    let since = (granted.elapsed() + left).as_micros();
    let due = at.saturating_add(u64::try_from(since).unwrap_or(u64::MAX));
    Ok(Filled { at, due, cost })
}

/// What was seen.
pub fn say(fills: &[Fill]) -> String {
    let of = |variant: &str| fills.iter().find(|fill| fill.variant == variant);
    let mut said = Vec::new();
    if let Some(none) = fills.iter().find(|fill| fill.kind == Kind::None) {
        said.push(format!(
            "Without jitter all {} come due in the same second, {} after they were filled.",
            counted(none.keys as u64, "key", "keys"),
            time(none.first)
        ));
    }
    if let Some(drover) = fills
        .iter()
        .find(|fill| fill.kind == Kind::Drover && fill.variant.is_empty())
    {
        said.push(format!(
            "With drover they come due over {}, the busiest second with {:.2} times the mean.",
            time(drover.range()),
            drover.ratio()
        ));
    }
    for (plain, levelled) in [
        (PLAIN_EVEN, LEVELLED_EVEN),
        (PLAIN_UNEVEN, LEVELLED_UNEVEN),
        (PLAIN_RESTART, LEVELLED_RESTART),
    ] {
        let (Some(plain), Some(levelled)) = (of(plain), of(levelled)) else {
            continue;
        };
        let (level, unlevel) = (levelled.ratio(), plain.ratio());
        let keys = counted(levelled.keys as u64, "key", "keys");
        said.push(match levelled.variant {
            LEVELLED_UNEVEN => format!(
                "Where costs are uneven, its busiest second has {:.2} of the work that plain jitter's has.",
                levelled.busiest() as f64 / plain.busiest().max(1) as f64
            ),
            LEVELLED_RESTART => {
                format!(
                    "Of a restart that fills {keys} it has {level:.2} times the mean, with plain jitter {unlevel:.2}."
                )
            }
            _ => format!(
                "Levelled, the busiest second of {keys} has {level:.2} times the mean, with plain jitter {unlevel:.2}."
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
