//! Where the truth is kept: a linearizable register a key, with compare-and-set, a feed of what was committed, and a clock.
//!
//! *Owns* the contract that every store keeps ([`Store`]), and what travels through it. The rules are in `decision`; a store only
//! resolves a draft's instants and its number at the moment of the commit.
//!
//! *Never does*: decide. What a store compares is named by the caller: the revision, an instant that must be past, and the newest
//! generation that the decision knew of.
//!
//! *Invariants* (checked for every store by the conformance suite): a commit is applied whole or not at all; its events are in the
//! log in the order of the commits of a key; numbers grow from commit to commit; nothing is answered from before the call.
//!
//! *Why an object-safe trait*: nothing above it is generic, so the coordinator compiles once and a test can put a faulty one
//! between it and any store.

mod clock;
pub mod conformance;
pub mod event;
pub mod faulty;
pub mod memory;
pub mod redis;
pub mod schedule;
pub mod shaping;

use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::decision::{Draft, Entry, Generations, Key, Mode, Seq, StoreTime, Tag, View};
use crate::fanout::{Feed, Peers};
pub use clock::Clock;
pub use event::{Event, Target};
pub use schedule::{Claim, Claimed, Plan, Planned, Scheduled, Settled, Task, TaskKind};
pub use shaping::{Budgeted, Budgeting, Changed};

/// The answer of a store, to be awaited.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// The bytes of a value.
pub type Bytes = Arc<[u8]>;

/// What every store promises.
pub trait Store: Send + Sync + 'static {
    /// The entry of a key as it is now, with the generations of its namespace, of its own tags and of `tags`.
    fn load<'a>(&'a self, key: &'a Key, tags: &'a [Tag], want: Want) -> Answer<'a, Loaded>;

    /// Writes an entry and its events atomically, if nothing that the decision relied on has changed.
    fn commit<'a>(&'a self, commit: Commit) -> Answer<'a, Outcome>;

    /// Makes everything with a tag, or a whole namespace, old. One number, one event.
    fn invalidate<'a>(&'a self, covering: Covering) -> Answer<'a, Invalidated>;

    /// The live leases, of one namespace or of all: in no order.
    fn leases<'a>(&'a self, namespace: Option<&'a str>) -> Answer<'a, Vec<Arc<Snapshot>>>;

    /// How many entries and live leases each namespace has.
    fn census(&self) -> Answer<'_, Vec<Census>>;

    /// The store's time, if it answers at all.
    fn ping(&self) -> Answer<'_, StoreTime>;

    /// Where this store tells what was committed: its log, and the rings for keys that somebody waits for.
    fn feed(&self) -> &Arc<Feed>;

    /// What this replica saw of a key last, at a time that is not later than the store's: good for a commit that names its revision and
    /// its generations, which the store checks; never for an answer. Without bytes. `None`: a load costs no trip, so do that.
    fn recall(&self, _key: &Key) -> Option<Loaded> {
        None
    }

    /// In which partition a key is: what [`Listener::lost`](crate::fanout::Listener::lost) and `regained` speak of. 0 where there is one.
    fn partition(&self, _key: &Key) -> u16 {
        0
    }

    /// The watchers of the other replicas. `None`: there are no others.
    fn peers(&self) -> Option<Arc<dyn Peers>> {
        None
    }

    /// This replica has so many workers for these namespaces, and for no others. It holds for `lasts`, in which it is to be said again. Once it
    /// is answered, commits of these namespaces keep the schedule.
    fn staff<'a>(&'a self, _replica: u64, _workers: &'a [(Arc<str>, u32)], _lasts: Duration) -> Answer<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The namespaces that have workers, and how many over all replicas, as far as this one has heard.
    fn workers(&self) -> Vec<(Arc<str>, u32)> {
        Vec::new()
    }

    /// The same, with everything that was answered by [`Store::staff`] before this call.
    fn fleet(&self) -> Answer<'_, Vec<(Arc<str>, u32)>> {
        Box::pin(std::future::ready(Ok(self.workers())))
    }

    /// Plans refreshes. A key that is planned already stays so, at the earlier of the two times.
    fn schedule(&self, plan: Plan) -> Answer<'_, Planned> {
        let refused = u32::try_from(plan.keys.len()).unwrap_or(u32::MAX);
        let none = Planned {
            refused,
            ..Planned::default()
        };
        Box::pin(std::future::ready(Ok(none)))
    }

    /// Takes tasks that are due, so that nobody else sees them for a while.
    fn claim(&self, _claim: Claim) -> Answer<'_, Claimed> {
        Box::pin(std::future::ready(Ok(Claimed::default())))
    }

    /// Says what becomes of claimed tasks. One that has been changed since it was claimed stays as it is.
    fn settle(&self, _settled: Vec<Settled>) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// The namespaces in which refreshes are planned; perhaps some more.
    fn planned(&self) -> Answer<'_, Vec<Arc<str>>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Callers of this replica have asked for these keys. Good until the key is claimed or its value replaced. Where replicas share nothing
    /// it need not be kept: who says it knows it.
    fn asked(&self, _keys: Vec<Key>) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Takes, keeps up or gives back a place in the rebuild budget of the key's namespace, for the lease with this secret.
    fn budget<'a>(&'a self, key: &'a Key, lease: NonZeroU64, what: Budgeting) -> Answer<'a, Budgeted>;

    /// The circuit of a namespace in its [written form](crate::decision::Circuit::to_text), empty where there is none: set to `new` if it is
    /// `expected`. Answers how it is then. Without `new` it is only read.
    fn circuit<'a>(&'a self, namespace: &'a str, expected: &'a str, new: Option<&'a str>) -> Answer<'a, Arc<str>>;
}

