//! What a replica may decide without its store: it says so, it keeps it to itself, and it forgets it.

use drover::decision::{Answer, DEGRADED_LIFE, LeaseId, Outcome, Rebuild, ReportAnswer};

use super::{Checked, Promise, Seen, violation};
use crate::history::{Asked, Call, Ended};

fn broken(what: String) -> Checked {
    Err(violation(Promise::Degraded, what))
}

/// A degraded answer has no token and no version, and only a degraded answer has a lease of such an id.
pub fn numbers_stay_where_they_are(seen: &Seen<'_>) -> Checked {
    for call in seen.calls {
        if let Some((_, _, acquired)) = call.acquired_alone() {
            let hit = acquired.answer.hit().is_none_or(|hit| !hit.version.is_some());
            let lease = granted_alone(call)
                .is_none_or(|rebuild| rebuild.lease.is_degraded() && !rebuild.lease.fencing_token().is_some());
            if !hit || !lease {
                return broken(format!("a number in a degraded answer: {call:?}"));
            }
        }
        if call
            .granted()
            .is_some_and(|(_, _, rebuild)| rebuild.lease.is_degraded())
        {
            return broken(format!(
                "a lease of one replica, and the answer does not say so: {call:?}"
            ));
        }
        let accepted = call.accepted().map(|(report, ..)| report.report.lease);
        if accepted.is_some_and(|lease| lease.is_degraded()) {
            return broken(format!("the store has taken a report of one replica's lease: {call:?}"));
        }
        if accepted_alone(call).is_some_and(|(lease, version)| !lease.is_degraded() || version) {
            return broken(format!("one replica has taken a report that is not its own: {call:?}"));
        }
    }
    Ok(())
}

/// Nothing is decided alone by a replica that has its store, and what was is served for five seconds at the most, at that replica,
/// and not beyond the loss.
pub fn nothing_of_it_outlives_the_loss(seen: &Seen<'_>) -> Checked {
    for call in seen.calls {
        let Some((asked, answered, acquired)) = call.acquired_alone() else {
            continue;
        };
        if !seen.plan.calls_fail() && !is_lost_between(seen, call.replica, call.invoked.at, answered.at) {
            return broken(format!("decided alone beside its store: {call:?}"));
        }
        let Some(bytes) = acquired.bytes.as_deref() else {
            continue;
        };
        let named = std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.parse::<LeaseId>().ok());
        let report = seen.calls.iter().find(|report| {
            let reports = report
                .report()
                .is_some_and(|report| Some(report.report.lease) == named && report.key == asked.key);
            reports && report.replica == call.replica && report.invoked.place < answered.place
        });
        let Some(report) = report else {
            return broken(format!("served alone, and reported nowhere: {call:?}"));
        };
        let Some(stored) = report.ended_at() else { continue };
        let life = DEGRADED_LIFE.as_micros() as u64;
        // Somebody may have found since that it is still right.
        let confirmed = seen.calls.iter().filter(|confirming| {
            let confirms = confirming.report().is_some_and(|report| {
                report.report.outcome == Outcome::NotModified
                    && report.report.lease.is_degraded()
                    && report.key == asked.key
            });
            confirms && confirming.replica == call.replica && confirming.invoked.place < answered.place
        });
        let last = confirmed.filter_map(Call::ended_at).map(|ended| ended.at).max();
        let last = last.unwrap_or(stored.at).max(stored.at);
        if stored.place < call.invoked.place && call.invoked.at > last + life {
            return broken(format!("older than five seconds:\n  {report:?}\n  {call:?}"));
        }
        if !seen.plan.calls_fail() && recovered_between(seen, call.replica, stored.at, call.invoked.at) {
            return broken(format!("of the loss before:\n  {report:?}\n  {call:?}"));
        }
    }
    Ok(())
}

/// One holder a key and replica, while it has lost its store.
pub fn one_rebuild_a_replica(seen: &Seen<'_>) -> Checked {
    if seen.plan.calls_fail() {
        // What is decided alone may be forgotten at any time, where single calls fail.
        return Ok(());
    }
    let granted: Vec<(&Call, &Rebuild)> = seen
        .calls
        .iter()
        .filter_map(|call| granted_alone(call).map(|rebuild| (call, rebuild)))
        .collect();
    for (call, rebuild) in &granted {
        let Some(from) = call.ended_at() else { continue };
        let ends = |other: &&Call| match &other.asked {
            Asked::Report(report) => report.report.lease == rebuild.lease,
            Asked::Renew(renew) => renew.lease == rebuild.lease,
            Asked::Acquire(_) | Asked::Pull(_) | Asked::Invalidate(_) => false,
        };
        let touched = seen.calls.iter().find(ends).map_or(u64::MAX, |other| other.invoked.at);
        let late = call.invoked.at.max(from.at.saturating_sub(seen.slack()));
        let to = touched.min(late + rebuild.ttl.as_micros() as u64);
        let again = granted.iter().find(|(other, again)| {
            let same = other.replica == call.replica && other.key() == call.key() && again.lease != rebuild.lease;
            let at = other.ended_at().map_or(0, |end| end.at);
            same && from.at < other.invoked.at && at < to && !recovered_between(seen, call.replica, from.at, at)
        });
        if let Some((again, _)) = again {
            return broken(format!("two hold it at one replica:\n  {call:?}\n  {again:?}"));
        }
    }
    Ok(())
}

fn granted_alone(call: &Call) -> Option<&Rebuild> {
    match &call.acquired_alone()?.2.answer {
        Answer::Rebuild(rebuild) => Some(rebuild),
        _ => None,
    }
}

/// The lease, and whether a version was told.
fn accepted_alone(call: &Call) -> Option<(LeaseId, bool)> {
    match (&call.asked, &call.ended) {
        (Asked::Report(report), Some((_, Ended::Reported(reported)))) if reported.degraded => match &reported.answer {
            ReportAnswer::Accepted { version, .. } => Some((report.report.lease, version.is_some())),
            ReportAnswer::Rejected(_) => None,
        },
        _ => None,
    }
}

fn is_lost_between(seen: &Seen<'_>, replica: usize, from: u64, to: u64) -> bool {
    let mut downs = seen.records.downs.iter();
    downs.any(|(of, down, up)| *of == replica && *down <= to && from <= *up)
}

fn recovered_between(seen: &Seen<'_>, replica: usize, from: u64, to: u64) -> bool {
    let mut downs = seen.records.downs.iter();
    downs.any(|(of, _, up)| *of == replica && from <= *up && *up < to)
}
