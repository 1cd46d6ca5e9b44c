//! The scenarios: what happens to the herd.
//!
//! A scenario is a module with a `run(&Plan, &World) → Finding`. A new one is a variant of [`Scenario`], a line in
//! [`Scenario::defaults`] and [`Scenario::run`], and, if its result is none of [`Rows`], a table and a picture.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::measure::Herd;
use super::origin::Origin;
use super::own_server;
use super::progress::Bars;
use super::strategy::client::Client;
use super::strategy::drover::Drover;
use super::strategy::recipe::Recipe;
use super::strategy::{Kind, Strategy};

pub mod avalanche;
pub mod burst;
pub mod coldstart;
pub mod outage;
pub mod race;
pub mod steady;

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
    /// How many keys are filled.
    pub keys: usize,
    /// Where the random draws start.
    pub seed: u64,
}

/// What all scenarios of a run share.
#[derive(Debug)]
pub struct World {
    /// Connected and warm; `None` when drover takes no part.
    pub client: Option<Arc<Client>>,
    /// The drover is the lab's own: beside the lab's namespace it has others, whose policies scenarios compare.
    pub is_own: bool,
    /// Where progress is shown.
    pub bars: Bars,
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

    /// `(callers, how long a value lives)` unless the caller says otherwise.
    pub fn defaults(self) -> (usize, Duration) {
        match self {
            Self::Burst => (200, Duration::from_secs(300)),
            Self::Steady => (50, Duration::from_secs(3)),
            Self::Race => (2, Duration::from_secs(300)),
            Self::Avalanche => (128, Duration::from_secs(300)),
            Self::Coldstart => (2_000, Duration::from_secs(300)),
            Self::Outage => (50, Duration::from_secs(3)),
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
                "{callers} callers for {}, a key that lives {lives}, query {query}, {connections} connections",
                time(plan.duration)
            ),
            Self::Race => format!("a slow reader against an invalidation, query {query}"),
            Self::Avalanche => {
                format!("{} keys filled together to live {lives}", count(plan.keys as u64))
            }
            Self::Coldstart => {
                format!("{callers} callers on empty keys, two on each, query {query}, {connections} connections")
            }
            Self::Outage => format!(
                "{callers} callers, keys that live {lives}, query {query}, the origin fails for {}",
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

impl World {
    /// A strategy over a new cache and this origin.
    pub fn strategy(&self, kind: Kind, origin: &Arc<Origin>, lives: Duration) -> anyhow::Result<Strategy> {
        let recipe = |early, locked| Strategy::Recipe(Recipe::new(early, locked, lives, origin.clone()));
        Ok(match kind {
            Kind::None => recipe(false, false),
            Kind::Lock => recipe(false, true),
            Kind::Xfetch => recipe(true, false),
            Kind::XfetchLock => recipe(true, true),
            Kind::Drover => Strategy::Drover(Drover::new(self.client()?.clone(), origin.clone(), lives)),
        })
    }

    /// drover with the policy of one of the lab's own namespaces; on a drover that is not its own, with that of the lab's namespace there.
    pub fn drover(&self, which: &str, origin: &Arc<Origin>, lives: Duration) -> anyhow::Result<Strategy> {
        let client = self.client_beside(which)?;
        Ok(Strategy::Drover(Drover::new(client, origin.clone(), lives)))
    }

    /// As [`World::drover`].
    pub fn client_beside(&self, which: &str) -> anyhow::Result<Arc<Client>> {
        let client = self.client()?;
        if !self.is_own {
            return Ok(client.clone());
        }
        let namespace = own_server::beside(client.namespace(), which);
        Ok(Arc::new(client.beside(&namespace, own_server::LONG)))
    }

    /// The connection to drover.
    pub fn client(&self) -> anyhow::Result<&Arc<Client>> {
        self.client
            .as_ref()
            .ok_or_else(|| anyhow::anyhow!("the strategy `drover` needs a drover to talk to"))
    }

    /// A key of this run's own.
    pub fn key(&self, name: &str) -> String {
        format!(
            "{}/{name}",
            self.client.as_ref().map_or("lab", |client| client.run_id())
        )
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
        .map(|herd| format!("{}: {}", herd.kind.as_str(), line(herd)))
        .collect();
    lines.join("; ") + "."
}

#[cfg(test)]
pub(in crate::lab) mod tests {
    use super::*;
    use crate::lab::strategy::fake;

    const SLACK: Duration = Duration::from_millis(5);

    async fn world() -> World {
        World {
            client: Some(fake::start().await.1),
            is_own: false,
            bars: Bars::hidden(),
        }
    }

    /// The defaults of the command line, with fewer seconds and keys.
    pub fn plan(scenario: Scenario) -> Plan {
        let (callers, lives) = scenario.defaults();
        let query = Duration::from_millis(200);
        let strategies = Kind::ALL.to_vec();
        Plan {
            strategies,
            callers,
            query,
            connections: 20,
            lives,
            duration: Duration::from_secs(4),
            keys: 500,
            seed: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_costs_as_many_queries_as_the_strategy_lets_through() {
        let herds = burst::run(&plan(Scenario::Burst), &world().await).await.unwrap();
        let queries: Vec<_> = herds.iter().map(Herd::queried).collect();
        assert_eq!(queries, [200, 1, 200, 1, 1]);
        assert!(herds.iter().all(|herd| (herd.requests(), herd.failed) == (200, 0)));
        let slowest: Vec<_> = herds.iter().map(Herd::slowest).collect();
        // Ten rounds of the origin's connections; the query and one poll; the query and nothing else.
        assert!(slowest[0] >= Duration::from_secs(2) && slowest[0] < Duration::from_secs(2) + SLACK);
        assert!(slowest[1] >= Duration::from_millis(205) && slowest[1] < Duration::from_millis(260));
        assert!(slowest[4] >= Duration::from_millis(200) && slowest[4] < Duration::from_millis(200) + SLACK);
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_herd_stampedes_at_each_expiry_unless_it_is_held() {
        let herds = steady::run(&plan(Scenario::Steady), &world().await).await.unwrap();
        let queries: Vec<_> = herds.iter().map(Herd::queried).collect();
        assert_eq!((queries[0], queries[1], queries[4]), (50, 1, 1));
        let slow: Vec<_> = herds.iter().map(Herd::slow).collect();
        assert_eq!((slow[0], slow[1], slow[4]), (50, 50, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_refused_late_write_leaves_the_new_value() {
        let races = race::run(&plan(Scenario::Race), &world().await).await.unwrap();
        let stays: Vec<_> = races
            .iter()
            .map(|race| (race.new_stays(), race.late_write_refused))
            .collect();
        assert_eq!(
            stays,
            [
                (false, false),
                (false, false),
                (false, false),
                (false, false),
                (true, true)
            ]
        );
        let second: Vec<_> = races.iter().map(|race| race.second.data == race.newest).collect();
        assert_eq!(
            second,
            [true, false, true, false, true],
            "a lock makes the second reader wait for the old value"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_avalanche_fills_each_key_once() {
        let fills = avalanche::run(&plan(Scenario::Avalanche), &world().await)
            .await
            .unwrap();
        assert_eq!(
            fills.iter().map(|fill| (fill.kind, fill.keys)).collect::<Vec<_>>(),
            [(Kind::None, 500), (Kind::Drover, 500)]
        );
        // The fake has no jitter.
        assert_eq!(
            (fills[1].due.as_slice(), fills[1].first),
            (&[500][..], Duration::from_secs(300))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_cold_start_sends_a_query_for_each_key_or_for_each_caller() {
        let plan = Plan {
            callers: 200,
            ..plan(Scenario::Coldstart)
        };
        let herds = coldstart::run(&plan, &world().await).await.unwrap();
        let seen: Vec<_> = herds
            .iter()
            .map(|herd| (herd.kind, herd.queried(), herd.failed))
            .collect();
        assert_eq!(
            seen,
            [(Kind::None, 200, 0), (Kind::Lock, 100, 0), (Kind::Drover, 100, 0)]
        );
        assert_eq!(
            herds[2].last_query(),
            Duration::from_secs(1),
            "five rounds of the connections"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_as_long_as_it_says_and_queries_are_counted_in_it() {
        let plan = Plan {
            callers: 5,
            strategies: vec![Kind::None],
            ..plan(Scenario::Outage)
        };
        let herds = outage::run(&plan, &world().await).await.unwrap();
        let (all, late) = outage::during(&herds[0]);
        assert!(
            late > 100 && all > late && herds[0].failed >= late,
            "{all} {late} {}",
            herds[0].failed
        );
        assert!(herds[0].failed <= all, "none fails before or after");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_drover_is_shown_as_failed_requests() {
        let (fake, client) = fake::start().await;
        fake.unavailable.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
        let world = World {
            client: Some(client),
            is_own: false,
            bars: Bars::hidden(),
        };
        let plan = Plan {
            strategies: vec![Kind::Drover],
            ..plan(Scenario::Burst)
        };
        let herds = burst::run(&plan, &world).await.unwrap();
        assert_eq!((herds[0].failed, herds[0].queried()), (200, 0));
        assert_eq!(
            herds[0].trouble.as_deref(),
            Some("AcquireRebuild: not yet (Unavailable)")
        );
    }
}
