//! The facts of one key, in two stages: as a store holds them, and as a draft that the store stamps when it commits.
//!
//! *Owns* the shape of an entry and how long it must be kept. *Never* holds the value's bytes: those travel beside it, so that a
//! decision that only needs facts moves facts only.
//!
//! *Why two stages*: what a decision writes depends on the moment of the commit and on the number that the commit takes. Writing
//! them as [`When`] and [`Number`] keeps that in the store's hands and leaves every other rule here, so that a store needs to know
//! nothing but how to resolve these two. (Rejected: transitions that each store applies itself, since every store would
//! then own a copy of the rules.)

use std::fmt::Debug;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::{LeaseId, Refresh, Rough, Seq, Span, StoreTime, Tag, When, micros};

/// Stored or drafted.
pub trait Stage: Copy + Debug + PartialEq {
    /// How an instant is written.
    type Time: Copy + Debug + PartialEq;
    /// How a sequence number is written.
    type Number: Copy + Debug + PartialEq;
}

/// As a store holds it: instants and numbers are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stored;

impl Stage for Stored {
    type Time = StoreTime;
    type Number = Seq;
}

/// As a decision writes it: some instants and one number are only known at the commit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drafted;

impl Stage for Drafted {
    type Time = When;
    type Number = Number;
}

/// A sequence number in a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// Known already.
    Is(Seq),
    /// The one that this commit takes.
    Next,
}

/// What a commit knows and a decision does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The store's time at the commit.
    pub now: StoreTime,
    /// The number taken, if the draft asks for one.
    pub number: Seq,
}

/// All that is known of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry<S: Stage = Stored> {
    /// The facts of the value, while there is one.
    pub value: Option<Value<S>>,
    /// The last grant that was neither reported nor revoked: live, or over and not replaced.
    pub lease: Option<Box<Lease<S>>>,
    /// The last report that was accepted, so that its repetition gets the same answer.
    pub reported: Option<Reported<S>>,
    /// Present while rebuilds fail.
    pub trouble: Option<Box<Trouble<S>>>,
    /// The last invalidation that named the key.
    pub mark: Option<Box<Mark<S>>>,
    /// Smoothed cost of a rebuild; zero while none is known.
    pub cost: Rough,
    /// When the value is to be refreshed, and whether anybody cares.
    pub refresh: Refresh,
}

/// An entry that a decision wants written.
pub type Draft = Entry<Drafted>;

/// The facts of a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Value<S: Stage = Stored> {
    /// The grant that built or last confirmed it.
    pub version: Seq,
    /// The grant that wrote the bytes: `known_version` matches from here on.
    pub since: Seq,
    /// What kind of content.
    pub content: Content,
    /// When it was reported.
    pub stored_at: S::Time,
    /// The end of freshness.
    pub fresh_until: S::Time,
    /// From the end of freshness: served while one holder refreshes.
    pub stale_while_revalidate: Span,
    /// From the end of freshness: served when the origin fails.
    pub stale_if_error: Span,
    /// What it is marked with, if it is.
    pub labels: Option<Arc<Labels>>,
}

/// What a value may be marked with. Most are not, so that an entry has room for no more than a pointer to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// What an invalidation may name it by.
    pub tags: Option<Arc<[Tag]>>,
    /// W3C traceparent of the rebuild.
    pub traceparent: Option<Arc<str>>,
}

/// What a value consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// So many bytes, held by the store.
    Bytes(u32),
    /// In the callers' own store, perhaps with its whereabouts.
    External(Arc<str>),
    /// The origin has no such thing.
    NotFound,
}

/// The time-bounded sole right to rebuild the key.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease<S: Stage = Stored> {
    /// The fencing token.
    pub token: S::Number,
    /// The random part of the lease id.
    pub secret: NonZeroU64,
    /// Who has it; may be empty.
    pub holder: Arc<str>,
    /// The question it answered; a retry of it gets the same lease. May be empty.
    pub request_id: Arc<str>,
    /// Why it was granted.
    pub cause: Cause,
    /// When.
    pub granted_at: S::Time,
    /// When it is over unless renewed.
    pub deadline: S::Time,
    /// No renewal goes beyond.
    pub hold_until: S::Time,
    /// Tags given with the question.
    pub tags: Option<Arc<[Tag]>>,
    /// W3C traceparent of the holder.
    pub traceparent: Option<Arc<str>>,
}

/// The last report that was accepted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reported<S: Stage = Stored> {
    /// By whom.
    pub lease: LeaseId,
    /// When.
    pub at: S::Time,
}

/// Rebuilds have been failing.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble<S: Stage = Stored> {
    /// In a row.
    pub failures: u32,
    /// No grant before.
    pub retry_at: S::Time,
    /// The row is forgotten after this.
    pub remember_until: S::Time,
    /// What the last holder said.
    pub message: Arc<str>,
}

