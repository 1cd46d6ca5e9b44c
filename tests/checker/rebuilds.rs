//! Promise 6: no rebuild without a reason.

use drover::decision::Intent;

use super::index::{Seen, Stairs};
use super::model::{End, Kind, Op, Outcome};
use super::values::stored;
use super::{Found, Promise};

fn forgets(kind: Kind) -> bool {
    matches!(kind, Kind::Lost | Kind::Failover | Kind::Evicting | Kind::Stepped)
}

/// While a value is certainly fresh and its refresh not due, nobody is granted a rebuild who did not insist.
pub fn nothing_fresh_is_rebuilt(seen: &Seen<'_>, found: &mut Found) {
    for (key, of_key) in seen.keys.iter().enumerate() {
        let key = key as u32;
        let reports = of_key.reports.iter().map(|index| (*index, &seen.ops[*index]));
        let accepted = reports.filter_map(|(index, report)| {
            let (_, accepted) = report.accepted()?;
            Some((report.ended.place, accepted.version, index))
        });
        let accepted = Stairs::of(accepted.collect());
        for index in &of_key.grants {
            let Some((_, op, _)) = seen.grant(*index) else { continue };
            // Who repeats a question may be told of a lease that its first try got earlier.
            let plain = op
                .question()
                .is_some_and(|asked| asked.intent == Intent::Use && asked.newer_than == 0 && asked.request == 0);
            let Some((version, _)) = accepted.before(op.invoked.place).filter(|_| plain) else {
                continue;
            };
            let Some((report, left_alone_for)) =
                stored(seen, key, version).and_then(|(report, accepted)| Some((report, accepted.left_alone_for?)))
            else {
                continue;
            };
            let left_alone = report.invoked.at + left_alone_for > op.ended.at;
            found.looked("rebuilds of what was fresh", usize::from(left_alone));
            if left_alone && !may_be_undone(seen, key, version, report, op) {
                let what = format!("a rebuild although it is fresh and not due:\n  {report:?}\n  {op:?}");
                found.add(Promise::BoundedRebuilds, what);
            }
        }
    }
}

/// Whether something may have made a value old, or replaced it, between its report and a grant.
fn may_be_undone(seen: &Seen<'_>, key: u32, version: u64, report: &Op, grant: &Op) -> bool {
    let touched = seen.touching(key).any(|made| {
        let lasting = made.lasting.before(grant.ended.place);
        lasting.is_some_and(|(until, _)| until > report.invoked.place)
    });
    let replaced = || {
        let reports = seen.keys[key as usize].reports.iter().map(|index| &seen.ops[*index]);
        reports
            .take_while(|other| other.invoked.place < grant.ended.place)
            .filter(|other| other.until.place > report.invoked.place && other.may_have_been_done())
            .any(|other| other.report().is_some_and(|other| other.lease.token.0 > version))
    };
    touched || seen.lapsed(report.invoked.at, grant.ended.at, forgets) || replaced()
}

/// Grants ≤ 1 + endings that left nothing fresh + invalidations + lifetimes + early, forced and lost ones.
pub fn each_grant_has_a_reason(seen: &Seen<'_>, found: &mut Found) {
    let end = seen.ops.iter().map(|op| op.ended.at).max().unwrap_or_default();
    if seen.history.lapses(forgets).next().is_some() {
        return;
    }
    for (key, of_key) in seen.keys.iter().enumerate() {
        let key = key as u32;
        let mut reasons = 1;
        for index in &of_key.grants {
            let Some((_, op, grant)) = seen.grant(*index) else {
                continue;
            };
            let insists = op
                .question()
                .is_some_and(|asked| asked.intent != Intent::Use || asked.newer_than != 0);
            let lasts = lasting_value(seen, key, grant.lease.token.0, end);
            reasons += usize::from(insists) + usize::from(!lasts);
        }
        let unknown = of_key.acquires.iter().filter(|index| seen.ops[**index].is_unknown());
        reasons += unknown.count();
        let invalidations = seen.ops.iter().filter(|op| touches(seen, op, key));
        if of_key.grants.len() <= reasons {
            continue;
        }
        reasons += invalidations.count();
        if of_key.grants.len() > reasons {
            let what = format!(
                "key {key} was granted {} times for {reasons} reasons",
                of_key.grants.len()
            );
            found.add(Promise::BoundedRebuilds, what);
        }
    }
}

fn touches(seen: &Seen<'_>, op: &Op, key: u32) -> bool {
    use super::model::{Asked, Target};
    let Asked::Invalidate { targets, .. } = &op.asked else {
        return false;
    };
    let is_touched = |target: &Target| match target {
        Target::Key(named) => *named == key,
        Target::Tag(tag) => seen.carried[key as usize].contains(tag),
        Target::Everything(namespace) => *namespace == seen.history.keys[key as usize],
    };
    op.may_have_been_done() && targets.iter().any(is_touched)
}

/// Whether what was built under this token is certainly fresh and not due to the end of the history, but for invalidations.
fn lasting_value(seen: &Seen<'_>, key: u32, token: u64, end: u64) -> bool {
    let Some((report, accepted)) = stored(seen, key, token) else {
        return false;
    };
    let built = report
        .report()
        .is_some_and(|report| matches!(report.outcome, Outcome::Built | Outcome::NotModified));
    built
        && matches!(report.end, End::Accepted(_))
        && accepted
            .left_alone_for
            .is_some_and(|left_alone_for| report.invoked.at + left_alone_for > end)
}
