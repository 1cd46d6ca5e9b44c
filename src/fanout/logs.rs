//! The partitions of a log, and what they have in common: identity, epoch, fences, and who wants `Refreshed`.
//!
//! *Owns* what a reader must be told when it cannot read on.
//!
//! *Invariants.* A read either covers everything between two positions, or says why it cannot. Whatever happens that a reader must see
//! moves a head or the turn: "nothing new" is a comparison. One lock is over all partitions, so a position is read as one piece.
//!
//! ```text
//!            own log (embedded store)                    remote log (filled from a shared store)
//!  position  given here, grows by one                    given by the store, per partition
//!  a fence   moves the head, so that cursors show        moves the turn, which readers of this replica carry; a cursor that is
//!            on which side of it they were taken         not clearly from behind the fence counts as one from before
//!  epoch     grows with LOG_LOST                         the sum over the partitions
//! ```
//!
//! *Why a sum*: each partition's epoch only grows, so the loss of any shows in every cursor. Two replicas that have heard of different losses
//! could have the same sum only if the epochs grew by the same; a store that takes the time in µs for an epoch makes that as good as
//! impossible.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::cursor::Cursor;
use super::feed::{Record, ResetReason};
use super::filter::Filter;
use super::log::{Bounds, Log, Logged};
use super::position::{Position, Positions};
use crate::decision::{Seq, StoreTime};
use crate::store::{Event, Place};

/// A read looks at no more slots at once, so that no commit waits long for the lock.
const SCAN: usize = 4_096;

/// A partition that was not heard of for so long is not known to be current any more. See [`Feed::advance`](super::Feed::advance).
pub const CURRENT: Duration = Duration::from_secs(3);

/// What a reader missed, and where it can go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// `None`: it fell behind.
    pub reason: Option<ResetReason>,
    pub now: Position,
}

/// Where a reader begins.
pub(super) struct Opening {
    pub position: Position,
    /// To be said first.
    pub reset: Option<ResetReason>,
    /// It goes on at a cursor of its own.
    pub resumed: bool,
    /// Its cursor is ahead of this log, which has to come up to it first.
    pub ahead: bool,
    /// It wants `Refreshed`, which the store does not record yet.
    pub unrecorded: bool,
    /// The heads.
    pub head: Positions,
}

/// Under the feed's lock.
pub(super) struct Logs {
    /// Positions and epochs are given here, not by a shared store.
    own: bool,
    /// Of a remote log, made of the identities of its partitions.
    id: u64,
    /// What it was before it was lost.
    former: Option<u64>,
    /// Of an own log; of a remote one the sum over its partitions.
    epoch: u64,
    turn: u64,
    /// Why the turn moved last.
    reason: Option<ResetReason>,
    fence: Option<Fence>,
    partitions: Box<[Partition]>,
    recording: Recording,
    keep: Duration,
    /// The store's time at one of this replica's moments, as good as it is known.
    time: Option<(Instant, StoreTime)>,
}

struct Partition {
    log: Log,
    id: u64,
    epoch: u64,
    stage: Stage,
    lost: bool,
    /// It was known to be current then.
    heard: Option<Instant>,
    /// So many proofs to come do not count.
    doubts: u8,
    /// `Refreshed` are recorded by then, since somebody here wants them.
    recorded_by: Option<u64>,
}

/// Whether a partition can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing is known of it.
    Unknown,
    /// It has begun, and is filled with what it held before. Then whoever has read it until now must start afresh, if anybody.
    Filling { broken: bool },
    /// It is followed.
    Live,
}

impl Partition {
    /// The store has said how far it is.
    fn prove(&mut self, now: Instant) {
        if self.doubts > 0 {
            self.doubts -= 1;
        } else {
            self.heard = Some(now);
        }
    }
}

/// Cursors that are not clearly from behind it must start afresh.
struct Fence {
    reason: ResetReason,
    /// Where the heads stood.
    at: Positions,
}

/// Whether `Refreshed` are wanted.
enum Recording {
    No,
    For(usize),
    /// The last subscriber left then.
    Lingering(Instant),
}

impl Logs {
    /// Of an own log, which has begun.
    pub fn own(bounds: Bounds) -> Logs {
        let mut logs = Logs::new(1, bounds);
        logs.own = true;
        logs.id = rand::random();
        logs.epoch = 1;
        logs.partitions
            .iter_mut()
            .for_each(|partition| partition.stage = Stage::Live);
        logs
    }

    /// Of a remote log, of which no partition has begun.
    pub fn remote(partitions: usize, bounds: Bounds) -> Logs {
        Logs::new(partitions, bounds)
    }

