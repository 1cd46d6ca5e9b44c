//! Which counts exist: a cell for each set of labels, at a place known when it compiles.
//!
//! *Invariants.* The label of a place is the `as_str` of what is counted there; a test asks for each of them.

use opentelemetry::KeyValue;

use crate::coordinator::RefreshNews;
use crate::decision::{Answer, BusyCause, Cause, Dropped, LostReason, Mode, Rejection, ReportAnswer};
use crate::rpc::status::Reason;
use crate::store::Target;

pub(super) const NAMESPACE: &str = "drover.namespace";
pub(super) const DECISION: &str = "drover.decision";
const CAUSE: &str = "drover.cause";
const OUTCOME: &str = "drover.outcome";
const RESULT: &str = "drover.result";
const TARGET: &str = "drover.target";
const MODE: &str = "drover.mode";
pub(super) const KIND: &str = "drover.kind";
pub(super) const REASON: &str = "drover.reason";

pub(super) const DECISIONS: [&str; 6] = ["rebuild", "hit_fresh", "hit_stale", "busy", "backoff", "miss"];
pub(super) const CAUSES: [Cause; 9] = [
    Cause::Miss,
    Cause::Expired,
    Cause::Stale,
    Cause::Invalidated,
    Cause::Early,
    Cause::Forced,
    Cause::Takeover,
    Cause::Scheduled,
    Cause::Lost,
];
pub(super) const OUTCOMES: [&str; 6] = ["value", "external", "not_found", "not_modified", "failure", "abandoned"];
const REJECTIONS: [Rejection; 4] = [
    Rejection::Superseded,
    Rejection::Invalidated,
    Rejection::UnknownLease,
    Rejection::NoValue,
];
pub(super) const LOST: [LostReason; 6] = [
    LostReason::Superseded,
    LostReason::Invalidated,
    LostReason::Expired,
    LostReason::MaxHold,
    LostReason::Reported,
    LostReason::UnknownLease,
];
const TARGETS: [&str; 3] = ["key", "tag", "namespace"];
const MODES: [Mode; 2] = [Mode::Drop, Mode::Expire];
/// What keeps callers with nothing to use from rebuilding.
pub(super) const HOLDS: [&str; 2] = ["budget", "circuit"];

/// The reasons of `ErrorInfo`, then what has none.
pub(super) const ERRORS: [&str; Reason::ALL.len() + 2] = {
    let mut names = ["OTHER"; Reason::ALL.len() + 2];
    let mut at = 0;
    while at < Reason::ALL.len() {
        names[at] = Reason::ALL[at].as_str();
        at += 1;
    }
    names[at] = "UNIMPLEMENTED";
    names
};

const RESULTS: usize = 1 + REJECTIONS.len();
const GRANTS: usize = DECISIONS.len();
const REPORTS: usize = GRANTS + CAUSES.len();
const RENEWALS: usize = REPORTS + OUTCOMES.len() * RESULTS;
const INVALIDATIONS: usize = RENEWALS + 1 + LOST.len();
const DEGRADED: usize = INVALIDATIONS + TARGETS.len() * MODES.len();
const HELD_BACK: usize = DEGRADED + DECISIONS.len();
const REFRESHES: usize = HELD_BACK + HOLDS.len();
/// How many cells a namespace has.
pub(super) const CELLS: usize = REFRESHES + 2 + Dropped::ALL.len();

/// The place of a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(pub(super) usize);

impl Cell {
    pub(super) fn acquired(answer: &Answer) -> Cell {
        Cell(match answer {
            Answer::Rebuild(_) => 0,
            Answer::Hit(hit) if hit.fresh => 1,
            Answer::Hit(_) => 2,
            Answer::Busy(_) => 3,
            Answer::KeepOff(_) => 4,
            Answer::Miss => 5,
        })
    }

    /// The same answer, once more: where it was decided alone.
    pub(super) fn degraded(answer: &Answer) -> Cell {
        Cell(DEGRADED + Cell::acquired(answer).0)
    }

    /// An answer that says what holds its caller back, if anything does.
    pub(super) fn held_back(answer: &Answer) -> Option<Cell> {
        match answer {
            Answer::Busy(busy) if busy.cause == BusyCause::RebuildBudget => Some(Cell(HELD_BACK)),
            Answer::KeepOff(keep_off) if keep_off.circuit_open => Some(Cell(HELD_BACK + 1)),
            _ => None,
        }
    }

    pub(super) fn granted(cause: Cause) -> Cell {
        Cell(GRANTS + place(&CAUSES, cause))
    }

    pub(super) fn reported(outcome: &str, answer: &ReportAnswer) -> Cell {
        let result = match answer {
            ReportAnswer::Accepted { .. } => 0,
            ReportAnswer::Rejected(rejection) => 1 + place(&REJECTIONS, *rejection),
        };
        Cell(REPORTS + place(&OUTCOMES, outcome) * RESULTS + result)
    }

    pub(super) fn renewed(lost: Option<LostReason>) -> Cell {
        Cell(RENEWALS + lost.map_or(0, |reason| 1 + place(&LOST, reason)))
    }

    pub(super) fn invalidated(target: &Target, mode: Mode) -> Cell {
        let target = match target {
            Target::Key(_) => 0,
            Target::Tag(_) => 1,
            Target::Everything => 2,
        };
        Cell(INVALIDATIONS + target * MODES.len() + place(&MODES, mode))
    }

