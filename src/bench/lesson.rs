//! What drover sends to Redis for a call, learnt from Redis itself, so that the bare service can send the same.
//!
//! *Owns* the recording: a few calls to drover beside a monitor, and what each made drover send. *Invariants:* the bare service works in
//! a partition of its own beside drover's, with a copy of its header: both meet the same Redis, and neither reads what the other writes.
//!
//! *Why recorded* and not written a second time: it can't fall behind the store, and a trip that drover makes too many is seen at once.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use prost::Message as _;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;

use super::Bench;
use super::bare;
use super::load::explained;
use super::monitor::{Monitor, Sent};
use super::redis::Redis;
use super::side::Side;
use super::wire::{self, Coordinator};
use crate::proto::Lease;

/// Calls may take more trips at first. One that always does is found by the figure that compares the trips.
const TRIES: u64 = 10;
/// A blocking read is begun again within this.
const READ_AGAIN: Duration = Duration::from_secs(15);
/// A caller has found its lease and is parked after this.
const SETTLED: Duration = Duration::from_millis(300);
/// Hash tags of drover's keys and of the bare service's, of the same length.
const PLACES: (&[u8], &[u8]) = (b"{drover.", b"{barely.");
/// ARGV of the commit script that say what revision it expects and until when it may happen.
const EXPECTED: usize = 3;
const UNTIL: usize = 5;

/// One command.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Trip {
    /// Its name and its arguments.
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub words: Vec<Bytes>,
}

/// What the bare service does in Redis.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Lesson {
    /// Where that is.
    #[prost(string, tag = "1")]
    pub url: String,
    /// The key that all trips are about; another takes its place.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
    /// For a grant. Its answer holds the revision.
    #[prost(message, optional, tag = "3")]
    pub grant: Option<Trip>,
    /// For a report.
    #[prost(message, optional, tag = "4")]
    pub report: Option<Trip>,
    /// Which word of it is the revision.
    #[prost(uint32, tag = "5")]
    pub revision_at: u32,
    /// Until a caller of another replica is parked.
    #[prost(message, repeated, tag = "6")]
    pub park: Vec<Trip>,
    /// Once it was woken.
    #[prost(message, repeated, tag = "7")]
    pub woken: Vec<Trip>,
    /// Blocking reads of streams, each over a connection of its own.
    #[prost(message, repeated, tag = "8")]
    pub reads: Vec<Trip>,
}

/// Records what `drover` does in `redis`, and makes the place where the bare service does the same.
pub async fn record(bench: &Bench, redis: &Redis, drover: &Side) -> anyhow::Result<Lesson> {
    let channels = drover.connect(drover.replicas_count().max(2)).await?;
    let mut recorder = Recorder {
        bench,
        monitor: redis.monitor().await?,
        reads: Vec::new(),
        holder: Coordinator::new(channels[0].clone()),
        number: 0,
    };
    let (key, grant, report) = recorder.rebuild().await?;
    let mut lesson = Lesson {
        url: redis.url(),
        key: key.into(),
        revision_at: u32::try_from(argument(&report, EXPECTED)?)?,
        grant: Some(grant),
        report: Some(report),
        ..Lesson::default()
    };
    if drover.replicas_count() > 1 {
        recorder.wait(&mut lesson, &channels[1]).await?;
    }
    lesson.reads = recorder.reads().await?;
    lesson.stay_possible()?;
    let header = lesson.move_over();
    redis
        .ask(::redis::cmd("COPY").arg(&header.0).arg(&header.1).arg("REPLACE"))
        .await?;
    Ok(lesson)
}

/// Has every report recorded in the log that the bare service reads, as drover does while a watcher wants that.
pub async fn record_refreshed(redis: &Redis, lesson: &Lesson) -> anyhow::Result<()> {
    let header = lesson
        .grant
        .as_ref()
        .and_then(|grant| grant.words.get(3))
        .context("a lesson without a grant")?;
    let never = 9_000_000_000_000_000_u64;
    redis
        .ask(::redis::cmd("HSET").arg(header.as_ref()).arg("wr").arg(never))
        .await?;
    Ok(())
}

/// Tells a lesson to every bare server.
pub async fn teach(bare: &Side, lesson: &Lesson) -> anyhow::Result<()> {
    let lesson = Bytes::from(lesson.encode_to_vec());
    for channel in bare.connect(bare.replicas_count()).await? {
        bare::Client::new(channel)
            .learn(lesson.clone())
            .await
            .map_err(explained)?;
    }
    Ok(())
}

