//! How often a scheduled refresh has been tried, and when that is enough.
//!
//! *Owns* the rule that a failing key is tried once more, after its back-off, and then left alone. A worker that died or gave the task back has
//! not failed: the task is offered again, so often and no more, since a key that takes every worker down with it must not go on doing so.
//!
//! *Why the lease's number is remembered*: what became of a try is read from the entry, where a report says whose it was; so no report needs to
//! know of the schedule, at whichever replica it arrives.

use super::{Dropped, Entry, Seq};

/// So many tries may fail.
pub const MOST_FAILED: u8 = 2;
/// So often a task is given out, whatever becomes of it.
pub const MOST_GIVEN: u8 = 8;

/// The tries of a scheduled refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// How often it was given out.
    pub given: u8,
    /// How many of these are known to have failed.
    pub failed: u8,
    /// Failures in a row of the key, as last seen.
    pub failures: u32,
    /// The number of the lease of the last try.
    pub token: Seq,
}

impl Attempts {
    /// Takes note of how the last try ended, as far as the entry tells. `Err`: the task is over.
    pub fn look(self, entry: &Entry) -> Result<Attempts, Dropped> {
        if self.given == 0 {
            return Ok(self);
        }
        let is_its_report = entry
            .reported
            .is_some_and(|reported| reported.lease.token == self.token);
        let built = entry.value.as_ref().is_some_and(|value| value.version == self.token);
        if is_its_report && built {
            return Err(Dropped::Fresh);
        }
        let failures = failures(entry);
        let failed = is_its_report && failures > 0 && failures != self.failures;
        let failed = self.failed.saturating_add(u8::from(failed));
        if failed >= MOST_FAILED || self.given >= MOST_GIVEN {
            return Err(Dropped::Failed);
        }
        Ok(Attempts {
            failed,
            failures,
            ..self
        })
    }

    /// It is given out once more, with the lease of this number. `before`: the entry that it was granted from.
    pub fn given(self, before: &Entry, token: Seq) -> Attempts {
        Attempts {
            given: self.given.saturating_add(1),
            failures: failures(before),
            token,
            ..self
        }
    }
}

/// Whether the lease with this number was reported as given up.
pub fn was_given_back(entry: &Entry, token: Seq) -> bool {
    let reported = entry.reported.is_some_and(|reported| reported.lease.token == token);
    let built = entry.value.as_ref().is_some_and(|value| value.version == token);
    reported && !built && entry.trouble.is_none()
}

fn failures(entry: &Entry) -> u32 {
    entry.trouble.as_ref().map_or(0, |trouble| trouble.failures)
}
