//! Whether a history keeps the promises. One function a promise; each knows only what clients saw, but for
//! [`waiting`], which also reads the store's own account.
//!
//! A promise is held against what is certain: a call that failed may have been done, an interval ends where it may have ended. So
//! a run that passes proves nothing, and one that fails is wrong.

mod alone;
mod leases;
mod values;
mod waiting;
mod watching;

use std::fmt;

use drover::decision::{Key, LeaseId, Mode, Seq, Tag};
use drover::store::Target;

use crate::history::{Call, Moment, Records};
use crate::plan::Plan;
use crate::world::Run;

/// What a history must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    Exclusive,
    Tokens,
    NoLateReport,
    Versions,
    Lifetimes,
    InvalidateWins,
    BoundedRebuilds,
    NoStuckKey,
    NoMissedWake,
    OwnerOnly,
    Watch,
    Degraded,
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub struct Violation {
    pub promise: Promise,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.promise, self.what)
    }
}

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
    leases::tokens_grow(&seen)?;
    leases::holds_do_not_overlap(&seen)?;
    leases::only_the_owner_renews(&seen)?;
    values::no_report_is_late(&seen)?;
    values::only_what_was_accepted_is_served(&seen)?;
    values::versions_do_not_go_down(&seen)?;
    values::lifetimes_are_kept(&seen)?;
    values::invalidate_wins(&seen)?;
    values::nothing_fresh_is_rebuilt(&seen)?;
    waiting::waits_end_by_their_time(&seen)?;
    waiting::nobody_waits_for_nothing(&seen, &run.account)?;
    waiting::values_reach_those_who_wait(&seen, &run.account)?;
    watching::watchers_see_every_invalidation(&seen)
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

/// One invalidation that is certain, of one target.
struct Gone<'a> {
    call: &'a Call,
    answered: Moment,
    target: &'a Target,
    number: Seq,
    mode: Mode,
}

impl Seen<'_> {
    fn slack(&self) -> u64 {
        self.plan.slack().as_micros() as u64
    }

    /// Invalidations that were answered.
    fn gone(&self) -> Vec<Gone<'_>> {
        let mut gone = Vec::new();
        for call in self.calls {
            let Some((answered, mode, done)) = call.invalidated() else {
                continue;
            };
            gone.extend(done.targets.iter().map(|(target, number)| Gone {
                call,
                answered,
                target,
                number: *number,
                mode,
            }));
        }
        gone
    }

    /// The tags that a lease was asked for with.
    fn tags_of(&self, lease: LeaseId) -> Vec<Tag> {
        let granted = self.calls.iter().filter_map(Call::granted);
        let mut tags = Vec::new();
        for (asked, _, rebuild) in granted {
            if rebuild.lease == lease {
                // A retry may name others; what the first one named is not known to be these.
                let named = asked.ask.tags.as_deref().unwrap_or_default();
                tags = if tags.is_empty() { named.to_vec() } else { tags };
            }
        }
        tags
    }

    fn keys(&self) -> Vec<Key> {
        (0..self.plan.keys).map(crate::world::key).collect()
    }
}
