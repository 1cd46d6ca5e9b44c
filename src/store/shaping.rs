//! What replicas share of a namespace, rather than of a key: its rebuild budget and its circuit.
//!
//! *Invariants.* Both are in one place for the whole fleet. What changes in them rings, under a name that no key has ([`Changed`]), so that whoever waits
//! for a place, or has a circuit in memory, looks again. Neither must outlive a loss of the store's data: places then are those of leases
//! that are lost too, and a circuit begins closed.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::decision::{Key, StoreTime};

/// What a replica wants of a budget, for one lease of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budgeting {
    /// A place for a lease that is to be granted: where the key has one already, or where fewer than `limit` are taken.
    Take {
        /// How many there are; 0: only what the key has already.
        limit: u32,
        /// How long the place is kept up unless more is heard.
        length: Duration,
        /// Others wait too: the next one that is given back rings.
        others_wait: bool,
    },
    /// The lease is to live for so long from now, as it is renewed. Where it has no place it gets none.
    Hold {
        /// How long.
        length: Duration,
        /// But not beyond this: where a lease may not be held for longer, its place is not either.
        at_most: StoreTime,
        /// The secret of a lease that is over by this.
        instead_of: Option<NonZeroU64>,
    },
    /// The lease has ended, or was not granted.
    GiveBack {
        /// So long the place is left to those who wait for the key; zero: it is free.
        left_for: Duration,
    },
    /// Nobody waits for the key any more: what was left to them is free. The lease does not matter.
    Leave,
}

/// How a budget is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budgeted {
    /// Asked for a place: the key has one.
    pub has: bool,
    /// Places that are taken.
    pub taken: u32,
    /// The next place comes back by itself after so long; `None`: none is taken.
    pub next: Option<Duration>,
}

/// What has changed of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// A place of its budget may be free.
    Budget,
    /// Its circuit is another.
    Circuit,
}

/// What stands for a namespace in a ring: no namespace of a key begins so.
const BUDGET: &str = "!budget";
const CIRCUIT: &str = "!circuit";

impl Changed {
    /// The name under which it rings.
    pub fn ring(self, namespace: &str) -> Key {
        Key::new(
            match self {
                Changed::Budget => BUDGET,
                Changed::Circuit => CIRCUIT,
            },
            namespace,
        )
    }

    /// What such a name says, and of which namespace.
    pub fn read(key: &Key) -> Option<(Changed, &str)> {
        match key.namespace() {
            BUDGET => Some((Changed::Budget, key.name())),
            CIRCUIT => Some((Changed::Circuit, key.name())),
            _ => None,
        }
    }
}
