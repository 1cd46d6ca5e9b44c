//! Whether a history keeps the promises: the checks that are shared with the real processes (`tests/checker`), what only the store's own
//! account tells ([`waiting`]), and what a replica decides alone.

mod alone;
mod budget;
mod circuit;
mod schedule;
mod waiting;

use drover::decision::Key;

use crate::history::{Call, Records};
use crate::plan::Plan;
use crate::world::Run;

pub use crate::shared::{Promise, Violation};

pub type Checked = Result<(), Violation>;

/// All promises; the first that was not kept.
pub fn check(run: &Run) -> Checked {
    let seen = Seen {
        plan: &run.plan,
        records: &run.records,
        calls: &run.records.calls,
    };
    if let Some(what) = run.records.stuck.first() {
        return Err(violation(Promise::NoStuckKey, what.clone()));
    }
    alone::numbers_stay_where_they_are(&seen)?;
    alone::nothing_of_it_outlives_the_loss(&seen)?;
    alone::one_rebuild_a_replica(&seen)?;
    let found = crate::shared::check(&crate::told::history(run));
    if let Some(first) = found.violations.first() {
        return Err(first.clone());
    }
    budget::never_more_leases_than_places(&seen, &run.account)?;
    schedule::nothing_invalidated_is_refreshed(&seen, &run.account)?;
    schedule::refreshes_are_offered_in_time(&seen, &run.account)?;
    circuit::only_probes_are_granted_while_it_is_open(&seen, &run.account)?;
    waiting::waits_end_by_their_time(&seen)?;
    waiting::nobody_waits_for_nothing(&seen, &run.account)?;
    waiting::values_reach_those_who_wait(&seen, &run.account)
}

fn violation(promise: Promise, what: String) -> Violation {
    Violation { promise, what }
}

/// What there is to look at.
struct Seen<'a> {
    plan: &'a Plan,
    records: &'a Records,
    calls: &'a [Call],
}

impl Seen<'_> {
    fn slack(&self) -> u64 {
        self.plan.slack().as_micros() as u64
    }

    fn keys(&self) -> Vec<Key> {
        (0..self.plan.keys).map(crate::world::key).collect()
    }
}
