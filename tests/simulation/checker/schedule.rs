//! Promise 12, by the store's own account: a due refresh is offered at most the bound late, while a worker is idle; and never for a value that was
//! invalidated. (To one worker at a time: that is promise 1, since a task is a lease.)

use drover::decision::{Cause, Content, Entry, Key, Seq, StoreTime, Value};

use super::{Checked, Promise, Seen, violation};
use crate::truth::Done;

/// A ring may be lost, µs; then the next look comes within a second.
const LOOK: u64 = 1_010_000;

/// The value's newest reason to be old: an invalidation that named the key, or covered it before the place in the account.
fn made_old(account: &[Done], entry: &Entry, value: &Value) -> bool {
    let marked = entry.mark.as_ref().is_some_and(|mark| mark.number > value.version);
    marked || account.iter().any(|done| covers(done, value))
}

fn covers(done: &Done, value: &Value) -> bool {
    match done {
        Done::Covered { tag, number, .. } => {
            *number > value.version && tag.as_ref().is_none_or(|tag| value.tags().contains(tag))
        }
        Done::Written { .. } | Done::Circuit { .. } => false,
    }
}

fn is_worker(holder: &str) -> bool {
    holder.starts_with('w')
}

/// A refresh ahead is of a value that is good.
pub fn nothing_invalidated_is_refreshed(seen: &Seen<'_>, account: &[Done]) -> Checked {
    if seen.plan.workers == 0 {
        return Ok(());
    }
    for key in seen.keys() {
        let mut before: Option<&Entry> = None;
        let mut token = Seq::NONE;
        for (place, done) in account.iter().enumerate() {
            let Done::Written {
                key: written, entry, ..
            } = done
            else {
                continue;
            };
            if *written != key {
                continue;
            }
            let lease = entry
                .lease
                .as_ref()
                .filter(|lease| lease.token > token && is_worker(&lease.holder));
            if let Some(lease) = lease
                && matches!(lease.cause, Cause::Early | Cause::Stale)
                && let Some(before) = before
                && let Some(value) = &before.value
                && made_old(&account[..place], before, value)
            {
                let what = format!(
                    "{key:?} was given to {} although it was invalidated: {done:?}",
                    lease.holder
                );
                return Err(violation(Promise::Schedule, what));
            }
            token = entry.lease.as_ref().map_or(token, |lease| lease.token.max(token));
            before = Some(entry);
        }
    }
    Ok(())
}

/// While nothing fails, and somebody who does what it is told at once is there.
pub fn refreshes_are_offered_in_time(seen: &Seen<'_>, account: &[Done]) -> Checked {
    let plan = seen.plan;
    let calm = !plan.fails() && plan.workers > 0 && plan.policy.max_concurrent_rebuilds == 0;
    // A circuit holds back everything, and needs as many failures.
    let failures = account.iter().filter(|done| match done {
        Done::Written { entry, .. } => entry.trouble.is_some(),
        Done::Covered { .. } | Done::Circuit { .. } => false,
    });
    if !calm || failures.count() >= 10 {
        return Ok(());
    }
    let bound = seen.slack() + 4 * plan.call().as_micros() as u64 + LOOK;
    for key in seen.keys() {
        check_key(seen, account, &key, bound)?;
    }
    Ok(())
}

fn check_key(seen: &Seen<'_>, account: &[Done], key: &Key, bound: u64) -> Checked {
    // Since when somebody should have it, and from what.
    let mut due: Option<(StoreTime, &Done, &Value)> = None;
    for (place, done) in account.iter().enumerate() {
        let at = match done {
            Done::Written { at, .. } | Done::Covered { at, .. } | Done::Circuit { at, .. } => *at,
        };
        if let Some((since, from, _)) = due {
            let late = at.0.saturating_sub(since.0);
            let jumped = seen
                .records
                .jumped(since.0 - crate::world::START.0, at.0 - crate::world::START.0);
            if late > bound + jumped {
                let what = format!("{key:?} was due and not offered for {late} µs:\n  {from:?}\n  until {done:?}");
                return Err(violation(Promise::Schedule, what));
            }
        }
        match done {
            Done::Written {
                key: written, entry, ..
            } if written == key => {
                due = task(entry, seen.plan.policy.idle_refreshes, at, bound)
                    .and_then(|since| Some((since, done, entry.value.as_ref()?)))
                    .filter(|(_, _, value)| !made_old(&account[..place], entry, value));
            }
            Done::Written { .. } | Done::Circuit { .. } => {}
            Done::Covered { .. } => due = due.filter(|(_, _, value)| !covers(done, value)),
        }
    }
    Ok(())
}

/// When a worker is certainly to be offered the key, as its entry stands.
fn task(entry: &Entry, idle_refreshes: u32, now: StoreTime, bound: u64) -> Option<StoreTime> {
    let value = entry
        .value
        .as_ref()
        .filter(|value| value.content != Content::NotFound)?;
    let wanted = u32::from(entry.refresh.idle()) < idle_refreshes;
    let marked = entry.mark.as_ref().is_some_and(|mark| mark.number > value.version);
    if !wanted || marked {
        return None;
    }
    let due = entry.refresh.due(value.fresh_until)?;
    let lease = entry.lease.as_ref().map_or(StoreTime::ZERO, |lease| lease.deadline);
    let pause = entry
        .trouble
        .as_ref()
        .map_or(StoreTime::ZERO, |trouble| trouble.retry_at);
    let since = due.max(lease).max(pause).max(now);
    // Later, there may be nothing left to be refreshed.
    (since.0 + bound < value.stale_until().0).then_some(since)
}
