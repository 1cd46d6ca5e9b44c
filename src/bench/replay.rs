//! The bare service's part in Redis: the trips of a [`Lesson`], and the reading of its streams.
//!
//! *Owns* as much as a person would write by hand: connections that all calls share, a table of who waits for a key, one task a blocking
//! read. *Invariants:* a trip whose answer is not what it was when it was learnt is an error, so a figure never rests on calls that did
//! nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ::redis::aio::MultiplexedConnection;
use ::redis::streams::StreamReadReply;
use ::redis::{Cmd, Value};
use anyhow::Context;
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::{broadcast, oneshot};
use tokio::task::JoinSet;
use tonic::Status;

use super::lesson::{Lesson, Trip, places, streams_at};
use super::redis::connect;

/// As many as drover shares by default.
const CONNECTIONS: usize = 2;

/// What was learnt, ready to be done.
pub struct Replay {
    connections: Vec<MultiplexedConnection>,
    turn: AtomicUsize,
    grant: Template,
    report: Template,
    park: Vec<Template>,
    woken: Vec<Template>,
    waiting: Arc<Waiting>,
    parked: AtomicU64,
    /// They end with this.
    _reading: JoinSet<()>,
}

/// Who waits for a key.
#[derive(Default)]
struct Waiting(Mutex<HashMap<Bytes, Vec<oneshot::Sender<()>>>>);

/// A trip and where a key, and a revision, stand in it.
struct Template {
    words: Vec<(Bytes, Vec<usize>)>,
    revision_at: Option<usize>,
}

impl Replay {
    /// Connects, and begins to read the streams: what comes in them goes to `events`, and rings wake who waits.
    pub async fn new(lesson: &[u8], events: broadcast::Sender<Bytes>) -> anyhow::Result<Self> {
        let lesson = Lesson::decode(lesson)?;
        let url = format!("{}/?protocol=resp3", lesson.url);
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(connect(&url).await?);
        }
        let (waiting, mut reading) = (Arc::new(Waiting::default()), JoinSet::new());
        for read in &lesson.reads {
            let mut reader = Reader {
                connection: connect(&url).await?,
                read: read.clone(),
                waiting: Arc::clone(&waiting),
                events: events.clone(),
            };
            reader.begin_now().context("a read without streams")?;
            reading.spawn(async move { while let Ok(()) = reader.once().await {} });
        }
        let template = |trip: &Trip, revision_at| Template::new(trip, &lesson.key, revision_at);
        let all = |trips: &[Trip]| trips.iter().map(|trip| template(trip, None)).collect();
        let revision_at = usize::try_from(lesson.revision_at)?;
        Ok(Self {
            connections,
            turn: AtomicUsize::new(0),
            grant: template(lesson.grant.as_ref().context("no grant was learnt")?, None),
            report: template(
                lesson.report.as_ref().context("no report was learnt")?,
                Some(revision_at),
            ),
            park: all(&lesson.park),
            woken: all(&lesson.woken),
            waiting,
            parked: AtomicU64::new(0),
            _reading: reading,
        })
    }

    /// Answers the revision that the grant was written with.
    pub async fn grant(&self, key: &[u8]) -> Result<u64, Status> {
        let answer = self.done(&self.grant, key, 0).await?;
        number(&answer, 3).ok_or_else(|| Status::data_loss("a grant without a revision"))
    }

    /// Of the grant that was written with this revision.
    pub async fn report(&self, key: &[u8], revision: u64) -> Result<(), Status> {
        self.done(&self.report, key, revision).await.map(drop)
    }

    /// Until a report, at any replica.
    pub async fn wait(&self, key: Bytes) -> Result<(), Status> {
        let woken = self.waiting.add(key.clone());
        for trip in &self.park {
            self.call(trip, &key, 0).await?;
        }
        self.parked.fetch_add(1, Ordering::AcqRel);
        let woken = woken.await;
        self.parked.fetch_sub(1, Ordering::AcqRel);
        woken.map_err(|_| Status::aborted("nobody will ring any more"))?;
        for trip in &self.woken {
            self.call(trip, &key, 0).await?;
        }
        Ok(())
    }

    /// How many wait.
    pub fn parked(&self) -> u64 {
        self.parked.load(Ordering::Acquire)
    }

    async fn done(&self, trip: &Template, key: &[u8], revision: u64) -> Result<Vec<Value>, Status> {
        match self.call(trip, key, revision).await? {
            Value::Array(answer) if matches!(answer.first(), Some(Value::BulkString(word)) if word == b"ok") => {
                Ok(answer)
            }
            other => Err(Status::failed_precondition(format!("a trip was refused: {other:?}"))),
        }
    }

    async fn call(&self, trip: &Template, key: &[u8], revision: u64) -> Result<Value, Status> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut connection = self.connections[turn % self.connections.len()].clone();
        let answer = trip.command(key, revision).query_async(&mut connection).await;
        answer.map_err(|error| Status::unavailable(error.to_string()))
    }
}

