//! Budgets and circuits of the embedded store.
//!
//! *Bound*: a budget is there while a place is taken or somebody waits; of circuits, beyond [`CIRCUITS`], those that are closed are forgotten: all
//! they know is how rebuilds ended of late.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::decision::{Budget, Circuit, Key, StoreTime};
use crate::store::{Budgeted, Budgeting};

/// So many circuits are kept whatever they are.
const CIRCUITS: usize = 1_000;

/// What is kept of namespaces.
#[derive(Default)]
pub struct Namespaces {
    budgets: Mutex<HashMap<Arc<str>, Shared>>,
    circuits: Mutex<HashMap<Arc<str>, Arc<str>>>,
}

#[derive(Default)]
struct Shared {
    budget: Budget,
    /// Somebody was refused, or others waited.
    wanted: bool,
}

impl Namespaces {
    /// How the budget of the key's namespace is now, and whether that rings.
    pub fn budget(&self, key: &Key, lease: NonZeroU64, what: Budgeting, now: StoreTime) -> (Budgeted, bool) {
        let mut budgets = self.budgets.lock();
        let namespace = key.namespace();
        if !budgets.contains_key(namespace) {
            budgets.insert(namespace.into(), Shared::default());
        }
        let Some(shared) = budgets.get_mut(namespace) else {
            return (Budgeted::default(), false);
        };
        let before = shared.budget.taken();
        shared.budget.expire(now);
        let end = shared.budget.next_end();
        let has = shared.apply(key, lease.get(), what, now);
        let budget = &shared.budget;
        // Whoever was refused counts on the first place to come back: a renewal, or a lease instead of another, may be shorter than what it
        // replaces.
        let sooner = budget.next_end() < end;
        let rings = shared.wanted && (sooner || budget.taken() < before);
        if rings {
            shared.wanted = false;
        }
        let budgeted = Budgeted {
            has,
            taken: u32::try_from(budget.taken()).unwrap_or(u32::MAX),
            next: budget.next_end().map(|end| end.since(now)),
        };
        if budget.taken() == 0 && !shared.wanted {
            budgets.remove(namespace);
        }
        (budgeted, rings)
    }

    /// Compares and sets. How the circuit is now, and whether it has changed.
    pub fn circuit(&self, namespace: &str, expected: &str, new: Option<&str>) -> (Arc<str>, bool) {
        let mut circuits = self.circuits.lock();
        let now = circuits.get(namespace).cloned().unwrap_or_default();
        match new {
            Some(new) if *expected == *now && *new != *now => {
                if circuits.len() >= CIRCUITS {
                    circuits.retain(|_, text| Circuit::from_text(text).is_some_and(|circuit| circuit.is_open()));
                }
                let new: Arc<str> = new.into();
                circuits.insert(namespace.into(), new.clone());
                (new, true)
            }
            _ => (now, false),
        }
    }
}

impl Shared {
    fn apply(&mut self, key: &Key, lease: u64, what: Budgeting, now: StoreTime) -> bool {
        let after = |length: Duration| now.after(length);
        match what {
            Budgeting::Take {
                limit,
                length,
                others_wait,
            } => {
                let has = self.budget.take(key, lease, limit, after(length), now);
                // Whoever only asked for what it has already does not wait for another.
                self.wanted |= others_wait || (!has && limit > 0);
                has
            }
            Budgeting::Hold {
                length,
                at_most,
                instead_of,
            } => {
                let instead_of = instead_of.map_or(0, NonZeroU64::get);
                let until = after(length).min(at_most);
                self.budget.hold(key, lease, instead_of, until, now)
            }
            Budgeting::GiveBack { left_for } => {
                let left_until = (!left_for.is_zero()).then(|| after(left_for));
                self.budget.give_back(key, lease, left_until, now);
                false
            }
            Budgeting::Leave => {
                self.budget.leave(key, now);
                false
            }
        }
    }
}