    fn new(partitions: usize, bounds: Bounds) -> Logs {
        let partition = || Partition {
            log: Log::new(bounds.share(partitions)),
            id: 0,
            epoch: 0,
            stage: Stage::Unknown,
            lost: false,
            heard: None,
            doubts: 0,
            recorded_by: None,
        };
        Logs {
            own: false,
            id: 0,
            former: None,
            epoch: 0,
            turn: 1,
            reason: None,
            fence: None,
            partitions: std::iter::repeat_with(partition).take(partitions).collect(),
            recording: Recording::No,
            keep: bounds.keep,
            time: None,
        }
    }

    pub fn turn(&self) -> u64 {
        self.turn
    }

    pub fn heads(&self) -> impl Iterator<Item = u64> {
        self.partitions.iter().map(|partition| partition.log.head())
    }

    /// Whether it can be read: every partition has begun, and none is lost.
    pub fn is_up(&self) -> bool {
        self.partitions
            .iter()
            .all(|partition| partition.stage == Stage::Live && !partition.lost)
    }

    /// Until when it is known to be current, if nothing is heard from now on. `None`: it is not.
    pub fn current_until(&self) -> Option<Instant> {
        if !self.is_up() {
            return None;
        }
        let heard = self.partitions.iter().map(|partition| partition.heard).min()??;
        Some(heard + CURRENT)
    }

    pub fn position(&self) -> Position {
        let mut at = Positions::zero(self.partitions.len());
        for (partition, head) in self.heads().enumerate() {
            at.set(partition, head);
        }
        Position {
            log: self.id,
            epoch: self.epoch,
            turn: self.turn,
            at,
        }
    }

    /// Adds an event to an own log; `None` for one that nobody wants.
    pub fn append(&mut self, now: Instant, number: Seq, at: StoreTime, event: Event) -> Option<Arc<Logged>> {
        if matches!(event, Event::Refreshed { .. }) && !self.records_refreshed(now) {
            return None;
        }
        let log = &mut self.partitions.first_mut()?.log;
        let place = Place {
            partition: 0,
            at: log.head() + 1,
        };
        let record = Record {
            place,
            number,
            at,
            event,
        };
        Some(log.push(now, now, record))
    }

    /// Adds a record of a remote log; `None` for one that is known, or of a partition that has not begun.
    pub fn take_in(&mut self, now: Instant, record: Record) -> Option<Arc<Logged>> {
        let when = self.moment(now, record.at);
        let partition = self.partitions.get_mut(usize::from(record.place.partition))?;
        let new = partition.stage != Stage::Unknown && record.place.at > partition.log.head();
        new.then(|| partition.log.push(now, when, record))
    }

    /// The store's time is this now, or a little later.
    pub fn tell_time(&mut self, now: Instant, time: StoreTime) {
        let behind = |(then, known): (Instant, StoreTime)| known.after(now.duration_since(then)) < time;
        if self.time.is_none_or(behind) {
            self.time = Some((now, time));
        }
    }

    /// This replica's moment of a commit.
    fn moment(&mut self, now: Instant, at: StoreTime) -> Instant {
        self.tell_time(now, at);
        let age = self
            .time
            .map(|(then, known)| known.after(now.duration_since(then)).since(at));
        now.checked_sub(age.unwrap_or_default()).unwrap_or(now)
    }

    /// A partition of a remote log begins, or goes on.
    pub fn begin(&mut self, now: Instant, partition: usize, log: u64, epoch: u64, from: u64, refreshed: u64) {
        let Some(own) = self.partitions.get_mut(partition) else {
            return;
        };
        let same = (own.id, own.epoch) == (log, epoch);
        let goes_on = own.stage == Stage::Live && same && from <= own.log.head();
        if goes_on {
            own.prove(now);
        } else {
            let broken = !matches!(own.stage, Stage::Unknown | Stage::Filling { broken: false });
            (own.stage, own.heard) = (Stage::Filling { broken }, None);
            own.log.start(from);
        }
        own.log.refreshed_since(refreshed);
        (own.id, own.epoch) = (log, epoch);
        let known = self
            .partitions
            .iter()
            .all(|partition| partition.stage != Stage::Unknown);
        let (mut id, mut epoch) = (0, 0_u64);
        for partition in &self.partitions {
            // Turned, so that the same identity in each of them does not cancel itself out.
            id = u64::rotate_left(id, 1) ^ partition.id;
            epoch = epoch.wrapping_add(partition.epoch);
        }
        if id != self.id && known && self.id != 0 {
            self.former = Some(self.id);
        }
        if known {
            (self.id, self.epoch) = (id, epoch);
        }
    }

