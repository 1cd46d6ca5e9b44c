//! One subscriber: what it wants, and how far it is.
//!
//! *Invariants.* What is acknowledged was sent, and grows only. A watcher that has gone is silent for its client from that moment
//! at the latest, so [`MAX_SILENCE`] later the client has stopped trusting its copies.

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::filter::Filter;
use super::log::Position;
use super::stream::MAX_SILENCE;

/// Shared by its stream, the hub, and the barriers that wait for it.
pub(super) struct Watcher {
    pub id: u64,
    pub filter: Filter,
    pub observe_only: bool,
    pub waker: AtomicWaker,
    /// Something that a barrier waits for has changed.
    pub changed: Notify,
    marks: Mutex<Marks>,
}

struct Marks {
    sent: Position,
    acknowledged: u64,
    gone: Option<Instant>,
}

/// What a barrier sees in a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// It has applied the position.
    Yes,
    /// It may serve what is old.
    NotYet,
    /// It has gone, and counts as long as its client may still trust its copies.
    GoneUntil(Instant),
    /// It has gone for so long that it does not count.
    Silent,
}

impl Watcher {
    /// One that begins at `sent`, and needs not apply anything up to `acknowledged`.
    pub fn new(id: u64, filter: Filter, observe_only: bool, sent: Position, acknowledged: u64) -> Watcher {
        Watcher {
            id,
            filter,
            observe_only,
            waker: AtomicWaker::new(),
            changed: Notify::new(),
            marks: Mutex::new(Marks {
                sent,
                acknowledged,
                gone: None,
            }),
        }
    }

    /// A message was handed to the transport, after which the stream stands there.
    pub fn sent(&self, position: Position) {
        self.marks.lock().sent = position;
    }

    /// The client has applied everything up to there; of that counts what was sent.
    pub fn acknowledge(&self, position: Position) {
        {
            let mut marks = self.marks.lock();
            let counts = position.at.min(marks.sent.at);
            if position.epoch != marks.sent.epoch || counts <= marks.acknowledged {
                return;
            }
            marks.acknowledged = counts;
        }
        self.changed.notify_waiters();
    }

    /// The stream has ended.
    pub fn leave(&self, now: Instant) {
        self.marks.lock().gone = Some(now);
        self.changed.notify_waiters();
    }

    /// How a barrier at `position` sees it.
    pub fn reached(&self, position: u64, now: Instant) -> Reached {
        let marks = self.marks.lock();
        match marks.gone {
            _ if marks.acknowledged >= position => Reached::Yes,
            None => Reached::NotYet,
            Some(gone) if now < gone + MAX_SILENCE => Reached::GoneUntil(gone + MAX_SILENCE),
            Some(_) => Reached::Silent,
        }
    }
}
