//! Cases (a), (b) and (g): what the server's CPU pays for a call.
//!
//! *Invariants:* every run of a round has the same shape and goes over connections that were open and warm before the first;
//! the bare server carries messages as long as drover's were in a sample taken before; in (g) the number of keys stays what it
//! is, because its rebuilds are forced on keys that are there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use indicatif::ProgressBar;
use tonic::transport::Channel;

use super::Bench;
use super::bare::{self, Ask};
use super::load::{Laps, Load, Shape, Worker, closed_loop, explained};
use super::memory::{Filled, filled};
use super::report::{CaseReport, Figure, Target, Unit};
use super::side::Side;
use super::stats::Pair;
use super::wire::{self, Caller, Coordinator, Exchange};

/// A call may cost so many bare calls.
const COST: Target = Target::RatioAtMost(1.25);
/// With very many keys a call may cost so much more.
const GROWTH: Target = Target::AtMost(1.10);
/// Keys of (a), and the small population of (g).
pub const FEW: u64 = 1_000;
/// Calls whose sizes are averaged.
const SAMPLE: u64 = 64;
/// A population is filled over so many connections, with so many in flight on each.
const FILL: (usize, usize) = (8, 32);

/// Case (a).
pub async fn fresh(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (drover, bare) = (bench.drover().await?, bench.bare().await?);
    populate(bench, &drover, 'a', FEW, &ProgressBar::hidden()).await?;
    let measured = Lane::open(bench, &drover).await?;
    let compared = Lane::maybe(bench, bare.as_ref()).await?;
    let exchange = measured.sample_hits('a', FEW).await?;
    let asks = [ask(exchange)];
    let mut runs = Runs::default();
    let progress = bench.progress("(a) fresh key", 2 * u64::from(bench.args.pairs));
    for round in Round::all(bench) {
        let hits = measured.hits(round.shape, 'a', FEW).await?;
        progress.inc(1);
        let echoes = match &compared {
            Some(lane) => Some(lane.echoes(round.shape, asks.clone()).await?),
            None => None,
        };
        progress.inc(1);
        runs.keep(round, hits, echoes);
    }
    progress.finish_and_clear();
    let mut report = CaseReport::new('a', "AcquireRebuild of a fresh key");
    report.carries("AcquireRebuild", exchange);
    report.figures = runs.figures()?;
    Ok(report)
}

/// Case (b).
pub async fn rebuilds(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (drover, bare) = (bench.drover().await?, bench.bare().await?);
    let measured = Lane::open(bench, &drover).await?;
    let compared = Lane::maybe(bench, bare.as_ref()).await?;
    let numbers = Arc::new(AtomicU64::new(0));
    let exchanges = measured
        .sample_rebuilds(&Keys::Distinct('b', Arc::clone(&numbers)))
        .await?;
    let asks = exchanges.map(ask);
    let mut runs = Runs::default();
    let progress = bench.progress("(b) rebuild and report", 2 * u64::from(bench.args.pairs));
    for round in Round::all(bench) {
        let rebuilds = measured
            .rebuilds(round.shape, Keys::Distinct('b', Arc::clone(&numbers)))
            .await?;
        progress.inc(1);
        let echoes = match &compared {
            Some(lane) => Some(lane.echoes(round.shape, asks.clone()).await?),
            None => None,
        };
        progress.inc(1);
        runs.keep(round, rebuilds, echoes);
    }
    progress.finish_and_clear();
    let mut report = CaseReport::new('b', "AcquireRebuild + ReportValue over distinct keys, per call");
    report.carries("AcquireRebuild", exchanges[0]);
    report.carries("ReportValue", exchanges[1]);
    report.figures = runs.figures()?;
    Ok(report)
}

