//! Promises 1, 2 and 9: one holder at a time, growing numbers, and only the owner's word counts.

use std::collections::HashMap;

use drover::decision::LeaseId;

use super::index::Seen;
use super::model::{Asked, End, Kind, Op, Outcome, Target};
use super::{Found, Promise};

/// A number that a call brought, in the sequence that it is of.
struct Number {
    of: Target,
    number: u64,
    lease: Option<LeaseId>,
}

/// Numbers are given out once, in real time order: grants' and invalidations' alike.
pub fn tokens_grow(seen: &Seen<'_>, found: &mut Found) {
    let mut ends: Vec<(u64, bool, usize)> = Vec::with_capacity(seen.ops.len() * 2);
    let mut asked_before: HashMap<(u32, u32, u64), usize> = HashMap::new();
    let mut is_retry = vec![false; seen.ops.len()];
    for (index, op) in seen.ops.iter().enumerate() {
        ends.push((op.invoked.place, false, index));
        ends.push((op.ended.place, true, index));
        if let Some(question) = op.question().filter(|question| question.request != 0) {
            let first = asked_before.entry((op.client, question.key, question.request));
            is_retry[index] = *first.or_insert(index) != index;
        }
    }
    ends.sort_unstable();
    let mut greatest: HashMap<Target, u64> = HashMap::new();
    let mut before: HashMap<usize, Vec<u64>> = HashMap::new();
    let mut owners: HashMap<(Target, u64), (Option<LeaseId>, usize)> = HashMap::new();
    for (_, ended, index) in ends {
        let op = &seen.ops[index];
        let brought = numbers(seen, op);
        if !ended {
            if !brought.is_empty() {
                let known = |brought: &Number| greatest.get(&brought.of).copied().unwrap_or_default();
                before.insert(index, brought.iter().map(known).collect());
            }
            continue;
        }
        let known = before.remove(&index).unwrap_or_default();
        found.looked("numbers", brought.len());
        for (brought, known) in brought.into_iter().zip(known) {
            if let Some((lease, by)) = owners.get(&(brought.of, brought.number)) {
                let again = brought.lease.is_some() && *lease == brought.lease && same_question(&seen.ops[*by], op);
                if !again {
                    let (number, first) = (brought.number, &seen.ops[*by]);
                    found.add(
                        Promise::Tokens,
                        format!("{number} was given out twice:\n  {first:?}\n  {op:?}"),
                    );
                }
                continue;
            }
            // A retry may be told of a lease whose first answer was lost: that one may be older than what came between.
            if brought.number <= known && !is_retry[index] {
                found.add(
                    Promise::Tokens,
                    format!("{} came after {known}: {op:?}", brought.number),
                );
            }
            owners.insert((brought.of, brought.number), (brought.lease, index));
            let greatest = greatest.entry(brought.of).or_default();
            *greatest = brought.number.max(*greatest);
        }
    }
}

fn numbers(seen: &Seen<'_>, op: &Op) -> Vec<Number> {
    let sequence = |target| {
        if seen.history.terms.one_sequence {
            Target::Everything(u16::MAX)
        } else {
            target
        }
    };
    if let (Some(grant), Some(key)) = (op.granted(), op.key()) {
        return vec![Number {
            of: sequence(Target::Key(key)),
            number: grant.lease.token.0,
            lease: Some(grant.lease),
        }];
    }
    let Some((targets, _, done)) = op.invalidated() else {
        return Vec::new();
    };
    let numbers = targets.iter().zip(&done.numbers).map(|(target, number)| Number {
        of: sequence(*target),
        number: *number,
        lease: None,
    });
    numbers.collect()
}

/// Two tries at one question.
pub fn same_question(one: &Op, other: &Op) -> bool {
    match (one.question(), other.question()) {
        (Some(mine), Some(theirs)) => {
            mine.request != 0 && mine.request == theirs.request && mine.key == theirs.key && one.client == other.client
        }
        _ => false,
    }
}

