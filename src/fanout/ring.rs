//! A bounded run of records, oldest first.
//!
//! *Owns* what is kept and for how long. *Invariant*: everything after [`Ring::floor`] that was pushed is here, or was replaced by
//! a later record that says more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::log::Logged;

/// What one ring keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Records.
    pub records: usize,
    /// Their bytes, estimated.
    pub bytes: usize,
    /// Older ones go as new ones come.
    pub keep: Duration,
}

/// A record's place.
pub(super) struct Slot {
    /// In the log; they grow, with holes.
    pub position: u64,
    /// Who may want it: see `filter::mark`. Kept beside the pointer so that a scan over what others want touches no record.
    pub mark: u64,
    /// Gone where a later record says more.
    pub logged: Option<Arc<Logged>>,
}

/// The ring.
pub(super) struct Ring {
    slots: VecDeque<Slot>,
    bytes: usize,
    room: Room,
    floor: u64,
}

impl Ring {
    pub fn new(room: Room) -> Ring {
        Ring {
            slots: VecDeque::new(),
            bytes: 0,
            room,
            floor: 0,
        }
    }

    /// Up to this position records may be missing.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Forgets everything up to `floor`, which is not below any position in it.
    pub fn clear(&mut self, floor: u64) {
        self.slots = VecDeque::new();
        self.bytes = 0;
        self.floor = floor;
    }

    /// Adds the newest record; `evicted` sees those that make room for it.
    pub fn push(&mut self, slot: Slot, now: Instant, mut evicted: impl FnMut(&Logged)) {
        self.bytes += weight(&slot);
        self.slots.push_back(slot);
        // Two old ones for a new one: the ring shrinks after a burst, and no commit pays for the whole of it.
        let mut aged = 2;
        while let Some(oldest) = self.slots.front() {
            let over = self.slots.len() > self.room.records || self.bytes > self.room.bytes;
            if !over {
                let old = |logged: &Arc<Logged>| now.duration_since(logged.when) >= self.room.keep;
                if aged == 0 || !oldest.logged.as_ref().is_none_or(old) {
                    break;
                }
                aged -= 1;
            }
            let Some(oldest) = self.slots.pop_front() else { break };
            self.bytes -= weight(&oldest);
            if let Some(logged) = &oldest.logged {
                self.floor = oldest.position;
                evicted(logged);
            }
        }
    }

    /// Takes back the record at a position because a later one says more.
    pub fn replace(&mut self, position: u64) {
        if let Ok(index) = self.slots.binary_search_by_key(&position, |slot| slot.position) {
            let logged = self.slots[index].logged.take();
            self.bytes -= logged.map_or(0, |logged| logged.weight);
        }
    }

    /// The slots after a position.
    pub fn after(&self, position: u64) -> impl Iterator<Item = &Slot> {
        let start = self.slots.partition_point(|slot| slot.position <= position);
        self.slots.range(start..)
    }
}

fn weight(slot: &Slot) -> usize {
    size_of::<Slot>() + slot.logged.as_ref().map_or(0, |logged| logged.weight)
}
