//! Case (e): one invalidation to many watchers, beside a bare server stream that broadcasts a message of the same size.
//!
//! *Invariants:* the next round starts when the last watcher of this one has it, so nothing can be coalesced; every watcher was
//! told that its stream is live before the first round.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use prost::Message;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::Bench;
use super::bare::{self, Ask};
use super::load::explained;
use super::report::{CaseReport, Figure, Target, Unit};
use super::side::Side;
use super::stats::{Pair, spread};
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

    /// `rounds` invalidations, one after the other; `kept` is told the sizes of a call.
    async fn invalidations(&mut self, bench: &Bench, rounds: u64, run: u64) -> anyhow::Result<(Delivered, Exchange)> {
        let (mut times, mut exchange) = (Vec::new(), Exchange { request: 0, answer: 0 });
        for round in 0..rounds {
            let request = bench.caller.invalidate(bench.caller.key('e', run * ROUNDS + round));
            let mut client = Coordinator::new(self.control.clone());
            let exchange = &mut exchange;
            let cause = async move {
                let answer = client
                    .invalidate(request.clone())
                    .await
                    .map_err(explained)?
                    .into_inner();
                *exchange = Exchange::of(&request, &answer);
                Ok(())
            };
            times.push(self.round(cause).await?);
        }
        Ok((Delivered::of(&times, self.watching.len())?, exchange))
    }

    async fn broadcasts(&mut self, rounds: u64, ask: &Ask) -> anyhow::Result<Delivered> {
        let mut times = Vec::new();
        for _ in 0..rounds {
            let (mut client, ask) = (bare::Client::new(self.control.clone()), ask.clone());
            let cause = async move { client.publish(ask).await.map(drop).map_err(explained) };
            times.push(self.round(cause).await?);
        }
        Delivered::of(&times, self.watching.len())
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
    let (_, exchange) = watchers.invalidations(bench, ROUNDS, 0).await?;
    let event = watchers.arrivals.size.load(Ordering::Relaxed);
    let ask = Ask::sized(exchange.request, exchange.answer, event);
    let mut subscribers = match &bare {
        Some(side) => Some(Crowd::of_bare(bench, side).await?),
        None => None,
    };
    if let Some(crowd) = &mut subscribers {
        crowd.broadcasts(ROUNDS, &ask).await?;
    }
    let (mut rates, mut times) = (Vec::new(), Vec::new());
    let progress = bench.progress("(e) one event to all", 2 * u64::from(bench.args.pairs));
    for run in 1..=u64::from(bench.args.pairs) {
        let (told, _) = watchers.invalidations(bench, ROUNDS, run).await?;
        progress.inc(1);
        let heard = match &mut subscribers {
            Some(crowd) => Some(crowd.broadcasts(ROUNDS, &ask).await?),
            None => None,
        };
        progress.inc(1);
        rates.push(Pair {
            drover: told.events_per_second,
            bare: heard.map(|heard| heard.events_per_second),
        });
        times.push(Pair {
            drover: told.last,
            bare: heard.map(|heard| heard.last),
        });
    }
    progress.finish_and_clear();
    let count = Unit::Count.shown(bench.args.watchers as f64);
    let over = Unit::Count.shown(bench.args.herd_connections as f64);
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
        times,
        None,
    )?);
    report.notes.push(format!(
        "{ROUNDS} invalidations a run, each when the last was delivered; an event is {event} B"
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
        };
        arrivals.left.store(2, Ordering::Release);
        arrivals.one(&event);
        assert!(last.try_recv().is_err());
        arrivals.one(&event);
        assert!(last.try_recv().is_ok());
        assert_eq!(arrivals.size.load(Ordering::Relaxed), 9);
    }
}
