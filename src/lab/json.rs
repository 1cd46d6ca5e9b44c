//! Findings as scripts read them. Lengths of time are in milliseconds, moments count from the moment when the herd was let go.

use std::time::Duration;

use serde_json::{Value, json};

use super::measure::{Herd, SLOW, Worked};
use super::scenario::avalanche::Fill;
use super::scenario::race::{Race, Read};
use super::scenario::{Finding, Rows};

/// Queries are counted over stretches of this length.
const STRETCH: Duration = Duration::from_millis(100);

/// All findings of a run: `{"scenarios": […]}`.
pub fn render(findings: &[Finding]) -> Value {
    json!({ "scenarios": findings.iter().map(scenario).collect::<Vec<_>>() })
}

fn scenario(finding: &Finding) -> Value {
    let plan = &finding.plan;
    let strategies: Vec<_> = match &finding.rows {
        Rows::Herds(herds) => herds.iter().map(herd).collect(),
        Rows::Races(races) => races.iter().map(race).collect(),
        Rows::Fills(fills) => fills.iter().map(fill).collect(),
    };
    json!({
        "scenario": finding.scenario.as_str(),
        "settings": {
            "callers": plan.callers,
            "query_ms": ms(plan.query),
            "connections": plan.connections,
            "lives_ms": ms(plan.lives),
            "duration_ms": ms(plan.duration),
            "keys": plan.keys,
            "restart": plan.restart,
            "workers": plan.workers,
            "seed": plan.seed,
        },
        "strategies": strategies,
        "said": finding.said,
    })
}

fn ms(length: Duration) -> f64 {
    (length.as_secs_f64() * 1e6).round() / 1e3
}

fn herd(herd: &Herd) -> Value {
    json!({
        "strategy": herd.kind.as_str(),
        "variant": herd.variant,
        "requests": herd.requests(),
        "failed": herd.failed,
        "trouble": herd.trouble,
        "queries": herd.queried(),
        "most_queries_at_once": herd.most_at_once(),
        "last_query_ms": ms(herd.last_query()),
        "longest_query_ms": ms(herd.longest_query()),
        "p50_ms": ms(herd.quantile(0.5)),
        "p99_ms": ms(herd.quantile(0.99)),
        "max_ms": ms(herd.slowest()),
        "slower_than_ms": ms(SLOW),
        "slower": herd.slow(),
        "workers": herd.worked.map(worked),
        "queries_over_time": { "stretch_ms": ms(STRETCH), "arrived": arrivals(herd) },
    })
}

fn worked(worked: Worked) -> Value {
    json!({
        "workers": worked.workers,
        "waited": worked.served.waited,
        "saw_expired": worked.served.expired,
        "asked_to_rebuild": worked.served.asked,
        "warming_queries": worked.warmed,
        "least_queries": worked.least,
        "least_queries_with_room": worked.with_room,
        "most_over_least_a_key": worked.over,
    })
}

/// How many queries arrived in each stretch, up to the last one in which one did.
fn arrivals(herd: &Herd) -> Vec<u64> {
    let mut counts = Vec::new();
    for query in &herd.queries {
        let at = (query.arrived.as_micros() / STRETCH.as_micros()) as usize;
        if counts.len() <= at {
            counts.resize(at + 1, 0);
        }
        counts[at] += 1;
    }
    counts
}

fn race(race: &Race) -> Value {
    let which = |data: u64| if data == race.newest { "new" } else { "old" };
    let read =
        |read: &Read| json!({ "got": which(read.data), "asked_ms": ms(read.asked), "answered_ms": ms(read.answered) });
    json!({
        "strategy": race.kind.as_str(),
        "queries": race.queries.len(),
        "invalidated_ms": ms(race.invalidated),
        "second_reader": read(&race.second),
        "late_write": if race.late_write_refused { "refused" } else { "taken" },
        "last_reader": read(&race.last),
        "stays": which(race.last.data),
    })
}

fn fill(fill: &Fill) -> Value {
    json!({
        "strategy": fill.kind.as_str(),
        "variant": fill.variant,
        "keys": fill.keys,
        "filled_in_ms": ms(fill.took),
        "first_due_ms": ms(fill.first),
        "due_per_second": fill.due,
        "busiest_second": fill.busiest(),
        "mean_second": fill.mean,
        "busiest_to_mean": fill.ratio(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::measure::tests::herd as seen;
    use crate::lab::strategy::Kind;

    #[test]
    fn queries_over_time_are_counted_where_they_arrived() {
        let value = herd(&seen(
            Kind::Lock,
            &[1, 250],
            &[(0, 0, 200), (99, 99, 300), (350, 350, 550)],
        ));
        assert_eq!(value["queries_over_time"]["arrived"], json!([2, 0, 0, 1]));
        assert_eq!((&value["slower"], &value["max_ms"]), (&json!(1), &json!(250.0)));
    }
}