struct Recorder<'a> {
    bench: &'a Bench,
    monitor: Monitor,
    reads: Vec<Trip>,
    holder: Coordinator,
    number: u64,
}

impl Recorder<'_> {
    /// The script calls about `key` since the last look.
    async fn about(&mut self, key: &str) -> anyhow::Result<Vec<Trip>> {
        let sent = self.monitor.sent().await?;
        for read in sent.iter().filter(|sent| sent.name() == "XREAD") {
            let read = trip(read);
            if !self.reads.iter().any(|known| streams(known) == streams(&read)) {
                self.reads.push(read);
            }
        }
        let calls = sent
            .iter()
            .filter(|sent| sent.calls_a_script() && sent.mentions(key.as_bytes()));
        Ok(calls.map(trip).collect())
    }

    fn next_key(&mut self) -> String {
        self.number += 1;
        self.bench.caller.key('l', self.number)
    }

    async fn acquire(&mut self, key: &str) -> anyhow::Result<Lease> {
        let question = self.bench.caller.acquire(key.to_owned());
        wire::granted(
            self.holder
                .acquire_rebuild(question)
                .await
                .map_err(explained)?
                .into_inner(),
        )
    }

    async fn report(&mut self, key: &str, lease: &Lease) -> anyhow::Result<()> {
        let report = self.bench.caller.report(key.to_owned(), lease);
        wire::accepted(&self.holder.report_value(report).await.map_err(explained)?.into_inner())
    }

    /// What commits a grant and its report, and the key they are about: the last trip of each, and the only one where all is well.
    async fn rebuild(&mut self) -> anyhow::Result<(String, Trip, Trip)> {
        for tried in 1.. {
            let key = self.next_key();
            let lease = self.acquire(&key).await?;
            let mut grants = self.about(&key).await?;
            self.report(&key, &lease).await?;
            let mut reports = self.about(&key).await?;
            let alone = grants.len() == 1 && reports.len() == 1;
            if (alone || tried == TRIES)
                && let (Some(grant), Some(report)) = (grants.pop(), reports.pop())
            {
                return Ok((key, grant, report));
            }
            if tried == TRIES {
                break;
            }
        }
        bail!("a grant and a report made no script call about their key")
    }

    /// What a caller at another replica takes, from its call to its answer.
    async fn wait(&mut self, lesson: &mut Lesson, elsewhere: &Channel) -> anyhow::Result<()> {
        let key = self.next_key();
        let lease = self.acquire(&key).await?;
        self.about(&key).await?;
        let (mut waiter, request) = (Coordinator::new(elsewhere.clone()), self.bench.caller.wait(key.clone()));
        let mut parked = JoinSet::new();
        parked.spawn(async move { waiter.acquire_rebuild(request).await });
        tokio::time::sleep(SETTLED).await;
        lesson.park = self.about(&key).await?;
        self.report(&key, &lease).await?;
        while let Some(answer) = parked.join_next().await {
            wire::fresh(answer?.map_err(explained)?.into_inner())?;
        }
        lesson.woken = self.about(&key).await?;
        let commit = lesson.report.as_ref().and_then(|trip| trip.words.get(1)).cloned();
        lesson.woken.retain(|trip| trip.words.get(1) != commit.as_ref());
        for trip in lesson.park.iter_mut().chain(&mut lesson.woken) {
            trip.replace(key.as_bytes(), &lesson.key);
        }
        Ok(())
    }

    /// The blocking reads, of which one at least must have been seen.
    async fn reads(&mut self) -> anyhow::Result<Vec<Trip>> {
        let started = Instant::now();
        while self.reads.is_empty() {
            if started.elapsed() > READ_AGAIN {
                bail!("drover has read no log within {READ_AGAIN:?}");
            }
            tokio::time::sleep(SETTLED).await;
            self.about("").await?;
        }
        Ok(std::mem::take(&mut self.reads))
    }
}

impl Trip {
    /// Puts `by` in the place of every `what`, which is as long.
    fn replace(&mut self, what: &[u8], by: &[u8]) {
        for word in &mut self.words {
            let places = places(word, what);
            if !places.is_empty() {
                let mut bytes = word.to_vec();
                for at in places {
                    bytes[at..at + by.len()].copy_from_slice(by);
                }
                *word = bytes.into();
            }
        }
    }
}

impl Lesson {
    /// A report is made before the lease ends; in a recording that would be over after seconds.
    fn stay_possible(&mut self) -> anyhow::Result<()> {
        for trip in [&mut self.grant, &mut self.report].into_iter().flatten() {
            let at = argument(trip, UNTIL)?;
            if !trip.words[at].is_empty() {
                trip.words[at] = Bytes::from_static(b"9000000000000000");
            }
        }
        Ok(())
    }

