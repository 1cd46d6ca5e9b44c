//! Promises 7 and 8: each wait ends by its time, nobody is parked while nobody is at it, and a value reaches those who wait for it.

use drover::decision::Intent;

use super::index::Seen;
use super::leases::over_by;
use super::model::{End, Kind, Op};
use super::{Found, Promise};

/// In microseconds.
const READERS_LATER: u64 = 250_000;

/// Its own, or the policy's, or that of the call.
pub fn waits_end_by_their_time(seen: &Seen<'_>, found: &mut Found) {
    for op in seen.ops {
        let Some(question) = op.question().filter(|question| !question.pulls()) else {
            continue;
        };
        // Who gave up did so by itself. A connection that was cut silently stays dead until somebody notices.
        let half_open = op.is_unknown() && seen.lapsed(0, op.ended.at, |kind| kind == Kind::CutOff(op.replica));
        if op.end_is("left") || half_open {
            continue;
        }
        let took = awake(seen, op, op.invoked.at, op.ended.at);
        if took > question.wait + seen.history.terms.slack {
            let what = format!("it took {took} µs that were not of a fault: {op:?}");
            found.add(Promise::NoStuckKey, what);
        }
    }
}

/// What passed that counts: time does not in which this replica could not work, nor what it takes to come back.
fn awake(seen: &Seen<'_>, op: &Op, from: u64, to: u64) -> u64 {
    let terms = &seen.history.terms;
    let mut length = to.saturating_sub(from);
    for lapse in &seen.history.lapses {
        let after = match lapse.kind {
            Kind::Away(None) | Kind::Lost => terms.recovery,
            Kind::Away(Some(replica)) | Kind::CutOff(replica) if replica == op.replica => terms.recovery,
            // A lease that is there again may be one that was over, or its time another.
            Kind::Failover | Kind::Stepped => terms.recovery + terms.longest_lease,
            // At any moment the header of a partition may go, and everything with it.
            Kind::Evicting => terms.recovery,
            Kind::Away(Some(_)) | Kind::CutOff(_) => continue,
        };
        let (begin, end) = (lapse.from, lapse.to.saturating_add(after));
        length = length.saturating_sub(end.min(to).saturating_sub(begin.max(from)));
    }
    length
}

/// A parked caller is answered, or somebody holds the lease, or soon will.
pub fn nobody_waits_for_nothing(seen: &Seen<'_>, found: &mut Found) {
    let terms = &seen.history.terms;
    let rooms = super::budget::rooms(seen);
    for (key, of_key) in seen.keys.iter().enumerate() {
        let mut gaps = gaps(seen, key as u32);
        let mut patience = terms.notice;
        if seen.history.budget_of(key as u32) > 0 {
            let Some(room) = rooms.get(&seen.history.keys[key]) else {
                continue;
            };
            gaps = super::budget::both(&gaps, room);
            patience += super::budget::ASKS_AGAIN;
        }
        let acquires = of_key.acquires.iter().map(|index| &seen.ops[*index]);
        for op in acquires.filter(|op| op.question().is_some_and(|question| !question.pulls())) {
            // Who only reads is told a moment later that there is nothing: somebody at another replica may be the one who is promoted.
            let reads = op.question().is_some_and(|asked| asked.intent == Intent::Read);
            let notice = patience + if reads { READERS_LATER } else { 0 };
            let (from, to) = (op.invoked.at + terms.slack, op.ended.at);
            if to <= from + notice {
                continue;
            }
            found.looked("long waits", 1);
            let first = gaps.partition_point(|(_, held)| *held <= from);
            for (free, held) in gaps[first..].iter().take_while(|(free, _)| *free < to) {
                let (from, to) = (from.max(*free), to.min(*held));
                if from < to && awake(seen, op, from, to) > notice {
                    let what = format!("parked from {from} to {to} µs while nobody held key {key}: {op:?}");
                    found.add(Promise::NoMissedWake, what);
                    break;
                }
            }
        }
    }
}

/// When certainly nobody held a key: in µs since the start, in order.
fn gaps(seen: &Seen<'_>, key: u32) -> Vec<(u64, u64)> {
    let (mut gaps, mut free_from) = (Vec::new(), 0);
    for (from, to) in stretches(seen, key) {
        if free_from < from {
            gaps.push((free_from, from));
        }
        free_from = free_from.max(to);
    }
    gaps.push((free_from, u64::MAX));
    gaps
}

