//! What an invalidation that names a key does to it.

use std::time::Duration;

use super::{Body, Draft, Entry, LONGEST, Mark, Number, Policy, Seq, StoreTime, View, When};

/// How hard an invalidation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// No path returns the old value again.
    Drop,
    /// It may be served stale until its stale window ends.
    Expire,
}

impl Mode {
    /// Its name in logs, metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Drop => "drop",
            Mode::Expire => "expire",
        }
    }

    /// The harder of two: what remains when both are told at once.
    pub fn harder(self, other: Mode) -> Mode {
        if self == Mode::Drop { self } else { other }
    }
}

/// What to write for an invalidation that names a key.
#[derive(Clone, Debug)]
pub struct Invalidation {
    /// The entry without lease and freshness; `None`: there is nothing that would have to know.
    pub draft: Option<Draft>,
    /// What becomes of the bytes.
    pub body: Body,
}

/// Decides what an invalidation leaves of a key. It takes a number in any case, so that it is ordered with the grants. The back-off
/// after failures stays: an origin that fails does not get better by an invalidation.
pub fn invalidate(view: &View<'_>, mode: Mode, settle: Duration, policy: &Policy) -> Invalidation {
    let entry = view.entry;
    if *entry == Entry::default() && settle.is_zero() {
        // No grant is known, and a grant that is not known cannot report: nothing has to be remembered.
        return Invalidation {
            draft: None,
            body: Body::Clear,
        };
    }
    let mut draft = entry.draft();
    draft.lease = None;
    let settled_before = entry.mark.as_ref().map_or(StoreTime::ZERO, |mark| mark.settle_until);
    draft.mark = Some(Box::new(Mark {
        number: Number::Next,
        // Counted from the commit, which may come later than the view: what is left of an earlier one is then too long rather than
        // the new one too short.
        settle_until: if settle.is_zero() {
            When::at(settled_before)
        } else {
            When::after(settle.max(settled_before.since(view.now)))
        },
        keep_until: When::after(policy.max_hold),
    }));
    let dropped = mode == Mode::Drop || view.standing().is_none();
    draft.value = draft.value.filter(|_| !dropped);
    if let (Some(value), Some(standing)) = (&mut draft.value, view.standing()) {
        value.fresh_until = When::now().at_most(standing.fresh_until);
    }
    Invalidation {
        draft: Some(draft),
        body: if dropped { Body::Clear } else { Body::Keep },
    }
}

/// Decides what is left of a key by an invalidation that was committed under `number` and that the store has lost since: nothing that was
/// built or granted under a later number is touched. `None`: the entry shows it, or has nothing that it would make old.
pub fn restore(view: &View<'_>, mode: Mode, number: Seq) -> Option<Draft> {
    let entry = view.entry;
    let old_value = entry.value.as_ref().is_some_and(|value| value.version < number);
    let old_lease = entry.lease.as_ref().is_some_and(|lease| lease.token < number);
    let shown = entry.mark.as_ref().is_some_and(|mark| mark.number >= number);
    if shown || !(old_value || old_lease) {
        return None;
    }
    let mut draft = entry.draft();
    draft.lease = draft.lease.filter(|_| !old_lease);
    draft.value = draft.value.filter(|_| !(old_value && mode == Mode::Drop));
    draft.mark = Some(Box::new(Mark {
        number: Number::Is(number),
        settle_until: When::at(entry.mark.as_ref().map_or(StoreTime::ZERO, |mark| mark.settle_until)),
        keep_until: When::after(LONGEST),
    }));
    Some(draft)
}
