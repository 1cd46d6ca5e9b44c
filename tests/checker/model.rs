//! What happened, in a form that knows neither gRPC nor the service: what the clients asked and were told, and what was broken.
//!
//! Both who simulate the service and who start real processes write it; the checks read nothing else.

use drover::decision::{Intent, LeaseId, Mode};

/// A moment: when, and in which place among all that was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Its place: an end that has a smaller one than a beginning came before it.
    pub place: u64,
    /// Microseconds since the start.
    pub at: u64,
}

/// What an invalidation is about. Keys and tags are numbered over all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    Key(u32),
    Tag(u32),
    /// A whole namespace.
    Everything(u16),
}

/// One call of one client.
#[derive(Clone, Debug)]
pub struct Op {
    pub client: u32,
    pub replica: u16,
    pub asked: Asked,
    pub invoked: Moment,
    pub ended: Moment,
    pub end: End,
    /// The replica decided alone.
    pub degraded: bool,
    /// If it was done at all, then by here. Its end, unless nobody knows whether it was done.
    pub until: Moment,
}

#[derive(Clone, Debug)]
pub enum Asked {
    Acquire(Question),
    Report(Report),
    Renew { key: u32, lease: LeaseId },
    Invalidate { targets: Box<[Target]>, mode: Mode },
}

#[derive(Clone, Debug)]
pub struct Question {
    pub key: u32,
    pub intent: Intent,
    /// The longest that it may be parked, in microseconds: with the policy's bound, and the call's. [`PULLS`]: it is a worker's, and waits for
    /// whatever comes.
    pub wait: u64,
    pub newer_than: u64,
    /// The same in the tries at one question; 0: it is not repeated.
    pub request: u64,
    pub tags: Box<[u32]>,
}

/// A worker waits for no key, and for as long as it takes.
pub const PULLS: u64 = u64::MAX;

impl Question {
    /// A worker takes this key when it comes.
    pub fn pull(key: u32) -> Question {
        Question {
            key,
            intent: Intent::Early,
            wait: PULLS,
            newer_than: 0,
            request: 0,
            tags: Box::default(),
        }
    }

    pub fn pulls(&self) -> bool {
        self.wait == PULLS
    }
}

#[derive(Clone, Debug)]
pub struct Report {
    pub key: u32,
    pub lease: LeaseId,
    pub outcome: Outcome,
    pub tags: Box<[u32]>,
}

/// How a rebuild ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With a value, of whatever kind.
    Built,
    NotModified,
    /// With one of these, to be handed to those who wait and not kept.
    NotStored,
    Failed,
    Abandoned,
}