    pub(super) fn refreshed(news: RefreshNews) -> Cell {
        Cell(match news {
            RefreshNews::Offered => REFRESHES,
            RefreshNews::Dispatched { .. } => REFRESHES + 1,
            RefreshNews::Dropped(why) => REFRESHES + 2 + place(&Dropped::ALL, why),
        })
    }
}

/// A counter, and the cells that it adds up.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) description: &'static str,
    pub(super) cells: Vec<Labelled>,
}

/// A cell and its labels, without the namespace.
pub(super) struct Labelled {
    pub(super) place: usize,
    pub(super) labels: Vec<KeyValue>,
    /// Exported although it is zero, so that a rate exists from the first one on.
    pub(super) from_zero: bool,
}

pub(super) fn families() -> [Family; 8] {
    let family = |name, unit, description, cells| Family {
        name,
        unit,
        description,
        cells,
    };
    [
        family(
            "drover.acquires",
            "{call}",
            "Acquires answered, by decision",
            acquires(0, true),
        ),
        family(
            "drover.acquires.degraded",
            "{call}",
            "Acquires that this replica decided alone because the store did not answer, by decision; counted among the acquires too",
            acquires(DEGRADED, false),
        ),
        family("drover.grants", "{lease}", "Leases granted, by cause", grants()),
        family(
            "drover.reports",
            "{call}",
            "Reports answered, by outcome and what became of them",
            reports(),
        ),
        family("drover.renewals", "{call}", "Renewals answered, by result", renewals()),
        family(
            "drover.invalidations",
            "{target}",
            "Keys, tags and namespaces made old",
            invalidations(),
        ),
        family(
            "drover.acquires.held_back",
            "{call}",
            "Acquires whose caller had nothing and was not let rebuild, by what held it back; counted among the acquires too",
            held_back(),
        ),
        family(
            "drover.refreshes",
            "{task}",
            "Due refreshes: offered to a worker, dispatched with its lease, or dropped, by why",
            refreshes(),
        ),
    ]
}

fn acquires(first: usize, from_zero: bool) -> Vec<Labelled> {
    let cell = |(index, name): (usize, &&'static str)| Labelled {
        place: first + index,
        labels: vec![KeyValue::new(DECISION, *name)],
        from_zero,
    };
    DECISIONS.iter().enumerate().map(cell).collect()
}

fn grants() -> Vec<Labelled> {
    let cell = |(index, cause): (usize, &Cause)| Labelled {
        place: GRANTS + index,
        labels: vec![KeyValue::new(CAUSE, cause.as_str())],
        from_zero: true,
    };
    CAUSES.iter().enumerate().map(cell).collect()
}

fn held_back() -> Vec<Labelled> {
    let cell = |(index, name): (usize, &&'static str)| Labelled {
        place: HELD_BACK + index,
        labels: vec![KeyValue::new(CAUSE, *name)],
        from_zero: true,
    };
    HOLDS.iter().enumerate().map(cell).collect()
}

fn reports() -> Vec<Labelled> {
    let results = || std::iter::once("accepted").chain(REJECTIONS.map(Rejection::as_str));
    let outcomes = OUTCOMES
        .iter()
        .flat_map(|outcome| results().map(move |result| (*outcome, result)));
    let cell = |(index, (outcome, result)): (usize, (&'static str, &'static str))| Labelled {
        place: REPORTS + index,
        labels: vec![KeyValue::new(OUTCOME, outcome), KeyValue::new(RESULT, result)],
        from_zero: index % RESULTS == 0,
    };
    outcomes.enumerate().map(cell).collect()
}

fn renewals() -> Vec<Labelled> {
    let results = std::iter::once("kept").chain(LOST.map(LostReason::as_str));
    let cell = |(index, result): (usize, &'static str)| Labelled {
        place: RENEWALS + index,
        labels: vec![KeyValue::new(RESULT, result)],
        from_zero: index == 0,
    };
    results.enumerate().map(cell).collect()
}

fn invalidations() -> Vec<Labelled> {
    let all = TARGETS
        .iter()
        .flat_map(|target| MODES.map(|mode| (*target, mode.as_str())));
    let cell = |(index, (target, mode)): (usize, (&'static str, &'static str))| Labelled {
        place: INVALIDATIONS + index,
        labels: vec![KeyValue::new(TARGET, target), KeyValue::new(MODE, mode)],
        from_zero: true,
    };
    all.enumerate().map(cell).collect()
}

fn refreshes() -> Vec<Labelled> {
    let results = ["offered", "dispatched"]
        .into_iter()
        .chain(Dropped::ALL.map(Dropped::as_str));
    let cell = |(index, result): (usize, &'static str)| Labelled {
        place: REFRESHES + index,
        labels: vec![KeyValue::new(RESULT, result)],
        from_zero: index < 2,
    };
    results.enumerate().map(cell).collect()
}

pub(super) fn error_index(reason: &str) -> usize {
    ERRORS
        .iter()
        .position(|known| *known == reason)
        .unwrap_or(ERRORS.len() - 1)
}

/// Where a value stands; the tables are complete (a test asks), so the default is never used.
fn place<T: PartialEq>(table: &[T], value: T) -> usize {
    table.iter().position(|known| *known == value).unwrap_or_default()
}
