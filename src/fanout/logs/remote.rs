//! A log that follows that of a shared store, partition by partition.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Logs, Partition};
use crate::decision::StoreTime;
use crate::fanout::feed::{Record, ResetReason};
use crate::fanout::log::Logged;

/// Whether a partition can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
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

impl Logs {
    /// Adds a record of a remote log. `None`: nobody is to be told, because it is known, or was there before the partition could be read.
    pub fn take_in(&mut self, now: Instant, record: Record) -> Option<Arc<Logged>> {
        let when = self.moment(now, record.at);
        let partition = self.partitions.get_mut(usize::from(record.place.partition))?;
        if partition.stage == Stage::Unknown || record.place.at <= partition.log.head() {
            return None;
        }
        let logged = partition.log.push(now, when, record);
        (partition.stage == Stage::Live).then_some(logged)
    }

    /// The store's time is this now, or a little later. It may have been set back.
    pub fn tell_time(&mut self, now: Instant, time: StoreTime) {
        self.time = Some((now, time));
    }

    /// This replica's moment of a commit.
    fn moment(&mut self, now: Instant, at: StoreTime) -> Instant {
        let behind = |(then, known): (Instant, StoreTime)| known.after(now.duration_since(then)) < at;
        if self.time.is_none_or(behind) {
            self.tell_time(now, at);
        }
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
        self.identify();
    }

    /// What the partitions make together, once all are known.
    fn identify(&mut self) {
        if self
            .partitions
            .iter()
            .any(|partition| partition.stage == Stage::Unknown)
        {
            return;
        }
        let (mut id, mut epoch) = (0, 0_u64);
        for partition in &self.partitions {
            // Turned, so that the same identity in each of them does not cancel itself out.
            id = u64::rotate_left(id, 1) ^ partition.id;
            epoch = epoch.wrapping_add(partition.epoch);
        }
        if id != self.id && self.id != 0 {
            self.former = Some(self.id);
        }
        (self.id, self.epoch) = (id, epoch);
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
}
