//! Follows the log and the rings of each partition, and tells the feed.
//!
//! *Owns* where this replica is in each stream. One connection a partition waits at the server (XREAD BLOCK), so an event is here a moment
//! after its commit, and an idle partition costs a call a second.
//!
//! *Invariants.* Records reach the feed in the order of their positions, each once, or the feed is told that the log begins anew. A record names the
//! one before it in its stream: a gap is seen, never passed over. Rings may be lost; whoever is parked looks once a second in any case.
//!
//! *Why streams and not publish/subscribe*: a subscription forgets what it could not deliver, and does not say so.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Value, cmd};
use tokio::sync::watch;

use super::codec::{WrittenRecord, read_record};
use super::condition::Condition;
use super::link::Dedicated;
use super::partition::Partition;
use super::reply::record_field;
use super::tending::{self, State};
use super::{Redis, StoreError};
use crate::decision::Key;
use crate::fanout::Record;
use crate::store::{Event, Place};

/// A call waits so long at the server for something to happen. That nothing came is the proof that this replica is current, without which
/// watchers hear no sign of life.
const BLOCK: Duration = Duration::from_secs(1);
/// And a little longer for its answer.
const GRACE: Duration = Duration::from_secs(1);
/// A stream is read so many records at a time when the log is read from its beginning.
const PAGE: usize = 2_000;
/// After an error it is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// Which partitions' logs have been read up to their end once.
pub struct Begun(watch::Sender<Vec<bool>>);

impl Begun {
    pub fn new(partitions: usize) -> Begun {
        Begun(watch::Sender::new(vec![false; partitions]))
    }

    /// The first that has not.
    pub fn waits_for(&self) -> Option<usize> {
        self.0.borrow().iter().position(|begun| !begun)
    }

    fn has(&self, partition: u16) {
        self.0.send_if_modified(|begun| {
            begun
                .get_mut(usize::from(partition))
                .is_some_and(|begun| !std::mem::replace(begun, true))
        });
    }
}

/// Follows one partition for as long as it is polled.
pub async fn follow(store: Arc<Redis>, number: usize) {
    let Some(partition) = store.shared.partitions.get(number) else {
        return;
    };
    let mut tail = Tail {
        store: &store,
        partition,
        at: None,
    };
    loop {
        if let Err(error) = tail.run().await {
            tracing::debug!(partition = partition.number, %error, "the log could not be followed; trying again");
            tokio::time::sleep(AGAIN).await;
        }
    }
}

struct Tail<'a> {
    store: &'a Arc<Redis>,
    partition: &'a Partition,
    at: Option<At>,
}

/// How far a tail is.
struct At {
    epoch: u64,
    /// Everything up to here was told.
    position: u64,
    /// The last record of the log.
    main: u64,
    /// The last record of the log of `Refreshed`.
    refreshed: u64,
    /// The last ring read.
    ring: String,
}

/// Records of a stream as they come: id and fields.
type Records = Vec<(String, Value)>;

/// A record with its position.
struct Found {
    position: u64,
    refreshed: bool,
    record: WrittenRecord,
}

