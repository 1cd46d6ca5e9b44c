//! Whether a history keeps the promises. One function a promise; each knows only what clients saw and what was broken.
//!
//! *Owns* the form of a history and the rules it must satisfy. Each check takes about n log n steps, so that a million calls
//! are looked at in seconds.
//!
//! *Never does*: guess. A promise is held against what is certain: a call that failed may have been done, an interval ends where it
//! may have ended. So a run that passes proves nothing, and one that fails is wrong.

// Two crates of tests use it, each a part of it.
#![allow(dead_code)]

pub mod model;

mod budget;
mod copies;
mod index;
mod leases;
mod rebuilds;
mod schedule;
mod values;
mod waiting;
mod watching;

use std::collections::BTreeMap;
use std::fmt;

use index::Seen;
use model::History;

/// What a history must satisfy: the twelve invariants, in their order, and the lifetimes of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    Exclusive,
    Tokens,
    NoLateReport,
    Versions,
    InvalidateWins,
    BoundedRebuilds,
    NoStuckKey,
    NoMissedWake,
    OwnerOnly,
    Watch,
    LocalCopies,
    Schedule,
    Lifetimes,
    /// What a replica decides without its store.
    Degraded,
    /// How many rebuilds of a namespace run at once.
    Budget,
    /// When its origin is left alone.
    Circuit,
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

/// What the checks found. Each keeps its first few; the rest is counted.
#[derive(Default)]
pub struct Found {
    pub violations: Vec<Violation>,
    pub count: usize,
    /// How much there was that could have been wrong: a check that looked at nothing found nothing.
    pub looked: BTreeMap<&'static str, usize>,
}

/// So many are told for each check.
const TOLD: usize = 5;

impl Found {
    fn looked(&mut self, at: &'static str, count: usize) {
        *self.looked.entry(at).or_default() += count;
    }

    fn add(&mut self, promise: Promise, what: String) {
        self.count += 1;
        if self.violations.iter().filter(|found| found.promise == promise).count() < TOLD {
            self.violations.push(Violation { promise, what });
        }
    }
}

/// All promises.
pub fn check(history: &History) -> Found {
    let seen = Seen::of(history);
    let mut found = Found::default();
    for what in &history.stuck {
        found.add(Promise::NoStuckKey, what.clone());
    }
    leases::tokens_grow(&seen, &mut found);
    leases::holds_do_not_overlap(&seen, &mut found);
    leases::only_the_owner_renews(&seen, &mut found);
    values::no_report_is_late(&seen, &mut found);
    values::only_what_was_accepted_is_served(&seen, &mut found);
    values::versions_do_not_go_down(&seen, &mut found);
    values::lifetimes_are_kept(&seen, &mut found);
    values::invalidate_wins(&seen, &mut found);
    rebuilds::nothing_fresh_is_rebuilt(&seen, &mut found);
    rebuilds::each_grant_has_a_reason(&seen, &mut found);
    waiting::waits_end_by_their_time(&seen, &mut found);
    waiting::nobody_waits_for_nothing(&seen, &mut found);
    waiting::values_reach_those_who_wait(&seen, &mut found);
    watching::watchers_are_told(&seen, &mut found);
    copies::local_copies_obey(&seen, &mut found);
    budget::never_more_holders_than_places(&seen, &mut found);
    schedule::refreshes_go_to_one_worker(&seen, &mut found);
    found
}
