//! The rules, pure: who rebuilds, what is served meanwhile, which report counts, how long a value lives, what an invalidation does.
//!
//! *Owns* every rule of drover, and the facts that the rules speak of.
//!
//! *Never does* I/O, reads a clock, draws a random number, allocates a channel or knows a library: it is `std` only, and
//! `cargo check --lib --no-default-features` proves it. Time comes in as a [`View`]'s `now`, randomness as a [`Draw`], and what is to
//! be written goes out as a [`Draft`] that the store stamps when it commits.
//!
//! *Invariants.* Total: every input has an answer, nothing panics. "Somebody holds it" and "your grant is old" are outcomes,
//! not errors. A grant is current only if no newer one exists and no invalidation has a greater number ([`View::makes_old`]).
//!
//! *Why*: one implementation of the rules serves every store, every rule is a table test and a property test, and one simulation
//! can drive thousands of schedules through the real thing.
//!
//! | to learn | read |
//! |---|---|
//! | what is known of a key | [`Entry`], [`Generations`], [`View`] |
//! | the decision table | [`acquire`] |
//! | how a lease ends | [`report()`], [`invalidate()`], [`revoke`], [`give_back`] |
//! | how long a value lives | [`Planned`], [`Expiry`], [`Jitter`] |
//! | when it is refreshed ahead, and by whom | [`Refresh`], [`Draft::task_at`], [`offer()`], [`wanted`], [`Attempts`]; [`refresh_now`] |
//! | how rebuilds are spread, and held back | [`level()`], [`Ledger`]; [`Budget`], [`Circuit`], [`without_place`], [`circuit_open`] |
//! | which keys are asked for most | [`Sketch`] |
//! | what changes while the store does not answer, and after | [`DEGRADED_LIFE`], [`Reentry`] |

mod acquire;
mod ask;
mod attempts;
mod backoff;
mod budget;
mod circuit;
mod degraded;
mod draw;
mod entry;
mod generation;
mod held_back;
mod hot;
mod ids;
mod invalidate;
mod later;
mod level;
mod lifetime;
mod offer;
mod outcome;
mod policy;
mod reentry;
mod refresh;
mod renew;
mod report;
mod stamp;
mod task;
mod time;
mod view;

#[cfg(test)]
mod tests;

pub use acquire::{acquire, behind, facts, granted, lease_length, trouble};
pub use ask::{Ask, Intent, TOKEN_AHEAD, tags_asked};
pub use attempts::{Attempts, MOST_FAILED, MOST_GIVEN, was_given_back};
pub use backoff::{fan, scattered};
pub use budget::{Budget, Class, Line, TAKE_UP};
pub use circuit::{Circuit, CircuitEffect, CircuitEvent, Ending};
pub use degraded::DEGRADED_LIFE;
pub use draw::{Draw, Purpose};
pub use entry::{
    Cause, Content, Draft, Drafted, Entry, HAND_OVER, Labels, Lease, Mark, Number, REMEMBER_REPORT, Reported, Stage,
    Stamp, Stored, Trouble, Value,
};
pub use generation::{Generation, Generations, SOFT_KEPT, Verdict};
pub use held_back::{circuit_open, kept_off, without_place};
pub use hot::{COUNTERS, HALF_LIFE, Hint, Hot, Sketch};
pub use ids::{Key, LeaseId, NotALeaseId, Seq, Tag};
pub use invalidate::{Invalidation, Mode, invalidate, restore};
pub use level::{CHOICES, HEAVY_CHOICES, Ledger, Plan, level};
pub use lifetime::{Expiry, Lifetimes, Planned, Range, smooth};
pub use offer::{Dropped, Offer, OfferDecision, Why, is_rebuilt, offer};
pub use outcome::{
    Answer, Body, Busy, BusyCause, Decision, Grant, Hit, HitContent, KeepOff, LostReason, Rebuild, Rejection,
    RenewDecision, ReportAnswer, ReportDecision, Wait,
};
pub use policy::{
    Backoff, Jitter, JitterAmount, JitterMode, LONGEST, MAX_VALUE_BYTES, Policy, PolicyError, SHORTEST_LEASE, StoreDown,
};
pub use reentry::Reentry;
pub use refresh::{FIRST_COST, Refresh, known_cost, wanted};
pub use renew::{give_back, renew, revoke};
pub use report::{Outcome, Outlook, Report, accepted, outlook, report};
pub use task::refresh_now;
pub use time::{Rough, Span, StoreTime, When, micros};
pub use view::{Band, Standing, View};