    /// A partition of a remote log has come to here, as of now. `true`: whoever has read it must start afresh.
    pub fn advance(&mut self, now: Instant, partition: usize, at: u64) -> bool {
        let Some(partition) = self.partitions.get_mut(partition) else {
            return false;
        };
        let broken = match partition.stage {
            Stage::Unknown => return false,
            Stage::Filling { broken } => broken,
            Stage::Live => false,
        };
        partition.stage = Stage::Live;
        partition.log.advance(at);
        partition.prove(now);
        if broken {
            // Which cursors can be resumed is said by epoch and floor.
            self.turn_all(ResetReason::LogLost);
        }
        broken
    }

    /// `Refreshed` of a partition of a remote log were not recorded up to here.
    pub fn refreshed_since(&mut self, partition: usize, from: u64) {
        if let Some(partition) = self.partitions.get_mut(partition) {
            partition.log.refreshed_since(from);
        }
    }

    /// The store records `Refreshed` of a partition, as was asked, from here on at the latest.
    pub fn records(&mut self, partition: usize, at: u64) {
        if let Some(partition) = self.partitions.get_mut(partition) {
            partition.recorded_by.get_or_insert(at);
        }
    }

    /// Whether all `Refreshed` from here on will be in the log.
    pub fn is_recorded(&self) -> bool {
        let recorded = |partition: &Partition| partition.recorded_by.is_some_and(|by| by <= partition.log.head());
        self.own || self.partitions.iter().all(recorded)
    }

    /// Only what is read from now on proves that the log is current.
    pub fn doubt(&mut self) {
        for partition in self
            .partitions
            .iter_mut()
            .filter(|partition| partition.stage == Stage::Live)
        {
            partition.heard = None;
            // The answer on its way may have been read before now. The one after it was asked for later.
            partition.doubts = 1;
        }
    }

    /// The store does not answer for a partition. `false`: that is known.
    pub fn lose(&mut self, partition: usize) -> bool {
        self.turn_to(partition, true, ResetReason::LogLost)
    }

    /// It answers again. `false`: it was not lost.
    pub fn regain(&mut self, partition: usize) -> bool {
        self.turn_to(partition, false, ResetReason::DegradedEnded)
    }

    fn turn_to(&mut self, partition: usize, lost: bool, reason: ResetReason) -> bool {
        let Some(partition) = self.partitions.get_mut(partition) else {
            return false;
        };
        let turns = partition.lost != lost;
        if turns {
            partition.lost = lost;
            self.fence(reason);
        }
        turns
    }

    /// Whoever reads must start afresh.
    fn turn_all(&mut self, reason: ResetReason) {
        self.reason = Some(reason);
        self.turn += 1;
    }

    /// From here on, whoever has a position from before must start afresh.
    pub fn fence(&mut self, reason: ResetReason) {
        self.turn_all(reason);
        self.fence = Some(Fence {
            reason,
            at: self.position().at,
        });
        if self.own {
            self.epoch += u64::from(reason == ResetReason::LogLost);
            for partition in &mut self.partitions {
                let head = partition.log.head();
                partition.log.start(head + 1);
            }
        }
    }

    /// Where a reader with this text of a cursor begins. An empty one is none.
    pub fn open(&self, resume_from: &str, refreshed: bool) -> Opening {
        let now = self.position();
        let mut opening = Opening {
            head: now.at.clone(),
            position: now,
            reset: None,
            resumed: false,
            ahead: false,
            unrecorded: refreshed && !self.is_recorded(),
        };
        if resume_from.is_empty() {
            return opening;
        }
        let cursor = Cursor::decode(resume_from).ok();
        let of_former = cursor.as_ref().is_some_and(|cursor| Some(cursor.log) == self.former);
        match cursor.and_then(|cursor| self.position_of(&cursor)) {
            None if of_former => opening.reset = Some(ResetReason::LogLost),
            None => opening.reset = Some(ResetReason::UnknownCursor),
            Some(position) => match self.admits(&position, refreshed) {
                Err(reason) => opening.reset = Some(reason),
                Ok(()) => {
                    opening.ahead = !opening.head.covers(&position.at);
                    opening.resumed = true;
                    opening.position = position;
                }
            },
        }
        opening
    }

    /// The position that a cursor names, if it is one of this log.
    fn position_of(&self, cursor: &Cursor) -> Option<Position> {
        let at = Positions::of(&cursor.positions)?;
        (cursor.log == self.id && at.len() == self.partitions.len()).then_some(Position {
            log: cursor.log,
            epoch: cursor.epoch,
            turn: self.turn,
            at,
        })
    }

