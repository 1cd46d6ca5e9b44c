//! A question about a key, and what the key's value is to whoever asks it.

use std::sync::Arc;
use std::time::Duration;

use super::{Band, Cause, Lease, Seq, StoreTime, Tag, View};

/// A question about a key.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Who asks; may be empty.
    pub holder: Arc<str>,
    /// The same in the retries of one question; may be empty.
    pub request_id: Arc<str>,
    /// Why.
    pub intent: Intent,
    /// Whether stale will do.
    pub accept_stale: bool,
    /// The caller has this version's bytes.
    pub known_version: Seq,
    /// Facts only.
    pub omit_value: bool,
    /// Wanted length of the lease.
    pub lease_ttl: Option<Duration>,
    /// The highest token that the caller's own store has seen.
    pub min_token: Seq,
    /// Tags that are known before the value is.
    pub tags: Option<Arc<[Tag]>>,
    /// A version at or below this does not count as present.
    pub newer_than: Seq,
    /// W3C traceparent of the caller.
    pub traceparent: Option<Arc<str>>,
    /// Of a caller that has been parked: the number of the grant it was first parked on.
    pub parked_on: Option<Seq>,
    /// There are workers for what is due, so that callers need not refresh it.
    pub workers: bool,
}

/// Why the caller asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Rebuild on a miss.
    Use,
    /// The caller's early-expiry draw fired.
    Early,
    /// Rebuild although fresh.
    Force,
    /// Never rebuild.
    Read,
}

/// How far ahead of the store's time a caller's own highest token may lie.
pub const TOKEN_AHEAD: Duration = Duration::from_secs(24 * 3600);

impl Ask {
    /// A question with nothing special about it.
    pub fn plain() -> Ask {
        Ask {
            holder: Arc::default(),
            request_id: Arc::default(),
            intent: Intent::Use,
            accept_stale: true,
            known_version: Seq::NONE,
            omit_value: false,
            lease_ttl: None,
            min_token: Seq::NONE,
            tags: None,
            newer_than: Seq::NONE,
            traceparent: None,
            parked_on: None,
            workers: false,
        }
    }

    /// The number of the question, by its name in the proto, that lies further ahead than any store can have issued. To follow such
    /// a `min_fencing_token` would run the sequence away from time; such a `newer_than` would never be met.
    pub fn too_far_ahead(&self, now: StoreTime) -> Option<&'static str> {
        let bound = Seq(now.after(TOKEN_AHEAD).0);
        let numbers = [(self.min_token, "min_fencing_token"), (self.newer_than, "newer_than")];
        numbers
            .into_iter()
            .find(|(number, _)| *number > bound)
            .map(|(_, field)| field)
    }

    pub(super) fn tags(&self) -> &[Tag] {
        self.tags.as_deref().unwrap_or_default()
    }

    /// A retry of the question that this lease answered.
    pub(super) fn is_answered_by(&self, lease: &Lease) -> bool {
        let same = self.request_id == lease.request_id && self.holder == lease.holder;
        same && !self.request_id.is_empty() && self.intent != Intent::Read
    }

    /// What the value is to this caller.
    pub(super) fn band(&self, view: &View<'_>) -> Band {
        let Some(standing) = view.standing() else {
            let dropped = view.entry.value.is_some() || view.entry.mark.is_some();
            return Band::Absent(if dropped { Cause::Invalidated } else { Cause::Miss });
        };
        if standing.value.version <= self.newer_than {
            return Band::Absent(Cause::Lost);
        }
        if standing.ended_wait_on(self.parked_on, view.now) {
            return Band::Fresh;
        }
        match standing.band(view.now) {
            Band::Stale | Band::StaleOnError if !self.accept_stale => Band::Absent(Cause::Stale),
            band => band,
        }
    }

    /// A forced rebuild is done for those that were parked on it once its value is there, however late they come to look.
    pub(super) fn effective_intent(&self, view: &View<'_>) -> Intent {
        let served = view
            .standing()
            .is_some_and(|standing| standing.is_built_since(self.parked_on));
        if served && matches!(self.intent, Intent::Force | Intent::Early) {
            Intent::Use
        } else {
            self.intent
        }
    }
}

/// Generations that a question depends on besides those of the entry's own tags.
pub fn tags_asked(ask: &Ask) -> &[Tag] {
    ask.tags()
}
