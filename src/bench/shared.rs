//! Cases (h) and (i): replicas that share a Redis, beside a bare service that makes the same trips to it.
//!
//! *Invariants:* both are on one server and each in a partition of its own; the bare service makes as many script calls a call as drover,
//! with arguments as long, appends the same records and reads them: that it does is a figure of its own.
//!
//! *Why throughput and not CPU a call*: with a store elsewhere a call is mostly waiting, and what the callers see is what counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::Bench;
use super::bare::{self, Ask};
use super::calls::{Runs, compared, rounds};
use super::herd::Couple;
use super::lane::{Keys, Lane, Work};
use super::lesson::{self, Lesson};
use super::load::{Load, Shape, explained, quantile_nanos};
use super::redis::Redis;
use super::report::{CaseReport, Figure, Target};
use super::side::Side;
use super::stats::Pair;
use super::unit::Unit;
use super::wire::{Coordinator, Exchange};
use crate::proto::watch_response::Event;

/// Of the bare service's calls a second.
const CALLS: Target = Target::RatioAtLeast(0.8);
/// Of the bare service's script calls: it makes the same.
const TRIPS: Target = Target::RatioAtMost(1.05);
/// From a report at one replica to the answer of a waiter at another.
const WAKE_UP: Target = Target::AtMost(5e6);
/// Calls over which trips are counted; no more than a run makes.
const COUNTED: u64 = 4_000;
/// Wake-ups of a run in (i); no more than a run makes calls.
const WAKE_UPS: u64 = 500;
/// A caller must be parked, and a watcher live, within this.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many replicas, and whether a watcher at each wants to hear of every report.
#[derive(Clone, Copy)]
struct Setting {
    name: &'static str,
    replicas: usize,
    watched: bool,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        name: "1 replica",
        replicas: 1,
        watched: false,
    },
    Setting {
        name: "2 replicas",
        replicas: 2,
        watched: false,
    },
    Setting {
        name: "2, watched",
        replicas: 2,
        watched: true,
    },
];

/// Case (h).
pub async fn throughput(bench: &Bench) -> anyhow::Result<CaseReport> {
    let mut report = CaseReport::new('h', "AcquireRebuild + ReportValue over distinct keys, store in Redis");
    let progress = bench.progress("(h) replicas on a Redis", SETTINGS.len() as u64 * rounds(bench));
    for setting in SETTINGS {
        let (figures, sizes) = one_setting(bench, setting, &progress).await?;
        if report.messages.is_empty() {
            report.carries("AcquireRebuild", sizes[0]);
            report.carries("ReportValue", sizes[1]);
        }
        report.figures.extend(figures);
    }
    progress.finish_and_clear();
    report.note("bare: a tonic service that makes the same script calls over the same number of connections, and reads the same streams");
    report.note(
        "watched: a watcher at each replica hears of every report, so that each is recorded in the log and read by all",
    );
    Ok(report)
}

async fn one_setting(
    bench: &Bench,
    setting: Setting,
    progress: &indicatif::ProgressBar,
) -> anyhow::Result<(Vec<Figure>, [Exchange; 2])> {
    let redis = bench.redis().await?;
    let drover = bench.replicas(setting.replicas, &redis).await?;
    let lesson = lesson::record(bench, &redis, &drover).await?;
    let bare = Side::bares(setting.replicas, bench.workers).await?;
    lesson::teach(&bare, &lesson).await?;
    let mut watching = None;
    if setting.watched {
        lesson::record_refreshed(&redis, &lesson).await?;
        watching = Some(Watching::open(bench, &drover, &bare).await?);
    }
    let lane = Lane::open(bench, &drover).await?;
    let keys = Keys::Distinct('h', Arc::new(AtomicU64::new(0)));
    let sizes = lane.sample_rebuilds(&keys).await?;
    let (work, replays) = (Work::Rebuilds(keys.clone()), Work::Replays(keys, sizes));
    let runs = compared(bench, (&lane, work.clone()), (Some(&bare), replays.clone()), progress).await?;
    let beside = Lane::open(bench, &bare).await?;
    let trips = Pair {
        drover: trips_a_call(bench, &redis, &lane, &work).await?,
        bare: Some(trips_a_call(bench, &redis, &beside, &replays).await?),
    };
    if let Some(watching) = watching {
        watching.check()?;
    }
    Ok((figures(setting.name, &runs, trips)?, sizes))
}

