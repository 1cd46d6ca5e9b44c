//! Who wants `Refreshed` events, and from where on they are recorded.
//!
//! They are recorded only while somebody wants them and a while after. A place before which they were not is one that a reader who wants
//! them can't resume from.

use tokio::time::Instant;

use super::{Logs, Partition};

/// Whether `Refreshed` are wanted.
pub(super) enum Recording {
    No,
    For(usize),
    /// The last subscriber left then.
    Lingering(Instant),
}

impl Logs {
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
}
