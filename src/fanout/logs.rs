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

mod opening;
mod recording;
mod remote;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub(super) use self::opening::Opening;
use self::recording::Recording;
use self::remote::Stage;
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

/// Cursors that are not clearly from behind it must start afresh.
struct Fence {
    reason: ResetReason,
    /// Where the heads stood.
    at: Positions,
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
}
