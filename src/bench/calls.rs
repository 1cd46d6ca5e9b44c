//! Cases (a), (b) and (g): what the server's CPU pays for a call.
//!
//! *Invariants:* the servers of a case take turns in short slices, first in one order and then in the other, over connections that
//! were open and warm before; the bare server carries messages as long as drover's were in a sample taken before; in (g) the number
//! of keys stays what it is, because its rebuilds are forced on keys that are there.
//!
//! *Why slices:* a run of a second or two falls into one mood of a shared machine and the next run into another; with slices that
//! are a fraction of it both servers of a pair see the same moods, and the pairs agree.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::bail;
use indicatif::ProgressBar;

use super::Bench;
use super::bare::Ask;
use super::lane::{Keys, Lane, Work, populate};
use super::load::{Load, Shape};
use super::memory::{Filled, filled};
use super::report::{CaseReport, Figure, Target};
use super::side::Side;
use super::stats::Pair;
use super::unit::Unit;
use super::wire::Exchange;

/// A call may cost so many bare calls.
const COST: Target = Target::RatioAtMost(1.25);
/// With very many keys a call may cost so much more.
const GROWTH: Target = Target::AtMost(1.10);
/// Keys of (a), and the small population of (g).
const FEW: u64 = 1_000;
/// Slices of a run. Even: every server is first as often as last.
const SLICES: u64 = 8;

/// Case (a).
pub async fn fresh(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (drover, bare) = (bench.drover().await?, bench.bare().await?);
    populate(bench, &drover, 'a', FEW, &ProgressBar::hidden()).await?;
    let lane = Lane::open(bench, &drover).await?;
    let exchange = lane.sample_hits('a', FEW).await?;
    let progress = bench.progress("(a) fresh key", rounds(bench));
    let runs = compared(
        bench,
        (&lane, Work::Hits('a', FEW)),
        (bare.as_ref(), Work::Echo(ask(exchange))),
        &progress,
    );
    let mut report = CaseReport::new('a', "AcquireRebuild of a fresh key");
    report.figures = runs.await?.figures()?;
    report.carries("AcquireRebuild", exchange);
    Ok(report)
}

/// Case (b).
pub async fn rebuilds(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (drover, bare) = (bench.drover().await?, bench.bare().await?);
    let lane = Lane::open(bench, &drover).await?;
    let keys = Keys::Distinct('b', Arc::new(AtomicU64::new(0)));
    let exchanges = lane.sample_rebuilds(&keys).await?;
    let progress = bench.progress("(b) rebuild and report", rounds(bench));
    let echoes = Work::Echoes(exchanges.map(ask));
    let runs = compared(bench, (&lane, Work::Rebuilds(keys)), (bare.as_ref(), echoes), &progress);
    let mut report = CaseReport::new('b', "AcquireRebuild + ReportValue over distinct keys, per call");
    report.figures = runs.await?.figures()?;
    report.carries("AcquireRebuild", exchanges[0]);
    report.carries("ReportValue", exchanges[1]);
    Ok(report)
}

/// Case (g): both with few and with many keys, on two servers, beside one bare server.
pub async fn populations(bench: &Bench, slot: &mut Option<Filled>) -> anyhow::Result<CaseReport> {
    if bench.args.connections * bench.args.concurrency > FEW as usize {
        bail!("(g) rebuilds each of 1,000 keys one at a time: keep --connections × --concurrency at or below 1000");
    }
    let large = filled(bench, slot).await?;
    let (small, bare) = (bench.drover().await?, Side::bare(bench.workers).await?);
    populate(bench, &small, 'k', FEW, &ProgressBar::hidden()).await?;
    let few = Lane::open(bench, &small).await?;
    let many = Lane::open(bench, &large.side).await?;
    let echo = Lane::open(bench, &bare).await?;
    let lanes = [&few, &many, &echo];
    let keys = bench.args.keys;
    let many_keys = Unit::Count.shown(keys as f64);
    let title = format!("(a) and (b) with 1,000 and with {many_keys} keys: server CPU a call");
    let mut report = CaseReport::new('g', &title);
    let progress = bench.progress("(g) few and many keys", 2 * rounds(bench));

    let hit = few.sample_hits('k', FEW).await?;
    report.carries("AcquireRebuild, hit", hit);
    let works = [Work::Hits('k', FEW), Work::Hits('k', keys), Work::Echo(ask(hit))];
    let figures = with_both(bench, "(a)", lanes, works, large.share_at_rest, &progress);
    report.figures.extend(figures.await?);

    let rebuild = few.sample_rebuilds(&Keys::Standing('k', FEW)).await?;
    report.carries("AcquireRebuild, forced", rebuild[0]);
    report.carries("ReportValue", rebuild[1]);
    let rebuilds = |count| Work::Rebuilds(Keys::Standing('k', count));
    let works = [rebuilds(FEW), rebuilds(keys), Work::Echoes(rebuild.map(ask))];
    let figures = with_both(bench, "(b)", lanes, works, large.share_at_rest, &progress);
    report.figures.extend(figures.await?);
    progress.finish_and_clear();

    report.note("rebuilds are forced on keys that are there, so that their number stays");
    report.note(&format!(
        "at rest {many_keys} keys use {} of CPU a second; the slower the machine makes the calls, the more of it each pays",
        Unit::Nanoseconds.shown(large.share_at_rest * 1e9)
    ));
    Ok(report)
}

