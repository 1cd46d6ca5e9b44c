//! What is counted of a store that replicas share.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};

use super::Metrics;

const CONDITION: &str = "drover.condition";
const CALL: &str = "drover.call";

/// In seconds: from a script on loopback to the longest time limit that anybody should set.
const SECONDS: [f64; 13] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
];

/// A shared store as it is now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared {
    /// Partitions whose calls are refused now.
    pub down: u64,
    /// How often each condition was met since the start, by its name.
    pub conditions: Vec<(&'static str, u64)>,
}

/// Times the calls to a shared store.
#[derive(Clone, Debug)]
pub struct CallTimes(Histogram<f64>);

impl CallTimes {
    pub(super) fn new(meter: &Meter) -> CallTimes {
        let histogram = meter
            .f64_histogram("drover.store.duration")
            .with_unit("s")
            .with_description("How long the shared store took to answer, by the call")
            .with_boundaries(SECONDS.to_vec())
            .build();
        CallTimes(histogram)
    }

    /// A call was answered.
    pub fn answered(&self, call: &'static str, took: Duration) {
        self.0.record(took.as_secs_f64(), &[KeyValue::new(CALL, call)]);
    }
}

/// Registers what is read when somebody looks. Nothing is told where there is no shared store.
pub(super) fn observe(meter: &Meter, metrics: &Arc<Metrics>) {
    let gauge = |name, unit, description, read: fn(&Shared) -> u64| {
        let seen = Arc::downgrade(metrics);
        meter
            .u64_observable_gauge(name)
            .with_unit(unit)
            .with_description(description)
            .with_callback(move |observer| {
                if let Some(shared) = seen.upgrade().and_then(|metrics| Some(metrics.shared.get()?())) {
                    observer.observe(read(&shared), &[]);
                }
            })
            .build();
    };
    let up = "1 while the shared store answers for every partition, else 0";
    gauge("drover.store.up", "{state}", up, |shared| u64::from(shared.down == 0));
    let down = "Partitions of the shared store that do not answer now";
    gauge("drover.store.partitions.down", "{partition}", down, |shared| {
        shared.down
    });
    let seen = Arc::downgrade(metrics);
    meter
        .u64_observable_counter("drover.store.conditions")
        .with_unit("{event}")
        .with_description("What was the matter with the shared store, by its name")
        .with_callback(move |observer| {
            let shared = seen.upgrade().and_then(|metrics| Some(metrics.shared.get()?()));
            for (condition, count) in shared.into_iter().flat_map(|shared| shared.conditions) {
                observer.observe(count, &[KeyValue::new(CONDITION, condition)]);
            }
        })
        .build();
}
