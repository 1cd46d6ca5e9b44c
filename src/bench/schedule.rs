//! Cases (l) and (m): what it costs to keep a refresh in the schedule, and how long after it is due a worker has it.
//!
//! *Invariants:* in (l) the same server without a worker, which schedules nothing, takes turns with the one that is measured; lateness is counted
//! by the worker, from the earliest moment at which the refresh can have been due, so it is never counted too short.
//!
//! *Why from the earliest*: only the server knows where in its slot it put a key, and from when it counts. With slots of a millisecond and calls
//! of a few hundred keys that hardly matters.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use prost_types::Duration as Length;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use super::Bench;
use super::calls::{Runs, in_turns, rounds};
use super::lane::{Keys, Lane, Work, populate};
use super::load::{Load, Shape, explained, quantile_nanos};
use super::report::{CaseReport, Figure, Target};
use super::side::Side;
use super::stats::Pair;
use super::unit::Unit;
use super::wire::{self, Coordinator};
use crate::proto::pull_refreshes_response::Event;
use crate::proto::{
    PullRefreshesRequest, PullRefreshesResponse, RefreshTask, Register, ReportValueRequest, ScheduleRefreshRequest,
    pull_refreshes_request,
};

/// Scheduled refreshes at which the cost is measured, besides `--keys`.
const POPULATIONS: [u64; 2] = [1_000, 100_000];
/// With very many a refresh may cost so much more.
const FLAT: Target = Target::AtMost(1.10);
/// From due to a worker that has nothing else to do.
const LATE: Target = Target::AtMost(50e6);
/// Refreshes of a run that looks at lateness: so many calls, each with so many keys over so long.
const CALLS: u64 = 10;
const A_CALL: u64 = 500;
const SPREAD: Duration = Duration::from_millis(500);
const PLANNED: u64 = CALLS * A_CALL;
/// Workers that wait for them, and how many tasks each may have.
const WORKERS: usize = 2;
const IN_FLIGHT: i32 = 10_000;
/// A refresh that has not come so long after the last was due is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Case (l).
pub async fn cost(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (staffed, plain) = (bench.roomy_drover().await?, bench.roomy_drover().await?);
    // It takes nothing: what is scheduled stays so.
    let idle = Worker::open(bench, &staffed, 0).await?;
    let sides = [&staffed, &plain];
    let mut report = CaseReport::new(
        'l',
        "AcquireRebuild + ReportValue where each value's refresh is scheduled",
    );
    let mut costs: Vec<(String, Runs)> = Vec::new();
    let mut before = None;
    let counts: Vec<u64> = POPULATIONS
        .into_iter()
        .filter(|count| *count < bench.args.keys)
        .collect();
    for count in counts.into_iter().chain([bench.args.keys]) {
        let shown = Unit::Count.shown(count as f64);
        for side in sides {
            populate(bench, side, 'k', count, &bench.progress("(l) filling", count)).await?;
        }
        let resident = [staffed.resident_at_rest().await?, plain.resident_at_rest().await?];
        let (least, at_first) = *before.get_or_insert((count, resident));
        if count == bench.args.keys && count > least {
            let grown = |place: usize| resident[place] as f64 - at_first[place] as f64;
            let bytes = (grown(0) - grown(1)) / (count - least) as f64;
            let figure = Figure::new(
                "memory a scheduled refresh",
                Unit::Bytes,
                vec![Pair::alone(bytes)],
                None,
            )?;
            report.figures.push(figure);
        }
        let runs = rebuilds(bench, sides, count, &shown).await?;
        costs.push((shown, runs));
    }
    for (shown, runs) in &costs {
        let pairs = runs.pairs(Load::cpu_per_call);
        let name = format!("{shown} scheduled: server CPU a call");
        report.figures.push(Figure::new(&name, Unit::Nanoseconds, pairs, None)?);
    }
    if let [(few, least), .., (many, most)] = &costs[..] {
        let ratios =
            |runs: &Runs| -> Vec<f64> { runs.pairs(Load::cpu_per_call).iter().filter_map(Pair::ratio).collect() };
        let growth = ratios(least).into_iter().zip(ratios(most));
        let growth = growth.map(|(few, many)| Pair::alone(many / few)).collect();
        let name = format!("ratio with {many} ÷ with {few} scheduled");
        report
            .figures
            .push(Figure::new(&name, Unit::Times, growth, Some(FLAT))?);
    }
    report
        .figures
        .extend(lateness(bench, &staffed, "(l) planned refreshes").await?);
    drop(idle);
    report.note(
        "bare: the same server without a worker in the namespace, where nothing is scheduled; both hold the same keys",
    );
    report.note(PLANNED_NOTE);
    Ok(report)
}