/// How a call ended.
#[derive(Clone, Debug)]
pub enum End {
    Granted(Grant),
    Hit(Hit),
    Busy,
    Backoff,
    Miss,
    Accepted(Accepted),
    Refused(&'static str),
    /// For so many microseconds.
    Renewed(u64),
    Lost(&'static str),
    Invalidated(Invalidated),
    /// It was certainly not done.
    Failed(&'static str),
    /// Nobody knows.
    Unknown(&'static str),
}

#[derive(Clone, Debug)]
pub struct Grant {
    pub lease: LeaseId,
    /// The lease certainly lasts to here unless something ends it; microseconds since the start.
    pub sure_until: u64,
    /// Unless it is renewed, it certainly does not last longer.
    pub over_by: u64,
    pub fallback: Option<Hit>,
}

#[derive(Clone, Debug)]
pub struct Hit {
    pub version: u64,
    pub fresh: bool,
    /// From the answer, in microseconds.
    pub fresh_for: u64,
    /// The token of the lease that the bytes name; `None`: it came without bytes.
    pub named: Option<u64>,
    pub tags: Box<[u32]>,
}

#[derive(Clone, Debug)]
pub struct Accepted {
    /// 0: there is no value.
    pub version: u64,
    /// From the answer, in microseconds; `None`: nothing is kept.
    pub fresh_for: Option<u64>,
    /// The same, until somebody is asked to refresh it: to the end of freshness, where no refresh is planned.
    pub left_alone_for: Option<u64>,
    /// The same, to the end of the longer window.
    pub stale_for: u64,
}

#[derive(Clone, Debug)]
pub struct Invalidated {
    /// One for each target.
    pub numbers: Box<[u64]>,
    /// Every watcher has said that it obeyed.
    pub confirmed: bool,
}

impl Op {
    pub fn question(&self) -> Option<&Question> {
        match &self.asked {
            Asked::Acquire(question) => Some(question),
            _ => None,
        }
    }

    pub fn report(&self) -> Option<&Report> {
        match &self.asked {
            Asked::Report(report) => Some(report),
            _ => None,
        }
    }

    pub fn key(&self) -> Option<u32> {
        match &self.asked {
            Asked::Acquire(question) => Some(question.key),
            Asked::Report(report) => Some(report.key),
            Asked::Renew { key, .. } => Some(*key),
            Asked::Invalidate { .. } => None,
        }
    }

    /// The lease that it got from the store.
    pub fn granted(&self) -> Option<&Grant> {
        match &self.end {
            End::Granted(grant) if !self.degraded => Some(grant),
            _ => None,
        }
    }

    /// A lease, whoever gave it.
    pub fn granted_or_degraded(&self) -> Option<&Grant> {
        match &self.end {
            End::Granted(grant) => Some(grant),
            _ => None,
        }
    }

    /// The value that it was handed, also beside a lease.
    pub fn hit(&self) -> Option<&Hit> {
        match &self.end {
            _ if self.degraded => None,
            End::Hit(hit) => Some(hit),
            End::Granted(grant) => grant.fallback.as_ref(),
            _ => None,
        }
    }

    pub fn accepted(&self) -> Option<(&Report, &Accepted)> {
        match (&self.asked, &self.end) {
            (Asked::Report(report), End::Accepted(accepted)) if !self.degraded => Some((report, accepted)),
            _ => None,
        }
    }

    /// The targets with the numbers that they got, and the mode.
    pub fn invalidated(&self) -> Option<(&[Target], Mode, &Invalidated)> {
        match (&self.asked, &self.end) {
            (Asked::Invalidate { targets, mode }, End::Invalidated(done)) => Some((targets, *mode, done)),
            _ => None,
        }
    }

    pub fn end_is(&self, why: &str) -> bool {
        matches!(self.end, End::Failed(said) | End::Unknown(said) if said == why)
    }

    pub fn is_unknown(&self) -> bool {
        matches!(self.end, End::Unknown(_))
    }

    /// Whether what it asks for may have been done.
    pub fn may_have_been_done(&self) -> bool {
        !self.degraded && !matches!(self.end, End::Failed(_) | End::Refused(_) | End::Lost(_))
    }

    /// Whether it came to its end before the other began.
    pub fn is_before(&self, other: &Op) -> bool {
        self.ended.place < other.invoked.place
    }

    /// The same, also if it was done behind its caller's back.
    pub fn is_over_before(&self, other: &Op) -> bool {
        self.until.place < other.invoked.place
    }
}

/// Something at large that a promise makes an exception for. Microseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lapse {
    pub kind: Kind,
    pub from: u64,
    pub to: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The store lost all that it had.
    Lost,
    /// Another server became the primary; the last writes to the old one may be gone.
    Failover,
    /// The store may forget any key at any moment.
    Evicting,
    /// The store's clock was set.
    Stepped,
    /// A replica, or all of them, could not work: stopped, killed, or without a store.
    Away(Option<u16>),
    /// A client may not have reached this replica, or its answers not the client.
    CutOff(u16),
}

/// What a subscriber was told and what it did with it.
#[derive(Clone, Debug, Default)]
pub struct Watcher {
    pub name: String,
    /// Only keys of which this is said; `None`: all.
    pub keys: Option<Box<[u32]>>,
    /// Whose events it gets.
    pub namespaces: Box<[u16]>,
    /// It takes its time: nothing is late for it.
    pub slow: bool,
    pub told: Vec<Told>,
    /// Values that it served from its own cache.
    pub reads: Vec<Read>,
    /// From here on it was live again and had been told everything; what it then still held.
    pub rest: Option<(Moment, Vec<Read>)>,
}

#[derive(Clone, Debug)]
pub struct Told {
    pub moment: Moment,
    pub what: What,
}

#[derive(Clone, Debug)]
pub enum What {
    /// The stream is live, at this replica.
    Started(u16),
    Invalidated {
        targets: Box<[Target]>,
        mode: Mode,
        version: u64,
    },
    Refreshed {
        key: u32,
        version: u64,
    },
    Revoked {
        key: u32,
        lease: LeaseId,
    },
    Reset(&'static str),
    /// The stream ended or broke: until it is live again nothing can be told.
    Broken,
}

#[derive(Clone, Debug)]
pub struct Read {
    pub moment: Moment,
    pub key: u32,
    pub version: u64,
    pub tags: Box<[u32]>,
}

/// What holds for a history.
#[derive(Clone, Debug)]
pub struct Terms {
    /// What a caller's own steps may take beside waiting, in microseconds.
    pub slack: u64,
    /// How long a parked caller may go unnoticed once there is something for it.
    pub notice: u64,
    /// How long after something came back all must be well.
    pub recovery: u64,
    /// All numbers come from one sequence; else only those of one target do.
    pub one_sequence: bool,
    /// No lease is longer.
    pub longest_lease: u64,
    /// No renewal makes one shorter.
    pub shortest_lease: u64,
    /// No value is served longer after it was made old softly, by namespace.
    pub windows: Vec<u64>,
    /// Who hears nothing for so long serves no local copies.
    pub max_silence: u64,
    /// So many rebuilds may run at once, by namespace; 0: any number.
    pub budgets: Vec<u32>,
    /// So long after a lease's certain end its place in a budget is free at the latest. `None`: only the store's own account tells.
    pub place_is_back: Option<u64>,
}

/// Everything.
#[derive(Clone, Debug)]
pub struct History {
    pub terms: Terms,
    /// The namespace of each key.
    pub keys: Vec<u16>,
    /// In the order in which they were invoked.
    pub ops: Vec<Op>,
    pub watchers: Vec<Watcher>,
    pub lapses: Vec<Lapse>,
    /// What an actor found wrong by itself.
    pub stuck: Vec<String>,
}

impl History {
    /// What is left of it once it was looked at, for who keeps many.
    pub fn without_calls(self) -> History {
        History {
            ops: Vec::new(),
            watchers: Vec::new(),
            ..self
        }
    }

    /// How many rebuilds of a key's namespace may run at once; 0: any number.
    pub fn budget_of(&self, key: u32) -> u32 {
        let namespace = usize::from(self.keys[key as usize]);
        self.terms.budgets.get(namespace).copied().unwrap_or_default()
    }

    /// Lapses of some kind.
    pub fn lapses(&self, kinds: impl Fn(Kind) -> bool) -> impl Iterator<Item = (u64, u64)> {
        self.lapses
            .iter()
            .filter(move |lapse| kinds(lapse.kind))
            .map(|lapse| (lapse.from, lapse.to))
    }
}
