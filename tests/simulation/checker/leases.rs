//! Promises 1, 2 and 9: one holder at a time, growing numbers, and only the owner's word counts.

use std::collections::HashMap;

use drover::decision::{Key, LeaseId, SHORTEST_LEASE, Seq};

use super::{Checked, Promise, Seen, violation};
use crate::history::{Asked, Call, Ended, covers};

/// Numbers are given out once, in real time order: grants' and invalidations' alike.
pub fn tokens_grow(seen: &Seen<'_>) -> Checked {
    let mut ends: Vec<(u64, bool, usize)> = Vec::new();
    for (index, call) in seen.calls.iter().enumerate() {
        ends.push((call.invoked.place, false, index));
        if let Some(end) = call.ended_at() {
            ends.push((end.place, true, index));
        }
    }
    ends.sort_unstable();
    let mut greatest = Seq::NONE;
    let mut before = vec![Seq::NONE; seen.calls.len()];
    let mut owners: HashMap<Seq, (LeaseId, &Call)> = HashMap::new();
    for (_, ended, index) in ends {
        let call = &seen.calls[index];
        if !ended {
            before[index] = greatest;
            continue;
        }
        for (number, lease) in numbers(call) {
            let again = owners
                .get(&number)
                .filter(|(first, by)| lease == Some(*first) && same_question(by, call));
            if again.is_some() {
                continue;
            }
            if let Some((_, by)) = owners.get(&number) {
                let what = format!("{number:?} was given out twice:\n  {by:?}\n  {call:?}");
                return Err(violation(Promise::Tokens, what));
            }
            // A retry may be told of a lease whose first answer was lost: that one may be older than what came between.
            if number <= before[index] && !may_be_a_retry(seen, index) {
                let what = format!("{number:?} came after {:?}: {call:?}", before[index]);
                return Err(violation(Promise::Tokens, what));
            }
            let unknown = LeaseId {
                token: number,
                secret: std::num::NonZeroU64::MIN,
            };
            owners.insert(number, (lease.unwrap_or(unknown), call));
            greatest = greatest.max(number);
        }
    }
    Ok(())
}

fn numbers(call: &Call) -> Vec<(Seq, Option<LeaseId>)> {
    if let Some((_, _, rebuild)) = call.granted() {
        return vec![(rebuild.lease.token, Some(rebuild.lease))];
    }
    let targets = call
        .invalidated()
        .map(|(_, _, done)| done.targets.as_slice())
        .unwrap_or_default();
    targets.iter().map(|(_, number)| (*number, None)).collect()
}

/// Two tries at one question.
pub fn same_question(one: &Call, other: &Call) -> bool {
    match (&one.asked, &other.asked) {
        (Asked::Acquire(one), Asked::Acquire(other)) => {
            !one.ask.request_id.is_empty()
                && one.ask.request_id == other.ask.request_id
                && one.ask.holder == other.ask.holder
        }
        _ => false,
    }
}

fn may_be_a_retry(seen: &Seen<'_>, index: usize) -> bool {
    seen.calls[..index]
        .iter()
        .any(|earlier| same_question(earlier, &seen.calls[index]))
}

/// A lease as its holder knows it.
struct Hold<'a> {
    lease: LeaseId,
    call: &'a Call,
    /// It certainly has it from here…
    from: u64,
    /// …to here.
    to: u64,
}

/// From the answer to the report, or to the deadline, or to an invalidation.
pub fn holds_do_not_overlap(seen: &Seen<'_>) -> Checked {
    for key in seen.keys() {
        let mut holds = holds(seen, &key);
        holds.sort_by_key(|hold| hold.lease.token);
        for pair in holds.windows(2) {
            let [one, other] = pair else { continue };
            if one.from.max(other.from) < one.to.min(other.to) {
                let what = format!(
                    "two hold {key:?} at {} µs, each until {} and {}:\n  {:?}\n  {:?}",
                    one.from.max(other.from),
                    one.to,
                    other.to,
                    one.call,
                    other.call,
                );
                return Err(violation(Promise::Exclusive, what));
            }
        }
    }
    Ok(())
}