const PLANNED_NOTE: &str = "due to worker: 5,000 planned refreshes over 5 s, 500 a call, beside all that is scheduled; each is reported by the worker that has it";

/// Case (m).
pub async fn shared(bench: &Bench) -> anyhow::Result<CaseReport> {
    let redis = bench.redis().await?;
    let replicas = bench.replicas(2, &redis).await?;
    let mut report = CaseReport::new(
        'm',
        "Planned refreshes at two replicas, a worker at each, store in Redis",
    );
    report.figures = lateness(bench, &replicas, "(m) planned refreshes").await?;
    report.note(PLANNED_NOTE);
    Ok(report)
}

async fn rebuilds(bench: &Bench, [staffed, plain]: [&Side; 2], count: u64, shown: &str) -> anyhow::Result<Runs> {
    let (staffed, plain) = (Lane::open(bench, staffed).await?, Lane::open(bench, plain).await?);
    let work = Work::Rebuilds(Keys::Standing('k', count));
    let half = Shape {
        calls: (bench.shape().calls / 2).max(1),
        ..bench.shape()
    };
    let progress = bench.progress(&format!("(l) {shown} scheduled"), rounds(bench));
    in_turns(bench, half, (&staffed, work.clone()), Some((&plain, work)), &progress).await
}

/// How late workers have what is planned, in as many runs as there are pairs.
async fn lateness(bench: &Bench, side: &Side, title: &str) -> anyhow::Result<Vec<Figure>> {
    let progress = bench.progress(title, rounds(bench));
    let (mut middle, mut tail, mut cpu) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=bench.args.pairs {
        let run = Planned::run(bench, side, u64::from(round)).await?;
        progress.inc(1);
        // The first opens connections.
        if round > 0 {
            middle.push(Pair::alone(quantile_nanos(&run.late, 0.5)?));
            tail.push(Pair::alone(quantile_nanos(&run.late, 0.99)?));
            cpu.extend(run.cpu.map(|cpu| Pair::alone(cpu.as_nanos() as f64 / PLANNED as f64)));
        }
    }
    progress.finish_and_clear();
    Ok(vec![
        Figure::new("due to worker, p50", Unit::Nanoseconds, middle, None)?,
        Figure::new("due to worker, p99", Unit::Nanoseconds, tail, Some(LATE))?,
        Figure::new("server CPU a refresh, with its report", Unit::Nanoseconds, cpu, None)?,
    ])
}

/// What a run of planned refreshes brought.
struct Planned {
    late: Vec<Duration>,
    cpu: Option<Duration>,
}