    /// To the partition beside drover's. Answers drover's header and the new one.
    fn move_over(&mut self) -> (Vec<u8>, Vec<u8>) {
        let header = |lesson: &Self| {
            let word = lesson.grant.as_ref().and_then(|grant| grant.words.get(3));
            word.map_or_else(Vec::new, |word| word.to_vec())
        };
        let before = header(self);
        let single = [&mut self.grant, &mut self.report].into_iter().flatten();
        for trip in single
            .chain(&mut self.park)
            .chain(&mut self.woken)
            .chain(&mut self.reads)
        {
            trip.replace(PLACES.0, PLACES.1);
        }
        (before, header(self))
    }
}

/// Where ARGV[number] of a script call is among its words: EVALSHA, digest, how many keys, keys, arguments.
fn argument(trip: &Trip, number: usize) -> anyhow::Result<usize> {
    let keys = trip
        .words
        .get(2)
        .and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
    let at = 2 + keys.context("a script call without a number of keys")? + number;
    if at >= trip.words.len() {
        bail!("a script call with fewer than {number} arguments");
    }
    Ok(at)
}

/// Where `what` begins in `text`.
pub fn places(text: &[u8], what: &[u8]) -> Vec<usize> {
    let windows = text.windows(what.len().max(1)).enumerate();
    windows.filter(|(_, part)| *part == what).map(|(at, _)| at).collect()
}

/// How many streams an XREAD is about, and where their names begin: STREAMS, names, ids.
pub fn streams_at(read: &Trip) -> Option<(usize, usize)> {
    let at = read
        .words
        .iter()
        .position(|word| word.eq_ignore_ascii_case(b"streams"))?
        + 1;
    Some((at, (read.words.len() - at) / 2))
}

fn streams(read: &Trip) -> &[Bytes] {
    streams_at(read).map_or(&[], |(at, count)| &read.words[at..at + count])
}

fn trip(sent: &Sent) -> Trip {
    Trip {
        words: sent.words.iter().cloned().map(Bytes::from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Trip {
        Trip {
            words: words
                .iter()
                .map(|word| Bytes::copy_from_slice(word.as_bytes()))
                .collect(),
        }
    }

    #[test]
    fn a_lesson_moves_over_with_all_its_keys() {
        let mut lesson = Lesson {
            grant: Some(call(&[
                "evalsha",
                "sha",
                "2",
                "{drover.0}:h",
                "{drover.0}:e:bench/k",
                "epoch",
            ])),
            reads: vec![call(&["xread", "block", "5000", "streams", "{drover.0}:log", "0-0"])],
            ..Lesson::default()
        };
        assert_eq!(lesson.move_over(), (b"{drover.0}:h".to_vec(), b"{barely.0}:h".to_vec()));
        assert_eq!(lesson.reads[0].words[4], "{barely.0}:log");
        assert_eq!(lesson.grant.unwrap_or_default().words[4], "{barely.0}:e:bench/k");
    }

    #[test]
    fn the_end_of_a_lease_is_put_off_and_what_has_none_stays_so() -> anyhow::Result<()> {
        let with = |until| call(&["evalsha", "sha", "1", "h", "1", "flags", "3", "4", until, "6"]);
        let mut lesson = Lesson {
            grant: Some(with("")),
            report: Some(with("1796050432330576")),
            ..Lesson::default()
        };
        lesson.stay_possible()?;
        assert_eq!(lesson.grant.map(|trip| trip.words[8].clone()), Some(Bytes::new()));
        assert_eq!(
            lesson.report.map(|trip| trip.words[8].clone()),
            Some("9000000000000000".into())
        );
        Ok(())
    }

    #[test]
    fn an_argument_is_found_behind_the_keys() -> anyhow::Result<()> {
        let trip = call(&["evalsha", "sha", "2", "a", "b", "first", "second", "third"]);
        assert_eq!(trip.words[argument(&trip, EXPECTED)?], "third");
        assert!(argument(&trip, UNTIL).is_err());
        Ok(())
    }

    #[test]
    fn the_streams_of_a_read_are_its_first_half() {
        let read = call(&["XREAD", "COUNT", "9", "BLOCK", "5000", "STREAMS", "a", "b", "1-0", "$"]);
        assert_eq!(streams(&read), ["a", "b"]);
        assert_eq!(streams(&call(&["XREAD"])), [""; 0]);
    }
}