    /// Whether a reader may go on at a cursor.
    fn admits(&self, from: &Position, refreshed: bool) -> Result<(), ResetReason> {
        if from.epoch > self.epoch {
            return Err(ResetReason::UnknownCursor);
        }
        if from.epoch < self.epoch {
            return Err(ResetReason::LogLost);
        }
        if self.own && self.heads().zip(from.at.iter()).any(|(head, at)| at > head) {
            return Err(ResetReason::UnknownCursor);
        }
        if let Some(fence) = &self.fence
            && (from.at == fence.at || !from.at.covers(&fence.at))
        {
            return Err(fence.reason);
        }
        if !self.reaches_back_to(from, refreshed) {
            return Err(ResetReason::CursorTooOld);
        }
        Ok(())
    }

    fn reaches_back_to(&self, from: &Position, refreshed: bool) -> bool {
        self.partitions
            .iter()
            .zip(from.at.iter())
            .all(|(partition, at)| partition.log.reaches_back_to(at, refreshed))
    }

    /// Offers what matches, one partition after the other from `first` on, until one has something or `take` refuses; moves the position past
    /// what was taken and what does not match. Answers the partition to begin with the next time, so that none waits for ever.
    ///
    /// What is offered together is of one partition, because numbers of several may not be compared, and a message has one.
    pub fn read(
        &self,
        position: &mut Position,
        first: usize,
        filter: &Filter,
        mut take: impl FnMut(&Arc<Logged>) -> bool,
    ) -> Result<usize, Gap> {
        if position.turn != self.turn {
            return Err(self.fenced());
        }
        if !self.reaches_back_to(position, filter.refreshed) {
            let mut parts = self.partitions.iter().zip(position.at.iter());
            let unrecorded = filter.refreshed && parts.any(|(partition, at)| partition.log.is_unrecorded(at));
            return Err(self.gap(unrecorded.then_some(ResetReason::CursorTooOld)));
        }
        let count = self.partitions.len();
        let mut looks = SCAN;
        let mut index = first % count;
        for _ in 0..count {
            let from = position.at.get(index);
            let covered = self.partitions[index].log.read(from, filter, &mut looks, &mut take);
            position.at.set(index, covered.at);
            index = (index + 1) % count;
            if covered.found || looks == 0 {
                break;
            }
        }
        Ok(index)
    }

    /// For readers from before the last fence.
    pub fn fenced(&self) -> Gap {
        self.gap(self.reason)
    }

    fn gap(&self, reason: Option<ResetReason>) -> Gap {
        Gap {
            reason,
            now: self.position(),
        }
    }

    /// Whether `Refreshed` are wanted, as far as was noticed.
    pub fn wants_refreshed(&self) -> bool {
        !matches!(self.recording, Recording::No)
    }

    /// Whether `Refreshed` are wanted now.
    pub fn records_refreshed(&mut self, now: Instant) -> bool {
        if let Recording::Lingering(since) = self.recording
            && now.duration_since(since) >= self.keep
        {
            self.recording = Recording::No;
            if self.own {
                for partition in &mut self.partitions {
                    let head = partition.log.head();
                    partition.log.forget_refreshed(head);
                }
            }
        }
        self.wants_refreshed()
    }

    /// One more subscriber wants `Refreshed`.
    pub fn want_refreshed(&mut self) {
        self.recording = match self.recording {
            Recording::For(subscribers) => Recording::For(subscribers + 1),
            Recording::Lingering(_) => Recording::For(1),
            Recording::No => {
                if self.own {
                    self.note_unrecorded();
                }
                self.partitions
                    .iter_mut()
                    .for_each(|partition| partition.recorded_by = None);
                Recording::For(1)
            }
        };
    }

    /// What went by unrecorded took no position: the head moves, so that a cursor from before is seen to be too old. A shared store does
    /// that itself, and says so with the next [`Logs::begin`].
    fn note_unrecorded(&mut self) {
        for partition in &mut self.partitions {
            let head = partition.log.head() + 1;
            partition.log.advance(head);
            partition.log.forget_refreshed(head);
        }
    }

    /// One fewer does.
    pub fn unwant_refreshed(&mut self, now: Instant) {
        self.recording = match self.recording {
            Recording::For(subscribers) if subscribers > 1 => Recording::For(subscribers - 1),
            Recording::For(_) => Recording::Lingering(now),
            Recording::Lingering(_) | Recording::No => return,
        };
    }
}
