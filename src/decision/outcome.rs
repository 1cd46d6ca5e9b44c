//! What comes out of a decision: answers for callers, and changes for the store.

use std::sync::Arc;
use std::time::Duration;

use super::{Cause, Content, Draft, Expiry, Lease, LeaseId, Seq, StoreTime, Tag};

/// The answer to a question about a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// You rebuild.
    Rebuild(Box<Rebuild>),
    /// Use this.
    Hit(Hit),
    /// Nothing usable, somebody else is on it.
    Busy(Busy),
    /// The origin is failing.
    KeepOff(KeepOff),
    /// Nothing usable, and you asked not to rebuild.
    Miss,
}

/// The right to rebuild, and what to serve meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebuild {
    /// Proves it.
    pub lease: LeaseId,
    /// What is left of the lease.
    pub ttl: Duration,
    /// What is left of the longest hold.
    pub max_hold: Duration,
    /// Why.
    pub cause: Cause,
    /// A usable value, fresh or stale.
    pub fallback: Option<Hit>,
    /// The fallback is only for the case that the rebuild fails.
    pub fallback_on_failure_only: bool,
    /// No report without lifetimes of its own will be given more.
    pub planned: Expiry,
    /// The largest value that a report may carry.
    pub max_value_bytes: u32,
}

/// A value or the fact of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    /// The grant it was built under.
    pub version: Seq,
    /// Inside freshness; otherwise inside a stale window.
    pub fresh: bool,
    /// What of it the caller gets.
    pub content: HitContent,
    /// Since it was reported.
    pub age: Duration,
    /// What is left of its life.
    pub expiry: Expiry,
    /// Somebody refreshes it now.
    pub rebuilding: bool,
    /// Its tags.
    pub tags: Option<Arc<[Tag]>>,
    /// Of the rebuild that made it.
    pub traceparent: Option<Arc<str>>,
}

/// What of a value a caller gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HitContent {
    /// The bytes, which travel beside the decision.
    Bytes,
    /// Where the callers' own store has it.
    External(Arc<str>),
    /// The origin has no such thing.
    NotFound,
    /// The version that the caller has is current.
    Unchanged,
    /// The caller wanted facts only.
    Omitted,
}

/// Nothing usable, somebody else is on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Busy {
    /// When to ask again.
    pub retry_after: Duration,
    /// What is left of the holder's lease.
    pub lease_remaining: Duration,
    /// Why the caller is not parked.
    pub cause: BusyCause,
}

/// Why there is neither value nor lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BusyCause {
    /// The wait is over.
    WaitElapsed,
    /// Too many are parked already.
    TooManyWaiters,
    /// The namespace's rebuild budget is used up.
    RebuildBudget,
}

/// The origin is failing.
#[derive(Clone, Debug, PartialEq)]
pub struct KeepOff {
    /// When to ask again.
    pub retry_after: Duration,
    /// In a row.
    pub failures: u32,
    /// What the last holder said.
    pub message: Arc<str>,
    /// It is not this key alone: the namespace's circuit is open.
    pub circuit_open: bool,
}

/// What to do about a question.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Answer this.
    Answer(Answer),
    /// Write this; if the store takes it, the caller has the lease.
    Grant(Box<Grant>),
    /// Park the caller until the lease ends.
    Wait(Wait),
}

/// A lease to be written.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The entry with the lease.
    pub draft: Draft,
    /// The store must be past this, or the grant is wrong.
    pub not_before: StoreTime,
    /// The number must exceed this: the callers' own store has seen it.
    pub above: Seq,
    /// Why.
    pub cause: Cause,
    /// Served meanwhile.
    pub fallback: Option<Hit>,
    /// Only for the case that the rebuild fails.
    pub fallback_on_failure_only: bool,
    /// A lease that was over or revoked, that this grant replaces, and how it was lost.
    pub supersedes: Option<(Lease, LostReason)>,
}

/// Somebody holds the lease.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Its number.
    pub on: Seq,
    /// When its time is over, unless it is renewed.
    pub until: StoreTime,
    /// What the caller gets when its own wait is over first.
    pub when_over: Answer,
}

