//! Promises 3, 4 and 5: which reports count, and what is served.

use std::collections::HashMap;

use drover::decision::HAND_OVER;

use super::index::Seen;
use super::leases::why_not;
use super::model::{Accepted, Hit, Kind, Op, Outcome};
use super::{Found, Promise};

/// An accepted report was that of the current grant, or repeats one that was.
pub fn no_report_is_late(seen: &Seen<'_>, found: &mut Found) {
    for ((key, lease), of_lease) in &seen.leases {
        let reports = || of_lease.reports.iter().map(|index| &seen.ops[*index]);
        let Some(accepted) = reports().find(|report| report.accepted().is_some()) else {
            continue;
        };
        // Whichever was the first that was done: it cannot have been in time if the earliest of them was not.
        let Some(first) = reports()
            .filter(|report| report.may_have_been_done())
            .min_by_key(|report| report.invoked.place)
        else {
            continue;
        };
        // The tags count of the one that was done; where it is not known which, none.
        let alone = reports().filter(|report| report.may_have_been_done()).count() == 1;
        let tags = first.report().filter(|_| alone).map(|report| &*report.tags);
        found.looked("accepted reports", 1);
        if let Some(why) = why_not(seen, first, *key, *lease, tags.unwrap_or_default()) {
            let promise = if why.contains("nobody") {
                Promise::OwnerOnly
            } else {
                Promise::NoLateReport
            };
            found.add(promise, format!("accepted although {why}: {accepted:?}"));
        }
        let wrong = reports().find(|report| {
            report
                .accepted()
                .is_some_and(|(_, accepted)| accepted.version != 0 && accepted.version != lease.token.0)
        });
        if let Some(wrong) = wrong {
            found.add(Promise::Versions, format!("the version is not the token: {wrong:?}"));
        }
    }
}

/// A value that is served was reported under its version, and the bytes are those.
pub fn only_what_was_accepted_is_served(seen: &Seen<'_>, found: &mut Found) {
    let mut writers: HashMap<(u32, u64), Vec<&Op>> = HashMap::new();
    for op in seen.ops {
        if let Some(report) = op.report().filter(|_| op.may_have_been_done())
            && matches!(
                report.outcome,
                Outcome::Built | Outcome::NotModified | Outcome::NotStored
            )
        {
            writers.entry((report.key, report.lease.token.0)).or_default().push(op);
        }
    }
    for (key, op, hit) in hits(seen) {
        let wrote = writers.get(&(key, hit.version)).map(Vec::as_slice).unwrap_or_default();
        let mut reports = wrote
            .iter()
            .filter(|report| report.invoked.place < op.ended.place)
            .peekable();
        if reports.peek().is_none() {
            let what = format!("{} is served, and no report of it was accepted: {op:?}", hit.version);
            found.add(Promise::NoLateReport, what);
            continue;
        }
        // Where one lease was reported in several ways, any of those may be the one that was done.
        if let Some(named) = hit.named
            && !reports.any(|report| names(named, report, hit.version))
        {
            let what = format!("the bytes are not those of the version: {op:?}");
            found.add(Promise::Versions, what);
        }
    }
}

/// The bytes name the lease that they were reported under; where a later one confirmed them, an earlier one.
fn names(named: u64, report: &Op, version: u64) -> bool {
    let confirmed = report
        .report()
        .is_some_and(|report| report.outcome == Outcome::NotModified);
    named == version || (confirmed && named < version)
}

fn hits<'a>(seen: &Seen<'a>) -> impl Iterator<Item = (u32, &'a Op, &'a Hit)> {
    seen.ops
        .iter()
        .filter_map(|op| Some((op.question()?.key, op, op.hit()?)))
}

/// What is read for a key, fresh or stale, is never older than what was read, or accepted, before.
pub fn versions_do_not_go_down(seen: &Seen<'_>, found: &mut Found) {
    for of_key in &seen.keys {
        let mut moments: Vec<(u64, usize, Option<u64>)> = Vec::new();
        for index in of_key.acquires.iter().chain(&of_key.reports) {
            let op = &seen.ops[*index];
            let version = match (op.hit(), op.accepted()) {
                (Some(hit), _) => hit.version,
                (None, Some((_, accepted))) => accepted.version,
                (None, None) => continue,
            };
            // What a primary wrote, or told, that was about to lose its place may be gone again.
            if !seen.lapsed(op.invoked.at, op.ended.at, |kind| kind == Kind::Failover) {
                moments.push((op.invoked.place, *index, None));
                moments.push((op.ended.place, *index, Some(version)));
            }
        }
        moments.sort_unstable();
        let (mut highest, mut before) = (0, HashMap::new());
        for (_, index, version) in moments {
            let Some(version) = version else {
                before.insert(index, highest);
                continue;
            };
            let op = &seen.ops[index];
            let floor = before.remove(&index).unwrap_or_default();
            if op.hit().is_some() && version < floor {
                let what = format!("{version} is read after {floor}: {op:?}");
                found.add(Promise::Versions, what);
            }
            highest = highest.max(version);
        }
    }
}