/// An invalidation that named the key.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark<S: Stage = Stored> {
    /// Its number: grants below it are old. (Where an invalidation of a tag revoked a lease: the least number that makes it old.)
    pub number: S::Number,
    /// What is built before this is fresh at most until then: the origin's replicas may lag.
    pub settle_until: S::Time,
    /// Kept so long, for the sake of a clear answer to late reports.
    pub keep_until: S::Time,
}

/// Why a rebuild is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// Nothing was known.
    Miss,
    /// Past every window.
    Expired,
    /// Inside a stale window.
    Stale,
    /// Invalidated since.
    Invalidated,
    /// Fresh, but an early draw fired.
    Early,
    /// The caller insisted.
    Forced,
    /// An earlier holder lost it.
    Takeover,
    /// It was scheduled.
    Scheduled,
    /// The caller's own store lacks it.
    Lost,
}

impl Cause {
    /// Its name in logs, metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::Miss => "miss",
            Cause::Expired => "expired",
            Cause::Stale => "stale",
            Cause::Invalidated => "invalidated",
            Cause::Early => "early",
            Cause::Forced => "forced",
            Cause::Takeover => "takeover",
            Cause::Scheduled => "scheduled",
            Cause::Lost => "lost",
        }
    }
}

/// Parked callers of a report are handed its result for so long, even when it is not to be stored.
pub const HAND_OVER: Duration = Duration::from_secs(2);
/// An accepted report is remembered at least so long, so that its repetition gets the same answer.
pub const REMEMBER_REPORT: Duration = Duration::from_secs(60);

impl<S: Stage> Default for Entry<S> {
    fn default() -> Entry<S> {
        Entry {
            value: None,
            lease: None,
            reported: None,
            trouble: None,
            mark: None,
            cost: Rough::ZERO,
            refresh: Refresh::NONE,
        }
    }
}

impl Entry {
    /// When nothing here matters any more and the entry may go.
    pub fn gone_at(&self) -> StoreTime {
        let mut end = StoreTime::ZERO;
        if let Some(value) = &self.value {
            end = end.max(value.stale_until()).max(value.stored_at.after(HAND_OVER));
        }
        if let Some(reported) = &self.reported {
            end = end.max(reported.at.after(REMEMBER_REPORT));
        }
        if let Some(lease) = &self.lease {
            // A grant whose time is over may still report, until its longest hold is over too.
            end = end.max(lease.hold_until).max(lease.deadline.after(REMEMBER_REPORT));
        }
        if let Some(trouble) = &self.trouble {
            end = end.max(trouble.remember_until);
        }
        if let Some(mark) = &self.mark {
            end = end.max(mark.keep_until).max(mark.settle_until);
        }
        end
    }

    /// Its lease, while the lease's time runs.
    pub fn live_lease(&self, now: StoreTime) -> Option<&Lease> {
        self.lease.as_deref().filter(|lease| now < lease.deadline)
    }
}

impl Draft {
    /// An upper bound of [`Entry::gone_at`] once this is written: so many µs after the commit, and not before that instant.
    pub fn kept(&self) -> (u64, StoreTime) {
        let mut kept = (0, StoreTime::ZERO);
        let mut until = |when: When, longer: Duration| match when.after {
            Some(after) => kept.0 = kept.0.max(micros(after.saturating_add(longer))),
            None => kept.1 = kept.1.max(when.at_most.after(longer)),
        };
        if let Some(value) = &self.value {
            let stale = value.stale_while_revalidate.max(value.stale_if_error).length();
            until(value.fresh_until, stale);
            until(value.stored_at, HAND_OVER);
        }
        if let Some(reported) = &self.reported {
            until(reported.at, REMEMBER_REPORT);
        }
        if let Some(lease) = &self.lease {
            until(lease.hold_until, Duration::ZERO);
            until(lease.deadline, REMEMBER_REPORT);
        }
        if let Some(trouble) = &self.trouble {
            until(trouble.remember_until, Duration::ZERO);
        }
        if let Some(mark) = &self.mark {
            until(mark.keep_until, Duration::ZERO);
            until(mark.settle_until, Duration::ZERO);
        }
        kept
    }
}

impl Labels {
    /// With these; `None` where there are none.
    pub fn of(tags: Option<Arc<[Tag]>>, traceparent: Option<Arc<str>>) -> Option<Arc<Labels>> {
        (tags.is_some() || traceparent.is_some()).then(|| Arc::new(Labels { tags, traceparent }))
    }
}

impl Value {
    /// Past this instant it is served to nobody.
    pub fn stale_until(&self) -> StoreTime {
        self.fresh_until
            .after(self.stale_while_revalidate.max(self.stale_if_error).length())
    }
}

impl Lease {
    /// The id that its holder was given.
    pub fn id(&self) -> LeaseId {
        LeaseId {
            token: self.token,
            secret: self.secret,
        }
    }
}