impl Waiting {
    fn add(&self, key: Bytes) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        self.0.lock().entry(key).or_default().push(wake);
        woken
    }

    /// `name` is the namespace and the key.
    fn ring(&self, name: &[u8]) {
        let key = name
            .iter()
            .position(|byte| *byte == b'/')
            .map_or(name, |at| &name[at + 1..]);
        for wake in self.0.lock().remove(key).into_iter().flatten() {
            // Who has left needs no waking.
            let _ = wake.send(());
        }
    }
}

impl Template {
    fn new(trip: &Trip, key: &[u8], revision_at: Option<usize>) -> Self {
        let words = trip.words.iter().map(|word| (word.clone(), places(word, key)));
        Self {
            words: words.collect(),
            revision_at,
        }
    }

    fn command(&self, key: &[u8], revision: u64) -> Cmd {
        let mut command = Cmd::new();
        for (index, (word, places)) in self.words.iter().enumerate() {
            if self.revision_at == Some(index) {
                command.arg(revision);
            } else if places.is_empty() {
                command.arg(word.as_ref());
            } else {
                let mut word = word.to_vec();
                for at in places {
                    // Keys of a run are all of one length.
                    word[*at..*at + key.len()].copy_from_slice(key);
                }
                command.arg(word);
            }
        }
        command
    }
}

/// One blocking read, over and over.
struct Reader {
    connection: MultiplexedConnection,
    read: Trip,
    waiting: Arc<Waiting>,
    events: broadcast::Sender<Bytes>,
}

impl Reader {
    fn begin_now(&mut self) -> Option<()> {
        let (at, count) = streams_at(&self.read)?;
        self.read.words[at + count..].fill(Bytes::from_static(b"$"));
        Some(())
    }

    async fn once(&mut self) -> anyhow::Result<()> {
        let mut command = Cmd::new();
        self.read.words.iter().for_each(|word| _ = command.arg(word.as_ref()));
        let answer: Option<StreamReadReply> = command.query_async(&mut self.connection).await?;
        let (at, count) = streams_at(&self.read).context("a read without streams")?;
        for stream in answer.into_iter().flat_map(|answer| answer.keys) {
            let place = (at..at + count).find(|place| self.read.words[*place] == stream.key.as_bytes());
            let place = place.context("an answer about another stream")?;
            for entry in stream.ids {
                for (field, value) in &entry.map {
                    match (field.as_str(), value) {
                        ("k", Value::BulkString(name)) => self.waiting.ring(name),
                        // Nobody listening is no error.
                        (_, Value::BulkString(event)) => _ = self.events.send(Bytes::copy_from_slice(event)),
                        _ => {}
                    }
                }
                self.read.words[place + count] = entry.id.into();
            }
        }
        Ok(())
    }
}

fn number(answer: &[Value], at: usize) -> Option<u64> {
    match answer.get(at)? {
        Value::BulkString(text) => std::str::from_utf8(text).ok()?.parse().ok(),
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_about_another_key_and_revision() {
        let words = ["evalsha", "{barely.0}:e:bench/old", "17", "bench/old old"];
        let trip = Trip {
            words: words.iter().map(|word| Bytes::from_static(word.as_bytes())).collect(),
        };
        let packed = Template::new(&trip, b"old", Some(2))
            .command(b"new", 42)
            .get_packed_command();
        let text = String::from_utf8_lossy(&packed);
        assert!(
            text.contains("{barely.0}:e:bench/new\r\n$2\r\n42\r\n$13\r\nbench/new new"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_ring_wakes_those_who_wait_for_its_key() {
        let waiting = Waiting::default();
        let (mut one, mut other) = (waiting.add("a/b".into()), waiting.add("c".into()));
        waiting.ring(b"bench/a/b");
        assert!(one.try_recv().is_ok());
        assert!(other.try_recv().is_err());
    }
}