fn figures(name: &str, runs: &Runs, trips: Pair) -> anyhow::Result<Vec<Figure>> {
    let figure = |what: &str, unit, number: &dyn Fn(&Load) -> Option<f64>, target| {
        Figure::new(&format!("{name}: {what}"), unit, runs.pairs(number), target)
    };
    Ok(vec![
        figure("calls", Unit::PerSecond, &|load| Some(load.rate()), Some(CALLS))?,
        figure("p50", Unit::Nanoseconds, &|load| Some(load.quantile(0.5)), None)?,
        figure("p99", Unit::Nanoseconds, &|load| Some(load.quantile(0.99)), None)?,
        figure("server CPU a call", Unit::Nanoseconds, &Load::cpu_per_call, None)?,
        Figure::new(
            &format!("{name}: script calls a call"),
            Unit::Ratio,
            vec![trips],
            Some(TRIPS),
        )?,
    ])
}

/// Script calls that Redis counted, for each call of the clients.
async fn trips_a_call(bench: &Bench, redis: &Redis, lane: &Lane<'_>, work: &Work) -> anyhow::Result<f64> {
    let shape = Shape {
        concurrency: 4,
        calls: COUNTED.min(bench.args.calls),
        max_time: PATIENCE,
    };
    let before = redis.script_calls().await?;
    let load = lane.run(work, shape).await?;
    let made = redis.script_calls().await? - before;
    Ok(made as f64 / load.calls() as f64)
}

/// A watcher at each replica of both, who hears of every report.
struct Watching {
    tasks: JoinSet<anyhow::Result<()>>,
    /// What those of drover and those of the bare service have heard.
    heard: [Arc<AtomicU64>; 2],
}

impl Watching {
    async fn open(bench: &Bench, drover: &Side, bare: &Side) -> anyhow::Result<Self> {
        let (mut tasks, heard) = (JoinSet::new(), <[Arc<AtomicU64>; 2]>::default());
        for channel in drover.connect(drover.replicas_count()).await? {
            let request = tokio_stream::once(bench.caller.watch_refreshed());
            let stream = Coordinator::new(channel).watch(request).await.map_err(explained)?;
            let (mut stream, heard) = (stream.into_inner(), Arc::clone(&heard[0]));
            tasks.spawn(async move {
                while let Some(message) = stream.message().await.map_err(explained)? {
                    let refreshed = matches!(message.event, Some(Event::Refreshed(_)));
                    heard.fetch_add(u64::from(refreshed), Ordering::Relaxed);
                }
                bail!("the server ended a watcher's stream")
            });
        }
        for channel in bare.connect(bare.replicas_count()).await? {
            let mut stream = bare::Client::new(channel).subscribe().await.map_err(explained)?;
            let heard = Arc::clone(&heard[1]);
            tasks.spawn(async move {
                while stream.message().await.map_err(explained)?.is_some() {
                    heard.fetch_add(1, Ordering::Relaxed);
                }
                bail!("the bare server ended a subscriber's stream")
            });
        }
        Ok(Self { tasks, heard })
    }

    /// That they still watch, and that there was something to hear.
    fn check(mut self) -> anyhow::Result<()> {
        if let Some(ended) = self.tasks.try_join_next() {
            ended.context("a watcher failed")??;
        }
        let [drover, bare] = self.heard.map(|heard| heard.load(Ordering::Relaxed));
        if drover == 0 || bare == 0 {
            bail!("reports were not told to watchers: {drover} by drover, {bare} by the bare service");
        }
        Ok(())
    }
}