/// Case (g): both with few and with many keys, on two servers, beside one bare server.
pub async fn populations(bench: &Bench, slot: &mut Option<Filled>) -> anyhow::Result<CaseReport> {
    if bench.args.connections * bench.args.concurrency > FEW as usize {
        bail!("(g) rebuilds each of {FEW} keys one at a time: keep connections × concurrency at or below {FEW}");
    }
    let Filled { side: large, .. } = filled(bench, slot).await?;
    let (small, bare) = (bench.drover().await?, Side::bare(bench.workers).await?);
    populate(bench, &small, 'k', FEW, &ProgressBar::hidden()).await?;
    let (few, many) = (Lane::open(bench, &small).await?, Lane::open(bench, large).await?);
    let lane = Lane::open(bench, &bare).await?;
    let keys = bench.args.keys;
    let hit = few.sample_hits('k', FEW).await?;
    let exchanges = few.sample_rebuilds(&Keys::Standing('k', FEW)).await?;
    let mut runs: [Runs; 4] = Default::default();
    let progress = bench.progress("(g) few and many keys", 6 * u64::from(bench.args.pairs));
    for round in Round::all(bench) {
        let shape = round.shape;
        let hits = (few.hits(shape, 'k', FEW).await?, many.hits(shape, 'k', keys).await?);
        let echo = lane.echoes(shape, [ask(hit)]).await?;
        progress.inc(3);
        runs[0].keep(round, hits.0, Some(echo.clone()));
        runs[1].keep(round, hits.1, Some(echo));
        let standing = |count| Keys::Standing('k', count);
        let rebuilds = (
            few.rebuilds(shape, standing(FEW)).await?,
            many.rebuilds(shape, standing(keys)).await?,
        );
        let echo = lane.echoes(shape, exchanges.map(ask)).await?;
        progress.inc(3);
        runs[2].keep(round, rebuilds.0, Some(echo.clone()));
        runs[3].keep(round, rebuilds.1, Some(echo));
    }
    progress.finish_and_clear();
    let many_keys = Unit::Count.shown(keys as f64);
    let mut report = CaseReport::new(
        'g',
        &format!("(a) and (b) with 1,000 and with {many_keys} keys, server CPU a call"),
    );
    report.carries("AcquireRebuild, hit", hit);
    report.carries("AcquireRebuild, forced", exchanges[0]);
    report.carries("ReportValue", exchanges[1]);
    for (name, [few, many]) in [("(a)", [&runs[0], &runs[1]]), ("(b)", [&runs[2], &runs[3]])] {
        report.figures.push(few.cost(&format!("{name} 1,000 keys"))?);
        report.figures.push(many.cost(&format!("{name} {many_keys} keys"))?);
        report
            .figures
            .push(growth(&format!("{name} {many_keys} keys ÷ 1,000 keys"), few, many)?);
    }
    report
        .notes
        .push("rebuilds are forced on keys that are there, so that their number stays".to_owned());
    Ok(report)
}

fn growth(name: &str, few: &Runs, many: &Runs) -> anyhow::Result<Figure> {
    let costs = few
        .drover
        .iter()
        .zip(&many.drover)
        .filter_map(|(few, many)| few.cpu_per_call().zip(many.cpu_per_call()));
    let pairs = costs
        .map(|(few, many)| Pair {
            drover: many / few,
            bare: None,
        })
        .collect();
    Figure::new(name, Unit::Times, pairs, Some(GROWTH))
}

/// Stores `count` values under the keys of `kind` that stay for a day.
pub async fn populate(bench: &Bench, side: &Side, kind: char, count: u64, bar: &ProgressBar) -> anyhow::Result<()> {
    let (connections, concurrency) = FILL;
    let channels = side.connect(connections).await?;
    let shape = Shape {
        concurrency,
        calls: count,
        max_time: std::time::Duration::MAX,
    };
    let stored = closed_loop(side, &channels, shape, |_, channel| Fill {
        client: Coordinator::new(channel),
        caller: Arc::clone(&bench.caller),
        kind,
        bar: bar.clone(),
    });
    stored.await?;
    bar.finish_and_clear();
    Ok(())
}

/// One after the other: drover, bare, drover, bare … The first round only warms up.
#[derive(Clone, Copy)]
struct Round {
    shape: Shape,
    counts: bool,
}

impl Round {
    fn all(bench: &Bench) -> impl Iterator<Item = Self> + use<> {
        let shape = bench.shape();
        let warming = Self {
            shape: Shape {
                calls: (shape.calls / 10).max(1),
                ..shape
            },
            counts: false,
        };
        let counted = Self { shape, counts: true };
        std::iter::once(warming).chain(std::iter::repeat_n(counted, bench.args.pairs as usize))
    }
}

/// The loads of a case, in the order of the rounds.
#[derive(Default)]
struct Runs {
    drover: Vec<Load>,
    bare: Vec<Load>,
}

impl Runs {
    fn keep(&mut self, round: Round, drover: Load, bare: Option<Load>) {
        if round.counts {
            self.drover.push(drover);
            self.bare.extend(bare);
        }
    }

    /// Pairs of what `number` reads from a load; a run that it cannot be read from is left out.
    fn pairs(&self, number: impl Fn(&Load) -> Option<f64>) -> Vec<Pair> {
        let bare = |index: usize| self.bare.get(index).and_then(&number);
        let runs = self.drover.iter().enumerate();
        runs.filter_map(|(index, load)| {
            Some(Pair {
                drover: number(load)?,
                bare: bare(index),
            })
        })
        .collect()
    }

