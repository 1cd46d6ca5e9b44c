//! May this caller rebuild, is there something to use, or is somebody already on it?
//!
//! One function a column of the decision table in `README.md`, one `match` arm a row. The order is: the caller's own lease again,
//! somebody's lease, no grant allowed, nobody's lease.

use std::time::Duration;

use super::{
    Answer, Ask, Band, Busy, BusyCause, Cause, Content, Decision, Draw, Expiry, Grant, Hit, Intent, KeepOff, LONGEST,
    Lease, LostReason, Number, Policy, Rebuild, SHORTEST_LEASE, Seq, Standing, StoreTime, Trouble, View, Wait, When,
    fan,
};

/// A busy caller is not told to come back sooner.
const SOONEST: Duration = Duration::from_millis(100);

/// Decides about a question. `policy` is that of the key's namespace.
pub fn acquire(view: &View<'_>, ask: &Ask, policy: &Policy, draw: Draw) -> Decision {
    let question = Question {
        view,
        ask,
        policy,
        draw,
        band: ask.band(view),
        intent: ask.effective_intent(view),
    };
    match view.lease() {
        Some(lease) if ask.is_answered_by(lease) => Decision::Answer(question.same_lease_again(lease)),
        Some(lease) => question.held(lease),
        None if view.retry_at().is_some() => Decision::Answer(question.no_grant_allowed()),
        None => question.unheld(),
    }
}

/// The answer to the caller whose grant the store took. `lease` is as committed, `now` the time of the commit.
pub fn granted(grant: &Grant, lease: &Lease, now: StoreTime, cost: Duration, policy: &Policy) -> Answer {
    Answer::Rebuild(Box::new(Rebuild {
        lease: lease.id(),
        ttl: lease.deadline.since(now),
        max_hold: lease.hold_until.since(now),
        cause: grant.cause,
        fallback: grant.fallback.clone(),
        fallback_on_failure_only: grant.fallback_on_failure_only,
        planned: Expiry::upper_bound(policy, cost),
        max_value_bytes: policy.max_value_bytes,
    }))
}

/// What becomes of a caller that could be granted the lease, but whom others are ahead of: those who have been waiting for longer, or
/// one whose grant is under way. As if they had it already, so with what it may use at once, and else it waits.
pub fn behind(grant: Grant, ask: &Ask, draw: Draw) -> Decision {
    let insists = ask.intent == Intent::Force;
    let when_over = match grant.fallback {
        Some(hit) if !insists && !grant.fallback_on_failure_only => return Decision::Answer(Answer::Hit(hit)),
        Some(hit) if !(insists && hit.fresh) => Answer::Hit(hit),
        _ => Answer::Busy(Busy {
            retry_after: fan(SOONEST, draw),
            lease_remaining: Duration::ZERO,
            cause: BusyCause::WaitElapsed,
        }),
    };
    Decision::Wait(Wait {
        on: Seq::NONE,
        until: StoreTime::NEVER,
        when_over,
    })
}

/// The facts of the value, for people: there is one while any band holds it, whoever asks.
pub fn facts(view: &View<'_>, policy: &Policy) -> Option<Hit> {
    let standing = view.standing()?;
    let fresh = match standing.band(view.now) {
        Band::Fresh => true,
        Band::Stale | Band::StaleOnError => false,
        Band::Absent(_) => return None,
    };
    let ask = Ask {
        omit_value: true,
        ..Ask::plain()
    };
    Some(hit(view, &standing, fresh, view.lease().is_some(), &ask, policy))
}

/// How the origin has been failing, while it is.
pub fn trouble(view: &View<'_>, draw: Draw) -> Option<KeepOff> {
    let at = view.retry_at()?;
    view.entry
        .trouble
        .as_deref()
        .map(|trouble| keep_off(trouble, at.since(view.now), draw))
}

fn keep_off(trouble: &Trouble, left: Duration, draw: Draw) -> KeepOff {
    KeepOff {
        retry_after: fan(left, draw).min(LONGEST),
        failures: trouble.failures,
        message: trouble.message.clone(),
        circuit_open: false,
    }
}

