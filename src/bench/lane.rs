//! What the cases (a), (b) and (g) send: hits, rebuilds and echoes, each over the connections of one server.
//!
//! *Owns* the workers of the closed loop and the samples that tell how long drover's messages are. *Invariants:* no two workers
//! meet on a key that is there, so a rebuild never waits for another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use indicatif::ProgressBar;
use tonic::transport::Channel;

use super::Bench;
use super::bare::{self, Ask};
use super::load::{Laps, Load, Shape, Worker, closed_loop, explained};
use super::side::Side;
use super::wire::{self, Caller, Coordinator, Exchange};
use crate::proto::{AcquireRebuildRequest, Lease, ReportValueRequest};

/// Calls whose sizes are averaged.
const SAMPLE: u64 = 64;
/// A population is filled over so many connections, with so many in flight on each.
const FILL: (usize, usize) = (8, 32);

/// What a run sends.
#[derive(Clone)]
pub enum Work {
    /// AcquireRebuild of so many fresh keys of this kind, in random order.
    Hits(char, u64),
    /// AcquireRebuild and ReportValue.
    Rebuilds(Keys),
    /// One call to the bare server.
    Echo(Ask),
    /// Two in turn.
    Echoes([Ask; 2]),
    /// The trips of an acquire and of its report, over keys of this kind, in messages of these sizes.
    Replays(Keys, [Exchange; 2]),
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

/// A server and the connections that its runs go over.
pub struct Lane<'a> {
    side: &'a Side,
    channels: Vec<Channel>,
    caller: Arc<Caller>,
}

impl<'a> Lane<'a> {
    /// Opens `--connections` to `side`.
    pub async fn open(bench: &Bench, side: &'a Side) -> anyhow::Result<Self> {
        let channels = side.connect(bench.args.connections).await?;
        Ok(Self {
            side,
            channels,
            caller: Arc::clone(&bench.caller),
        })
    }

    /// Makes the calls of one run.
    pub async fn run(&self, work: &Work, shape: Shape) -> anyhow::Result<Load> {
        let caller = || Arc::clone(&self.caller);
        let workers = (self.channels.len() * shape.concurrency) as u64;
        match work {
            &Work::Hits(kind, keys) => {
                let make = |_, channel| Hits {
                    client: Coordinator::new(channel),
                    caller: caller(),
                    kind,
                    keys,
                };
                closed_loop(self.side, &self.channels, shape, make).await
            }
            Work::Rebuilds(keys) => {
                let make = |index: usize, channel| Rebuilds {
                    client: Coordinator::new(channel),
                    caller: caller(),
                    keys: keys.clone(),
                    share: (index as u64, workers),
                };
                closed_loop(self.side, &self.channels, shape, make).await
            }
            Work::Echo(ask) => {
                let make = |_, channel| Echoes {
                    client: bare::Client::new(channel),
                    asks: [ask.clone()],
                };
                closed_loop(self.side, &self.channels, shape, make).await
            }
            Work::Echoes(asks) => {
                let make = |_, channel| Echoes {
                    client: bare::Client::new(channel),
                    asks: asks.clone(),
                };
                closed_loop(self.side, &self.channels, shape, make).await
            }
            Work::Replays(keys, sizes) => {
                let make = |_, channel| Replays {
                    client: bare::Client::new(channel),
                    caller: caller(),
                    keys: keys.clone(),
                    sizes: *sizes,
                };
                closed_loop(self.side, &self.channels, shape, make).await
            }
        }
    }

    fn client(&self) -> Coordinator {
        Coordinator::new(self.channels[0].clone())
    }

    /// Sizes of a hit.
    pub async fn sample_hits(&self, kind: char, keys: u64) -> anyhow::Result<Exchange> {
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

    /// Sizes of an acquire and of its report.
    pub async fn sample_rebuilds(&self, keys: &Keys) -> anyhow::Result<[Exchange; 2]> {
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
pub enum Keys {
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

    fn question(&self, caller: &Caller, key: String) -> AcquireRebuildRequest {
        match self {
            Self::Distinct(..) => caller.acquire(key),
            Self::Standing(..) => caller.force(key),
        }
    }

    fn report(&self, caller: &Caller, key: String, lease: &Lease) -> ReportValueRequest {
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

/// Makes the trips of an acquire and of its report.
struct Replays {
    client: bare::Client,
    caller: Arc<Caller>,
    keys: Keys,
    sizes: [Exchange; 2],
}

impl Worker for Replays {
    const CALLS: u64 = 2;

    async fn turn(&mut self, _: u64, laps: &mut Laps) -> anyhow::Result<()> {
        let key = self.keys.next(&self.caller, (0, 1));
        let grant = Ask::about(key.clone(), self.sizes[0]);
        let granted = laps.time(self.client.grant(grant)).await?;
        let report = Ask::about_grant(key, granted.revision, self.sizes[1]);
        laps.time(self.client.report(report)).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn workers_never_meet_on_a_key_that_is_there() {
        let caller = Caller::new("bench".to_owned(), 32);
        let keys = Keys::Standing('k', 1_000);
        let of = |place| {
            (0..2_000)
                .map(|_| keys.next(&caller, (place, 64)))
                .collect::<HashSet<_>>()
        };
        let (one, other) = (of(3), of(4));
        assert!(one.is_disjoint(&other));
        assert_eq!(one.len(), 15, "1,000 keys over 64 workers");
        let highest = caller.key('k', 999);
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
