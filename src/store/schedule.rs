//! What a store keeps of refreshes: which key is to be looked at, and when.
//!
//! *Owns* what travels between the coordinator and a store's schedule. *Never* decides whether a key is refreshed: a task only says "look at
//! it now"; `decision` says what is true of it then.
//!
//! *Two kinds of tasks.* A key's own refresh, which each commit of the key keeps right ([`Draft::task_at`](crate::decision::Draft::task_at)), while
//! its namespace has workers; and one that somebody [planned](Plan), which is there until it is [settled](Settled).
//!
//! *Invariants.* A claimed task is seen by nobody else until its hold is over. What is settled is settled only if it is still as it was
//! claimed: a commit in between knows better. So a replica that dies with claimed tasks delays them by the hold, and nothing is lost.

use std::sync::Arc;
use std::time::Duration;

use crate::decision::{Attempts, Key, StoreTime};

/// So many tasks are looked at in one claim at the most, besides those that are taken.
pub const LOOKED_AT: usize = 1_024;
/// A key's own refresh that nobody has claimed for so long is taken out: no worker is there for it, and its callers have been asked by now.
pub const UNCLAIMED: Duration = Duration::from_secs(60);
/// The same for one that was planned.
pub const PLANNED_UNCLAIMED: Duration = Duration::from_secs(3_600);
/// A task that is put this near rings for those who wait for the next.
pub const NEAR: Duration = Duration::from_secs(1);

/// A task of a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Of which key.
    pub key: Key,
    /// Why.
    pub kind: TaskKind,
    /// When it was due.
    pub due: StoreTime,
    /// Until when nobody else sees it.
    pub held_until: StoreTime,
    /// The store knows of demand since the value was stored.
    pub asked_for: bool,
}

/// Why there is a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskKind {
    /// The key's own refresh.
    Due,
    /// Somebody planned it.
    Scheduled(Box<Scheduled>),
}

/// What is known of a planned refresh.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled {
    /// For when.
    pub at: StoreTime,
    /// Not while there is a fresh value.
    pub only_if_missing: bool,
    /// What became of it so far.
    pub attempts: Attempts,
    /// W3C traceparent of who planned it.
    pub traceparent: Option<Arc<str>>,
}

/// Refreshes to be planned.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where.
    pub namespace: Arc<str>,
    /// Each key once, and how long from now.
    pub keys: Vec<(Key, Duration)>,
    /// Not those that then have a fresh value.
    pub only_if_missing: bool,
    /// W3C traceparent of who plans.
    pub traceparent: Option<Arc<str>>,
    /// So many may be planned in the namespace, all together. A store of several partitions may take up to a quarter more.
    pub most: usize,
}

/// What was planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// So many are new.
    pub new: u32,
    /// So many were there; the earlier time counts, and the wider wish.
    pub known: u32,
    /// So many did not fit. The same plan may be made again.
    pub refused: u32,
}

/// A claim to tasks that are due.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Where.
    pub namespace: Arc<str>,
    /// Of keys that begin with one of these; empty: of all.
    pub prefixes: Vec<String>,
    /// So many at the most.
    pub most: usize,
    /// Nobody else sees them for so long.
    pub hold: Duration,
}

/// What was claimed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claimed {
    /// The tasks, in the order in which they were due.
    pub tasks: Vec<Task>,
    /// The store's time.
    pub now: StoreTime,
    /// When the next one is due that this claim did not look at; it may be due already.
    pub next: Option<StoreTime>,
}

/// What becomes of a claimed task.
#[derive(Clone, Debug)]
pub struct Settled {
    /// The task. What it says of its attempts is written.
    pub task: Task,
    /// Look again then; `None`: it is over.
    pub at: Option<StoreTime>,
    /// Another replica may have a use for it before: all are rung.
    pub for_others: bool,
}

impl Plan {
    /// What a planned key is remembered with.
    pub fn scheduled(&self, at: StoreTime) -> Scheduled {
        Scheduled {
            at,
            only_if_missing: self.only_if_missing,
            attempts: Attempts::default(),
            traceparent: self.traceparent.clone(),
        }
    }
}

impl Claim {
    /// Whether it is to a key of this name.
    pub fn takes(&self, name: &str) -> bool {
        self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| name.starts_with(&**prefix))
    }
}

impl TaskKind {
    /// Its name in logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            TaskKind::Due => "due",
            TaskKind::Scheduled(_) => "scheduled",
        }
    }
}
