//! The scenarios: what happens to the herd.
//!
//! A scenario is a module with a `run(&Plan, &World) → Finding`. A new one is a variant of [`Scenario`], a line in
//! [`Scenario::defaults`] and [`Scenario::run`], and, if its result is none of [`Rows`], a table and a picture.

use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::measure::Herd;
use super::strategy::Kind;

pub mod avalanche;
pub mod burst;
pub mod coldstart;
pub mod outage;
pub mod race;
pub mod steady;
mod trial;
mod world;

pub use world::World;

/// Which scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// A herd meets an empty key, all at once
    Burst,
    /// A herd reads a key that expires again and again
    Steady,
    /// A slow reader brings old data back after an invalidation
    Race,
    /// Many keys are filled together: when do they come due?
    Avalanche,
    /// The cache is empty, and everybody comes at once for many keys
    Coldstart,
    /// The origin fails for a while
    Outage,
}

/// The settings of one scenario.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The strategies to compare, in this order.
    pub strategies: Vec<Kind>,
    /// Callers at a time.
    pub callers: usize,
    /// How long a query takes.
    pub query: Duration,
    /// How many queries the origin answers at a time.
    pub connections: usize,
    /// How long a value lives.
    pub lives: Duration,
    /// How long the herd goes on.
    pub duration: Duration,
    /// How many keys are read, or filled.
    pub keys: usize,
    /// How many keys are filled once more, as after a restart.
    pub restart: usize,
    /// How many workers `steady` has.
    pub workers: usize,
    /// Where the random draws start.
    pub seed: u64,
}

/// What a scenario found.
#[derive(Debug)]
pub struct Finding {
    /// Which scenario.
    pub scenario: Scenario,
    /// Its settings.
    pub plan: Plan,
    /// A line a strategy.
    pub rows: Rows,
    /// What was seen, in plain words.
    pub said: String,
}

/// The shapes that results have.
#[derive(Debug)]
pub enum Rows {
    /// Latencies and queries.
    Herds(Vec<Herd>),
    /// Which value stayed.
    Races(Vec<race::Race>),
    /// When keys come due.
    Fills(Vec<avalanche::Fill>),
}

impl Scenario {
    /// All of them, in the order in which `all` runs them.
    pub const ALL: [Self; 6] = [
        Self::Burst,
        Self::Steady,
        Self::Race,
        Self::Avalanche,
        Self::Coldstart,
        Self::Outage,
    ];

    /// Its name on the command line, in JSON and file names.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Steady => "steady",
            Self::Race => "race",
            Self::Avalanche => "avalanche",
            Self::Coldstart => "coldstart",
            Self::Outage => "outage",
        }
    }

    /// `(callers, how long a value lives, keys)` unless the caller says otherwise. Where keys follow from something else, there are none here.
    pub fn defaults(self) -> (usize, Duration, usize) {
        let short = Duration::from_secs(3);
        let usual = Duration::from_secs(300);
        match self {
            Self::Burst => (200, usual, 1),
            Self::Steady => (50, short, 5),
            Self::Race => (2, usual, 1),
            Self::Avalanche => (128, usual, 10_000),
            Self::Coldstart => (2_000, usual, 0),
            Self::Outage => (50, short, 0),
        }
    }

    /// What it is about, with its settings, in one line.
    pub fn describe(self, plan: &Plan) -> String {
        use super::human::{count, time};
        let (callers, query, lives) = (count(plan.callers as u64), time(plan.query), time(plan.lives));
        let connections = count(plan.connections as u64);
        match self {
            Self::Burst => format!("{callers} callers on an empty key, query {query}, {connections} connections"),
            Self::Steady => format!(
                "{callers} callers for {}, {} {lives}, query {query}, {connections} connections",
                time(plan.duration),
                match plan.keys {
                    1 => "a key that lives".to_owned(),
                    keys => format!("{} keys that live", count(keys as u64)),
                }
            ),
            Self::Race => format!("a slow reader against an invalidation, query {query}"),
            Self::Avalanche => {
                format!("{} keys filled together to live {lives}", count(plan.keys as u64))
            }
            Self::Coldstart => {
                format!("{callers} callers on empty keys, two on each, query {query}, {connections} connections")
            }
            Self::Outage => format!(
                "{callers} callers, {} keys that live {lives}, query {query}, the origin fails for {}",
                count(outage::KEYS as u64),
                time(outage::OUTAGE)
            ),
        }
    }

    /// Runs it.
    pub async fn run(self, plan: Plan, world: &World) -> anyhow::Result<Finding> {
        let (rows, said) = match self {
            Self::Burst => {
                let herds = burst::run(&plan, world).await?;
                let said = burst::say(&herds);
                (Rows::Herds(herds), said)
            }
            Self::Steady => {
                let herds = steady::run(&plan, world).await?;
                let said = steady::say(&herds);
                (Rows::Herds(herds), said)
            }
            Self::Race => {
                let races = race::run(&plan, world).await?;
                let said = race::say(&races);
                (Rows::Races(races), said)
            }
            Self::Avalanche => {
                let fills = avalanche::run(&plan, world).await?;
                let said = avalanche::say(&fills);
                (Rows::Fills(fills), said)
            }
            Self::Coldstart => {
                let herds = coldstart::run(&plan, world).await?;
                let said = coldstart::say(&plan, &herds);
                (Rows::Herds(herds), said)
            }
            Self::Outage => {
                let herds = outage::run(&plan, world).await?;
                let said = outage::say(&herds);
                (Rows::Herds(herds), said)
            }
        };
        world.bars.clear();
        Ok(Finding {
            scenario: self,
            plan,
            rows,
            said,
        })
    }
}

/// The draws of one caller: the same for the same seed, different between callers.
fn draws(seed: u64, caller: usize) -> SmallRng {
    SmallRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ caller as u64)
}

/// Those of one kind, if they took part.
fn of(herds: &[Herd], kind: Kind) -> Option<&Herd> {
    herds.iter().find(|herd| herd.kind == kind)
}

/// What there is to say when the comparison that matters was not asked for.
fn said_one_by_one(herds: &[Herd], line: impl Fn(&Herd) -> String) -> String {
    let lines: Vec<_> = herds
        .iter()
        .map(|herd| format!("{}: {}", herd.name(), line(herd)))
        .collect();
    lines.join("; ") + "."
}

#[cfg(test)]
pub(in crate::lab) mod tests;
