//! The rebuild budget: never more leases than places, and none kept empty while somebody waits.

use drover::decision::TAKE_UP;

use super::{Checked, Promise, Seen, violation};
use crate::client::LONGEST_LEASE;
use crate::truth::{Done, unheld};
use crate::world::START;

/// A place comes back so much later than the time of a lease whose holder crashed, µs; and a little is left for what is under way.
const LAG: u64 = 250_000 + 100_000;

/// From when to when how many leases lived, or had until `lag` ago, in µs since the start, by the store's account.
fn alive(seen: &Seen<'_>, account: &[Done], lag: u64) -> Vec<(u64, u64, usize)> {
    let mut changes: Vec<(u64, i32)> = Vec::new();
    for key in seen.keys() {
        let mut from = None;
        for (free, held) in unheld(account, &key, START) {
            if let Some(from) = from.filter(|from| *from < free) {
                changes.extend([(from, 1), (free.saturating_add(lag), -1)]);
            }
            from = Some(held);
        }
    }
    // What ends at the moment at which something begins has ended before.
    changes.sort_unstable();
    let (mut stretches, mut since, mut count) = (Vec::new(), 0, 0_i32);
    for (at, change) in changes {
        if at > since {
            stretches.push((since, at, count as usize));
            since = at;
        }
        count += change;
    }
    stretches.push((since, u64::MAX, count as usize));
    stretches
}

pub fn never_more_leases_than_places(seen: &Seen<'_>, account: &[Done]) -> Checked {
    let limit = seen.plan.policy.max_concurrent_rebuilds as usize;
    if limit == 0 {
        return Ok(());
    }
    match alive(seen, account, 0).into_iter().find(|(_, _, count)| *count > limit) {
        Some((from, to, count)) => {
            let what = format!("{count} leases live from {from} to {to} µs, and there are {limit} places");
            Err(violation(Promise::Budget, what))
        }
        None => Ok(()),
    }
}

/// When somebody who waits must be let in, µs: for long enough some place has been empty. Always, where there is no budget.
pub fn room(seen: &Seen<'_>, account: &[Done]) -> Vec<(u64, u64)> {
    let limit = seen.plan.policy.max_concurrent_rebuilds as usize;
    if limit == 0 {
        return vec![(0, u64::MAX)];
    }
    let lag = LAG
        + if seen.plan.fails() {
            // What could not be given back comes back with its time.
            (TAKE_UP + LONGEST_LEASE.max(seen.plan.policy.lease_ttl)).as_micros() as u64
        } else {
            0
        };
    let mut room: Vec<(u64, u64)> = Vec::new();
    for (from, to, count) in alive(seen, account, lag) {
        if count >= limit {
            continue;
        }
        match room.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => room.push((from, to)),
        }
    }
    room
}
