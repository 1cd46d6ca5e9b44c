//! What can be asked of the coordinator, and how it answers: domain types only, no protobuf and no store.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::decision::{
    Answer, Ask, Cause, Hint, Hit, KeepOff, Key, LeaseId, LostReason, Mode, Policy, Report, ReportAnswer, Seq,
};
use crate::store::{Bytes, StoreError, Target};

/// A question about a key, and how long it may wait.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Which key.
    pub key: Key,
    /// The question.
    pub ask: Ask,
    /// How long to wait for somebody else; `None`: as long as the policy allows.
    pub wait: Option<Duration>,
    /// When the answer must be on its way: the RPC deadline less a margin.
    pub answer_by: Option<Instant>,
    /// How often the caller has read the key from a local copy since it last said so.
    pub hits: u64,
}

/// The answer to a question.
#[derive(Clone, Debug)]
pub struct Acquired {
    /// What to do.
    pub answer: Answer,
    /// The bytes, where the answer has a hit with [`HitContent::Bytes`](crate::decision::HitContent::Bytes).
    pub bytes: Option<Bytes>,
    /// Decided by this replica alone.
    pub degraded: bool,
    /// How long the caller was parked.
    pub waited: Duration,
    /// Present where the key is asked for much.
    pub hint: Option<Hint>,
}

/// A report, and the bytes it carries.
#[derive(Clone, Debug)]
pub struct ReportValue {
    /// Which key.
    pub key: Key,
    /// The report.
    pub report: Report,
    /// The value's bytes.
    pub bytes: Option<Bytes>,
}

/// The answer to a report.
#[derive(Clone, Debug)]
pub struct Reported {
    /// Whether it was accepted.
    pub answer: ReportAnswer,
    /// Stored by this replica alone.
    pub degraded: bool,
}

/// The answer to a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// `None`: it is kept.
    pub lost: Option<LostReason>,
    /// What is left of the lease.
    pub ttl: Duration,
    /// What is left of the longest hold.
    pub max_hold: Duration,
}

/// What to make old.
#[derive(Clone, Debug)]
pub struct Invalidate {
    /// Where.
    pub namespace: Arc<str>,
    /// What, in the order of the request.
    pub targets: Vec<Target>,
    /// How hard.
    pub mode: Mode,
    /// For the audit log.
    pub reason: String,
    /// How long to wait for the watchers; already cut to the RPC deadline.
    pub wait_for_watchers: Duration,
    /// The origin's replicas may lag this long.
    pub settle: Duration,
}

/// What was made old.
#[derive(Clone, Debug)]
pub struct Invalidated {
    /// Each target with its number, in the order of the request.
    pub targets: Vec<(Target, Seq)>,
    /// How many holders work in vain.
    pub leases_revoked: u32,
    /// Watchers that count.
    pub watchers: u32,
    /// Those that have acknowledged.
    pub acknowledged: u32,
    /// Every one of them has, and every replica was heard.
    pub confirmed: bool,
    /// Holders of some that have not.
    pub laggards: Vec<Arc<str>>,
}

/// Everything known about a key.
#[derive(Clone, Debug)]
pub struct Description {
    /// The value's facts.
    pub current: Option<Hit>,
    /// Who rebuilds it.
    pub lease: Option<LeaseInfo>,
    /// Parked callers.
    pub waiters: u32,
    /// Present while the origin fails.
    pub backoff: Option<KeepOff>,
}

/// A live lease without its secret.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseInfo {
    /// Of which key.
    pub key: Key,
    /// Who has it.
    pub holder: Arc<str>,
    /// Its number.
    pub token: Seq,
    /// Why it was granted.
    pub cause: Cause,
    /// Since the grant.
    pub held: Duration,
    /// What is left.
    pub ttl: Duration,
    /// Parked behind it.
    pub waiters: u32,
    /// Of the holder's span.
    pub traceparent: Option<Arc<str>>,
}

/// A namespace as operators see it.
#[derive(Clone, Debug)]
pub struct NamespaceInfo {
    /// Its name.
    pub namespace: String,
    /// Its policy.
    pub policy: Arc<Policy>,
    /// Entries known.
    pub entries: u64,
    /// Leases live.
    pub leases: u64,
    /// Parked callers.
    pub waiters: u64,
    /// Watchers connected.
    pub watchers: u64,
    /// Workers registered.
    pub workers: u64,
    /// Its circuit is open.
    pub circuit_open: bool,
}

/// A call that could not be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A field is out of bounds in a way that only the store or the policy can tell.
    #[error("{field}: {problem}")]
    InvalidField {
        /// As in the proto.
        field: &'static str,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// The namespace is not configured, and only configured ones are served.
    #[error("namespace {0:?} is not configured, and this service has strict_namespaces set")]
    UnknownNamespace(String),
    /// The value is larger than the policy allows; the lease has ended as after a failure.
    #[error("value: {size} bytes, but the namespace allows {max}")]
    ValueTooLarge {
        /// Of the report.
        size: usize,
        /// Of the policy.
        max: u32,
    },
    /// A bound of this replica is reached.
    #[error("overloaded: {what}")]
    Overloaded {
        /// Which.
        what: &'static str,
        /// When to try again.
        retry_after: Duration,
    },
    /// This replica is about to leave.
    #[error("this replica is draining")]
    Draining,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A renewal.
#[derive(Clone, Debug)]
pub struct Renew {
    /// Which key.
    pub key: Key,
    /// As in the grant.
    pub lease: LeaseId,
    /// Wanted length from now.
    pub ttl: Option<Duration>,
}

/// Tags of an entry are those of its acquire and of its report together: at most so many.
pub const MAX_TAGS: usize = 16;
