//! Is a worker to be given this refresh now?
//!
//! The scheduler only remembers that a key may be due. What is true of it is asked of its entry, at the moment when a worker is there: that
//! somebody has refreshed it meanwhile, that it was invalidated or put off, or that nobody wants it any more. A task is never cancelled; it
//! is looked at and dropped, or put off. And since what a worker gets is a lease, no refresh is given to two.

use std::sync::Arc;

use super::acquire::grant_as;
use super::{Ask, Band, Cause, Draw, Grant, Policy, StoreTime, View, wanted};

/// A task that a worker could be given.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The worker.
    pub holder: Arc<str>,
    /// Why there is a task.
    pub why: Why,
    /// W3C traceparent of what scheduled it.
    pub traceparent: Option<Arc<str>>,
}

/// Why there is a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The value's own refresh is due.
    Due {
        /// Somebody has asked for the key since its value was stored.
        asked_for: bool,
    },
    /// Somebody scheduled it.
    Scheduled {
        /// When.
        at: StoreTime,
        /// Not while there is a fresh value.
        only_if_missing: bool,
    },
}

/// What to do about a task.
#[derive(Clone, Debug)]
pub enum OfferDecision {
    /// Write this; if the store takes it, the worker has the lease.
    Grant(Box<Grant>),
    /// Look again at this instant.
    Later(StoreTime),
    /// The task is over.
    Drop(Dropped),
}

/// Why a task is over without a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// The value has been rebuilt meanwhile, or no refresh of it is planned.
    Fresh,
    /// There is nothing left that could be refreshed ahead: the next caller rebuilds it.
    Gone,
    /// Too many refreshes in a row that nobody asked for: the key may lapse.
    Lapsed,
    /// It was scheduled, and has failed too often.
    Failed,
}

impl Dropped {
    /// All of them.
    pub const ALL: [Dropped; 4] = [Dropped::Fresh, Dropped::Gone, Dropped::Lapsed, Dropped::Failed];

    /// Its name in logs, metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Dropped::Fresh => "fresh",
            Dropped::Gone => "gone",
            Dropped::Lapsed => "lapsed",
            Dropped::Failed => "failed",
        }
    }
}

/// Decides about a task. `policy` is that of the key's namespace.
pub fn offer(view: &View<'_>, offer: &Offer, policy: &Policy, draw: Draw) -> OfferDecision {
    if let Some(lease) = view.lease() {
        // Whoever has it may never come back. If it does, the task will be found done.
        return OfferDecision::Later(lease.deadline);
    }
    if let Some(retry_at) = view.retry_at() {
        return OfferDecision::Later(retry_at);
    }
    match offer.why {
        Why::Due { asked_for } => due(view, offer, asked_for, policy, draw),
        Why::Scheduled { at, only_if_missing } => scheduled(view, offer, at, only_if_missing, policy, draw),
    }
}

fn due(view: &View<'_>, offer: &Offer, asked_for: bool, policy: &Policy, draw: Draw) -> OfferDecision {
    let Some(standing) = view.standing() else {
        return OfferDecision::Drop(Dropped::Gone);
    };
    let Some(due) = view.refresh_due() else {
        return OfferDecision::Drop(Dropped::Fresh);
    };
    let cause = match standing.band(view.now) {
        Band::Fresh if view.now < due => return OfferDecision::Later(due),
        Band::Fresh => Cause::Early,
        Band::Stale | Band::StaleOnError => Cause::Stale,
        Band::Absent(_) => return OfferDecision::Drop(Dropped::Gone),
    };
    let refresh = view.entry.refresh;
    // A worker had it and did not come back: this is the same refresh once more, and it was wanted then.
    let again = view.entry.lease.is_some();
    let found = standing.value.content != super::Content::NotFound;
    if !again && !wanted(refresh, asked_for, found, policy.idle_refreshes) {
        return OfferDecision::Drop(Dropped::Lapsed);
    }
    let mut grant = grant_as(view, &question(offer), policy, draw, cause);
    grant.draft.refresh = match (asked_for, again) {
        (true, _) => refresh.asked_for(),
        (false, true) => refresh,
        (false, false) => refresh.not_asked_for(),
    };
    OfferDecision::Grant(grant)
}

/// Whether there is nothing left to do for a refresh that was scheduled at this time: the value is fresh, and has been stored since unless it only
/// was not to be missing.
pub fn is_rebuilt(view: &View<'_>, at: StoreTime, only_if_missing: bool) -> bool {
    let stored_since = |standing: &super::Standing<'_>| only_if_missing || standing.value.stored_at >= at;
    view.is_fresh() && view.standing().as_ref().is_some_and(stored_since)
}

fn scheduled(
    view: &View<'_>,
    offer: &Offer,
    at: StoreTime,
    only_if_missing: bool,
    policy: &Policy,
    draw: Draw,
) -> OfferDecision {
    if is_rebuilt(view, at, only_if_missing) {
        return OfferDecision::Drop(Dropped::Fresh);
    }
    // To schedule it is to ask for it.
    OfferDecision::Grant(grant_as(view, &question(offer), policy, draw, Cause::Scheduled))
}

fn question(offer: &Offer) -> Ask {
    Ask {
        holder: offer.holder.clone(),
        traceparent: offer.traceparent.clone(),
        ..Ask::plain()
    }
}