impl Planned {
    async fn run(bench: &Bench, side: &Side, round: u64) -> anyhow::Result<Self> {
        let mut channels = side.connect(WORKERS).await?;
        let (told, mut tasks) = mpsc::unbounded_channel();
        let mut working = JoinSet::new();
        for channel in &channels {
            let worker = Worker::over(bench, channel.clone(), IN_FLIGHT).await?;
            working.spawn(worker.work(bench.caller.clone(), told.clone()));
        }
        drop(told);
        let first = round * PLANNED;
        let before = side.cpu()?;
        let mut client = Coordinator::new(channels.remove(0));
        let mut sent = Vec::new();
        let begun = Instant::now();
        for call in 0..CALLS {
            tokio::time::sleep_until(begun + SPREAD * call as u32).await;
            sent.push(Instant::now());
            let from = first + call * A_CALL;
            let keys = (from..from + A_CALL).map(|number| bench.caller.key('s', number));
            let request = ScheduleRefreshRequest {
                namespace: bench.args.namespace.clone(),
                keys: keys.collect(),
                spread_over: length(SPREAD),
                ..ScheduleRefreshRequest::default()
            };
            let answer = client.schedule_refresh(request).await.map_err(explained)?.into_inner();
            if i64::from(answer.scheduled) != A_CALL as i64 {
                bail!("{} of {A_CALL} refreshes were planned", answer.scheduled);
            }
        }
        let latest = Instant::now() + SPREAD + PATIENCE;
        let mut late = Vec::new();
        let mut seen = HashSet::new();
        while late.len() < PLANNED as usize {
            let task = timeout_at(latest, tasks.recv()).await.ok().flatten();
            let Some((key, at)) = task else {
                if let Some(ended) = working.try_join_next() {
                    ended.context("a worker")??;
                }
                bail!("{} of {PLANNED} refreshes came to a worker", late.len());
            };
            if !seen.insert(key.clone()) {
                bail!("{key} came to a worker twice");
            }
            let number: u64 = key
                .rsplit('-')
                .next()
                .unwrap_or_default()
                .parse()
                .context("a key of the bench")?;
            let (call, place) = ((number - first) / A_CALL, (number - first) % A_CALL);
            let due = sent[call as usize] + SPREAD.mul_f64(place as f64 / A_CALL as f64);
            late.push(at.saturating_duration_since(due));
        }
        let cpu = before.zip(side.cpu()?).map(|(before, after)| after.since(&before));
        working.shutdown().await;
        Ok(Self { late, cpu })
    }
}

/// A worker's stream. It works for as long as this is held.
struct Worker {
    client: Coordinator,
    _asks: mpsc::UnboundedSender<PullRefreshesRequest>,
    events: Streaming<PullRefreshesResponse>,
}

impl Worker {
    async fn open(bench: &Bench, side: &Side, in_flight: i32) -> anyhow::Result<Self> {
        let channel = side.connect(1).await?.remove(0);
        Self::over(bench, channel, in_flight).await
    }

    async fn over(bench: &Bench, channel: Channel, in_flight: i32) -> anyhow::Result<Self> {
        let mut client = Coordinator::new(channel);
        let (asks, sent) = mpsc::unbounded_channel();
        let register = Register {
            namespaces: vec![bench.args.namespace.clone()],
            holder: "bench-worker".to_owned(),
            max_in_flight: in_flight,
            ..Register::default()
        };
        let kind = Some(pull_refreshes_request::Kind::Register(register));
        asks.send(PullRefreshesRequest { kind })?;
        let answer = client.pull_refreshes(UnboundedReceiverStream::new(sent)).await;
        let mut events = answer.map_err(explained)?.into_inner();
        match events
            .message()
            .await
            .map_err(explained)?
            .and_then(|message| message.event)
        {
            Some(Event::Started(_)) => Ok(Self {
                client,
                _asks: asks,
                events,
            }),
            other => bail!("a worker was not told that it has started, but {other:?}"),
        }
    }

    /// Reports each task that comes and then tells of it, and when it came: so none is left when all have been told of.
    async fn work(
        mut self,
        caller: Arc<wire::Caller>,
        told: mpsc::UnboundedSender<(String, Instant)>,
    ) -> anyhow::Result<()> {
        let mut reports = JoinSet::new();
        while let Some(message) = self.events.message().await.map_err(explained)? {
            let Some(Event::Task(task)) = message.event else {
                continue;
            };
            let at = Instant::now();
            let report = report(&caller, &task)?;
            let (mut client, told) = (self.client.clone(), told.clone());
            reports.spawn(async move {
                let answer = client.report_value(report).await.map_err(explained)?;
                wire::accepted(&answer.into_inner())?;
                told.send((task.key, at)).context("nobody listens to a worker")
            });
            while let Some(reported) = reports.try_join_next() {
                reported??;
            }
        }
        bail!("a worker's stream has ended")
    }
}

fn report(caller: &wire::Caller, task: &RefreshTask) -> anyhow::Result<ReportValueRequest> {
    let lease = task.lease.as_ref().context("a task came without a lease")?;
    Ok(caller.report_lasting(task.key.clone(), lease))
}

fn length(length: Duration) -> Option<Length> {
    Length::try_from(length).ok()
}
