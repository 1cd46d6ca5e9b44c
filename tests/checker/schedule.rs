//! Promise 12, where only calls are seen: each due refresh goes to one worker at a time. A worker's task is a grant like any other, so `leases`
//! looks at that, over callers and workers, and `budget` at how many there are at once. That it comes in time, and not for what was
//! invalidated, only the store's own account tells, which the simulation has.

use super::Found;
use super::index::Seen;

/// How many tasks of workers there were to look at.
pub fn refreshes_go_to_one_worker(seen: &Seen<'_>, found: &mut Found) {
    let pulls = seen
        .ops
        .iter()
        .filter(|op| op.granted().is_some() && op.question().is_some_and(|question| question.pulls()));
    found.looked("refreshes given to workers", pulls.count());
}