    fn cost(&self, name: &str) -> anyhow::Result<Figure> {
        Figure::new(name, Unit::Nanoseconds, self.pairs(Load::cpu_per_call), Some(COST))
    }

    /// The cost, if it can be read, and what the clients saw.
    fn figures(&self) -> anyhow::Result<Vec<Figure>> {
        let mut figures = Vec::new();
        if self.drover.iter().any(|load| load.cpu_per_call().is_some()) {
            figures.push(self.cost("server CPU a call")?);
        }
        figures.push(Figure::new(
            "calls",
            Unit::PerSecond,
            self.pairs(|load| Some(load.rate())),
            None,
        )?);
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let pairs = self.pairs(|load| Some(load.quantile(share)));
            figures.push(Figure::new(name, Unit::Nanoseconds, pairs, None)?);
        }
        Ok(figures)
    }
}

/// A server and the connections that its runs go over.
struct Lane<'a> {
    side: &'a Side,
    channels: Vec<Channel>,
    caller: Arc<Caller>,
}

impl<'a> Lane<'a> {
    async fn open(bench: &Bench, side: &'a Side) -> anyhow::Result<Self> {
        let channels = side.connect(bench.args.connections).await?;
        Ok(Self {
            side,
            channels,
            caller: Arc::clone(&bench.caller),
        })
    }

    async fn maybe(bench: &Bench, side: Option<&'a Side>) -> anyhow::Result<Option<Self>> {
        match side {
            Some(side) => Self::open(bench, side).await.map(Some),
            None => Ok(None),
        }
    }

    fn client(&self) -> Coordinator {
        Coordinator::new(self.channels[0].clone())
    }

    async fn hits(&self, shape: Shape, kind: char, keys: u64) -> anyhow::Result<Load> {
        let make = |_, channel| Hits {
            client: Coordinator::new(channel),
            caller: Arc::clone(&self.caller),
            kind,
            keys,
        };
        closed_loop(self.side, &self.channels, shape, make).await
    }

    async fn rebuilds(&self, shape: Shape, keys: Keys) -> anyhow::Result<Load> {
        let workers = (self.channels.len() * shape.concurrency) as u64;
        let make = |index: usize, channel| Rebuilds {
            client: Coordinator::new(channel),
            caller: Arc::clone(&self.caller),
            keys: keys.clone(),
            share: (index as u64, workers),
        };
        closed_loop(self.side, &self.channels, shape, make).await
    }

    async fn echoes<const N: usize>(&self, shape: Shape, asks: [Ask; N]) -> anyhow::Result<Load> {
        let make = |_, channel| Echoes {
            client: bare::Client::new(channel),
            asks: asks.clone(),
        };
        closed_loop(self.side, &self.channels, shape, make).await
    }

    async fn sample_hits(&self, kind: char, keys: u64) -> anyhow::Result<Exchange> {
        let (mut client, mut exchanges) = (self.client(), Vec::new());
        for number in 0..SAMPLE.min(keys) {
            let request = self.caller.acquire(self.caller.key(kind, number));
            let answer = client
                .acquire_rebuild(request.clone())
                .await
                .map_err(explained)?
                .into_inner();
            exchanges.push(Exchange::of(&request, &answer));
            wire::fresh(answer)?;
        }
        Ok(Exchange::mean(&exchanges))
    }

    async fn sample_rebuilds(&self, keys: &Keys) -> anyhow::Result<[Exchange; 2]> {
        let (mut client, mut acquires, mut reports) = (self.client(), Vec::new(), Vec::new());
        for _ in 0..SAMPLE {
            let key = keys.next(&self.caller, (0, 1));
            let request = keys.question(&self.caller, key.clone());
            let answer = client
                .acquire_rebuild(request.clone())
                .await
                .map_err(explained)?
                .into_inner();
            acquires.push(Exchange::of(&request, &answer));
            let report = keys.report(&self.caller, key, &wire::granted(answer)?);
            let answer = client
                .report_value(report.clone())
                .await
                .map_err(explained)?
                .into_inner();
            reports.push(Exchange::of(&report, &answer));
            wire::accepted(&answer)?;
        }
        Ok([Exchange::mean(&acquires), Exchange::mean(&reports)])
    }
}

fn ask(exchange: Exchange) -> Ask {
    Ask::sized(exchange.request, exchange.answer, 0)
}