/// A lease as its holder knows it: it certainly has it in this stretch.
pub struct Hold {
    token: u64,
    pub by: usize,
    pub from: u64,
    pub to: u64,
}

/// From the answer to the report, or to the deadline, or to whatever may have taken it.
pub fn holds_do_not_overlap(seen: &Seen<'_>, found: &mut Found) {
    for (key, of_key) in seen.keys.iter().enumerate() {
        let mut holds: Vec<Hold> = of_key
            .grants
            .iter()
            .filter_map(|index| hold(seen, key as u32, *index, Beyond::Unreplaced))
            .collect();
        holds.sort_by_key(|hold| hold.token);
        found.looked("holds", holds.len());
        let mut longest: Option<Hold> = None;
        for other in holds {
            if let Some(one) = &longest
                && one.from.max(other.from) < one.to.min(other.to)
            {
                let what = format!(
                    "two hold key {key} at {} µs, until {} and {}:\n  {:?}\n  {:?}",
                    one.from.max(other.from),
                    one.to,
                    other.to,
                    seen.ops[one.by],
                    seen.ops[other.by],
                );
                found.add(Promise::Exclusive, what);
            }
            if longest.as_ref().is_none_or(|one| one.to < other.to) {
                longest = Some(other);
            }
        }
    }
}

/// What a lease may have beyond its time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// A late report that was accepted: until it nobody else had the key.
    Unreplaced,
    Nothing,
}

pub fn hold(seen: &Seen<'_>, key: u32, index: usize, beyond: Beyond) -> Option<Hold> {
    let (_, op, grant) = seen.grant(index)?;
    let of_lease = seen.leases.get(&(key, grant.lease))?;
    let from = op.ended.at;
    let mut to = renewed(seen, &of_lease.renewals, grant.sure_until);
    let kept = |report: &Op| {
        let told = report.accepted();
        told.is_some_and(|(report, _)| report.outcome != Outcome::Abandoned)
    };
    if beyond == Beyond::Unreplaced && of_lease.reports.iter().any(|index| kept(&seen.ops[*index])) {
        to = u64::MAX;
    }
    for report in of_lease.reports.iter().map(|index| &seen.ops[*index]) {
        // Whoever has nothing to confirm goes on.
        let goes_on = matches!(report.end, End::Failed(_) | End::Refused("no_value"));
        if !goes_on && !report.is_over_before(op) {
            to = to.min(report.invoked.at);
        }
    }
    for made in seen.touching(key) {
        if made
            .lasting
            .before(op.invoked.place)
            .is_some_and(|(until, _)| until >= op.invoked.place)
        {
            return None;
        }
        if let Some(place) = made.lasting.first_from(op.invoked.place) {
            to = to.min(seen.at(place));
        }
    }
    let lost = |kind| matches!(kind, Kind::Lost | Kind::Failover | Kind::Evicting | Kind::Stepped);
    for (begin, end) in seen.history.lapses(lost) {
        if op.invoked.at <= end && begin <= to {
            to = to.min(begin);
        }
    }
    (from < to).then_some(Hold {
        token: grant.lease.token.0,
        by: index,
        from,
        to,
    })
}

/// The certain end of a lease after its renewals. One whose fate is unknown may have made it as short as can be.
fn renewed(seen: &Seen<'_>, renewals: &[usize], sure_until: u64) -> u64 {
    let shortest = seen.history.terms.shortest_lease;
    let mut to = sure_until;
    let mut open: Vec<&Op> = Vec::new();
    for renewal in renewals.iter().map(|index| &seen.ops[*index]) {
        match renewal.end {
            End::Renewed(ttl) if !renewal.degraded => {
                let unsettled = open.iter().any(|other| !other.is_over_before(renewal));
                to = renewal.invoked.at + if unsettled { ttl.min(shortest) } else { ttl };
                open.push(renewal);
            }
            End::Unknown(_) => {
                to = to.min(renewal.invoked.at + shortest);
                open.push(renewal);
            }
            _ => {}
        }
    }
    to
}

