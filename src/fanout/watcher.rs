//! One subscriber: what it wants, and how far it is.
//!
//! *Invariants.* What is acknowledged was sent, and grows only. A watcher that has gone is silent for its client from that moment
//! at the latest, so [`MAX_SILENCE`] later the client has stopped trusting its copies.

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::cursor::Cursor;
use super::filter::Filter;
use super::logs::Opening;
use super::position::{Position, Positions};
use super::stream::MAX_SILENCE;
use crate::store::Place;

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

/// How far it is.
pub(super) struct Marks {
    sent: Position,
    acknowledged: Positions,
    gone: Option<Instant>,
}

impl Marks {
    /// Of a watcher that begins so; a new one needs not apply anything from before.
    pub fn new(opening: &Opening, is_new: bool) -> Marks {
        Marks {
            // An earlier stream may have sent what its cursor says, as far as this log has come. A cursor is only what the client says.
            sent: Position {
                at: opening.position.at.zip_with(&opening.head, u64::min),
                ..opening.position.clone()
            },
            acknowledged: if is_new {
                opening.head.clone()
            } else {
                Positions::zero(opening.head.len())
            },
            gone: None,
        }
    }
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
    /// One that is so far.
    pub fn new(id: u64, filter: Filter, observe_only: bool, marks: Marks) -> Watcher {
        Watcher {
            id,
            filter,
            observe_only,
            waker: AtomicWaker::new(),
            changed: Notify::new(),
            marks: Mutex::new(marks),
        }
    }

    /// A message was handed to the transport, after which the stream stands there.
    pub fn sent(&self, position: &Position) {
        let mut marks = self.marks.lock();
        let sent = &mut marks.sent;
        (sent.log, sent.epoch, sent.turn) = (position.log, position.epoch, position.turn);
        sent.at.clone_from(&position.at);
    }

    /// The client has applied everything up to there; of that counts what was sent.
    pub fn acknowledge(&self, cursor: &Cursor) {
        let Some(at) = Positions::of(&cursor.positions) else {
            return;
        };
        {
            let mut marks = self.marks.lock();
            let sent = &marks.sent;
            if (cursor.log, cursor.epoch, at.len()) != (sent.log, sent.epoch, sent.at.len()) {
                return;
            }
            let counts = at.zip_with(&sent.at, u64::min).zip_with(&marks.acknowledged, u64::max);
            if counts == marks.acknowledged {
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

    /// How a barrier at these places sees it.
    pub fn reached(&self, places: &[Place], now: Instant) -> Reached {
        let marks = self.marks.lock();
        let applied = |place: &Place| marks.acknowledged.get(usize::from(place.partition)) >= place.at;
        match marks.gone {
            _ if places.iter().all(applied) => Reached::Yes,
            None => Reached::NotYet,
            Some(gone) if now < gone + MAX_SILENCE => Reached::GoneUntil(gone + MAX_SILENCE),
            Some(_) => Reached::Silent,
        }
    }
}