/// What a load is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Want {
    /// The value's bytes too.
    pub bytes: bool,
    /// Somebody is parked: from this load on, each commit of the key rings.
    pub rings: bool,
}

/// Where something stands in the store's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// In which partition of it; 0 where there is one.
    pub partition: u16,
    /// Everything up to here; 0 where nothing was logged.
    pub at: u64,
}

/// The store's compare-and-set stamp of an entry. It never leaves the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Of an entry that does not exist.
    pub const ABSENT: Revision = Revision(0);
}

/// A key as it was at one commit, never changed afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Which key.
    pub key: Key,
    /// The facts; an entry that does not exist is an empty one.
    pub entry: Entry,
    /// The value's bytes, where they were wanted and exist.
    pub bytes: Option<Bytes>,
    /// What a commit that relies on it expects.
    pub revision: Revision,
}

impl Snapshot {
    /// Of a key without an entry.
    pub fn absent(key: &Key) -> Snapshot {
        Snapshot {
            key: key.clone(),
            entry: Entry::default(),
            bytes: None,
            revision: Revision::ABSENT,
        }
    }
}

/// An entry as a store answered it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The entry and its bytes.
    pub snapshot: Arc<Snapshot>,
    /// What bears on the entry from outside.
    pub generations: Generations,
    /// The store's time of the load.
    pub now: StoreTime,
}

impl Loaded {
    /// As a decision looks at it.
    pub fn view(&self) -> View<'_> {
        View {
            entry: &self.snapshot.entry,
            generations: &self.generations,
            now: self.now,
        }
    }
}

/// An entry to be written.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Which.
    pub key: Key,
    /// The revision that the decision relied on.
    pub expected: Revision,
    /// What to write; `None`: leave the key without an entry (only the event and the number count).
    pub draft: Option<Draft>,
    /// What becomes of the bytes.
    pub bytes: NewBytes,
    /// The store's time must not be before this.
    pub not_before: StoreTime,
    /// The store's time must be before this.
    pub until: StoreTime,
    /// The number taken must exceed this.
    pub above: Seq,
    /// No generation of these may be newer than the decision knew.
    pub guard: Option<Guard>,
    /// Put into the log, in this order, with the commit.
    pub events: Vec<Event>,
    /// A conflict brings the value's bytes too: the answer may be in it.
    pub bytes_on_conflict: bool,
    /// Somebody waits for the next commit of the key, which then rings; for so long, where the store must know.
    pub rings_within: Duration,
}

/// What becomes of the value's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewBytes {
    /// They stay.
    Keep,
    /// These replace them.
    Put(Bytes),
    /// They go.
    Clear,
}

/// A commit that relies on generations names the newest one it knew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The tags that matter, besides the namespace and the floor.
    pub tags: Vec<Tag>,
    /// Nothing newer than this.
    pub newest: Seq,
}

impl Commit {
    /// A commit of `draft` for what was loaded, which changes no bytes and tells nobody.
    pub fn new(key: &Key, loaded: &Loaded, draft: Draft) -> Commit {
        Commit {
            key: key.clone(),
            expected: loaded.snapshot.revision,
            draft: Some(draft),
            bytes: NewBytes::Keep,
            not_before: StoreTime::ZERO,
            until: StoreTime::NEVER,
            above: Seq::NONE,
            guard: None,
            events: Vec::new(),
            bytes_on_conflict: false,
            rings_within: Duration::ZERO,
        }
    }

    /// Whether it takes a number of the sequence.
    pub fn takes_number(&self) -> bool {
        self.draft.as_ref().is_some_and(Draft::takes_number)
            || self
                .events
                .iter()
                .any(|event| matches!(event, Event::Invalidated { .. }))
    }
}

/// What became of a commit.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Applied.
    Committed(Committed),
    /// Nothing was changed: this is how it is now.
    Conflict(Loaded),
}

/// An applied commit.
#[derive(Clone, Debug)]
pub struct Committed {
    /// As written.
    pub snapshot: Arc<Snapshot>,
    /// The number it took; none if it took none.
    pub number: Seq,
    /// The store's time of it.
    pub now: StoreTime,
    /// Where the log stands with its events; `at` is 0 where there were none.
    pub place: Place,
}

/// An invalidation of everything with a tag, or of a whole namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Covering {
    /// Where.
    pub namespace: Arc<str>,
    /// A tag; `None`: the whole namespace.
    pub tag: Option<Tag>,
    /// How hard.
    pub mode: Mode,
    /// The origin's replicas may lag this long.
    pub settle: Duration,
}

/// A committed invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalidated {
    /// Its number.
    pub number: Seq,
    /// The store's time of it.
    pub now: StoreTime,
    /// Where its event stands in the log.
    pub place: Place,
}

/// What a namespace holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// Which.
    pub namespace: String,
    /// Entries known.
    pub entries: u64,
    /// Leases live.
    pub leases: u64,
}

/// A store call that did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It was not applied.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// It may have been applied, or may still be.
    #[error("the fate of a store call is unknown: {0}")]
    Unknown(String),
    /// The store is full, and nothing in it may be evicted.
    #[error("the store is full: {0}")]
    Full(String),
}