/// The figures of one kind of work: with few keys, with many, and beside the bare server, in turn.
async fn with_both(
    bench: &Bench,
    name: &str,
    [few, many, echo]: [&Lane<'_>; 3],
    [work_few, work_many, work_echo]: [Work; 3],
    share_at_rest: f64,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Figure>> {
    let works = [(few, work_few), (many, work_many), (echo, work_echo)];
    let mut runs: [Vec<Load>; 3] = Default::default();
    for (counts, shape) in shapes(bench, bench.shape()) {
        let loads = take_turns(&works, shape).await?;
        for (kept, load) in runs.iter_mut().zip(loads).filter(|_| counts) {
            kept.push(load);
        }
        progress.inc(1);
    }
    let [few, many, bare] = runs;
    let few = Runs {
        drover: few,
        bare: bare.clone(),
    };
    let many = Runs { drover: many, bare };
    let keys = Unit::Count.shown(bench.args.keys as f64);
    Ok(vec![
        few.cost(&format!("{name} 1,000 keys"))?,
        many.cost(&format!("{name} {keys} keys"))?,
        growth(&format!("{name} {keys} ÷ 1,000 keys"), &few, &many, 0.0, Some(GROWTH))?,
        growth("    less what rest costs", &few, &many, share_at_rest, None)?,
    ])
}

/// How many times the cost with few keys the cost with many is, less the `share` of a core that many keys use at rest.
fn growth(name: &str, few: &Runs, many: &Runs, share: f64, target: Option<Target>) -> anyhow::Result<Figure> {
    let rounds = few.drover.iter().zip(&many.drover);
    let costs = rounds.filter_map(|(few, many)| few.cpu_per_call().zip(many.cpu_per_call_beyond(share)));
    let pairs = costs.map(|(few, many)| Pair::alone(many / few)).collect();
    Figure::new(name, Unit::Times, pairs, target)
}

fn ask(exchange: Exchange) -> Ask {
    Ask::sized(exchange.request, exchange.answer, 0)
}

/// Rounds of a case: a short one that warms up, then the pairs.
fn shapes(bench: &Bench, shape: Shape) -> impl Iterator<Item = (bool, Shape)> + use<> {
    let warming = Shape {
        calls: (shape.calls / 10).max(1),
        ..shape
    };
    std::iter::once((false, warming)).chain(std::iter::repeat_n((true, shape), bench.args.pairs as usize))
}

pub fn rounds(bench: &Bench) -> u64 {
    u64::from(bench.args.pairs) + 1
}

/// One run of each, cut into slices that alternate: 1, 2, 3, then 3, 2, 1, and so on.
async fn take_turns(works: &[(&Lane<'_>, Work)], shape: Shape) -> anyhow::Result<Vec<Load>> {
    let slice = Shape {
        calls: shape.calls.div_ceil(SLICES),
        max_time: shape.max_time / SLICES as u32,
        ..shape
    };
    let mut loads: Vec<Option<Load>> = vec![None; works.len()];
    for turn in 0..SLICES {
        for place in 0..works.len() {
            let index = if turn % 2 == 0 { place } else { works.len() - 1 - place };
            let (lane, work) = &works[index];
            let load = lane.run(work, slice).await?;
            loads[index] = Some(match loads[index].take() {
                Some(sum) => sum.and(&load)?,
                None => load,
            });
        }
    }
    Ok(loads.into_iter().flatten().collect())
}

/// Runs of drover's work and of the bare work beside it.
pub async fn compared(
    bench: &Bench,
    (lane, work): (&Lane<'_>, Work),
    (bare, echoes): (Option<&Side>, Work),
    progress: &ProgressBar,
) -> anyhow::Result<Runs> {
    let beside = match bare {
        Some(side) => Some(Lane::open(bench, side).await?),
        None => None,
    };
    let beside = beside.as_ref().map(|lane| (lane, echoes));
    in_turns(bench, bench.shape(), (lane, work), beside, progress).await
}

/// Runs of one kind of work and of what it is compared with.
pub async fn in_turns(
    bench: &Bench,
    shape: Shape,
    measured: (&Lane<'_>, Work),
    beside: Option<(&Lane<'_>, Work)>,
    progress: &ProgressBar,
) -> anyhow::Result<Runs> {
    let works: Vec<_> = std::iter::once(measured).chain(beside).collect();
    let mut runs = Runs {
        drover: Vec::new(),
        bare: Vec::new(),
    };
    for (counts, shape) in shapes(bench, shape) {
        let mut loads = take_turns(&works, shape).await?.into_iter();
        if counts {
            runs.drover.extend(loads.next());
            runs.bare.extend(loads.next());
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(runs)
}

/// The loads of a case, in the order of the pairs.
pub struct Runs {
    drover: Vec<Load>,
    bare: Vec<Load>,
}

impl Runs {
    /// Pairs of what `number` reads from a load; a run that it cannot be read from is left out.
    pub fn pairs(&self, number: impl Fn(&Load) -> Option<f64>) -> Vec<Pair> {
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
