use std::time::Duration;

use opentelemetry::Value;

use super::cells::{CAUSES, DECISIONS, LOST, OUTCOMES, families};
use super::*;
use crate::decision::Outcome;
use crate::decision::{Busy, BusyCause, Content, Dropped, Expiry, KeepOff, LeaseId, Rebuild, Rejection, Seq};

fn answers() -> Vec<Answer> {
    let hit = |fresh| {
        Answer::Hit(crate::decision::Hit {
            version: Seq(1),
            fresh,
            content: crate::decision::HitContent::NotFound,
            age: Duration::ZERO,
            expiry: Expiry::default(),
            rebuilding: false,
            tags: None,
            traceparent: None,
        })
    };
    vec![
        rebuild(),
        hit(true),
        hit(false),
        Answer::Busy(Busy {
            retry_after: Duration::ZERO,
            lease_remaining: Duration::ZERO,
            cause: BusyCause::WaitElapsed,
        }),
        Answer::KeepOff(KeepOff {
            retry_after: Duration::ZERO,
            failures: 1,
            message: "".into(),
            circuit_open: false,
        }),
        Answer::Miss,
    ]
}

fn rebuild() -> Answer {
    Answer::Rebuild(Box::new(Rebuild {
        lease: LeaseId {
            token: Seq(1),
            secret: std::num::NonZeroU64::MIN,
        },
        ttl: Duration::ZERO,
        max_hold: Duration::ZERO,
        cause: Cause::Miss,
        fallback: None,
        fallback_on_failure_only: false,
        planned: Expiry::default(),
        max_value_bytes: 1,
    }))
}

fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Built(Content::Bytes(1)),
        Outcome::Built(Content::External("".into())),
        Outcome::Built(Content::NotFound),
        Outcome::NotModified,
        Outcome::Failed {
            message: "".into(),
            retry_after: None,
        },
        Outcome::Abandoned,
    ]
}

/// The label of a cell, by the place that counting uses.
fn label_at(cell: Cell, name: &str) -> String {
    let found = families()
        .into_iter()
        .flat_map(|family| family.cells)
        .find(|labelled| labelled.place == cell.0);
    let labels = found.expect("each place has labels").labels;
    let value = labels
        .into_iter()
        .find(|label| label.key.as_str() == name)
        .map(|label| label.value);
    match value {
        Some(Value::String(text)) => text.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn what_is_counted_has_the_label_that_the_decision_gives_it() {
    for answer in answers() {
        assert_eq!(label_at(Cell::acquired(&answer), "drover.decision"), answer.as_str());
        assert_eq!(label_at(Cell::degraded(&answer), "drover.decision"), answer.as_str());
    }
    for cause in CAUSES {
        assert_eq!(label_at(Cell::granted(cause), "drover.cause"), cause.as_str());
    }
    for reason in LOST {
        assert_eq!(label_at(Cell::renewed(Some(reason)), "drover.result"), reason.as_str());
    }
    assert_eq!(label_at(Cell::renewed(None), "drover.result"), "kept");
    let rejected = ReportAnswer::Rejected(Rejection::NoValue);
    for outcome in outcomes() {
        let cell = Cell::reported(outcome.as_str(), &rejected);
        assert_eq!(label_at(cell, "drover.outcome"), outcome.as_str());
        assert_eq!(label_at(cell, "drover.result"), "no_value");
    }
    let cell = Cell::invalidated(&Target::Everything, Mode::Expire);
    assert_eq!(label_at(cell, "drover.target"), "namespace");
    assert_eq!(label_at(cell, "drover.mode"), Mode::Expire.as_str());
    for why in Dropped::ALL {
        let cell = Cell::refreshed(RefreshNews::Dropped(why));
        assert_eq!(label_at(cell, "drover.result"), why.as_str());
    }
    assert_eq!(
        label_at(Cell::refreshed(RefreshNews::Offered), "drover.result"),
        "offered"
    );
}

#[test]
fn each_cell_belongs_to_one_label_set() {
    let mut places: Vec<usize> = families()
        .into_iter()
        .flat_map(|family| family.cells)
        .map(|cell| cell.place)
        .collect();
    places.sort_unstable();
    assert_eq!(places, (0..CELLS).collect::<Vec<_>>());
    assert_eq!((DECISIONS.len(), OUTCOMES.len()), (answers().len(), outcomes().len()));
}

fn page(exposition: &Exposition) -> String {
    String::from_utf8(exposition.page().expect("a page")).expect("text")
}

#[test]
fn a_fresh_page_names_every_family_that_can_be_counted() {
    let exposition = Exposition::new(None).expect("no collector is needed");
    exposition.metrics().observe(|| Levels {
        events: vec![("started", 0)],
        resets: vec![("log_lost", 0)],
        ..Levels::default()
    });
    let page = page(&exposition);
    for name in [
        "drover_acquires_total",
        "drover_grants_total",
        "drover_reports_total",
        "drover_renewals_total",
        "drover_invalidations_total",
        "drover_acquires_held_back_total",
        "drover_waiters",
        "drover_budget_waiting",
        "drover_circuits_open",
        "drover_watchers",
        "drover_workers",
        "drover_refreshes_total",
        "drover_refreshes_in_flight",
        "drover_refreshes_scheduled",
        "drover_watch_events_total",
        "drover_watch_resets_total",
        "drover_store_entries",
        "drover_store_size_bytes",
        "drover_store_evictions_total",
        "drover_errors_total",
        "drover_build_info",
        "target_info",
    ] {
        assert!(page.contains(&format!("# TYPE {name} ")), "{name} in\n{page}");
        assert!(page.contains(&format!("# HELP {name} ")), "{name} in\n{page}");
    }
}

#[test]
fn a_shared_store_tells_its_conditions_and_how_long_it_takes() {
    let exposition = Exposition::new(None).expect("no collector is needed");
    assert!(!page(&exposition).contains("drover_store_up"), "there is none");
    let metrics = exposition.metrics();
    metrics.observe_shared(|| Shared {
        down: 3,
        conditions: vec![("full", 2), ("broken", 0)],
    });
    metrics.call_times().answered("commit", Duration::from_micros(120));
    let page = page(&exposition);
    for line in [
        "drover_store_up 0",
        "drover_store_partitions_down 3",
        "drover_store_conditions_total{drover_condition=\"full\"} 2",
        "drover_store_conditions_total{drover_condition=\"broken\"} 0",
        "drover_store_duration_seconds_bucket{drover_call=\"commit\",le=\"0.0001\"} 0",
        "drover_store_duration_seconds_bucket{drover_call=\"commit\",le=\"0.00025\"} 1",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
}

#[test]
fn counts_of_all_threads_are_added_up_under_their_namespace() {
    let exposition = Exposition::new(None).expect("no collector is needed");
    let metrics = exposition.metrics();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..1_000).for_each(|_| metrics.acquired("shop", &Answer::Miss)));
        }
    });
    let line = r#"drover_acquires_total{drover_decision="miss",drover_namespace="shop"} 8000"#;
    let page = page(&exposition);
    assert!(page.contains(line), "{page}");
}

