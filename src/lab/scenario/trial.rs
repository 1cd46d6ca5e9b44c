//! One strategy in one scenario, with an origin of its own: what callers do there, all at once or again and again.
//!
//! *Why here*: scenarios differ in what happens around the herd; how a herd asks, and how it is counted, must be the same for all.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, try_join_all};
use indicatif::ProgressBar;
use rand::RngExt as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use super::{Plan, World, draws};
use crate::lab::human::counted;
use crate::lab::measure::{Herd, Sample};
use crate::lab::origin::Origin;
use crate::lab::strategy::{Kind, Strategy, Trouble};

/// A caller asks again after a time drawn from this, in milliseconds.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 50..=100;

/// A strategy and its origin.
pub(super) struct Trial<'a> {
    kind: Kind,
    variant: &'static str,
    plan: &'a Plan,
    world: &'a World,
    pub origin: Arc<Origin>,
    pub strategy: Strategy,
}

impl<'a> Trial<'a> {
    /// Of a strategy as it is.
    pub fn new(kind: Kind, plan: &'a Plan, world: &'a World) -> anyhow::Result<Self> {
        Self::with(kind, "", plan, world, |origin| world.strategy(kind, origin, plan.lives))
    }

    /// Of drover with the policy `which` of the lab's own server, and what is special about that.
    pub fn of_drover(which: &str, variant: &'static str, plan: &'a Plan, world: &'a World) -> anyhow::Result<Self> {
        Self::with(Kind::Drover, variant, plan, world, |origin| {
            world.drover(which, origin, plan.lives)
        })
    }

    fn with(
        kind: Kind,
        variant: &'static str,
        plan: &'a Plan,
        world: &'a World,
        strategy: impl FnOnce(&Arc<Origin>) -> anyhow::Result<Strategy>,
    ) -> anyhow::Result<Self> {
        let origin = Arc::new(Origin::new(plan.query, plan.connections));
        let strategy = strategy(&origin)?;
        Ok(Self {
            kind,
            variant,
            plan,
            world,
            origin,
            strategy,
        })
    }

    /// A progress bar of so many steps.
    pub fn bar(&self, steps: u64) -> ProgressBar {
        self.world.bars.add(self.kind, steps)
    }

    /// Each key is asked for once, all of them together.
    pub async fn fill(&self, keys: &[String]) -> Result<(), Trouble> {
        try_join_all(keys.iter().enumerate().map(|(at, key)| {
            let mut rng = draws(self.plan.seed, usize::MAX - at);
            async move { self.strategy.get(key, &mut rng).await }
        }))
        .await?;
        self.strategy.settle().await;
        Ok(())
    }

    /// Every caller asks once, for its key, in the one moment when the whole herd is let go; their times count from there, so what the
    /// machine needs to get them all moving is part of it.
    pub async fn all_at_once(self, key: impl Fn(usize) -> String) -> anyhow::Result<Herd> {
        let bar = self.bar(self.plan.callers as u64);
        let (let_go, gate) = watch::channel(None::<Instant>);
        let mut herd = JoinSet::new();
        for caller in 0..self.plan.callers {
            let (strategy, mut gate, mut rng) = (self.strategy.clone(), gate.clone(), draws(self.plan.seed, caller));
            let key = key(caller);
            herd.spawn(async move {
                let began = gate.wait_for(Option::is_some).await.ok().and_then(|began| *began);
                let began = began.unwrap_or_else(Instant::now);
                let got = strategy.get(&key, &mut rng).await;
                let took = began.elapsed();
                Sample { took, got }
            });
        }
        let_go.send_replace(Some(self.origin.begin()));
        let mut samples = Vec::with_capacity(self.plan.callers);
        while let Some(sample) = herd.join_next().await {
            samples.push(sample?);
            bar.inc(1);
            bar.set_message(format!("{}, {} there now", self.queries(), self.origin.running()));
        }
        Ok(self.seen(samples, &bar).await)
    }

    /// Every caller asks for some of the keys again and again, for so long. What happens beside it is told when it began; it must be over
    /// when the herd is.
    pub async fn again_and_again<F: Future<Output = ()>>(
        &self,
        keys: Arc<[String]>,
        length: Duration,
        beside: impl FnOnce(Instant) -> F,
    ) -> anyhow::Result<Herd> {
        let bar = self.bar(length.as_millis() as u64);
        self.strategy.begin();
        let began = self.origin.begin();
        let mut herd = JoinSet::new();
        for caller in 0..self.plan.callers {
            let (strategy, keys, seed) = (self.strategy.clone(), keys.clone(), self.plan.seed);
            herd.spawn(ask_again_and_again(strategy, keys, caller, seed, began + length));
        }
        let gathering = async {
            let mut samples = Vec::new();
            let mut tick = interval(Duration::from_millis(100));
            loop {
                tokio::select! {
                    one = herd.join_next() => match one {
                        Some(asked) => samples.extend(asked?),
                        None => return Ok::<_, anyhow::Error>(samples),
                    },
                    _ = tick.tick() => {
                        bar.set_position(began.elapsed().as_millis() as u64);
                        bar.set_message(self.queries());
                    }
                }
            }
        };
        let (samples, ()) = join(gathering, beside(began)).await;
        Ok(self.seen(samples?, &bar).await)
    }

    fn queries(&self) -> String {
        let queries = counted(self.origin.count() as u64, "query", "queries");
        match self.variant {
            "" => queries,
            variant => format!("{variant}: {queries}"),
        }
    }

    async fn seen(&self, samples: Vec<Sample>, bar: &ProgressBar) -> Herd {
        self.strategy.settle().await;
        bar.finish();
        let trouble = self.strategy.background_trouble();
        let herd = Herd::new(self.kind, samples, self.origin.queries(), trouble);
        Herd {
            variant: self.variant,
            ..herd
        }
    }
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
    // Not all in step from the beginning.
    sleep(Duration::from_millis(rng.random_range(0..=*PAUSE_MS.end()))).await;
    while Instant::now() < until {
        let key = &keys[rng.random_range(0..keys.len())];
        let asked = Instant::now();
        let got = strategy.get(key, &mut rng).await;
        let took = asked.elapsed();
        samples.push(Sample { took, got });
        sleep(Duration::from_millis(rng.random_range(PAUSE_MS))).await;
    }
    samples
}
