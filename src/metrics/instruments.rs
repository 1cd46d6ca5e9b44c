//! The instruments of the SDK: those that read our counts when somebody looks, and the histograms.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Histogram, Meter};

use super::cells::{ERRORS, Family, KIND, NAMESPACE, REASON, families};
use super::{Levels, Metrics};

/// In seconds: from what a parked caller hardly notices to the longest hold of a policy's default.
const SECONDS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
];

pub(super) fn wait(meter: &Meter) -> Histogram<f64> {
    meter
        .f64_histogram("drover.wait.duration")
        .with_unit("s")
        .with_description("How long parked callers waited, by the decision that they got")
        .with_boundaries(SECONDS.to_vec())
        .build()
}

pub(super) fn rebuild(meter: &Meter) -> Histogram<f64> {
    meter
        .f64_histogram("drover.rebuild.duration")
        .with_unit("s")
        .with_description("How long rebuilds took, from the grant to the report")
        .with_boundaries(SECONDS.to_vec())
        .build()
}

pub(super) fn lateness(meter: &Meter) -> Histogram<f64> {
    meter
        .f64_histogram("drover.refresh.lateness")
        .with_unit("s")
        .with_description("How long after they were due refreshes were given to workers")
        .with_boundaries(SECONDS.to_vec())
        .build()
}

/// Registers everything that is read and not recorded. The callbacks hold the counts weakly: a provider may outlive them.
pub(super) fn observe(meter: &Meter, metrics: &Arc<Metrics>) {
    for family in families() {
        counts(meter, Arc::downgrade(metrics), family);
    }
    levels(meter, metrics);
    super::shared::observe(meter, metrics);
    named(meter, metrics);
    meter
        .u64_observable_gauge("drover.build_info")
        .with_description("1, labelled with the version that runs")
        .with_callback(|observer| observer.observe(1, &[KeyValue::new("version", env!("CARGO_PKG_VERSION"))]))
        .build();
}

fn counts(meter: &Meter, metrics: Weak<Metrics>, family: Family) {
    let cells = family.cells;
    meter
        .u64_observable_counter(family.name)
        .with_unit(family.unit)
        .with_description(family.description)
        .with_callback(move |observer| {
            let Some(metrics) = metrics.upgrade() else { return };
            metrics.tallies.each(|namespace, tally| {
                let namespace = KeyValue::new(NAMESPACE, namespace.to_owned());
                for cell in &cells {
                    let count = tally.sum(cell.place);
                    if count > 0 || cell.from_zero {
                        let labels: Vec<KeyValue> = cell.labels.iter().chain([&namespace]).cloned().collect();
                        observer.observe(count, &labels);
                    }
                }
            });
        })
        .build();
}

fn levels(meter: &Meter, metrics: &Arc<Metrics>) {
    let level = |read: fn(&Levels) -> u64| {
        let seen = Arc::downgrade(metrics);
        move |observer: &dyn AsyncInstrument<u64>| {
            if let Some(levels) = now(&seen) {
                observer.observe(read(&levels), &[]);
            }
        }
    };
    let gauge = |name, unit, description, read| {
        meter
            .u64_observable_gauge(name)
            .with_unit(unit)
            .with_description(description)
            .with_callback(level(read))
            .build();
    };
    gauge("drover.waiters", "{caller}", "Callers parked now", |now| now.waiters);
    let in_line = "Keys of this replica that wait for a place in a rebuild budget now";
    gauge("drover.budget.waiting", "{key}", in_line, |now| now.in_line);
    let open = "Namespaces whose circuit is open now, as this replica knows";
    gauge("drover.circuits.open", "{namespace}", open, |now| now.open_circuits);
    gauge("drover.watchers", "{stream}", "Watch streams open now", |now| {
        now.watchers
    });
    gauge("drover.workers", "{stream}", "Worker streams open now", |now| {
        now.workers
    });
    let in_flight = "Refreshes that workers of this replica have in hand";
    gauge("drover.refreshes.in_flight", "{task}", in_flight, |now| now.in_flight);
    let scheduled = "Refreshes that the embedded store has in its schedule";
    gauge("drover.refreshes.scheduled", "{task}", scheduled, |now| now.scheduled);
    gauge("drover.store.entries", "{entry}", "Keys that the store knows", |now| {
        now.entries
    });
    let size = "Memory of the store's entries and values, as it is counted for the bound";
    gauge("drover.store.size", "By", size, |now| now.bytes);
    meter
        .u64_observable_counter("drover.store.evictions")
        .with_unit("{entry}")
        .with_description("Entries that left before their time to make room")
        .with_callback(level(|now| now.evictions))
        .build();
}

fn now(metrics: &Weak<Metrics>) -> Option<Levels> {
    Some(metrics.upgrade()?.levels.get()?())
}

fn named(meter: &Meter, metrics: &Arc<Metrics>) {
    let seen = Arc::downgrade(metrics);
    meter
        .u64_observable_counter("drover.watch.events")
        .with_unit("{message}")
        .with_description("Messages to watchers, by kind")
        .with_callback(move |observer| {
            for (kind, count) in now(&seen).into_iter().flat_map(|levels| levels.events) {
                observer.observe(count, &[KeyValue::new(KIND, kind)]);
            }
        })
        .build();
    let seen = Arc::downgrade(metrics);
    meter
        .u64_observable_counter("drover.watch.resets")
        .with_unit("{reset}")
        .with_description("Watchers told to start afresh, by reason")
        .with_callback(move |observer| {
            for (reason, count) in now(&seen).into_iter().flat_map(|levels| levels.resets) {
                observer.observe(count, &[KeyValue::new(REASON, reason)]);
            }
        })
        .build();
    let seen = Arc::downgrade(metrics);
    meter
        .u64_observable_counter("drover.errors")
        .with_unit("{call}")
        .with_description("Calls that ended with an error, by its reason; callers that left are none")
        .with_callback(move |observer| {
            let Some(metrics) = seen.upgrade() else { return };
            for (reason, count) in ERRORS.into_iter().zip(&metrics.errors) {
                observer.observe(count.load(Relaxed), &[KeyValue::new(REASON, reason)]);
            }
        })
        .build();
}
