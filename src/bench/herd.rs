//! Cases (c) and (d): parked callers and the report that they wait for.
//!
//! *Owns* a herd: many callers parked on one key over a bounded number of connections. *Invariants:* nobody reports before the
//! server has said that all are parked; times end where the answer reaches the caller, not where the server sends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::Bench;
use super::bare::{self, Ask};
use super::load::{explained, median_nanos};
use super::report::{CaseReport, Figure, Target};
use super::stats::Pair;
use super::unit::Unit;
use super::wire::{self, Coordinator, Exchange};
use crate::proto::Lease;
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::admin_service_client::AdminServiceClient;

/// From the report to the last answer, against as many echo calls.
const HERD: Target = Target::RatioAtMost(1.5);
/// From the report to one answer, against one echo call.
const HANDED_OVER: Target = Target::RatioAtMost(2.0);
/// All must be parked within this: before the default policy's longest wait, 10 s, ends the first.
const PARKING: Duration = Duration::from_secs(8);
/// A server that does not tell who is parked is given this long.
const BLIND: Duration = Duration::from_secs(1);
/// The answers must be there within this.
const ANSWERS: Duration = Duration::from_secs(30);
/// Hand-overs of a run in (d).
const HAND_OVERS: u64 = 500;

/// Callers parked on one key behind a lease that we hold.
pub struct Herd {
    parked: JoinSet<anyhow::Result<Answered>>,
    key: String,
    lease: Lease,
}

/// What one of them was told.
struct Answered {
    at: Instant,
    exchange: Exchange,
    rebuild: bool,
}

/// What came of a herd.
pub struct Released {
    /// From sending the report to the last answer.
    elapsed: Duration,
    /// Of a parked caller's call.
    exchange: Exchange,
    /// Leases granted for the key, ours included.
    pub rebuilds: usize,
}

impl Herd {
    /// Takes the lease of `key` and parks `--waiters` callers behind it, spread over `connections`.
    pub async fn park(bench: &Bench, connections: &[Channel], control: &Channel, key: String) -> anyhow::Result<Self> {
        let herd = Self::call(bench, connections, control, key).await?;
        herd.all_parked(bench, control).await?;
        Ok(herd)
    }

    /// The same, without asking whether all are parked already.
    pub async fn call(bench: &Bench, connections: &[Channel], control: &Channel, key: String) -> anyhow::Result<Self> {
        let mut holder = Coordinator::new(control.clone());
        let question = bench.caller.acquire(key.clone());
        let lease = wire::granted(holder.acquire_rebuild(question).await.map_err(explained)?.into_inner())?;
        let mut parked = JoinSet::new();
        for (_, channel) in (0..bench.args.waiters).zip(connections.iter().cycle()) {
            let request = bench.caller.wait(key.clone());
            let mut client = Coordinator::new(channel.clone());
            parked.spawn(async move {
                let size = prost::Message::encoded_len(&request);
                let answer = client.acquire_rebuild(request).await.map_err(explained)?.into_inner();
                let at = Instant::now();
                let exchange = Exchange {
                    request: size,
                    answer: prost::Message::encoded_len(&answer),
                };
                let rebuild = matches!(answer.decision, Some(Decision::Rebuild(_)));
                if !rebuild {
                    wire::fresh(answer)?;
                }
                Ok(Answered { at, exchange, rebuild })
            });
        }
        Ok(Self { parked, key, lease })
    }