/// A renewal is granted to the one current lease, and never revives one.
pub fn only_the_owner_renews(seen: &Seen<'_>, found: &mut Found) {
    for op in seen.ops {
        let (Asked::Renew { key, lease }, End::Renewed(_)) = (&op.asked, &op.end) else {
            continue;
        };
        // A replica alone answers for its own leases.
        if op.degraded || lease.is_degraded() {
            continue;
        }
        // For a moment there are two primaries, and the old one keeps what the new one has revoked; but nothing that nobody was granted.
        let two = seen.in_failover(op) && is_granted(seen, *key, *lease);
        if let Some(why) = why_not(seen, op, *key, *lease, &[]).filter(|_| !two) {
            found.add(Promise::OwnerOnly, format!("renewed although {why}: {op:?}"));
            continue;
        }
        let Some(of_lease) = seen.leases.get(&(*key, *lease)) else {
            continue;
        };
        let reported = of_lease.reports.iter().map(|index| &seen.ops[*index]).find(|report| {
            report.is_before(op)
                && report.accepted().is_some()
                && !seen.lapsed(report.invoked.at, report.ended.at, |kind| kind == Kind::Failover)
        });
        if let Some(reported) = reported {
            let what = format!("renewed although reported:\n  {reported:?}\n  {op:?}");
            found.add(Promise::OwnerOnly, what);
        }
        let over = over_by(seen, *key, *lease, op.invoked.place);
        let stepped = seen.lapsed(
            over.saturating_sub(seen.history.terms.longest_lease),
            op.ended.at,
            |kind| kind == Kind::Stepped,
        );
        if op.invoked.at > over && !stepped {
            let what = format!("revived, it was over by {over} µs: {op:?}");
            found.add(Promise::OwnerOnly, what);
        }
    }
}

/// When a lease is certainly over if nothing ends it, as far as was known in a place.
pub fn over_by(seen: &Seen<'_>, key: u32, lease: LeaseId, place: u64) -> u64 {
    let terms = &seen.history.terms;
    let Some(of_lease) = seen.leases.get(&(key, lease)) else {
        return 0;
    };
    let granted = of_lease.grants.iter().filter_map(|index| seen.grant(*index));
    let granted = granted.map(|(_, _, grant)| grant.over_by).max().unwrap_or_default();
    let renewals = of_lease.renewals.iter().map(|index| &seen.ops[*index]);
    let renewed = renewals
        .filter(|renewal| renewal.invoked.place < place)
        .map(|renewal| match renewal.end {
            // What is left is counted from before the trip to the store; the lease from within it.
            End::Renewed(ttl) => renewal.ended.at + ttl + (renewal.ended.at - renewal.invoked.at),
            End::Unknown(_) => renewal.until.at.saturating_add(terms.longest_lease),
            _ => 0,
        });
    renewed.max().unwrap_or_default().max(granted)
}

fn is_granted(seen: &Seen<'_>, key: u32, lease: LeaseId) -> bool {
    seen.leases.get(&(key, lease)).is_some_and(|of| !of.grants.is_empty())
}

/// Why a lease cannot be current for a call that began after all of what is named.
pub fn why_not(seen: &Seen<'_>, op: &Op, key: u32, lease: LeaseId, tags: &[u32]) -> Option<String> {
    if !is_granted(seen, key, lease) {
        return Some(format!("{lease} was granted to nobody"));
    }
    let newest = seen.keys[key as usize].newest.before(op.invoked.place);
    if let Some((_, by)) = newest.filter(|(token, _)| *token > lease.token.0) {
        return Some(format!("there is a newer grant, {:?}", seen.ops[by]));
    }
    let tags = [tags, seen.tags_of(key, lease)].concat();
    let undone = seen.undone(key, lease.token.0, &tags, op.invoked.place, false);
    undone.map(|by| format!("it was invalidated, {by:?}"))
}