/// What becomes of the value's bytes at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// They stay.
    Keep,
    /// Those of the report replace them.
    Replace,
    /// They go.
    Clear,
}

/// What to do about a report.
#[derive(Clone, Debug)]
pub enum ReportDecision {
    /// Write this; if the store takes it, the report is accepted.
    Accept {
        /// The entry without the lease.
        draft: Box<Draft>,
        /// What becomes of the bytes.
        body: Body,
    },
    /// It was accepted before: the same answer again.
    Repeat,
    /// It is not accepted.
    Refuse {
        /// Why.
        rejection: Rejection,
        /// The lease is dead: write this, so that those who wait for it need not wait for its time.
        revoke: Option<Box<Draft>>,
    },
}

/// Why a report is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// A newer grant exists.
    Superseded,
    /// An invalidation made it old.
    Invalidated,
    /// The lease is not known.
    UnknownLease,
    /// `not_modified`, but no value is left to confirm.
    NoValue,
}

/// The answer to a report.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportAnswer {
    /// Stored, or handed to those who waited, or noted as a failure.
    Accepted {
        /// Of the value; none after a failure or when the lease was given up.
        version: Seq,
        /// What is left of the value's life.
        expiry: Option<Expiry>,
    },
    /// Refused.
    Rejected(Rejection),
}

/// What to do about a renewal.
#[derive(Clone, Debug)]
pub enum RenewDecision {
    /// Write this.
    Keep(Box<Draft>),
    /// It is lost; what is left of it, if anything.
    Lost {
        /// How.
        reason: LostReason,
        /// What is left of the lease.
        ttl: Duration,
        /// What is left of the longest hold.
        max_hold: Duration,
    },
}

/// How a lease was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LostReason {
    /// Somebody else holds it.
    Superseded,
    /// An invalidation revoked it.
    Invalidated,
    /// Its time ran out, nobody holds it.
    Expired,
    /// The longest hold is used up.
    MaxHold,
    /// It was reported already.
    Reported,
    /// It is not known.
    UnknownLease,
}

impl Answer {
    /// Its name in logs, metrics and traces.
    pub fn as_str(&self) -> &'static str {
        match self {
            Answer::Rebuild(_) => "rebuild",
            Answer::Hit(hit) if hit.fresh => "hit_fresh",
            Answer::Hit(_) => "hit_stale",
            Answer::Busy(_) => "busy",
            Answer::KeepOff(_) => "backoff",
            Answer::Miss => "miss",
        }
    }

    /// The part of the answer that carries a value.
    pub fn hit(&self) -> Option<&Hit> {
        match self {
            Answer::Hit(hit) => Some(hit),
            Answer::Rebuild(rebuild) => rebuild.fallback.as_ref(),
            Answer::Busy(_) | Answer::KeepOff(_) | Answer::Miss => None,
        }
    }
}

impl Rejection {
    /// Its name in logs, metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Rejection::Superseded => "superseded",
            Rejection::Invalidated => "invalidated",
            Rejection::UnknownLease => "unknown_lease",
            Rejection::NoValue => "no_value",
        }
    }
}

impl LostReason {
    /// Its name in logs, metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            LostReason::Superseded => "superseded",
            LostReason::Invalidated => "invalidated",
            LostReason::Expired => "expired",
            LostReason::MaxHold => "max_hold",
            LostReason::Reported => "reported",
            LostReason::UnknownLease => "unknown_lease",
        }
    }
}

impl Content {
    /// What a caller gets of it that has, or does not have, a version already.
    pub(super) fn for_caller(&self, unchanged: bool, omit: bool) -> HitContent {
        match self {
            _ if unchanged => HitContent::Unchanged,
            _ if omit => HitContent::Omitted,
            Content::Bytes(_) => HitContent::Bytes,
            Content::External(locator) => HitContent::External(locator.clone()),
            Content::NotFound => HitContent::NotFound,
        }
    }
}
