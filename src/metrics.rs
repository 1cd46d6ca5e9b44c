//! What is counted, and how it leaves the process.
//!
//! *Owns* every instrument: name, unit, description, labels. [`Metrics`] has a plain method for each thing that happens, and
//! [`Exposition`] is where the figures leave: the page at `/metrics`, and OTLP.
//!
//! *Never does*: a label with a key, a tag, a holder or a replica. `drover.namespace` is one of the first [`NAMED`] namespaces, or
//! `other`: callers make namespaces at will.
//!
//! *Invariants.* A call costs a few nanoseconds and no lock: counts are atomics, apart for each core, and are added up when somebody
//! looks. Names of labels are those of the decision's `as_str`.
//!
//! *Why not* the SDK's counters: adding to one costs a hash of all its labels, some 100 ns, on a path that has 3 µs in all.
//! Histograms are only where a caller was parked or an origin was asked.

mod cells;
mod exposition;
mod instruments;
mod shared;
mod tally;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use crate::coordinator::RefreshNews;
use crate::decision::{Answer, Cause, LostReason, Mode, ReportAnswer};
use crate::store::Target;
use cells::{CELLS, Cell, ERRORS, error_index};
use tally::Tallies;

pub use exposition::Exposition;
pub use shared::{CallTimes, Shared};
pub use tally::NAMED;

/// What a replica counts. One for each server, shared by whoever has something to tell.
pub struct Metrics {
    tallies: Tallies<CELLS>,
    errors: [AtomicU64; ERRORS.len()],
    levels: OnceLock<Box<dyn Fn() -> Levels + Send + Sync>>,
    shared: OnceLock<Box<dyn Fn() -> Shared + Send + Sync>>,
    call_times: CallTimes,
    wait: Histogram<f64>,
    rebuild: Histogram<f64>,
    lateness: Histogram<f64>,
}

/// What others keep count of anyway, as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Callers parked.
    pub waiters: u64,
    /// Keys for which callers wait for a place in a rebuild budget.
    pub in_line: u64,
    /// Namespaces whose circuit is open, as far as this replica knows.
    pub open_circuits: u64,
    /// Watch streams open.
    pub watchers: u64,
    /// Worker streams open.
    pub workers: u64,
    /// Refreshes that workers have in hand.
    pub in_flight: u64,
    /// Refreshes in the store's schedule.
    pub scheduled: u64,
    /// Messages to watchers since the start, by kind.
    pub events: Vec<(&'static str, u64)>,
    /// Watchers that were told to start afresh, since the start, by reason.
    pub resets: Vec<(&'static str, u64)>,
    /// Keys that the store knows.
    pub entries: u64,
    /// Bytes of entries and values.
    pub bytes: u64,
    /// Entries that left before their time to make room, since the start.
    pub evictions: u64,
}

impl Metrics {
    /// Counts that `meter` exports.
    pub fn new(meter: &Meter) -> Arc<Metrics> {
        let metrics = Arc::new(Metrics {
            tallies: Tallies::new(),
            errors: Default::default(),
            levels: OnceLock::new(),
            shared: OnceLock::new(),
            call_times: CallTimes::new(meter),
            wait: instruments::wait(meter),
            rebuild: instruments::rebuild(meter),
            lateness: instruments::lateness(meter),
        });
        instruments::observe(meter, &metrics);
        metrics
    }

    /// Counts that nobody exports: for tests, and for parts that run without a server.
    pub fn detached() -> Arc<Metrics> {
        use opentelemetry::metrics::{MeterProvider as _, NoopMeterProvider};
        Metrics::new(&NoopMeterProvider::new().meter("drover"))
    }

    /// These namespaces have a label of their own, as long as there is room; the configured ones come first that way.
    pub fn know<'a>(&self, namespaces: impl IntoIterator<Item = &'a str>) {
        for namespace in namespaces {
            self.tallies.with(namespace, |_| ());
        }
    }

    /// An acquire was answered.
    pub fn acquired(&self, namespace: &str, answer: &Answer) {
        self.count(namespace, Cell::acquired(answer));
        if let Some(cell) = Cell::held_back(answer) {
            self.count(namespace, cell);
        }
    }

    /// It was decided by this replica alone.
    pub fn degraded(&self, namespace: &str, answer: &Answer) {
        self.count(namespace, Cell::degraded(answer));
    }

    /// A lease was granted: to a caller that asked, to a promoted waiter, or to a worker.
    pub fn granted(&self, namespace: &str, cause: Cause) {
        self.count(namespace, Cell::granted(cause));
    }

    /// A report was answered. `outcome` as [`Outcome::as_str`](crate::decision::Outcome::as_str) names it; `cost` is how long the
    /// rebuild took, where the holder says so.
    pub fn reported(&self, namespace: &str, outcome: &str, answer: &ReportAnswer, cost: Option<Duration>) {
        self.count(namespace, Cell::reported(outcome, answer));
        if let Some(cost) = cost {
            self.rebuild.record(cost.as_secs_f64(), &[]);
        }
    }

    /// A renewal was answered; `None`: the lease is kept.
    pub fn renewed(&self, namespace: &str, lost: Option<LostReason>) {
        self.count(namespace, Cell::renewed(lost));
    }

    /// A key, everything with a tag, or a whole namespace was made old.
    pub fn invalidated(&self, namespace: &str, target: &Target, mode: Mode) {
        self.count(namespace, Cell::invalidated(target, mode));
    }

    /// A caller that was parked is answered.
    pub fn waited(&self, waited: Duration, answer: &Answer) {
        self.wait
            .record(waited.as_secs_f64(), &[KeyValue::new(cells::DECISION, answer.as_str())]);
    }

    /// Something became of a due refresh.
    pub fn refreshed(&self, namespace: &str, news: RefreshNews) {
        self.count(namespace, Cell::refreshed(news));
        if let RefreshNews::Dispatched { late, cause } = news {
            self.granted(namespace, cause);
            self.lateness.record(late.as_secs_f64(), &[]);
        }
    }

    /// A call ended with an error. `reason` as in `ErrorInfo`; one that is not known counts as `OTHER`.
    pub fn failed(&self, reason: &str) {
        self.errors[error_index(reason)].fetch_add(1, Relaxed);
    }

    /// From now on the levels come from here; asked at each scrape, several times, so it must be cheap. Only the first call counts.
    pub fn observe(&self, levels: impl Fn() -> Levels + Send + Sync + 'static) {
        let _ = self.levels.set(Box::new(levels));
    }

    /// From now on there is a store that replicas share, and this is how it is. Only the first call counts.
    pub fn observe_shared(&self, shared: impl Fn() -> Shared + Send + Sync + 'static) {
        let _ = self.shared.set(Box::new(shared));
    }

    /// For who calls a shared store.
    pub fn call_times(&self) -> CallTimes {
        self.call_times.clone()
    }

    fn count(&self, namespace: &str, cell: Cell) {
        self.tallies.with(namespace, |tally| tally.add(cell.0));
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics")
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}
