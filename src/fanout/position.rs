//! Where a reader stands in a log of one or several partitions.
//!
//! *Why not a plain vector*: a store of one partition is the common case, and there a position moves with each message of each watcher.
//! The first number stands in the struct, and a box of none allocates nothing.

use std::sync::Arc;

use super::cursor::Cursor;

/// One number a partition, at least one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Positions {
    first: u64,
    rest: Box<[u64]>,
}

impl Positions {
    /// Of so many partitions.
    pub fn zero(partitions: usize) -> Positions {
        Positions {
            first: 0,
            rest: vec![0; partitions.saturating_sub(1)].into(),
        }
    }

    /// Of as many partitions as there are numbers; `None` for none.
    pub fn of(numbers: &[u64]) -> Option<Positions> {
        let (first, rest) = numbers.split_first()?;
        Some(Positions {
            first: *first,
            rest: rest.into(),
        })
    }

    /// How many partitions.
    pub fn len(&self) -> usize {
        1 + self.rest.len()
    }

    /// Of a partition; 0 for one that there is not.
    pub fn get(&self, partition: usize) -> u64 {
        match partition {
            0 => self.first,
            _ => self.rest.get(partition - 1).copied().unwrap_or(0),
        }
    }

    /// Moves one partition's.
    pub fn set(&mut self, partition: usize, at: u64) {
        if partition == 0 {
            self.first = at;
        } else if let Some(place) = self.rest.get_mut(partition - 1) {
            *place = at;
        }
    }

    /// In the order of the partitions.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// Everything that `other` covers is covered.
    pub fn covers(&self, other: &Positions) -> bool {
        self.iter().zip(other.iter()).all(|(own, other)| own >= other)
    }

    /// Partition by partition.
    pub fn zip_with(&self, other: &Positions, choose: impl Fn(u64, u64) -> u64) -> Positions {
        Positions {
            first: choose(self.first, other.first),
            rest: self.rest.iter().zip(&other.rest).map(|(a, b)| choose(*a, *b)).collect(),
        }
    }
}

impl Clone for Positions {
    fn clone(&self) -> Positions {
        Positions {
            first: self.first,
            rest: self.rest.clone(),
        }
    }

    /// Allocates nothing where the number of partitions is the same.
    fn clone_from(&mut self, other: &Positions) {
        self.first = other.first;
        self.rest.clone_from(&other.rest);
    }
}

/// A place between records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// Which log.
    pub log: u64,
    /// Of the log.
    pub epoch: u64,
    /// How many times the readers of this feed were made to start afresh when it was taken. It never leaves the replica.
    pub turn: u64,
    /// Everything up to here.
    pub at: Positions,
}

impl Position {
    /// As clients keep it.
    pub fn text(&self) -> Arc<str> {
        text(self.log, self.epoch, self.at.iter().collect())
    }
}

/// The text of a position.
pub(super) fn text(log: u64, epoch: u64, positions: Vec<u64>) -> Arc<str> {
    Cursor { log, epoch, positions }.encode()
}
