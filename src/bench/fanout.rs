//! Case (e): one invalidation to many watchers, beside a bare server stream that broadcasts a message of the same size.
//!
//! *Invariants:* the next round starts when the last watcher of this one has it, so nothing can be coalesced; every watcher was
//! told that its stream is live before the first round.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::Bench;
use super::bare::{self, Ask};
use super::load::explained;
use super::report::{CaseReport, Figure, Target};
use super::side::Side;
use super::stats::{Pair, spread};
use super::unit::Unit;
use super::wire::{Coordinator, Exchange};
use crate::proto::watch_response::Event;

/// Events a second, against the bare stream's.
const EVENTS: Target = Target::RatioAtLeast(0.8);
/// Invalidations of a run.
const ROUNDS: u64 = 40;
/// Every watcher must have an event, and must be live, within this.
const DELIVERY: Duration = Duration::from_secs(15);

/// Counts who has the event of this round.
struct Arrivals {
    left: AtomicUsize,
    /// Encoded size of the last event.
    size: AtomicUsize,
    last: mpsc::Sender<Instant>,
}

impl Arrivals {
    fn new() -> (Arc<Self>, mpsc::Receiver<Instant>) {
        let (last, receiver) = mpsc::channel(1);
        (
            Arc::new(Self {
                left: AtomicUsize::new(0),
                size: AtomicUsize::new(0),
                last,
            }),
            receiver,
        )
    }

    fn one(&self, event: &impl Message) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.size.store(event.encoded_len(), Ordering::Relaxed);
            // One round is under way at a time, so the place is free.
            let _ = self.last.try_send(Instant::now());
        }
    }
}

/// Subscribers of one server and the connection that events are caused over.
struct Crowd {
    arrivals: Arc<Arrivals>,
    last: mpsc::Receiver<Instant>,
    control: Channel,
    /// They end with the crowd.
    watching: JoinSet<anyhow::Result<()>>,
}

impl Crowd {
    async fn of_drover(bench: &Bench, side: &Side) -> anyhow::Result<Self> {
        let channels = side.connect(bench.args.herd_connections).await?;
        let (arrivals, last) = Arrivals::new();
        let (live, mut told) = mpsc::channel(bench.args.watchers);
        let mut watching = JoinSet::new();
        for (_, channel) in (0..bench.args.watchers).zip(channels.iter().cycle()) {
            let (mut client, request) = (Coordinator::new(channel.clone()), bench.caller.watch());
            let (arrivals, live) = (Arc::clone(&arrivals), live.clone());
            watching.spawn(async move {
                let stream = client.watch(tokio_stream::once(request)).await.map_err(explained)?;
                let mut stream = stream.into_inner();
                while let Some(message) = stream.message().await.map_err(explained)? {
                    match &message.event {
                        Some(Event::Started(_)) => live.send(()).await.context("nobody waits for this watcher")?,
                        Some(Event::Invalidated(_)) => arrivals.one(&message),
                        Some(Event::Reset(reset)) => bail!("a watcher was reset: {}", reset.reason().as_str_name()),
                        _ => {}
                    }
                }
                bail!("the server ended a watcher's stream")
            });
        }
        let all = async {
            for _ in 0..bench.args.watchers {
                told.recv().await?;
            }
            Some(())
        };
        let live = tokio::select! {
            live = tokio::time::timeout(DELIVERY, all) => live.context("not every watcher was told that its stream is live")?,
            ended = watching.join_next() => return Err(why_ended(ended)),
        };
        live.context("a watcher ended early")?;
        Ok(Self {
            arrivals,
            last,
            control: side.connect(1).await?.remove(0),
            watching,
        })
    }

    async fn of_bare(bench: &Bench, side: &Side) -> anyhow::Result<Self> {
        let channels = side.connect(bench.args.herd_connections).await?;
        let (arrivals, last) = Arrivals::new();
        let mut watching = JoinSet::new();
        for (_, channel) in (0..bench.args.watchers).zip(channels.iter().cycle()) {
            let mut stream = bare::Client::new(channel.clone())
                .subscribe()
                .await
                .map_err(explained)?;
            let arrivals = Arc::clone(&arrivals);
            watching.spawn(async move {
                while let Some(message) = stream.message().await.map_err(explained)? {
                    arrivals.one(&message);
                }
                bail!("the bare server ended a subscriber's stream")
            });
        }
        Ok(Self {
            arrivals,
            last,
            control: side.connect(1).await?.remove(0),
            watching,
        })
    }

    /// Makes `cause`'s call and waits until the last watcher has the event.
    async fn round<F>(&mut self, cause: F) -> anyhow::Result<Duration>
    where
        F: Future<Output = anyhow::Result<()>>,
    {
        let watchers = self.watching.len();
        self.arrivals.left.store(watchers, Ordering::Release);
        let sent = Instant::now();
        let waiting = async {
            let (caused, last) = tokio::join!(cause, self.last.recv());
            caused?;
            last.context("the watchers are gone")
        };
        tokio::select! {
            waited = tokio::time::timeout(DELIVERY, waiting) => match waited {
                Ok(last) => Ok(last? - sent),
                Err(_) => {
                    let left = self.arrivals.left.load(Ordering::Acquire);
                    bail!("{left} of {watchers} watchers did not have the event after {DELIVERY:?}")
                }
            },
            ended = self.watching.join_next() => Err(why_ended(ended)),
        }
    }