    async fn all_parked(&self, bench: &Bench, control: &Channel) -> anyhow::Result<()> {
        let mut admin = AdminServiceClient::new(control.clone());
        let started = Instant::now();
        loop {
            match bench.caller.parked(&mut admin, &self.key).await? {
                None => break tokio::time::sleep(BLIND).await,
                Some(parked) if parked >= bench.args.waiters => break,
                Some(parked) if started.elapsed() > PARKING => {
                    bail!(
                        "{parked} of {} callers are parked after {PARKING:?}",
                        bench.args.waiters
                    )
                }
                Some(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
        Ok(())
    }

    /// Reports the value and collects the answers.
    pub async fn release(self, bench: &Bench, control: &Channel) -> anyhow::Result<Released> {
        let Self { parked, key, lease } = self;
        let waiters = parked.len();
        let mut holder = Coordinator::new(control.clone());
        let report = bench.caller.report(key, &lease);
        let sent = Instant::now();
        let reported = holder.report_value(report).await.map_err(explained)?.into_inner();
        wire::accepted(&reported)?;
        let answers = collected(parked).await?;
        let last = answers
            .iter()
            .map(|answer| answer.at)
            .max()
            .context("nobody was parked")?;
        let exchanges: Vec<_> = answers.iter().map(|answer| answer.exchange).collect();
        let promoted = answers.iter().filter(|answer| answer.rebuild).count();
        debug_assert_eq!(answers.len(), waiters);
        Ok(Released {
            elapsed: last - sent,
            exchange: Exchange::mean(&exchanges),
            rebuilds: 1 + promoted,
        })
    }
}

async fn collected<T: 'static>(mut tasks: JoinSet<anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
    let total = tasks.len();
    let mut all = Vec::with_capacity(total);
    let collecting = async {
        while let Some(ended) = tasks.join_next().await {
            all.push(ended.context("a caller ended early")??);
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(ANSWERS, collecting).await {
        Ok(collected) => collected?,
        Err(_) => bail!(
            "{} of {total} callers had no answer after {ANSWERS:?}",
            total - all.len()
        ),
    }
    Ok(all)
}

/// As many echo calls as callers were parked, all at once: from the first that is sent to the last answer.
async fn burst(bench: &Bench, connections: &[Channel], ask: &Ask) -> anyhow::Result<Duration> {
    let (start, ready) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let mut calls = JoinSet::new();
    for (_, channel) in (0..bench.args.waiters).zip(connections.iter().cycle()) {
        let (start, ready, ask) = (start.clone(), Arc::clone(&ready), ask.clone());
        let mut client = bare::Client::new(channel.clone());
        calls.spawn(async move {
            ready.fetch_add(1, Ordering::Relaxed);
            start.cancelled().await;
            client.echo(ask).await.map_err(explained)?;
            anyhow::Ok(Instant::now())
        });
    }
    while ready.load(Ordering::Relaxed) < bench.args.waiters {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let sent = Instant::now();
    start.cancel();
    let last = collected(calls)
        .await?
        .into_iter()
        .max()
        .context("no calls were made")?;
    Ok(last - sent)
}

/// Case (c).
pub async fn released(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (drover, bare) = (bench.drover().await?, bench.bare().await?);
    let connections = drover.connect(bench.args.herd_connections).await?;
    let control = drover.connect(1).await?.remove(0);
    let compared = match &bare {
        Some(side) => Some(side.connect(bench.args.herd_connections).await?),
        None => None,
    };
    let (mut pairs, mut rebuilds, mut exchange) = (Vec::new(), Vec::new(), None);
    let progress = bench.progress("(c) a herd released", u64::from(bench.args.pairs) + 1);
    for round in 0..=u64::from(bench.args.pairs) {
        let herd = Herd::park(bench, &connections, &control, bench.caller.key('c', round)).await?;
        let released = herd.release(bench, &control).await?;
        let sizes = *exchange.get_or_insert(released.exchange);
        let echoed = match &compared {
            Some(connections) => Some(burst(bench, connections, &Ask::sized(sizes.request, sizes.answer, 0)).await?),
            None => None,
        };
        progress.inc(1);
        // The first round grows both processes to what they need.
        if round > 0 {
            pairs.push(Pair {
                drover: nanos(released.elapsed),
                bare: echoed.map(nanos),
            });
            rebuilds.push(Pair::alone(released.rebuilds as f64));
        }
    }
    progress.finish_and_clear();
    let shown = |count: usize| Unit::Count.shown(count as f64);
    let (waiters, over) = (shown(bench.args.waiters), shown(bench.args.herd_connections));
    let mut report = CaseReport::new(
        'c',
        &format!("{waiters} callers parked on one key over {over} connections"),
    );
    report.carries("AcquireRebuild, parked", exchange.context("no round was run")?);
    report.figures.push(Figure::new(
        "report to the last answer",
        Unit::Nanoseconds,
        pairs,
        Some(HERD),
    )?);
    report.figures.push(Figure::new(
        "rebuilds",
        Unit::Count,
        rebuilds,
        Some(Target::Exactly(1.0)),
    )?);
    if compared.is_some() {
        report.notes.push(format!(
            "bare: {waiters} echo calls at once, from the first sent to the last answer"
        ));
    }
    Ok(report)
}

/// Case (d).
pub async fn handed_over(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (drover, bare) = (bench.drover().await?, bench.bare().await?);
    let mut pair = Couple::open(drover.connect(2).await?)?;
    let mut echo = match &bare {
        Some(side) => Some(bare::Client::new(side.connect(1).await?.remove(0))),
        None => None,
    };
    let (mut pairs, mut exchange, mut number) = (Vec::new(), None, 0);
    let progress = bench.progress("(d) one hand-over", (u64::from(bench.args.pairs) + 1) * HAND_OVERS);
    for round in 0..=bench.args.pairs {
        let (mut handed, mut echoed) = (Vec::new(), Vec::new());
        for _ in 0..HAND_OVERS {
            number += 1;
            let (took, sizes) = pair.hand_over(bench, bench.caller.key('d', number)).await?;
            handed.push(took);
            let sizes = *exchange.get_or_insert(sizes);
            if let Some(client) = &mut echo {
                let ask = Ask::sized(sizes.request, sizes.answer, 0);
                let sent = Instant::now();
                client.echo(ask).await.map_err(explained)?;
                echoed.push(sent.elapsed());
            }
            progress.inc(1);
        }
        if round > 0 {
            let bare = if echoed.is_empty() {
                None
            } else {
                Some(median_nanos(&echoed)?)
            };
            pairs.push(Pair {
                drover: median_nanos(&handed)?,
                bare,
            });
        }
    }
    progress.finish_and_clear();
    let mut report = CaseReport::new('d', "from a report to one waiter's answer");
    report.carries("ReportValue → AcquireRebuild", exchange.context("no round was run")?);
    report
        .figures
        .push(Figure::new("p50", Unit::Nanoseconds, pairs, Some(HANDED_OVER))?);
    report.notes.push(format!(
        "a hand-over between two connections and one echo call take turns, {HAND_OVERS} a run"
    ));
    Ok(report)
}

/// A holder and a waiter on connections of their own, also at different replicas.
pub struct Couple {
    holder: Coordinator,
    waiter: Coordinator,
    admin: AdminServiceClient<Channel>,
}

impl Couple {
    /// The holder's, then the waiter's.
    pub fn open(channels: Vec<Channel>) -> anyhow::Result<Self> {
        let Ok([first, second]) = <[Channel; 2]>::try_from(channels) else {
            bail!("two connections are needed")
        };
        let admin = AdminServiceClient::new(second.clone());
        Ok(Self {
            holder: Coordinator::new(first),
            waiter: Coordinator::new(second),
            admin,
        })
    }

    /// Parks a caller and reports: the time from sending the report to the caller's answer, and the sizes of both.
    pub async fn hand_over(&mut self, bench: &Bench, key: String) -> anyhow::Result<(Duration, Exchange)> {
        let question = bench.caller.acquire(key.clone());
        let lease = wire::granted(
            self.holder
                .acquire_rebuild(question)
                .await
                .map_err(explained)?
                .into_inner(),
        )?;
        let (mut waiter, request) = (self.waiter.clone(), bench.caller.wait(key.clone()));
        let mut parked = JoinSet::new();
        parked.spawn(async move {
            let answer = waiter.acquire_rebuild(request).await.map_err(explained)?.into_inner();
            anyhow::Ok((Instant::now(), answer))
        });
        let started = Instant::now();
        loop {
            match bench.caller.parked(&mut self.admin, &key).await? {
                Some(0) if started.elapsed() > PARKING => bail!("a caller is not parked after {PARKING:?}"),
                Some(0) => tokio::task::yield_now().await,
                Some(_) => break,
                None => break tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
        let report = bench.caller.report(key, &lease);
        let size = prost::Message::encoded_len(&report);
        let sent = Instant::now();
        let reported = self.holder.report_value(report).await.map_err(explained)?.into_inner();
        wire::accepted(&reported)?;
        let (at, answer) = collected(parked).await?.pop().context("nobody was parked")?;
        let exchange = Exchange {
            request: size,
            answer: prost::Message::encoded_len(&answer),
        };
        wire::fresh(answer)?;
        Ok((at - sent, exchange))
    }
}

fn nanos(length: Duration) -> f64 {
    length.as_nanos() as f64
}