impl Tail<'_> {
    /// Connects, goes on where it was or begins anew, and reads until something breaks or the epoch changes.
    async fn run(&mut self) -> Result<(), StoreError> {
        let mut epochs = self.partition.epochs();
        let state = tending::look(self.store, self.partition).await?;
        epochs.mark_unchanged();
        let mut connection = self.store.shared.link.dedicated(self.partition.number).await?;
        if self.at.as_ref().is_none_or(|at| at.epoch != state.epoch) {
            self.begin(&mut connection, &state).await?;
        }
        loop {
            tokio::select! {
                read = self.read(&mut connection, Some(BLOCK)) => {
                    let (found, rings) = read?;
                    if !self.take(found) {
                        let (found, _) = self.read(&mut connection, None).await?;
                        if !self.take(found) {
                            // Records have gone that this replica has not read.
                            self.store.shared.link.conditions().count(Condition::LogGap);
                            let state = tending::look(self.store, self.partition).await?;
                            self.begin(&mut connection, &state).await?;
                        }
                    }
                    self.ring(rings);
                }
                _ = epochs.changed() => return Ok(()),
            }
        }
    }

    /// Reads the log from its beginning, so that cursors of other replicas can be resumed here.
    async fn begin(&mut self, connection: &mut Dedicated, state: &State) -> Result<(), StoreError> {
        let keys = &self.partition.keys;
        let ring = last_id(connection, &keys.rings).await?;
        let (main, from) = read_all(connection, &keys.log, false, state.main).await?;
        let (refreshed, refreshed_from) = read_all(connection, &keys.refreshed, true, state.refreshed).await?;
        let mut at = At {
            epoch: state.epoch,
            main: state.main,
            refreshed: state.refreshed,
            position: state.position,
            ring,
        };
        let mut found = main;
        found.extend(refreshed);
        found.sort_unstable_by_key(|found| found.position);
        // The streams were read one after the other: of what came meanwhile, the first may lack what stands before something in the second.
        // From the first hole on it is read again.
        found.retain(|one| {
            let known = one.position <= at.position || one.position == at.position + 1;
            if known {
                at.position = at.position.max(one.position);
                let last = if one.refreshed { &mut at.refreshed } else { &mut at.main };
                *last = one.position.max(*last);
            }
            known
        });
        let feed = &self.store.feed;
        feed.begin(self.partition.number, state.log, state.epoch, from, refreshed_from);
        self.tell(found);
        feed.advance(self.partition.number, at.position);
        self.at = Some(at);
        self.store.begun.has(self.partition.number);
        Ok(())
    }

    /// What has come since; waits for it if there is nothing yet.
    async fn read(
        &mut self,
        connection: &mut Dedicated,
        block: Option<Duration>,
    ) -> Result<(Vec<Found>, Vec<Value>), StoreError> {
        let Some(at) = &mut self.at else {
            return Err(StoreError::Unavailable("the log has not been begun".to_owned()));
        };
        let keys = &self.partition.keys;
        let mut read = cmd("XREAD");
        if let Some(block) = block {
            read.arg("BLOCK").arg(block.as_millis() as u64);
        }
        read.arg("STREAMS").arg(&keys.log).arg(&keys.refreshed).arg(&keys.rings);
        read.arg(format!("{}-0", at.main))
            .arg(format!("{}-0", at.refreshed))
            .arg(&at.ring);
        let reply = connection.run(&read, block.unwrap_or_default() + GRACE).await?;
        let (mut found, mut rings) = (Vec::new(), Vec::new());
        for (name, records) in streams(reply) {
            if name == keys.rings.as_bytes() {
                for (id, fields) in records {
                    at.ring = id;
                    rings.push(fields);
                }
            } else {
                let refreshed = name == keys.refreshed.as_bytes();
                for (id, fields) in records {
                    found.push(read_found(&id, &fields, refreshed)?);
                }
            }
        }
        found.sort_unstable_by_key(|found| found.position);
        Ok((found, rings))
    }

    /// Takes records in, up to the first before which one is missing. `false`: there is such a one. It may be in the other stream: a read
    /// that waited brings only the one that woke it. If it is not there at a read of both at one moment, it is lost.
    fn take(&mut self, found: Vec<Found>) -> bool {
        let Some(at) = &mut self.at else {
            return false;
        };
        let mut taken = Vec::with_capacity(found.len());
        let mut whole = true;
        for one in found {
            if one.position <= at.position {
                continue;
            }
            let last = if one.refreshed { &mut at.refreshed } else { &mut at.main };
            let begins = one.refreshed && one.record.event.is_none();
            if one.position != at.position + 1 || (one.record.before != *last && !begins) {
                whole = false;
                break;
            }
            (*last, at.position) = (one.position, one.position);
            taken.push(one);
        }
        let position = at.position;
        self.tell(taken);
        self.store.feed.advance(self.partition.number, position);
        whole
    }

    fn tell(&self, found: Vec<Found>) {
        let number = self.partition.number;
        let mut records = Vec::with_capacity(found.len());
        for Found { position, record, .. } in found {
            self.partition.saw(record.number);
            let Some(event) = record.event else {
                self.store.feed.refreshed_since(number, position);
                continue;
            };
            if let Event::Invalidated {
                namespace,
                target,
                mode,
            } = &event
                && !record.again
            {
                self.partition.heard(namespace, target, *mode, record.number);
            }
            let place = Place {
                partition: number,
                at: position,
            };
            records.push(Record {
                place,
                number: record.number,
                at: record.at,
                event,
            });
        }
        self.store.feed.take_in(records);
    }

    fn ring(&self, rings: Vec<Value>) {
        let mut rung: Vec<&[u8]> = Vec::new();
        for fields in &rings {
            match record_field(fields) {
                Some((b"k", key)) if !rung.contains(&key) => {
                    rung.push(key);
                    self.store.feed.ring(&Key::from_text(&String::from_utf8_lossy(key)));
                }
                Some((b"d", namespace)) => self.store.feed.due(&String::from_utf8_lossy(namespace)),
                Some((b"m", message)) => self.store.peers.heard(message),
                _ => {}
            }
        }
    }
}

