//! What an answer tells operators: a count, and the attributes of the call's span.
//!
//! *Why here* and not in the coordinator: each answer to a caller passes once, with everything that matters in it, and whoever drives
//! the coordinator without a server (tests, simulations) counts nothing.

use tracing::Span;

use crate::coordinator::{Acquired, Invalidated, Renewed, ReportValue, Reported};
use crate::decision::{Answer, Key, Mode, Outcome, ReportAnswer};
use crate::metrics::Metrics;

/// An acquire was answered.
pub(super) fn acquired(metrics: &Metrics, namespace: &str, acquired: &Acquired) {
    metrics.acquired(namespace, &acquired.answer);
    if acquired.degraded {
        metrics.degraded(namespace, &acquired.answer);
    }
    let cause = match &acquired.answer {
        Answer::Rebuild(rebuild) => Some(rebuild.cause),
        _ => None,
    };
    if let Some(cause) = cause {
        metrics.granted(namespace, cause);
    }
    if !acquired.waited.is_zero() {
        metrics.waited(acquired.waited, &acquired.answer);
    }
    with_span(namespace, |span| {
        span.record("drover.decision", acquired.answer.as_str());
        span.record("drover.waited_ms", acquired.waited.as_millis() as u64);
        if let Some(cause) = cause {
            span.record("drover.cause", cause.as_str());
        }
    });
}

/// What of a report matters after it has been handed on.
pub(super) struct About {
    key: Key,
    outcome: &'static str,
    cost: Option<std::time::Duration>,
}

impl About {
    pub(super) fn of(request: &ReportValue) -> About {
        let took_effort = !matches!(request.report.outcome, Outcome::Abandoned);
        About {
            key: request.key.clone(),
            outcome: request.report.outcome.as_str(),
            cost: request.report.cost.filter(|_| took_effort),
        }
    }

    pub(super) fn reported(&self, metrics: &Metrics, reported: &Reported) {
        let namespace = self.key.namespace();
        metrics.reported(namespace, self.outcome, &reported.answer, self.cost);
        with_span(namespace, |span| {
            span.record("drover.outcome", self.outcome);
            span.record("drover.result", result(&reported.answer));
        });
    }
}

/// A renewal was answered.
pub(super) fn renewed(metrics: &Metrics, namespace: &str, renewed: &Renewed) {
    metrics.renewed(namespace, renewed.lost);
    with_span(namespace, |span| {
        span.record("drover.result", renewed.lost.map_or("kept", |reason| reason.as_str()));
    });
}

/// An invalidation was answered.
pub(super) fn invalidated(metrics: &Metrics, namespace: &str, mode: Mode, invalidated: &Invalidated) {
    for (target, _) in &invalidated.targets {
        metrics.invalidated(namespace, target, mode);
    }
    with_span(namespace, |span| {
        span.record("drover.mode", mode.as_str());
    });
}

fn result(answer: &ReportAnswer) -> &'static str {
    match answer {
        ReportAnswer::Accepted { .. } => "accepted",
        ReportAnswer::Rejected(rejection) => rejection.as_str(),
    }
}

fn with_span(namespace: &str, record: impl FnOnce(&Span)) {
    let span = Span::current();
    if !span.is_none() {
        span.record("drover.namespace", namespace);
        record(&span);
    }
}