#[test]
fn namespaces_beyond_the_bound_are_counted_together() {
    let exposition = Exposition::new(None).expect("no collector is needed");
    let metrics = exposition.metrics();
    metrics.know(["configured"]);
    for index in 0..NAMED + 40 {
        metrics.acquired(&format!("n{index}"), &Answer::Miss);
    }
    metrics.acquired("configured", &Answer::Miss);
    let page = page(&exposition);
    let missed = |namespace: &str| {
        let start = format!(r#"drover_acquires_total{{drover_decision="miss",drover_namespace="{namespace}"}} "#);
        page.lines()
            .find_map(|line| line.strip_prefix(&start).map(str::to_owned))
    };
    assert_eq!(missed("configured").as_deref(), Some("1"));
    assert_eq!(missed("n0").as_deref(), Some("1"));
    assert_eq!(missed("n99"), None);
    assert_eq!(missed("other").as_deref(), Some("41"));
}

#[test]
fn a_namespace_called_other_is_counted_with_the_rest() {
    let exposition = Exposition::new(None).expect("no collector is needed");
    exposition.metrics().acquired("other", &Answer::Miss);
    let lines = page(&exposition);
    let lines = lines
        .lines()
        .filter(|line| line.starts_with(r#"drover_acquires_total{drover_decision="miss",drover_namespace="other"}"#));
    assert_eq!(lines.map(|line| line.ends_with(" 1")).collect::<Vec<_>>(), [true]);
}

#[test]
fn durations_fall_between_5_ms_and_2_minutes() {
    let exposition = Exposition::new(None).expect("no collector is needed");
    let metrics = exposition.metrics();
    metrics.waited(Duration::from_millis(3), &Answer::Miss);
    metrics.reported(
        "shop",
        "not_modified",
        &ReportAnswer::Rejected(Rejection::NoValue),
        Some(Duration::from_secs(61)),
    );
    metrics.failed("DRAINING");
    metrics.failed("NEWER_THAN_THIS");
    let page = page(&exposition);
    for line in [
        r#"drover_wait_duration_seconds_bucket{drover_decision="miss",le="0.005"} 1"#,
        r#"drover_rebuild_duration_seconds_bucket{le="60"} 0"#,
        r#"drover_rebuild_duration_seconds_bucket{le="120"} 1"#,
        r#"drover_errors_total{drover_reason="DRAINING"} 1"#,
        r#"drover_errors_total{drover_reason="OTHER"} 1"#,
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
}
