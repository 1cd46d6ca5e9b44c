//! The rebuild budget by what clients saw: never more holders than places, whoever they are; and when there was certainly room.
//!
//! A place lasts as long as its lease: who reports later than that, and is heard since nobody else has come, has none any more.

use std::collections::HashMap;

use super::index::Seen;
use super::leases::{Beyond, Hold, hold};
use super::waiting::stretches;
use super::{Found, Promise};

/// Whoever waits for a place asks for it at least so often, in microseconds: a ring may be lost.
pub const ASKS_AGAIN: u64 = 1_000_000;

/// When something is the case, in microseconds since the start, in order.
type Stretches = Vec<(u64, u64)>;

fn budgets(seen: &Seen<'_>) -> impl Iterator<Item = (u16, usize)> {
    let budgets = seen.history.terms.budgets.iter().zip(0..);
    budgets
        .filter(|(places, _)| **places > 0)
        .map(|(places, namespace)| (namespace, *places as usize))
}

fn keys(seen: &Seen<'_>, namespace: u16) -> impl Iterator<Item = u32> {
    let keys = seen.history.keys.iter().zip(0..);
    keys.filter(move |(of, _)| **of == namespace).map(|(_, key)| key)
}

/// Over callers and workers.
pub fn never_more_holders_than_places(seen: &Seen<'_>, found: &mut Found) {
    for (namespace, places) in budgets(seen) {
        let mut holds: Vec<(u32, Hold)> = Vec::new();
        for key in keys(seen, namespace) {
            let grants = seen.keys[key as usize].grants.iter();
            holds.extend(grants.filter_map(|index| Some((key, hold(seen, key, *index, Beyond::Nothing)?))));
        }
        holds.sort_by_key(|(_, hold)| hold.from);
        // Those that had not ended when the one that is looked at began.
        let (mut most, mut at_once): (usize, Vec<&(u32, Hold)>) = (0, Vec::new());
        for one in &holds {
            at_once.retain(|(key, other)| other.to > one.1.from && *key != one.0);
            at_once.push(one);
            most = most.max(at_once.len());
            if at_once.len() > places {
                let ops: Vec<String> = at_once
                    .iter()
                    .map(|(_, hold)| format!("\n  {:?}", seen.ops[hold.by]))
                    .collect();
                let what = format!(
                    "{} hold keys of namespace {namespace} at {} µs, and there are {places} places:{}",
                    at_once.len(),
                    one.1.from,
                    ops.concat(),
                );
                found.add(Promise::Budget, what);
            }
        }
        found.looked("holds under a budget", holds.len());
        found.looked("the most at once under a budget", most);
    }
}

/// When certainly a place was free, by namespace; none where only the store's own account tells.
pub fn rooms(seen: &Seen<'_>) -> HashMap<u16, Stretches> {
    let Some(back) = seen.history.terms.place_is_back else {
        return HashMap::new();
    };
    let room = |(namespace, places)| {
        let mut changes: Vec<(u64, i32)> = Vec::new();
        for key in keys(seen, namespace) {
            let taken = stretches(seen, key);
            changes.extend(
                taken
                    .into_iter()
                    .flat_map(|(from, to)| [(from, 1), (to.saturating_add(back), -1)]),
            );
        }
        (namespace, fewer_than(places, changes))
    };
    budgets(seen).map(room).collect()
}

fn fewer_than(places: usize, mut changes: Vec<(u64, i32)>) -> Stretches {
    changes.sort_unstable();
    let (mut room, mut free_from, mut taken) = (Vec::new(), Some(0), 0);
    for (at, change) in changes {
        taken += change;
        let is_free = taken < places as i32;
        match free_from.filter(|_| !is_free) {
            Some(from) => {
                if from < at {
                    room.push((from, at));
                }
                free_from = None;
            }
            None if is_free => free_from = free_from.or(Some(at)),
            None => {}
        }
    }
    room.extend(free_from.map(|from| (from, u64::MAX)));
    room
}

/// When both are the case.
pub fn both(one: &[(u64, u64)], other: &[(u64, u64)]) -> Stretches {
    let (mut both, mut first, mut second) = (Vec::new(), one.iter().peekable(), other.iter().peekable());
    while let (Some((from, to)), Some((begin, end))) = (first.peek(), second.peek()) {
        let stretch = ((*from).max(*begin), (*to).min(*end));
        if stretch.0 < stretch.1 {
            both.push(stretch);
        }
        if to < end {
            first.next();
        } else {
            second.next();
        }
    }
    both
}