/// Asks for keys that are fresh, in random order.
struct Hits {
    client: Coordinator,
    caller: Arc<Caller>,
    kind: char,
    keys: u64,
}

impl Worker for Hits {
    const CALLS: u64 = 1;

    async fn turn(&mut self, _: u64, laps: &mut Laps) -> anyhow::Result<()> {
        let request = self
            .caller
            .acquire(self.caller.key(self.kind, rand::random_range(0..self.keys)));
        let answer = laps.answer(self.client.acquire_rebuild(request)).await?;
        wire::fresh(answer).map(drop)
    }
}

/// Which keys are rebuilt.
#[derive(Clone)]
enum Keys {
    /// New ones of this kind, numbered on.
    Distinct(char, Arc<AtomicU64>),
    /// Those of this kind that are there, so many, in random order.
    Standing(char, u64),
}

impl Keys {
    /// A key for one of several workers: `share` is its place and their number, so that no two ever meet on a key.
    fn next(&self, caller: &Caller, share: (u64, u64)) -> String {
        match self {
            Self::Distinct(kind, numbers) => caller.key(*kind, numbers.fetch_add(1, Ordering::Relaxed)),
            Self::Standing(kind, count) => {
                let (place, workers) = share;
                caller.key(*kind, rand::random_range(0..(count / workers).max(1)) * workers + place)
            }
        }
    }

    fn question(&self, caller: &Caller, key: String) -> crate::proto::AcquireRebuildRequest {
        match self {
            Self::Distinct(..) => caller.acquire(key),
            Self::Standing(..) => caller.force(key),
        }
    }

    fn report(&self, caller: &Caller, key: String, lease: &crate::proto::Lease) -> crate::proto::ReportValueRequest {
        match self {
            Self::Distinct(..) => caller.report(key, lease),
            Self::Standing(..) => caller.report_lasting(key, lease),
        }
    }
}

/// Takes the lease of a key and reports its value.
struct Rebuilds {
    client: Coordinator,
    caller: Arc<Caller>,
    keys: Keys,
    share: (u64, u64),
}

impl Worker for Rebuilds {
    const CALLS: u64 = 2;

    async fn turn(&mut self, _: u64, laps: &mut Laps) -> anyhow::Result<()> {
        let key = self.keys.next(&self.caller, self.share);
        let question = self.keys.question(&self.caller, key.clone());
        let lease = wire::granted(laps.answer(self.client.acquire_rebuild(question)).await?)?;
        let report = self.keys.report(&self.caller, key, &lease);
        wire::accepted(&laps.answer(self.client.report_value(report)).await?)
    }
}

/// Fills a population: one turn, one key.
struct Fill {
    client: Coordinator,
    caller: Arc<Caller>,
    kind: char,
    bar: ProgressBar,
}

impl Worker for Fill {
    const CALLS: u64 = 1;

    async fn turn(&mut self, turn: u64, _: &mut Laps) -> anyhow::Result<()> {
        self.caller
            .store(&mut self.client, self.caller.key(self.kind, turn))
            .await?;
        self.bar.inc(1);
        Ok(())
    }
}

/// Calls of the same sizes, in turn, to the bare server.
struct Echoes<const N: usize> {
    client: bare::Client,
    asks: [Ask; N],
}

impl<const N: usize> Worker for Echoes<N> {
    const CALLS: u64 = N as u64;

    async fn turn(&mut self, _: u64, laps: &mut Laps) -> anyhow::Result<()> {
        for ask in &self.asks {
            laps.time(self.client.echo(ask.clone())).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn workers_never_meet_on_a_key_that_is_there() {
        let caller = Caller::new("bench".to_owned(), 32);
        let keys = Keys::Standing('k', FEW);
        let of = |place| {
            (0..2_000)
                .map(|_| keys.next(&caller, (place, 64)))
                .collect::<HashSet<_>>()
        };
        let (one, other) = (of(3), of(4));
        assert!(one.is_disjoint(&other));
        assert_eq!(one.len(), 15, "1,000 keys over 64 workers");
        let highest = caller.key('k', FEW - 1);
        assert!(of(63).iter().all(|key| *key <= highest));
    }

    #[test]
    fn distinct_keys_are_never_given_twice() {
        let caller = Caller::new("bench".to_owned(), 32);
        let keys = Keys::Distinct('b', Arc::default());
        let given: HashSet<_> = (0..100).map(|_| keys.clone().next(&caller, (0, 1))).collect();
        assert_eq!(given.len(), 100);
    }
}
