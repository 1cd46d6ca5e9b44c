//! What keeps rebuilds from coming all at once, and what is known of who wants what.
//!
//! *Owns* what a replica knows of namespaces rather than of keys. *Never* decides: the rules are in `decision`.
//!
//! | to follow | read |
//! |---|---|
//! | which keys are asked for most | `hot` |
//! | when the next rebuild of a value is due | `level` |
//! | what a grant needs before it is committed | `admit`; then `lines` for those who wait for a place, `places` for how one comes back, and `circuits` |

mod admit;
mod circuits;
mod hot;
mod level;
mod lines;
mod places;
mod table;

pub(super) use self::admit::{HeldBack, Pass};
use self::circuits::Circuits;
pub(super) use self::hot::HotKeys;
pub(super) use self::level::Levels;
use self::lines::Lines;
pub(super) use self::places::End;
use super::{Coordinator, Dice, Error};
use crate::decision::{COUNTERS, Hot, Key};

/// What a replica knows of its namespaces.
pub(super) struct Shaping {
    pub hot: HotKeys,
    pub levels: Levels,
    pub lines: Lines,
    pub circuits: Circuits,
}

impl Shaping {
    pub fn new(dice: &Dice) -> Shaping {
        Shaping {
            hot: HotKeys::new(dice.salt()),
            levels: Levels::new(),
            lines: Lines::default(),
            circuits: Circuits::new(),
        }
    }
}

impl Coordinator {
    /// A key was read so many times from a local copy, of which nobody asked: that is demand too.
    pub fn read_locally(&self, namespace: &str, key: &str, times: u64) {
        if times == 0 || self.policies.of(namespace).is_none() {
            return;
        }
        let key = Key::new(namespace, key);
        self.shaping.hot.asked(&key, times);
        if self.has_workers(namespace) {
            self.demand.mark(&key);
        }
    }

    /// Keys for which callers of this replica wait for a place in their namespace's rebuild budget.
    pub fn in_line(&self) -> usize {
        self.shaping.lines.len()
    }

    /// Namespaces whose circuit is open, as far as this replica knows.
    pub fn open_circuits(&self) -> usize {
        self.shaping.circuits.count_open()
    }

    /// The keys of a namespace that this replica is asked for most, the first most of all; at most [`COUNTERS`].
    ///
    /// # Errors
    ///
    /// [`Error::UnknownNamespace`].
    pub fn hot_keys(&self, namespace: &str, count: usize) -> Result<Vec<Hot>, Error> {
        self.policy(namespace)?;
        Ok(self.shaping.hot.top(namespace, count.min(COUNTERS)))
    }
}
