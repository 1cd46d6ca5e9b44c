//! When a key is to be looked at for its refresh, from nothing but its entry.
//!
//! *Owns* the one instant that a store keeps in its schedule beside each entry. Since every commit says it anew, nothing is ever cancelled
//! and nothing forgotten: what a worker was given and does not report is looked at again when its lease is over, what failed after its
//! back-off, what was given up at once, and what was stored when it is to be refreshed. [`offer`](super::offer()) then says what is true.

use std::time::Duration;

use super::{Band, Draft, Number, StoreTime, View, When, micros};

impl Draft {
    /// When a worker is to be offered the key's refresh. `None`: there is nothing that could be refreshed ahead.
    pub fn task_at(&self) -> Option<When> {
        let (value, gap) = (self.value.as_ref()?, self.refresh.begins_before_end()?);
        let marked = self.mark.as_ref().is_some_and(|mark| match mark.number {
            Number::Next => true,
            Number::Is(number) => number > value.version,
        });
        if marked {
            return None;
        }
        if let Some(lease) = &self.lease {
            return Some(lease.deadline);
        }
        if let Some(trouble) = &self.trouble {
            return Some(trouble.retry_at);
        }
        Some(earlier(value.fresh_until, gap))
    }
}

/// The entry with its refresh due now, for a key that is to be refreshed where no worker is: the next caller is asked to. `None`: there is no fresh
/// value, so that whoever asks next rebuilds it anyway.
pub fn refresh_now(view: &View<'_>) -> Option<Draft> {
    let standing = view.standing().filter(|standing| !standing.made_old)?;
    if standing.band(view.now) != Band::Fresh || view.lease().is_some() {
        return None;
    }
    let mut draft = view.entry.draft();
    // A gap is rounded; so much longer, it begins now at the latest.
    let left = standing.fresh_until.since(view.now);
    let gap = left
        .saturating_add(left / (1 << 16))
        .saturating_add(Duration::from_micros(1));
    draft.refresh = draft.refresh.asked_for().with_gap(gap);
    Some(draft)
}

fn earlier(at: When, gap: Duration) -> When {
    When {
        after: at.after.map(|after| after.saturating_sub(gap)),
        at_most: match at.at_most {
            StoreTime::NEVER => StoreTime::NEVER,
            at_most => StoreTime(at_most.0.saturating_sub(micros(gap))),
        },
    }
}
