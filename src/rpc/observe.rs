//! What an answer tells about its call: the attributes of the span, where there is one.

use tracing::Span;

use crate::coordinator::{Acquired, Renewed, ReportValue, Reported};
use crate::decision::{Answer, Key, Mode, ReportAnswer};

/// An acquire was answered.
pub(super) fn acquired(key: &Key, acquired: &Acquired) {
    with_span(key.namespace(), |span| {
        span.record("drover.decision", acquired.answer.as_str());
        span.record("drover.waited_ms", acquired.waited.as_millis() as u64);
        if let Answer::Rebuild(rebuild) = &acquired.answer {
            span.record("drover.cause", rebuild.cause.as_str());
        }
    });
}

/// What of a report is known before it is handed on.
pub(super) struct About {
    key: Key,
    outcome: &'static str,
}

impl About {
    pub(super) fn of(request: &ReportValue) -> About {
        About {
            key: request.key.clone(),
            outcome: request.report.outcome.as_str(),
        }
    }

    pub(super) fn reported(&self, reported: &Reported) {
        with_span(self.key.namespace(), |span| {
            span.record("drover.outcome", self.outcome);
            span.record("drover.result", result(&reported.answer));
        });
    }
}

/// A renewal was answered.
pub(super) fn renewed(key: &Key, renewed: &Renewed) {
    with_span(key.namespace(), |span| {
        span.record("drover.result", renewed.lost.map_or("kept", |reason| reason.as_str()));
    });
}

/// An invalidation was answered.
pub(super) fn invalidated(namespace: &str, mode: Mode) {
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
