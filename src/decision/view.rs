//! What a store knows of one key at one moment, and what that amounts to once invalidations of its tags and its namespace are
//! taken into account.

use super::{
    Cause, Draft, Entry, Generations, HAND_OVER, Lease, LeaseId, Mark, Number, Seq, StoreTime, Tag, Value, Verdict,
    When,
};

/// One key at one moment, as a store answered it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Its facts; an entry that does not exist is an empty one.
    pub entry: &'a Entry,
    /// What bears on it from outside: at least for its own tags and those of the question.
    pub generations: &'a Generations,
    /// The store's time.
    pub now: StoreTime,
}

/// A value that no invalidation has dropped, with the end of freshness that invalidations left it.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The facts.
    pub value: &'a Value,
    /// The effective end of freshness.
    pub fresh_until: StoreTime,
    /// Some invalidation is newer than the value.
    pub made_old: bool,
}

/// Where in its life a value stands for one caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Band {
    /// Served freely.
    Fresh,
    /// Inside stale-while-revalidate.
    Stale,
    /// Past that, inside stale-if-error.
    StaleOnError,
    /// There is nothing for this caller, and why a rebuild would be granted.
    Absent(Cause),
}

impl<'a> View<'a> {
    /// The value, unless an invalidation dropped it.
    pub fn standing(&self) -> Option<Standing<'a>> {
        let value = self.entry.value.as_ref()?;
        let marked = self.entry.mark.as_ref().is_some_and(|mark| mark.number > value.version);
        let (bound, made_old) = match self.generations.verdict(value.version, value.tags()) {
            Verdict::Valid => (StoreTime::NEVER, marked),
            Verdict::ExpiredAt(at) => (at, true),
            Verdict::Dropped => return None,
        };
        // The number says that it is old. The instant only says how long it may still be stale: a store whose clock was set back
        // must not make it fresh again.
        let bound = if made_old { bound.min(self.now) } else { bound };
        Some(Standing {
            value,
            fresh_until: value.fresh_until.min(bound),
            made_old,
        })
    }

    /// Whether the value is served freely.
    pub fn is_fresh(&self) -> bool {
        self.standing()
            .is_some_and(|standing| standing.band(self.now) == Band::Fresh)
    }

    /// The lease that counts: its time runs, and no invalidation is newer than it.
    pub fn lease(&self) -> Option<&'a Lease> {
        self.entry
            .live_lease(self.now)
            .filter(|lease| !self.makes_old(lease.token, lease.tags()))
    }

    /// Whether an invalidation of the key, of the namespace, of these tags or of the stored value's is newer than a grant.
    pub fn makes_old(&self, token: Seq, tags: &[Tag]) -> bool {
        let stored = self.entry.value.as_ref().map_or(&[][..], Value::tags);
        self.entry.mark.as_ref().is_some_and(|mark| mark.number > token)
            || self.generations.verdict(token, tags) != Verdict::Valid
            || (!stored.is_empty() && self.generations.verdict(token, stored) != Verdict::Valid)
    }

    /// The entry without a lease that an invalidation has made old. The tag that did it may have been known to the lease alone: the
    /// mark remembers for it, so that a late report still learns the right reason. (Not where a value is fresh that no
    /// invalidation touched: a mark would make that old too, and a vaguer reason is the smaller harm.)
    pub fn without_revoked(&self, lease: &Lease) -> Draft {
        let mut draft = Draft {
            lease: None,
            ..self.entry.draft()
        };
        let before = self.entry.mark.as_deref();
        let in_use = self.standing().is_some_and(|standing| {
            let until = standing.fresh_until.max(standing.value.stored_at.after(HAND_OVER));
            !standing.made_old && self.now < until
        });
        if !in_use && before.is_none_or(|mark| mark.number <= lease.token) {
            draft.mark = Some(Box::new(Mark {
                number: Number::Is(Seq(lease.token.0.saturating_add(1))),
                settle_until: When::at(before.map_or(StoreTime::ZERO, |mark| mark.settle_until)),
                keep_until: When::at(
                    before
                        .map_or(StoreTime::ZERO, |mark| mark.keep_until)
                        .max(lease.hold_until),
                ),
            }));
        }
        draft
    }

    /// When the refresh that is planned for the value is due. `None`: none is planned, or an invalidation has made the value old.
    pub fn refresh_due(&self) -> Option<StoreTime> {
        let standing = self.standing().filter(|standing| !standing.made_old)?;
        self.entry.refresh.due(standing.fresh_until)
    }

    /// From when on a caller is asked to refresh the value although workers are there: none of them has come for it.
    pub fn refresh_overdue(&self) -> Option<StoreTime> {
        let standing = self.standing().filter(|standing| !standing.made_old)?;
        self.entry.refresh.overdue(standing.fresh_until)
    }

    /// The lease with this id, whether its time runs or not.
    pub fn lease_of(&self, id: LeaseId) -> Option<&'a Lease> {
        self.entry.lease.as_deref().filter(|lease| lease.id() == id)
    }

    /// Whether the key's last accepted report was that of this lease.
    pub fn is_reported(&self, id: LeaseId) -> bool {
        self.entry.reported.is_some_and(|reported| reported.lease == id)
    }

    /// The highest number that a grant of this key is known to have had.
    pub fn newest_grant(&self) -> Seq {
        let lease = self.entry.lease.as_ref().map_or(Seq::NONE, |lease| lease.token);
        let value = self.entry.value.as_ref().map_or(Seq::NONE, |value| value.version);
        let reported = self.entry.reported.map_or(Seq::NONE, |reported| reported.lease.token);
        lease.max(value).max(reported)
    }

    /// Grants are refused until then, while that lies ahead.
    pub fn retry_at(&self) -> Option<StoreTime> {
        self.entry
            .trouble
            .as_ref()
            .map(|trouble| trouble.retry_at)
            .filter(|at| self.now < *at)
    }
}

impl Standing<'_> {
    /// Where it stands at `now`, for everybody alike.
    pub fn band(&self, now: StoreTime) -> Band {
        if now < self.fresh_until {
            Band::Fresh
        } else if now < self.fresh_until.after(self.value.stale_while_revalidate.length()) {
            Band::Stale
        } else if now < self.fresh_until.after(self.value.stale_if_error.length()) {
            Band::StaleOnError
        } else {
            Band::Absent(if self.made_old {
                Cause::Invalidated
            } else {
                Cause::Expired
            })
        }
    }

    /// Whether it ended the wait of a caller that was parked on the grant `parked_on`: then it is the answer, even if it is not
    /// to be stored or its life is over by now.
    pub fn ended_wait_on(&self, parked_on: Option<Seq>, now: StoreTime) -> bool {
        self.is_built_since(parked_on) && now < self.value.stored_at.after(HAND_OVER)
    }

    /// Whether it was built under the grant that a caller was parked on or a later one, and nothing has made it old.
    pub fn is_built_since(&self, parked_on: Option<Seq>) -> bool {
        parked_on.is_some_and(|token| self.value.version >= token) && !self.made_old
    }
}

impl Value {
    /// Its tags.
    pub fn tags(&self) -> &[Tag] {
        let tags = self.labels.as_ref().and_then(|labels| labels.tags.as_deref());
        tags.unwrap_or_default()
    }

    /// Whether it was given any life at all; otherwise it is here only for those that were parked.
    pub fn is_kept(&self) -> bool {
        self.stale_until() > self.stored_at
    }
}

impl Lease {
    /// Tags given with the question.
    pub fn tags(&self) -> &[Tag] {
        self.tags.as_deref().unwrap_or_default()
    }
}