fn holds<'a>(seen: &'a Seen<'_>, key: &Key) -> Vec<Hold<'a>> {
    let mut holds: Vec<Hold<'a>> = Vec::new();
    for call in seen.calls {
        let Some((_, answered, rebuild)) = call.granted().filter(|(asked, ..)| asked.key == *key) else {
            continue;
        };
        if holds.iter().any(|hold| hold.lease == rebuild.lease) {
            continue;
        }
        // What is left of it was counted from the commit: before the answer, by what an answer may take.
        let late = seen.slack() + seen.records.jumped(call.invoked.at, answered.at);
        let counted_from = call.invoked.at.max(answered.at.saturating_sub(late));
        let mut to = counted_from + rebuild.ttl.as_micros() as u64;
        for other in seen.calls {
            if !matches!(&other.asked, Asked::Renew(renew) if renew.lease == rebuild.lease && renew.key == *key) {
                continue;
            }
            // A renewal may also shorten it, and one whose fate is unknown may have made it as short as can be.
            match &other.ended {
                Some((_, Ended::Renewed(renewed))) if renewed.lost.is_none() => {
                    to = other.invoked.at + renewed.ttl.as_micros() as u64;
                }
                Some((_, Ended::Renewed(_))) => {}
                _ => to = to.min(other.invoked.at + SHORTEST_LEASE.as_micros() as u64),
            }
        }
        for other in seen.calls {
            let ends_it = match &other.asked {
                Asked::Report(report) => report.key == *key && report.report.lease == rebuild.lease,
                Asked::Invalidate(_) => true,
                // Whoever left its question may have been granted this; the service gives it back.
                Asked::Acquire(_) | Asked::Renew(_) => false,
            };
            if ends_it && !other.is_over_before(call) {
                to = to.min(other.invoked.at);
            }
        }
        holds.push(Hold {
            lease: rebuild.lease,
            call,
            from: answered.at,
            to,
        });
    }
    holds
}

/// A renewal is granted to the one current lease, and never revives one.
pub fn only_the_owner_renews(seen: &Seen<'_>) -> Checked {
    for call in seen.calls {
        let (Asked::Renew(renew), Some((_, Ended::Renewed(renewed)))) = (&call.asked, &call.ended) else {
            continue;
        };
        if renewed.lost.is_some() || renew.lease.is_degraded() {
            continue;
        }
        if let Some(why) = why_not(seen, call, &renew.key, renew.lease) {
            return Err(violation(
                Promise::OwnerOnly,
                format!("renewed although {why}: {call:?}"),
            ));
        }
        let reported = seen.calls.iter().find(|other| {
            other.is_before(call)
                && other
                    .accepted()
                    .is_some_and(|(report, ..)| report.report.lease == renew.lease)
        });
        if let Some(reported) = reported {
            let what = format!("renewed although reported:\n  {reported:?}\n  {call:?}");
            return Err(violation(Promise::OwnerOnly, what));
        }
    }
    Ok(())
}

/// Why a lease cannot be current for a call that began after all of what is named.
pub fn why_not(seen: &Seen<'_>, call: &Call, key: &Key, lease: LeaseId) -> Option<String> {
    let mut granted = seen
        .calls
        .iter()
        .filter_map(Call::granted)
        .filter(|(asked, ..)| asked.key == *key);
    if !granted.any(|(_, _, rebuild)| rebuild.lease == lease) {
        return Some(format!("{lease} was granted to nobody"));
    }
    let newer = seen.calls.iter().find(|other| {
        let token = other
            .granted()
            .filter(|(asked, ..)| asked.key == *key)
            .map(|(_, _, rebuild)| rebuild.lease.token);
        other.is_before(call) && token.is_some_and(|token| token > lease.token)
    });
    if let Some(newer) = newer {
        return Some(format!("there is a newer grant, {newer:?}"));
    }
    let mut tags = seen.tags_of(lease);
    if let Some(report) = call.report() {
        tags.extend(report.report.tags.iter().cloned());
    }
    let gone = seen.gone();
    let gone = gone
        .iter()
        .find(|gone| gone.call.is_before(call) && gone.number > lease.token && covers(gone.target, key, &tags));
    gone.map(|gone| format!("it was invalidated, {:?}", gone.call))
}