/// Case (i).
pub async fn wake_up(bench: &Bench) -> anyhow::Result<CaseReport> {
    let redis = bench.redis().await?;
    let drover = bench.replicas(2, &redis).await?;
    let lesson = lesson::record(bench, &redis, &drover).await?;
    let bare = Side::bares(2, bench.workers).await?;
    lesson::teach(&bare, &lesson).await?;
    let mut couple = Couple::open(drover.connect(2).await?)?;
    let mut beside = BareCouple::open(bare.connect(2).await?)?;
    let (mut halves, mut slowest, mut exchange, mut number) = (Vec::new(), Vec::new(), None, 0);
    let wake_ups = WAKE_UPS.min(bench.args.calls);
    let progress = bench.progress("(i) a wake-up elsewhere", (u64::from(bench.args.pairs) + 1) * wake_ups);
    for round in 0..=bench.args.pairs {
        let (mut woken, mut echoed) = (Vec::new(), Vec::new());
        for _ in 0..wake_ups {
            number += 1;
            let (took, sizes) = couple.hand_over(bench, bench.caller.key('i', number)).await?;
            woken.push(took);
            let sizes = *exchange.get_or_insert(sizes);
            echoed.push(beside.hand_over(bench.caller.key('i', number), sizes).await?);
            progress.inc(1);
        }
        if round > 0 {
            for (pairs, share) in [(&mut halves, 0.5), (&mut slowest, 0.99)] {
                pairs.push(Pair {
                    drover: quantile_nanos(&woken, share)?,
                    bare: Some(quantile_nanos(&echoed, share)?),
                });
            }
        }
    }
    progress.finish_and_clear();
    let mut report = CaseReport::new('i', "from a report at one replica to the answer of a waiter at another");
    report.carries("ReportValue → AcquireRebuild", exchange.context("no round was run")?);
    report
        .figures
        .push(Figure::new("p99", Unit::Nanoseconds, slowest, Some(WAKE_UP))?);
    report
        .figures
        .push(Figure::new("p50", Unit::Nanoseconds, halves, None)?);
    report.note(&format!(
        "{wake_ups} wake-ups a run, one at a time, drover and bare in turn; {}",
        trips(&lesson)
    ));
    Ok(report)
}

fn trips(lesson: &Lesson) -> String {
    let calls = |count: usize| {
        if count == 1 {
            "1 script call".to_owned()
        } else {
            format!("{count} script calls")
        }
    };
    format!(
        "a caller is parked after {}, and woken by {}",
        calls(lesson.park.len()),
        calls(lesson.woken.len())
    )
}

/// The same at two bare servers.
struct BareCouple {
    holder: bare::Client,
    waiter: bare::Client,
}

impl BareCouple {
    fn open(channels: Vec<Channel>) -> anyhow::Result<Self> {
        let Ok([holder, waiter]) = <[Channel; 2]>::try_from(channels) else {
            bail!("two connections are needed")
        };
        Ok(Self {
            holder: bare::Client::new(holder),
            waiter: bare::Client::new(waiter),
        })
    }

    async fn hand_over(&mut self, key: String, sizes: Exchange) -> anyhow::Result<Duration> {
        let granted = self
            .holder
            .grant(Ask::about(key.clone(), sizes))
            .await
            .map_err(explained)?;
        let (mut waiter, ask) = (self.waiter.clone(), Ask::about_grant(key.clone(), 0, sizes));
        let mut parked = JoinSet::new();
        parked.spawn(async move {
            waiter.wait(ask).await.map_err(explained)?;
            anyhow::Ok(Instant::now())
        });
        let started = Instant::now();
        while self.waiter.waiting().await.map_err(explained)? == 0 {
            if started.elapsed() > PATIENCE {
                bail!("a caller of the bare server is not parked after {PATIENCE:?}");
            }
            tokio::task::yield_now().await;
        }
        let report = Ask::about_grant(key, granted.revision, sizes);
        let sent = Instant::now();
        self.holder.report(report).await.map_err(explained)?;
        let woken = tokio::time::timeout(PATIENCE, parked.join_next()).await;
        let at = woken
            .context("a caller of the bare server was not woken")?
            .context("nobody was parked")???;
        Ok(at - sent)
    }
}