    /// Invalidates one key: how long the last watcher waited, and the sizes of the call.
    async fn invalidation(&mut self, bench: &Bench, number: u64) -> anyhow::Result<(Duration, Exchange)> {
        let request = bench.caller.invalidate(bench.caller.key('e', number));
        let mut client = Coordinator::new(self.control.clone());
        let mut exchange = Exchange {
            request: request.encoded_len(),
            answer: 0,
        };
        let answered = &mut exchange.answer;
        let cause = async move {
            *answered = client
                .invalidate(request)
                .await
                .map_err(explained)?
                .into_inner()
                .encoded_len();
            Ok(())
        };
        let took = self.round(cause).await?;
        Ok((took, exchange))
    }

    /// The same of the bare server.
    async fn broadcast(&mut self, ask: &Ask) -> anyhow::Result<Duration> {
        let (mut client, ask) = (bare::Client::new(self.control.clone()), ask.clone());
        self.round(async move { client.publish(ask).await.map(drop).map_err(explained) })
            .await
    }
}

/// What a run has delivered.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Delivered {
    events_per_second: f64,
    /// Until the last watcher had it, in nanoseconds: the median of the rounds.
    last: f64,
}

impl Delivered {
    fn of(times: &[Duration], watchers: usize) -> anyhow::Result<Self> {
        let seconds: f64 = times.iter().map(Duration::as_secs_f64).sum();
        let last = spread(times.iter().map(|time| time.as_nanos() as f64))
            .context("no round was run")?
            .median;
        Ok(Self {
            events_per_second: (times.len() * watchers) as f64 / seconds,
            last,
        })
    }
}

fn why_ended(ended: Option<Result<anyhow::Result<()>, tokio::task::JoinError>>) -> anyhow::Error {
    match ended {
        Some(Ok(Err(error))) => error,
        _ => anyhow::anyhow!("a watcher ended early"),
    }
}

/// Case (e).
pub async fn invalidation(bench: &Bench) -> anyhow::Result<CaseReport> {
    let (drover, bare) = (bench.drover().await?, bench.bare().await?);
    let mut watchers = Crowd::of_drover(bench, &drover).await?;
    let mut subscribers = match &bare {
        Some(side) => Some(Crowd::of_bare(bench, side).await?),
        None => None,
    };
    let (_, exchange) = watchers.invalidation(bench, 0).await?;
    let event = watchers.arrivals.size.load(Ordering::Relaxed);
    let ask = Ask::sized(exchange.request, exchange.answer, event);
    let (mut rates, mut lasts, mut number) = (Vec::new(), Vec::new(), 0);
    let progress = bench.progress("(e) one event to all", (u64::from(bench.args.pairs) + 1) * ROUNDS);
    for run in 0..=bench.args.pairs {
        let (mut told, mut heard) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            number += 1;
            told.push(watchers.invalidation(bench, number).await?.0);
            if let Some(crowd) = &mut subscribers {
                heard.push(crowd.broadcast(&ask).await?);
            }
            progress.inc(1);
        }
        // The first run only warms up.
        if run > 0 {
            let (told, heard) = (
                Delivered::of(&told, bench.args.watchers)?,
                Delivered::of(&heard, bench.args.watchers).ok(),
            );
            let pair = |number: fn(&Delivered) -> f64| Pair {
                drover: number(&told),
                bare: heard.as_ref().map(number),
            };
            rates.push(pair(|delivered| delivered.events_per_second));
            lasts.push(pair(|delivered| delivered.last));
        }
    }
    progress.finish_and_clear();
    let shown = |count: usize| Unit::Count.shown(count as f64);
    let (count, over) = (shown(bench.args.watchers), shown(bench.args.herd_connections));
    let mut report = CaseReport::new(
        'e',
        &format!("one invalidation to {count} watchers over {over} connections"),
    );
    report.carries("Invalidate", exchange);
    report
        .figures
        .push(Figure::new("events", Unit::PerSecond, rates, Some(EVENTS))?);
    report.figures.push(Figure::new(
        "until the last watcher has it",
        Unit::Nanoseconds,
        lasts,
        None,
    )?);
    report.notes.push(format!(
        "an event is {event} B; {ROUNDS} a run, each sent when the last one has reached everybody"
    ));
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_over_all_watchers_and_rounds() -> anyhow::Result<()> {
        let found = Delivered::of(&[2, 4, 4].map(Duration::from_millis), 1_000)?;
        assert!((found.events_per_second - 300_000.0).abs() < 1e-3, "{found:?}");
        assert_eq!(found.last, 4e6);
        assert!(Delivered::of(&[], 1_000).is_err());
        Ok(())
    }

    #[test]
    fn only_the_last_arrival_ends_a_round() {
        let (arrivals, mut last) = Arrivals::new();
        let event = bare::Blob {
            payload: bytes::Bytes::from_static(b"seven b"),
            revision: 0,
        };
        arrivals.left.store(2, Ordering::Release);
        arrivals.one(&event);
        assert!(last.try_recv().is_err());
        arrivals.one(&event);
        assert!(last.try_recv().is_ok());
        assert_eq!(arrivals.size.load(Ordering::Relaxed), 9);
    }
}