/// All that a stream holds, from the last hole on; and the position after which nothing is missing.
async fn read_all(
    connection: &mut Dedicated,
    stream: &str,
    refreshed: bool,
    last: u64,
) -> Result<(Vec<Found>, u64), StoreError> {
    let mut found: Vec<Found> = Vec::new();
    let mut from = None;
    let mut next = "-".to_owned();
    loop {
        let mut range = cmd("XRANGE");
        range.arg(stream).arg(&next).arg("+").arg("COUNT").arg(PAGE);
        let page = records(connection.run(&range, GRACE).await?);
        let full = page.len() == PAGE;
        for (id, fields) in page {
            let one = read_found(&id, &fields, refreshed)?;
            if found.last().map(|before| before.position) != Some(one.record.before) {
                found.clear();
                from = Some(one.record.before);
            }
            next = format!("({id}");
            found.push(one);
        }
        if !full {
            return Ok((found, from.unwrap_or(last)));
        }
    }
}

async fn last_id(connection: &mut Dedicated, stream: &str) -> Result<String, StoreError> {
    let mut last = cmd("XREVRANGE");
    last.arg(stream).arg("+").arg("-").arg("COUNT").arg(1);
    let found = records(connection.run(&last, GRACE).await?);
    Ok(found.into_iter().next().map_or_else(|| "0-0".to_owned(), |(id, _)| id))
}

fn read_found(id: &str, fields: &Value, refreshed: bool) -> Result<Found, StoreError> {
    let position = id.split_once('-').and_then(|(position, _)| position.parse().ok());
    let record = match record_field(fields) {
        Some((b"r", text)) => read_record(text).map_err(|error| error.to_string()),
        _ => Err("it has no field 'r'".to_owned()),
    };
    match (position, record) {
        (Some(position), Ok(record)) => Ok(Found {
            position,
            refreshed,
            record,
        }),
        (_, Err(error)) => Err(StoreError::Unavailable(format!(
            "record {id} of the log can't be read: {error}"
        ))),
        (None, _) => Err(StoreError::Unavailable(format!(
            "the log has a record with the id {id}, which drover did not write"
        ))),
    }
}

/// Streams of a reply of XREAD, by name.
fn streams(reply: Value) -> Vec<(Vec<u8>, Records)> {
    let named = |name, value| match name {
        Value::BulkString(name) => Some((name, records(value))),
        _ => None,
    };
    match reply {
        Value::Map(pairs) => pairs
            .into_iter()
            .filter_map(|(name, value)| named(name, value))
            .collect(),
        Value::Array(pairs) => pairs
            .into_iter()
            .filter_map(|pair| match pair {
                Value::Array(pair) => <[Value; 2]>::try_from(pair)
                    .ok()
                    .and_then(|[name, value]| named(name, value)),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// Records of one stream: id and fields.
fn records(reply: Value) -> Records {
    let Value::Array(records) = reply else {
        return Vec::new();
    };
    let read = |record| match record {
        Value::Array(pair) => match <[Value; 2]>::try_from(pair) {
            Ok([Value::BulkString(id), fields]) => Some((String::from_utf8_lossy(&id).into_owned(), fields)),
            _ => None,
        },
        _ => None,
    };
    records.into_iter().filter_map(read).collect()
}
