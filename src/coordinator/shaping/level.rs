//! Into which second the next rebuild of a reported value is put.
//!
//! *Owns* a [`Ledger`] a namespace, of what was reported to this replica. The rule is [`decision::level`], which says why replicas share nothing.

use super::table::Table;
use crate::decision::{self, Draw, Key, Ledger, Plan, Policy, Report};
use crate::store::Loaded;

/// The planned rebuilds of each namespace.
pub(in crate::coordinator) struct Levels(Table<Ledger>);

impl Levels {
    pub fn new() -> Levels {
        Levels(Table::new())
    }

    /// The draw with which a report is decided, and what was noted of it; that is to be withdrawn if the report is not committed.
    pub fn choose(&self, loaded: &Loaded, report: &Report, policy: &Policy, draw: Draw) -> (Draw, Option<Plan>) {
        if !policy.jitter.level {
            return (draw, None);
        }
        let choose = |ledger: &mut Ledger| decision::level(ledger, &loaded.view(), report, policy, draw);
        let namespace = loaded.snapshot.key.namespace();
        let chosen = self.0.with(namespace, Ledger::default, choose);
        chosen.unwrap_or((draw, None))
    }

    /// It has not come to that.
    pub fn withdraw(&self, key: &Key, plan: Option<Plan>) {
        if let Some(plan) = plan {
            self.0.look(key.namespace(), |ledger| ledger.withdraw(plan));
        }
    }

    /// Seconds of work that are planned for the next ten minutes.
    #[cfg(test)]
    pub fn planned(&self, namespace: &str, now: crate::decision::StoreTime) -> f64 {
        let seconds = (0..600).map(|second| now.after(std::time::Duration::from_secs(second)));
        let sum = |ledger: &mut Ledger| seconds.map(|at| ledger.load(at)).sum();
        self.0.look(namespace, sum).unwrap_or_default()
    }
}
