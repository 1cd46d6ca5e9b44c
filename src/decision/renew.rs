//! May a holder keep its lease?

use std::time::Duration;

use super::{Draft, LeaseId, LostReason, Policy, RenewDecision, View, When, lease_length};

/// Decides about a renewal to `now + ttl`, cut to the policy and to the longest hold that was fixed with the grant.
pub fn renew(view: &View<'_>, id: LeaseId, ttl: Option<Duration>, policy: &Policy) -> RenewDecision {
    let lost = |reason| RenewDecision::Lost {
        reason,
        ttl: Duration::ZERO,
        max_hold: Duration::ZERO,
    };
    let Some(lease) = view.lease_of(id) else {
        return lost(why_lost(view, id));
    };
    if view.makes_old(lease.token, lease.tags()) {
        return lost(LostReason::Invalidated);
    }
    if view.now >= lease.deadline {
        return lost(LostReason::Expired);
    }
    if lease.deadline >= lease.hold_until {
        return RenewDecision::Lost {
            reason: LostReason::MaxHold,
            ttl: lease.deadline.since(view.now),
            max_hold: lease.hold_until.since(view.now),
        };
    }
    let mut draft = view.entry.draft();
    if let Some(drafted) = &mut draft.lease {
        drafted.deadline = When::after(lease_length(ttl, policy)).at_most(lease.hold_until);
    }
    RenewDecision::Keep(Box::new(draft))
}

/// Why a lease that is not here is not.
fn why_lost(view: &View<'_>, id: LeaseId) -> LostReason {
    let newest = view.newest_grant();
    if view.is_reported(id) {
        LostReason::Reported
    } else if id.token == newest {
        LostReason::UnknownLease
    } else if view.makes_old(id.token, &[]) {
        LostReason::Invalidated
    } else if id.token < newest {
        LostReason::Superseded
    } else {
        LostReason::UnknownLease
    }
}

/// The entry without its lease, once an invalidation of a tag or of the namespace has made that lease old. `None` where there is
/// no such lease.
pub fn revoke(view: &View<'_>) -> Option<Draft> {
    let lease = view.entry.lease.as_deref()?;
    view.makes_old(lease.token, lease.tags())
        .then(|| view.without_revoked(lease))
}

/// The entry without a lease that was granted to a caller that had left before it could be told: nobody will ever report it.
/// `None` where that lease is gone already.
pub fn give_back(view: &View<'_>, id: LeaseId) -> Option<Draft> {
    view.lease_of(id).map(|_| Draft {
        lease: None,
        ..view.entry.draft()
    })
}
