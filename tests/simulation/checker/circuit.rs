//! The circuit: while it is open nothing is granted, but for one lease after each pause.

use std::collections::BTreeSet;

use super::{Checked, Promise, Seen, violation};
use crate::truth::Done;

/// What was seen of it since it opened.
struct Open {
    since: u64,
    probes: usize,
    grants: usize,
    probing: bool,
}

pub fn only_probes_are_granted_while_it_is_open(seen: &Seen<'_>, account: &[Done]) -> Checked {
    // A replica that has not heard of it goes on until a rebuild of its own fails; and rings, or the calls that take their place, may be lost.
    if seen.plan.fails() || seen.plan.faults.ring_lost > 0.0 || seen.plan.jumps {
        return Ok(());
    }
    let mut open: Option<Open> = None;
    let mut granted = BTreeSet::new();
    for done in account {
        match (done, &mut open) {
            (Done::Circuit { text, .. }, _) if text.starts_with("1 closed") => open = None,
            (Done::Circuit { at, .. }, None) => {
                open = Some(Open {
                    since: at.0,
                    probes: 0,
                    grants: 0,
                    probing: false,
                });
            }
            (Done::Circuit { text, .. }, Some(open)) => {
                let probing = text.starts_with("1 probing");
                open.probes += usize::from(probing && !open.probing);
                open.probing = probing;
            }
            (Done::Written { key, at, entry }, Some(open)) => {
                // A retry is told of the same lease again.
                let is_new = entry.lease.as_ref().is_some_and(|lease| granted.insert(lease.token));
                // What was let by before it opened.
                let late = at.0 > open.since + seen.slack();
                open.grants += usize::from(is_new && late);
                if open.grants > open.probes {
                    let what = format!(
                        "{key:?} was granted at {at:?} while the circuit was open: {} grants and {} probes",
                        open.grants, open.probes
                    );
                    return Err(violation(Promise::Circuit, what));
                }
            }
            (Done::Written { entry, .. }, None) => granted.extend(entry.lease.as_ref().map(|lease| lease.token)),
            (Done::Covered { .. }, _) => {}
        }
    }
    Ok(())
}
