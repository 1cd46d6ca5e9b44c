//! Case (k): what the invalidation of a tag costs with one partition and with those of a Cluster, all of which it is written to.
//!
//! *Invariants:* one call at a time, in turn at both stores, each about a tag of its own.

use std::time::Duration;

use tokio::time::Instant;
use tonic::transport::Channel;

use super::Bench;
use super::load::{explained, median_nanos};
use super::redis::Redis;
use super::report::{CaseReport, Figure};
use super::side::Side;
use super::stats::Pair;
use super::unit::Unit;
use super::wire::Coordinator;

/// Invalidations of a run.
const CALLS: u64 = 200;

/// A store, a replica on it, and what its runs brought.
struct Store {
    name: &'static str,
    redis: Redis,
    _drover: Side,
    channel: Channel,
    times: Vec<f64>,
    cpu: Vec<f64>,
    scripts: Vec<f64>,
}

impl Store {
    async fn open(bench: &Bench, name: &'static str, redis: Redis) -> anyhow::Result<Self> {
        let drover = bench.replicas(1, &redis).await?;
        Ok(Self {
            name,
            redis,
            channel: drover.connect(1).await?.remove(0),
            _drover: drover,
            times: Vec::new(),
            cpu: Vec::new(),
            scripts: Vec::new(),
        })
    }

    async fn run(&mut self, bench: &Bench, round: u32) -> anyhow::Result<()> {
        let mut client = Coordinator::new(self.channel.clone());
        let mut times: Vec<Duration> = Vec::new();
        let (cpu, scripts) = (self.redis.cpu()?, self.redis.script_calls().await?);
        for number in 0..CALLS {
            let tag = bench.caller.key('t', u64::from(round) * CALLS + number);
            let request = bench.caller.invalidate_tag(tag);
            let sent = Instant::now();
            client.invalidate(request).await.map_err(explained)?;
            times.push(sent.elapsed());
        }
        let scripts = self.redis.script_calls().await? - scripts;
        let cpu = self.redis.cpu()?.since(&cpu);
        // The first run opens connections and loads scripts.
        if round > 0 {
            self.times.push(median_nanos(&times)?);
            self.cpu.push(cpu.as_nanos() as f64 / CALLS as f64);
            self.scripts.push(scripts as f64 / CALLS as f64);
        }
        Ok(())
    }

    fn figures(&self) -> anyhow::Result<[Figure; 3]> {
        let figure = |what: &str, unit, numbers: &[f64]| {
            let runs = numbers.iter().copied().map(Pair::alone).collect();
            Figure::new(&format!("{}: {what}", self.name), unit, runs, None)
        };
        Ok([
            figure("p50", Unit::Nanoseconds, &self.times)?,
            figure("Redis CPU a call", Unit::Nanoseconds, &self.cpu)?,
            figure("script calls a call", Unit::Ratio, &self.scripts)?,
        ])
    }
}

/// Case (k).
pub async fn invalidation(bench: &Bench) -> anyhow::Result<CaseReport> {
    let cluster = Redis::cluster(&bench.args.redis_server).await?;
    let mut one = Store::open(bench, "1 partition", bench.redis().await?).await?;
    let mut many = Store::open(bench, "16 partitions", cluster).await?;
    let progress = bench.progress("(k) a tag invalidated", u64::from(bench.args.pairs) + 1);
    for round in 0..=bench.args.pairs {
        one.run(bench, round).await?;
        many.run(bench, round).await?;
        progress.inc(1);
    }
    progress.finish_and_clear();
    let mut report = CaseReport::new('k', "Invalidate of one tag, one call at a time");
    let growth = one
        .times
        .iter()
        .zip(&many.times)
        .map(|(one, many)| Pair::alone(many / one));
    let growth = Figure::new("16 ÷ 1: p50", Unit::Times, growth.collect(), None)?;
    report.figures.extend(one.figures()?);
    report.figures.extend(many.figures()?);
    report.figures.push(growth);
    report.note("1 partition: one Redis; 16 partitions: a Cluster of three, of which each has about five; the last one written is the commit");
    Ok(report)
}