/// A caller's own lease length, cut to what the policy allows.
pub fn lease_length(asked: Option<Duration>, policy: &Policy) -> Duration {
    asked
        .unwrap_or(policy.lease_ttl)
        .clamp(SHORTEST_LEASE, policy.max_hold.max(SHORTEST_LEASE))
}

/// The grant for a worker, whose question is answered whatever the table says. Nobody holds the lease, and grants are allowed.
pub(super) fn grant_as(view: &View<'_>, ask: &Ask, policy: &Policy, draw: Draw, cause: Cause) -> Box<Grant> {
    let question = Question {
        view,
        ask,
        policy,
        draw,
        band: ask.band(view),
        intent: ask.intent,
    };
    question.grant(cause)
}

/// Everything that the answer depends on.
struct Question<'a> {
    view: &'a View<'a>,
    ask: &'a Ask,
    policy: &'a Policy,
    draw: Draw,
    band: Band,
    intent: Intent,
}

impl Question<'_> {
    fn held(&self, lease: &Lease) -> Decision {
        match self.band {
            Band::Fresh if self.intent == Intent::Force => self.wait(lease, self.busy(lease)),
            Band::Fresh => Decision::Answer(self.hit(true, true)),
            // Whoever insists on a new value gets it from the running rebuild, as on a miss.
            Band::Stale if self.intent == Intent::Force => self.wait(lease, self.hit(false, true)),
            Band::Stale => Decision::Answer(self.hit(false, true)),
            Band::StaleOnError => self.wait(lease, self.hit(false, true)),
            Band::Absent(_) => self.wait(lease, self.busy(lease)),
        }
    }

    fn no_grant_allowed(&self) -> Answer {
        match self.band {
            Band::Fresh => self.hit(true, false),
            Band::Stale | Band::StaleOnError => self.hit(false, false),
            Band::Absent(_) => self.keep_off(),
        }
    }

    fn unheld(&self) -> Decision {
        let reads = self.intent == Intent::Read;
        match self.band {
            Band::Fresh => match self.intent {
                Intent::Early => Decision::Grant(self.grant(Cause::Early)),
                Intent::Force => Decision::Grant(self.grant(Cause::Forced)),
                Intent::Use if self.is_to_refresh() => Decision::Grant(self.grant(Cause::Early)),
                Intent::Use | Intent::Read => Decision::Answer(self.hit(true, false)),
            },
            Band::Stale | Band::StaleOnError if reads => Decision::Answer(self.hit(false, false)),
            Band::Absent(_) if reads => Decision::Answer(Answer::Miss),
            Band::Stale | Band::StaleOnError => Decision::Grant(self.grant(Cause::Stale)),
            Band::Absent(cause) => Decision::Grant(self.grant(cause)),
        }
    }

    /// A refresh is due, and there is no worker who could be given it, or none who has come for it in time.
    fn is_to_refresh(&self) -> bool {
        let from = if self.ask.workers {
            self.view.refresh_overdue()
        } else {
            self.view.refresh_due()
        };
        from.is_some_and(|from| from <= self.view.now)
    }

    /// A retry whose first answer was lost.
    fn same_lease_again(&self, lease: &Lease) -> Answer {
        let (fallback, fallback_on_failure_only) = self.fallback();
        Answer::Rebuild(Box::new(Rebuild {
            lease: lease.id(),
            ttl: lease.deadline.since(self.view.now),
            max_hold: lease.hold_until.since(self.view.now),
            cause: lease.cause,
            fallback,
            fallback_on_failure_only,
            planned: Expiry::upper_bound(self.policy, self.view.entry.cost.length()),
            max_value_bytes: self.policy.max_value_bytes,
        }))
    }

    fn grant(&self, underlying: Cause) -> Box<Grant> {
        let entry = self.view.entry;
        // A lease that is still here is over or revoked. Whoever was parked on it takes over, and so does whoever finds that its
        // holder never came back; one that an invalidation revoked explains itself by that.
        let abandoned = entry
            .lease
            .as_deref()
            .filter(|lease| !self.view.makes_old(lease.token, lease.tags()));
        let takes_over = self.ask.parked_on.is_some() || abandoned.is_some();
        let cause = if takes_over { Cause::Takeover } else { underlying };
        let lease = Lease {
            token: Number::Next,
            secret: self.draw.secret(),
            holder: self.ask.holder.clone(),
            request_id: self.ask.request_id.clone(),
            cause,
            granted_at: When::now(),
            deadline: When::after(lease_length(self.ask.lease_ttl, self.policy)),
            hold_until: When::after(self.policy.max_hold),
            tags: self.ask.tags.clone(),
            traceparent: self.ask.traceparent.clone(),
        };
        let (fallback, fallback_on_failure_only) = self.fallback();
        // What the grant relies on being over.
        let lease_over = abandoned.map_or(StoreTime::ZERO, |lease| lease.deadline);
        let pause_over = entry
            .trouble
            .as_ref()
            .map_or(StoreTime::ZERO, |trouble| trouble.retry_at);
        let mut draft = match (entry.lease.as_deref(), abandoned) {
            (Some(revoked), None) => self.view.without_revoked(revoked),
            _ => entry.draft(),
        };
        draft.lease = Some(Box::new(lease));
        draft.refresh = draft.refresh.asked_for();
        Box::new(Grant {
            draft,
            not_before: lease_over.max(pause_over),
            above: self.ask.min_token,
            cause,
            fallback,
            fallback_on_failure_only,
            supersedes: entry.lease.as_deref().map(|lease| match abandoned {
                Some(_) => (lease.clone(), LostReason::Superseded),
                None => (lease.clone(), LostReason::Invalidated),
            }),
        })
    }

    fn wait(&self, lease: &Lease, when_over: Answer) -> Decision {
        Decision::Wait(Wait {
            on: lease.token,
            until: lease.deadline,
            when_over,
        })
    }

    fn busy(&self, lease: &Lease) -> Answer {
        let left = lease.deadline.since(self.view.now);
        let likely = left.min(self.view.entry.cost.length().max(SOONEST));
        Answer::Busy(Busy {
            retry_after: fan(likely, self.draw),
            lease_remaining: left,
            cause: BusyCause::WaitElapsed,
        })
    }

    fn keep_off(&self) -> Answer {
        let left = self
            .view
            .retry_at()
            .map_or(Duration::ZERO, |at| at.since(self.view.now));
        // Called where a pause is on, so there is always its reason.
        self.view.entry.trouble.as_deref().map_or(Answer::Miss, |trouble| {
            Answer::KeepOff(keep_off(trouble, left, self.draw))
        })
    }

    /// What the holder may serve meanwhile, and whether only after it failed.
    fn fallback(&self) -> (Option<Hit>, bool) {
        match self.band {
            Band::Fresh => (self.usable(true, true), false),
            Band::Stale => (self.usable(false, true), false),
            Band::StaleOnError => (self.usable(false, true), true),
            Band::Absent(_) => (None, false),
        }
    }

    fn hit(&self, fresh: bool, rebuilding: bool) -> Answer {
        self.usable(fresh, rebuilding).map_or(Answer::Miss, Answer::Hit)
    }

    fn usable(&self, fresh: bool, rebuilding: bool) -> Option<Hit> {
        self.view
            .standing()
            .map(|standing| hit(self.view, &standing, fresh, rebuilding, self.ask, self.policy))
    }
}

/// A value as one caller gets it.
fn hit(view: &View<'_>, standing: &Standing<'_>, fresh: bool, rebuilding: bool, ask: &Ask, policy: &Policy) -> Hit {
    let value = standing.value;
    let labels = value.labels.as_deref();
    let has_it = (value.since..=value.version).contains(&ask.known_version);
    let unchanged = has_it && ask.known_version.is_some() && value.content != Content::NotFound;
    Hit {
        version: value.version,
        fresh,
        content: value.content.for_caller(unchanged, ask.omit_value),
        age: view.now.since(value.stored_at),
        expiry: Expiry::of(view, standing, policy.beta),
        rebuilding,
        tags: labels.and_then(|labels| labels.tags.clone()),
        traceparent: labels.and_then(|labels| labels.traceparent.clone()),
    }
}
