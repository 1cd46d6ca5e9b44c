//! Promises 3 to 6: which reports count, and what is served.

use drover::decision::{HitContent, Intent, Mode, Outcome, ReportAnswer, Seq};

use super::leases::{same_question, why_not};
use super::{Checked, Promise, Seen, violation};
use crate::client::LONGEST_LIFE;
use crate::history::{Asked, Call, Ended, covers};

/// An accepted report was that of the current grant, or repeats one that was.
pub fn no_report_is_late(seen: &Seen<'_>) -> Checked {
    for (index, call) in seen.calls.iter().enumerate() {
        let Some((report, ..)) = call.accepted() else { continue };
        let lease = report.report.lease;
        let repeats = seen.calls.iter().enumerate().any(|(other, first)| {
            let same = first
                .report()
                .is_some_and(|first| first.report.lease == lease && first.key == report.key);
            let begun = first.invoked.place < call.ended_at().map_or(0, |end| end.place);
            other != index && same && begun && first.may_have_been_done()
        });
        if repeats {
            // Each of them is held against the promise; the first that was done is the one that counts.
            continue;
        }
        if let Some(why) = why_not(seen, call, &report.key, lease) {
            let promise = if why.contains("nobody") {
                Promise::OwnerOnly
            } else {
                Promise::NoLateReport
            };
            return Err(violation(promise, format!("accepted although {why}: {call:?}")));
        }
    }
    Ok(())
}

/// A value that is served was reported under its version, and the bytes are those.
pub fn only_what_was_accepted_is_served(seen: &Seen<'_>) -> Checked {
    for call in seen.calls {
        let Some((asked, answered, hit)) = call.hit() else {
            continue;
        };
        let wrote = |report: &&Call| {
            report.invoked.place < answered.place
                && report.may_have_been_done()
                && report.report().is_some_and(|report| {
                    let builds = matches!(report.report.outcome, Outcome::Built(_) | Outcome::NotModified);
                    report.key == asked.key && report.report.lease.token == hit.version && builds
                })
        };
        let mut reports = seen.calls.iter().filter(wrote).peekable();
        if reports.peek().is_none() {
            let what = format!(
                "{:?} is served, and no report of it was accepted: {call:?}",
                hit.version
            );
            return Err(violation(Promise::NoLateReport, what));
        }
        let bytes = call.acquired().and_then(|(_, _, acquired)| acquired.bytes.as_deref());
        // Where one lease was reported in several ways, any of those may be the one that was done.
        if hit.content == HitContent::Bytes && !reports.any(|report| are_those(bytes, report, hit.version)) {
            let what = format!("the bytes are not those of the version: {call:?}");
            return Err(violation(Promise::Versions, what));
        }
    }
    Ok(())
}

/// The bytes name the lease that they were reported under; where a later one confirmed them, an earlier one.
fn are_those(bytes: Option<&[u8]>, report: &Call, version: Seq) -> bool {
    let named = bytes
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .and_then(|text| text.parse::<drover::decision::LeaseId>().ok());
    let confirmed = report
        .report()
        .is_some_and(|report| report.report.outcome == Outcome::NotModified);
    named.is_some_and(|lease| lease.token == version || (confirmed && lease.token < version))
}

/// What is read for a key, fresh or stale, is never older than what was read, or accepted, before.
pub fn versions_do_not_go_down(seen: &Seen<'_>) -> Checked {
    for key in seen.keys() {
        let mut moments: Vec<(u64, usize, Option<Seq>)> = Vec::new();
        for (index, call) in seen.calls.iter().enumerate() {
            if call.key() != Some(&key) {
                continue;
            }
            let version = match (call.hit(), call.accepted()) {
                (Some((_, _, hit)), _) => Some(hit.version),
                (None, Some((_, _, version))) => Some(version),
                (None, None) => None,
            };
            if let (Some(version), Some(end)) = (version, call.ended_at()) {
                moments.push((call.invoked.place, index, None));
                moments.push((end.place, index, Some(version)));
            }
        }
        moments.sort_unstable();
        let (mut highest, mut before) = (Seq::NONE, std::collections::HashMap::new());
        for (_, index, version) in moments {
            let Some(version) = version else {
                before.insert(index, highest);
                continue;
            };
            let call = &seen.calls[index];
            let floor = before.get(&index).copied().unwrap_or_default();
            if call.hit().is_some() && version < floor {
                let what = format!("{version:?} is read after {floor:?}: {call:?}");
                return Err(violation(Promise::Versions, what));
            }
            highest = highest.max(version);
        }
    }
    Ok(())
}

