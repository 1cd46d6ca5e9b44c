//! Where a store tells what it committed.
//!
//! The feed only *rings*: a listener learns that there is something to read in the log, or that a key should be loaded again, and
//! then looks for itself. Values never travel here, and a ring that is lost costs time, never truth.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::decision::{Key, Seq, StoreTime};
use crate::store::Event;

/// An event with the stamp of its commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where in the log of its partition it stands.
    pub position: u64,
    /// Of the commit.
    pub number: Seq,
    /// Of the commit.
    pub at: StoreTime,
    /// What happened.
    pub event: Event,
}

/// Why a log has a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResetReason {
    /// The cursor is malformed or of another deployment.
    UnknownCursor,
    /// The cursor is older than the log.
    CursorTooOld,
    /// This watcher did not keep up.
    SlowConsumer,
    /// The store lost or replaced its log.
    LogLost,
    /// The store is back after degraded decisions.
    DegradedEnded,
}

/// Who wants to be woken. Called while a commit returns: it must not block.
pub trait Listener: Send + Sync + 'static {
    /// Something about a key changed that somebody waits for.
    fn rung(&self, key: &Key);
    /// The log has grown by this record.
    fn logged(&self, record: &Record);
    /// The log cannot be continued: whoever follows it must start afresh.
    fn reset(&self, reason: ResetReason);
}

/// A store's log and its rings.
pub struct Feed {
    listeners: RwLock<Vec<Arc<dyn Listener>>>,
    log: Mutex<Vec<Record>>,
}

/// What a commit put into the log, to be announced once the commit's locks are released.
#[must_use = "listeners hear of it only when it is announced"]
pub struct Appended {
    /// The position of the last record.
    pub position: u64,
    records: Vec<Record>,
}

impl Feed {
    /// An empty one.
    pub fn new() -> Arc<Feed> {
        Arc::new(Feed {
            listeners: RwLock::default(),
            log: Mutex::default(),
        })
    }

    /// From now on this one hears of everything.
    pub fn listen(&self, listener: Arc<dyn Listener>) {
        self.listeners.write().push(listener);
    }

    /// Puts the events of one commit into the log. Called inside the critical section of the commit, so that the log has the
    /// order of the commits.
    pub fn append(&self, number: Seq, at: StoreTime, events: Vec<Event>) -> Appended {
        let mut log = self.log.lock();
        let mut records = Vec::with_capacity(events.len());
        for event in events {
            let record = Record {
                position: log.len() as u64 + 1,
                number,
                at,
                event,
            };
            log.push(record.clone());
            records.push(record);
        }
        Appended {
            position: log.len() as u64,
            records,
        }
    }

    /// Tells the listeners.
    pub fn announce(&self, appended: &Appended) {
        let listeners = self.listeners.read();
        for record in &appended.records {
            listeners.iter().for_each(|listener| listener.logged(record));
        }
    }

    /// Tells the listeners that a key should be loaded again.
    pub fn ring(&self, key: &Key) {
        self.listeners.read().iter().for_each(|listener| listener.rung(key));
    }

    /// Tells the listeners that the log cannot be continued.
    pub fn reset(&self, reason: ResetReason) {
        self.listeners.read().iter().for_each(|listener| listener.reset(reason));
    }
}