/// When somebody may have held a key, each lease by itself, in the order of their beginnings.
pub fn stretches(seen: &Seen<'_>, key: u32) -> Vec<(u64, u64)> {
    let of_key = &seen.keys[key as usize];
    let mut maybe: Vec<(u64, u64)> = of_key
        .grants
        .iter()
        .filter_map(|index| maybe_held(seen, key, *index))
        .collect();
    let unknown = of_key.acquires.iter().map(|index| &seen.ops[*index]);
    let unknown = unknown.filter(|op| op.is_unknown() && op.question().is_some_and(|q| q.intent != Intent::Read));
    let longest = seen.history.terms.longest_lease;
    maybe.extend(unknown.map(|op| (op.invoked.at, op.until.at.saturating_add(longest))));
    maybe.sort_unstable();
    maybe
}

/// From the earliest beginning to the latest end.
fn maybe_held(seen: &Seen<'_>, key: u32, index: usize) -> Option<(u64, u64)> {
    let (_, op, grant) = seen.grant(index)?;
    let of_lease = seen.leases.get(&(key, grant.lease))?;
    let mut to = over_by(seen, key, grant.lease, u64::MAX);
    for report in of_lease.reports.iter().map(|index| &seen.ops[*index]) {
        if matches!(report.end, End::Accepted(_)) || matches!(report.end, End::Refused(why) if why != "no_value") {
            to = to.min(report.ended.at);
        }
    }
    for (_, made) in seen.covering(key, seen.tags_of(key, grant.lease)) {
        let later = made
            .certain
            .partition_point(|by| seen.ops[*by].invoked.place < op.ended.place);
        if let Some(by) = made.certain.get(later) {
            to = to.min(seen.ops[*by].ended.at);
        }
    }
    Some((op.invoked.at, to))
}

/// A value that ends the wait of a parked caller reaches it.
pub fn values_reach_those_who_wait(seen: &Seen<'_>, found: &mut Found) {
    let terms = &seen.history.terms;
    for (key, of_key) in seen.keys.iter().enumerate() {
        let mut values: Vec<&Op> = of_key.reports.iter().map(|index| &seen.ops[*index]).collect();
        values.retain(|op| {
            op.accepted()
                .is_some_and(|(_, accepted)| accepted.fresh_for > Some(terms.notice))
        });
        for op in of_key.acquires.iter().map(|index| &seen.ops[*index]) {
            let Some(question) = op.question().filter(|q| matches!(q.intent, Intent::Use | Intent::Read)) else {
                continue;
            };
            let parked = op.invoked.at + terms.slack;
            if op.end_is("left") || op.ended.at < parked + terms.notice {
                continue;
            }
            let first = values.partition_point(|report| report.invoked.at <= parked);
            for report in &values[first..] {
                let by = report.ended.at + terms.notice;
                if by >= op.ended.at {
                    break;
                }
                found.looked("values that came late", 1);
                let version = report.accepted().map_or(0, |(_, accepted)| accepted.version);
                let late = version > question.newer_than
                    && awake(seen, op, report.ended.at, op.ended.at) > terms.notice
                    && !is_replaced(seen, key as u32, report, by);
                if late {
                    let what = format!("a value was there, and it waited on:\n  {report:?}\n  {op:?}");
                    found.add(Promise::NoMissedWake, what);
                    break;
                }
            }
        }
    }
}

/// Whether somebody else was let in, or it was made old, before everybody was served.
fn is_replaced(seen: &Seen<'_>, key: u32, report: &Op, by: u64) -> bool {
    let within = |op: &Op| op.invoked.at <= by && op.until.place > report.invoked.place;
    let of_key = &seen.keys[key as usize];
    let granted = of_key.grants.iter().any(|index| {
        let op = &seen.ops[*index];
        within(op)
            && op
                .granted()
                .is_some_and(|grant| Some(grant.lease) != report.report().map(|report| report.lease))
    });
    let unknown = || {
        let acquires = of_key.acquires.iter().map(|index| &seen.ops[*index]);
        acquires.filter(|op| op.is_unknown()).any(within)
    };
    let place = seen.ops.partition_point(|op| op.invoked.at <= by);
    let place = seen.ops.get(place).map_or(u64::MAX, |op| op.invoked.place);
    let touched = || {
        seen.touching(key).any(|made| {
            made.lasting
                .before(place)
                .is_some_and(|(until, _)| until > report.invoked.place)
        })
    };
    granted || touched() || unknown()
}
