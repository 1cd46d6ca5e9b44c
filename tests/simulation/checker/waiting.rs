//! Promises 7 and 8: each wait ends by its time, and whoever is parked is noticed when there is something for it.

use drover::decision::{HAND_OVER, Intent, Seq, StoreTime};

use super::{Checked, Promise, Seen, violation};
use crate::history::{Call, Ended};
use crate::truth::{Done, unheld};
use crate::world::{REENTRY, START};

/// Its own, or the policy's, or that of the call.
pub fn waits_end_by_their_time(seen: &Seen<'_>) -> Checked {
    for call in seen.calls {
        let crate::history::Asked::Acquire(asked) = &call.asked else {
            continue;
        };
        let Some(ended) = call.ended_at() else {
            return Err(violation(Promise::NoStuckKey, format!("it never ends: {call:?}")));
        };
        let most = seen.plan.policy.max_wait;
        let wait = asked.wait.unwrap_or(most).min(most).as_micros() as u64;
        let by = call.invoked.at + wait + seen.slack() + seen.records.jumped(call.invoked.at, ended.at);
        if ended.at > by {
            let what = format!("it was to end by {by} µs and did at {}: {call:?}", ended.at);
            return Err(violation(Promise::NoStuckKey, what));
        }
    }
    Ok(())
}

/// The stretch for which a caller is certainly parked.
fn parked(seen: &Seen<'_>, call: &Call) -> Option<(u64, u64)> {
    let from = call.invoked.at + seen.slack();
    let ended = call.ended_at()?;
    // Whoever is answered by a replica alone was parked there.
    let in_the_store = call.acquired_alone().is_none();
    in_the_store.then_some(())?;
    matches!(call.asked, crate::history::Asked::Acquire(_)).then_some((from, ended.at))
}

/// What passed that counts: time does not, for which everybody was stopped, or the replica had no store.
fn awake(seen: &Seen<'_>, call: &Call, from: u64, to: u64) -> u64 {
    let mut length = to.saturating_sub(from).saturating_sub(seen.records.jumped(from, to));
    for (replica, down, up) in &seen.records.downs {
        // A look that failed is repeated a little later.
        let (down, up) = (
            down.saturating_sub(200_000),
            up.saturating_add(200_000 + REENTRY.as_micros() as u64),
        );
        if *replica == call.replica {
            length = length.saturating_sub(up.min(to).saturating_sub(down.max(from)));
        }
    }
    length
}

/// A parked caller is answered, or somebody holds the lease, or soon will.
pub fn nobody_waits_for_nothing(seen: &Seen<'_>, account: &[Done]) -> Checked {
    let notice = seen.plan.notice().as_micros() as u64;
    let room = super::budget::room(seen, account);
    for key in seen.keys() {
        let gaps = common(&unheld(account, &key, START), &room);
        for call in seen.calls.iter().filter(|call| call.key() == Some(&key)) {
            let Some((from, to)) = parked(seen, call) else { continue };
            // Who only reads is told a moment later that there is nothing, in case that somebody at another replica is promoted.
            let reads =
                matches!(&call.asked, crate::history::Asked::Acquire(asked) if asked.ask.intent == Intent::Read);
            let notice = notice + if reads { 250_000 } else { 0 };
            for (free, held) in &gaps {
                let (from, to) = (from.max(*free), to.min(*held));
                if from < to && awake(seen, call, from, to) > notice {
                    let what = format!("parked from {from} to {to} µs while nobody held {key:?}: {call:?}");
                    return Err(violation(Promise::NoMissedWake, what));
                }
            }
        }
    }
    Ok(())
}

/// What two lists of stretches have in common.
fn common(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let pairs = one
        .iter()
        .flat_map(|a| other.iter().map(move |b| (a.0.max(b.0), a.1.min(b.1))));
    pairs.filter(|(from, to)| from < to).collect()
}

/// A value that ends the wait of a parked caller reaches it.
pub fn values_reach_those_who_wait(seen: &Seen<'_>, account: &[Done]) -> Checked {
    let notice = seen.plan.notice().as_micros() as u64;
    let since = |at: StoreTime| at.0.saturating_sub(START.0);
    for (index, done) in account.iter().enumerate() {
        let Done::Written { key, at, entry } = done else {
            continue;
        };
        // A report, not a grant that came in the same microsecond and left the value as it was.
        let reported = |version| entry.lease.is_none() && entry.reported.is_some_and(|by| by.lease.token == version);
        let Some(value) = entry
            .value
            .as_ref()
            .filter(|value| value.stored_at == *at && reported(value.version))
            // Nor an invalidation in that microsecond: what is old already is nobody's due.
            .filter(|value| entry.mark.as_ref().is_none_or(|mark| mark.number < value.version))
        else {
            continue;
        };
        let (stored, by) = (since(*at), since(*at) + notice);
        // Somebody else was let in, or it was made old, before everybody was served.
        let undone = account[index + 1..].iter().any(|later| match later {
            Done::Written { key: other, at, .. } => other == key && since(*at) <= by + notice,
            Done::Covered { at, .. } => since(*at) <= by + notice,
            Done::Circuit { .. } => false,
        });
        if undone || seen.plan.notice() >= HAND_OVER {
            continue;
        }
        for call in seen.calls.iter().filter(|call| call.key() == Some(key)) {
            let Some((from, to)) = parked(seen, call) else { continue };
            let waits = from < stored && stored < to && wants(call, value.version);
            if waits && to > by && awake(seen, call, stored, to) > notice {
                let what = format!("a value was there at {stored} µs, and it waited until {to}: {call:?}");
                return Err(violation(Promise::NoMissedWake, what));
            }
        }
    }
    Ok(())
}

fn wants(call: &Call, version: Seq) -> bool {
    match (&call.asked, &call.ended) {
        (_, Some((_, Ended::Aborted))) => false,
        (crate::history::Asked::Acquire(asked), _) => {
            asked.ask.newer_than < version && matches!(asked.ask.intent, Intent::Use | Intent::Read)
        }
        _ => false,
    }
}