/// The report that a version came from, if it is certain which, with what it was told.
pub fn stored<'a>(seen: &Seen<'a>, key: u32, version: u64) -> Option<(&'a Op, &'a Accepted)> {
    let first = &seen.ops[*seen.tokens.get(&(key, version))?];
    let of_lease = seen.leases.get(&(key, first.granted()?.lease))?;
    let report = &seen.ops[*of_lease.reports.first()?];
    let (_, accepted) = report.accepted()?;
    Some((report, accepted))
}

/// Nobody who asks after the end of freshness gets it as fresh, nor at all after the end of the windows.
pub fn lifetimes_are_kept(seen: &Seen<'_>, found: &mut Found) {
    let mut first_try: HashMap<(u32, u32, u64), u64> = HashMap::new();
    for op in seen.ops {
        if let Some(question) = op.question().filter(|question| question.request != 0) {
            let first = first_try.entry((op.client, question.key, question.request));
            first.or_insert(op.invoked.place);
        }
    }
    for (key, op, hit) in hits(seen) {
        let Some((report, accepted)) = stored(seen, key, hit.version) else {
            continue;
        };
        let Some(fresh_for) = accepted.fresh_for else { continue };
        let fresh_to = report.ended.at + fresh_for;
        let stale_to = report.ended.at + accepted.stale_for.max(fresh_for);
        // A retry has the place of its first try, which may have been parked before.
        let begun = op
            .question()
            .and_then(|question| first_try.get(&(op.client, key, question.request)))
            .map_or(op.invoked.place, |first| *first);
        let stepped = seen.lapsed(report.invoked.at, op.ended.at, |kind| kind == Kind::Stepped);
        // Handed to those who were parked before the report reached their replica, for a moment and without a life of its own.
        let handed = hit.fresh_for == 0 && op.invoked.at < report.ended.at + HAND_OVER.as_micros() as u64;
        let late = (hit.fresh && op.invoked.at >= fresh_to) || op.invoked.at >= stale_to;
        if late && !handed && !stepped && report.ended.place < begun {
            let what = format!("fresh to {fresh_to} µs, stale to {stale_to} µs: {op:?}");
            found.add(Promise::Lifetimes, what);
        }
    }
}

/// Who asks after an invalidation was answered gets nothing older as fresh, and after a hard one nothing older at all.
pub fn invalidate_wins(seen: &Seen<'_>, found: &mut Found) {
    for (key, op, hit) in hits(seen) {
        found.looked("hits", 1);
        // For a moment there are two primaries, and nobody can tell who talks to which. Afterwards what was made old must be old.
        if seen.lapsed(op.invoked.at, op.ended.at, |kind| kind == Kind::Failover) {
            continue;
        }
        let mut undone = seen.undone(key, hit.version, &hit.tags, op.invoked.place, !hit.fresh);
        if undone.is_none() && !hit.fresh {
            undone = out_of_window(seen, key, op, hit);
        }
        if let Some(by) = undone {
            found.add(
                Promise::InvalidateWins,
                format!("served after an invalidation:\n  {by:?}\n  {op:?}"),
            );
        }
    }
}

/// A soft invalidation so long ago that not even the longest stale window is left.
fn out_of_window<'a>(seen: &Seen<'a>, key: u32, op: &Op, hit: &Hit) -> Option<&'a Op> {
    let window = seen.history.terms.windows[seen.history.keys[key as usize] as usize];
    let before = op.invoked.at.checked_sub(window)?;
    if seen.lapsed(before, op.ended.at, |kind| kind == Kind::Stepped) {
        return None;
    }
    // The place of the first call that was invoked after that moment.
    let place = seen.ops.partition_point(|op| op.invoked.at < before);
    let place = seen.ops.get(place)?.invoked.place;
    seen.undone(key, hit.version, &hit.tags, place, false)
}