/// Nobody who asks after the end of freshness gets it as fresh, nor at all after the end of the windows.
pub fn lifetimes_are_kept(seen: &Seen<'_>) -> Checked {
    for call in seen.calls {
        let Some((asked, _, hit)) = call.hit() else { continue };
        let reported = seen.calls.iter().find_map(|other| {
            let (report, answered, version) = other.accepted()?;
            let first = !seen.calls.iter().any(|earlier| {
                earlier.invoked.place < other.invoked.place
                    && earlier.lease() == other.lease()
                    && earlier.report().is_some()
            });
            let expiry = match &other.ended {
                Some((_, Ended::Reported(reported))) => match &reported.answer {
                    ReportAnswer::Accepted { expiry, .. } => expiry.as_ref(),
                    ReportAnswer::Rejected(_) => None,
                },
                _ => None,
            };
            (first && report.key == asked.key && version == hit.version).then_some((answered, expiry?))
        });
        let Some((answered, expiry)) = reported else { continue };
        let stale = expiry.stale_for.max(expiry.stale_if_error_for).max(expiry.fresh_for);
        let fresh_to = answered.at + expiry.fresh_for.as_micros() as u64;
        let stale_to = answered.at + stale.as_micros() as u64;
        // A retry has the place of its first try, which may have been parked before.
        let mut tries = seen
            .calls
            .iter()
            .filter(|other| std::ptr::eq(*other, call) || same_question(other, call));
        let after = tries.all(|other| answered.place < other.invoked.place);
        if after && ((hit.fresh && call.invoked.at >= fresh_to) || call.invoked.at >= stale_to) {
            let what = format!("fresh to {fresh_to} µs, stale to {stale_to} µs: {call:?}");
            return Err(violation(Promise::Lifetimes, what));
        }
    }
    Ok(())
}

/// Who asks after an invalidation was answered gets nothing older as fresh, and after a hard one nothing older at all.
pub fn invalidate_wins(seen: &Seen<'_>) -> Checked {
    let policy = &seen.plan.policy;
    let windows = policy
        .stale_while_revalidate
        .max(policy.stale_if_error)
        .max(LONGEST_LIFE);
    let gone = seen.gone();
    for call in seen.calls {
        let Some((asked, _, hit)) = call.hit() else { continue };
        let tags = hit.tags.as_deref().unwrap_or_default();
        for gone in &gone {
            let covered = covers(gone.target, &asked.key, tags) && gone.number > hit.version;
            if !covered || !gone.call.is_before(call) {
                continue;
            }
            let over = call.invoked.at >= gone.answered.at + windows.as_micros() as u64;
            if hit.fresh || gone.mode == Mode::Drop || over {
                let what = format!("served after an invalidation:\n  {:?}\n  {call:?}", gone.call);
                return Err(violation(Promise::InvalidateWins, what));
            }
        }
    }
    Ok(())
}

/// While a value is certainly fresh and its refresh not due, nobody is granted a rebuild who did not insist.
pub fn nothing_fresh_is_rebuilt(seen: &Seen<'_>) -> Checked {
    for call in seen.calls {
        let Some((asked, answered, _)) = call.granted() else {
            continue;
        };
        if asked.ask.intent != Intent::Use || asked.ask.newer_than.is_some() {
            continue;
        }
        for other in seen.calls {
            let Some((report, reported, version)) = other.accepted() else {
                continue;
            };
            let left_alone_for = match &other.ended {
                Some((_, Ended::Reported(reported))) => match &reported.answer {
                    ReportAnswer::Accepted {
                        expiry: Some(expiry), ..
                    } => expiry.refresh_in.unwrap_or(expiry.fresh_for),
                    _ => continue,
                },
                _ => continue,
            };
            let fresh = report.key == asked.key
                && version.is_some()
                && reported.place < call.invoked.place
                && other.invoked.at + left_alone_for.as_micros() as u64 > answered.at;
            let touched = seen.calls.iter().any(|touch| may_undo(touch, other, call, version));
            if fresh && !touched {
                let what = format!("a rebuild although it is fresh and not due:\n  {other:?}\n  {call:?}");
                return Err(violation(Promise::BoundedRebuilds, what));
            }
        }
    }
    Ok(())
}

/// Whether something may have made a value old, or replaced it, between its report and a grant.
fn may_undo(touch: &Call, report: &Call, grant: &Call, version: Seq) -> bool {
    let end = grant.ended_at().map_or(u64::MAX, |end| end.place);
    if touch.invoked.place > end || touch.is_over_before(report) {
        return false;
    }
    match &touch.asked {
        Asked::Invalidate(_) => true,
        Asked::Report(other) => Some(&other.key) == report.key() && other.report.lease.token > version,
        Asked::Acquire(_) | Asked::Renew(_) => false,
    }
}
