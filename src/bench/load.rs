//! The closed loop: so many connections, so many calls in flight on each, a new one as soon as one is answered.
//!
//! *Invariants:* bounded in calls and in time; the first call that fails ends the run with its error; calls are counted as they
//! are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Response, Status};

use super::side::Side;

/// How hard and how long.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Calls in flight on each connection.
    pub concurrency: usize,
    /// Calls altogether.
    pub calls: u64,
    /// Ends a run that has not made all its calls by then.
    pub max_time: Duration,
}

/// One of the loops that share a connection.
pub trait Worker: Send + 'static {
    /// Calls that one turn makes.
    const CALLS: u64;
    /// The `turn`-th turn of the whole run.
    fn turn(&mut self, turn: u64, laps: &mut Laps) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The calls of a run and how long each took, in nanoseconds.
#[derive(Clone)]
pub struct Laps(Histogram<u64>);

impl Laps {
    fn new() -> anyhow::Result<Self> {
        Ok(Self(Histogram::new(3).context("a histogram of three digits")?))
    }

    /// Makes a call and keeps its time.
    pub async fn time<T>(&mut self, call: impl Future<Output = Result<T, Status>>) -> anyhow::Result<T> {
        let sent = Instant::now();
        let answer = call.await.map_err(explained)?;
        self.record(sent.elapsed());
        Ok(answer)
    }

    /// Like `time`, for a generated client.
    pub async fn answer<T>(&mut self, call: impl Future<Output = Result<Response<T>, Status>>) -> anyhow::Result<T> {
        self.time(call).await.map(Response::into_inner)
    }

    fn record(&mut self, took: Duration) {
        // It grows to whatever is put in, up to centuries: nothing can go wrong.
        let _ = self.0.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }
}

/// What a person needs to know of a status; the details are for machines.
pub fn explained(status: Status) -> anyhow::Error {
    anyhow::anyhow!("the server answered {:?}: {}", status.code(), status.message())
}

/// A run.
#[derive(Clone)]
pub struct Load {
    laps: Laps,
    elapsed: Duration,
    /// Used by the server's process meanwhile; absent if the process is not ours.
    cpu: Option<Duration>,
}

impl Load {
    /// Both as one run.
    pub fn and(mut self, other: &Self) -> anyhow::Result<Self> {
        self.laps.0.add(&other.laps.0).context("adding histograms")?;
        self.elapsed += other.elapsed;
        self.cpu = self.cpu.zip(other.cpu).map(|(one, two)| one + two);
        Ok(self)
    }

    /// Calls that were answered.
    pub fn calls(&self) -> u64 {
        self.laps.0.len()
    }

    /// Calls a second.
    pub fn rate(&self) -> f64 {
        self.calls() as f64 / self.elapsed.as_secs_f64()
    }

    /// The server's CPU time a call, in nanoseconds.
    pub fn cpu_per_call(&self) -> Option<f64> {
        self.cpu.map(|cpu| cpu.as_nanos() as f64 / self.calls().max(1) as f64)
    }

    /// The same without `share` of a core, which the server uses with or without calls: the slower a busy machine makes the
    /// calls, the more of it falls on each.
    pub fn cpu_per_call_beyond(&self, share: f64) -> Option<f64> {
        let resting = self.elapsed.as_nanos() as f64 * share / self.calls().max(1) as f64;
        self.cpu_per_call().map(|cost| (cost - resting).max(0.0))
    }

    /// This share of the calls (0 to 1) took no longer, in nanoseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        self.laps.0.value_at_quantile(share) as f64
    }
}

/// Runs `make`'s workers against `side` over `channels`; worker `n` is on channel `n` modulo their number.
pub async fn closed_loop<W: Worker>(
    side: &Side,
    channels: &[Channel],
    shape: Shape,
    make: impl Fn(usize, Channel) -> W,
) -> anyhow::Result<Load> {
    let turns = shape.calls.div_ceil(W::CALLS);
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    let before = side.cpu()?;
    let started = Instant::now();
    for index in 0..channels.len() * shape.concurrency {
        let mut worker = make(index, channels[index % channels.len()].clone());
        let mut laps = Laps::new()?;
        let next = Arc::clone(&next);
        workers.spawn(async move {
            while started.elapsed() < shape.max_time {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= turns {
                    break;
                }
                worker.turn(turn, &mut laps).await?;
            }
            anyhow::Ok(laps)
        });
    }
    let mut all = Laps::new()?;
    while let Some(ended) = workers.join_next().await {
        all.0
            .add(ended.context("a worker of the load generator ended early")??.0)
            .context("adding histograms")?;
    }
    let elapsed = started.elapsed();
    let cpu = before.zip(side.cpu()?).map(|(before, after)| after.since(&before));
    Ok(Load {
        laps: all,
        elapsed,
        cpu,
    })
}

/// Median of some times, in nanoseconds.
pub fn median_nanos(times: &[Duration]) -> anyhow::Result<f64> {
    quantile_nanos(times, 0.5)
}

/// This share of some times (0 to 1) is no longer, in nanoseconds.
pub fn quantile_nanos(times: &[Duration], share: f64) -> anyhow::Result<f64> {
    let mut laps = Laps::new()?;
    times.iter().for_each(|took| laps.record(*took));
    Ok(laps.0.value_at_quantile(share) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_times_has_three_digits() -> anyhow::Result<()> {
        let times = [1, 5, 100].map(Duration::from_micros);
        let median = median_nanos(&times)?;
        assert!((4_990.0..5_010.0).contains(&median), "{median}");
        Ok(())
    }

    #[test]
    fn two_slices_make_one_run() -> anyhow::Result<()> {
        let slice = |calls: u64, cpu: Option<u64>| {
            let mut laps = Laps::new()?;
            (0..calls).for_each(|_| laps.record(Duration::from_micros(50)));
            anyhow::Ok(Load {
                laps,
                elapsed: Duration::from_millis(10),
                cpu: cpu.map(Duration::from_millis),
            })
        };
        let both = slice(100, Some(1))?.and(&slice(300, Some(3))?)?;
        assert_eq!((both.calls(), both.cpu_per_call()), (400, Some(10_000.0)));
        assert!((both.rate() - 20_000.0).abs() < 1e-6);
        assert_eq!(slice(1, Some(1))?.and(&slice(1, None)?)?.cpu_per_call(), None);
        Ok(())
    }

    #[test]
    fn cost_and_rate_are_counted_a_call() -> anyhow::Result<()> {
        let mut laps = Laps::new()?;
        (0..200).for_each(|_| laps.record(Duration::from_micros(50)));
        let load = Load {
            laps,
            elapsed: Duration::from_millis(100),
            cpu: Some(Duration::from_millis(3)),
        };
        assert_eq!(load.calls(), 200);
        assert!((load.rate() - 2_000.0).abs() < 1e-6);
        assert_eq!(load.cpu_per_call(), Some(15_000.0));
        // A hundredth of a core for 100 ms is 1 ms: 5 µs of each call.
        assert_eq!(load.cpu_per_call_beyond(0.01), Some(10_000.0));
        assert_eq!(load.cpu_per_call_beyond(1.0), Some(0.0));
        Ok(())
    }
}
