//! How a rebuild ended: is the report that of the current grant, and what does it leave behind?

use std::sync::Arc;
use std::time::Duration;

use super::{
    Body, Content, Draft, Draw, Expiry, Labels, Lease, LeaseId, Lifetimes, Plan, Planned, Policy, Range, Refresh,
    Rejection, ReportAnswer, ReportDecision, Reported, Seq, StoreTime, Tag, Trouble, Value, View, When, known_cost,
    smooth,
};

/// A report about a key.
#[derive(Clone, Debug)]
pub struct Report {
    /// Of the grant.
    pub lease: LeaseId,
    /// How it ended.
    pub outcome: Outcome,
    /// What it cost; absent: from grant to report.
    pub cost: Option<Duration>,
    /// The value's tags, besides those given at the acquire.
    pub tags: Vec<Tag>,
    /// Overrides the policy.
    pub lifetimes: Lifetimes,
    /// Only for those that are parked.
    pub do_not_store: bool,
}

/// How a rebuild ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With something: bytes, something in the callers' own store, or the fact that the origin has none.
    Built(Content),
    /// What was there is still right.
    NotModified,
    /// It failed.
    Failed {
        /// For people.
        message: Arc<str>,
        /// At least this long.
        retry_after: Option<Duration>,
    },
    /// The caller gives the lease up.
    Abandoned,
}

impl Outcome {
    /// Its name in logs, metrics and traces.
    pub fn as_str(&self) -> &'static str {
        match self {
            Outcome::Built(Content::Bytes(_)) => "value",
            Outcome::Built(Content::External(_)) => "external",
            Outcome::Built(Content::NotFound) => "not_found",
            Outcome::NotModified => "not_modified",
            Outcome::Failed { .. } => "failure",
            Outcome::Abandoned => "abandoned",
        }
    }
}

/// How long after its back-off a failure still counts as the last one in a row.
fn remember_failures(policy: &Policy) -> Duration {
    policy.backoff.max.max(Duration::from_secs(60))
}

/// Decides about a report. `policy` is that of the key's namespace.
pub fn report(view: &View<'_>, report: &Report, policy: &Policy, draw: Draw) -> ReportDecision {
    if view.is_reported(report.lease) {
        return repeated(view, report);
    }
    let Some(lease) = view.lease_of(report.lease) else {
        return ReportDecision::Refuse {
            rejection: why_not(view, report),
            revoke: None,
        };
    };
    if view.makes_old(lease.token, lease.tags()) || view.makes_old(lease.token, &report.tags) {
        // The grant is dead, and so is the lease: whoever waits for it is to be promoted now, not when its time is over.
        return ReportDecision::Refuse {
            rejection: Rejection::Invalidated,
            revoke: Some(Box::new(view.without_revoked(lease))),
        };
    }
    let ended = Ended {
        view,
        lease,
        report,
        policy,
        draw,
    };
    match &report.outcome {
        Outcome::Built(content) => ended.built(content),
        Outcome::NotModified => ended.not_modified(),
        Outcome::Failed { message, retry_after } => ended.failed(message, *retry_after),
        Outcome::Abandoned => ReportDecision::Accept {
            draft: Box::new(ended.draft()),
            body: Body::Keep,
        },
    }
}

/// The lease was reported before. Only the same outcome is that report again: another one comes too late, and to call it accepted would
/// make its caller believe that its value is there.
fn repeated(view: &View<'_>, report: &Report) -> ReportDecision {
    let token = report.lease.token;
    let built = matches!(report.outcome, Outcome::Built(_) | Outcome::NotModified);
    let stored = view.entry.value.as_ref().is_some_and(|value| value.version == token);
    // What was stored may have been dropped since.
    if built == stored || (built && view.makes_old(token, &report.tags)) {
        return ReportDecision::Repeat;
    }
    ReportDecision::Refuse {
        rejection: Rejection::UnknownLease,
        revoke: None,
    }
}

/// The answer to an accepted report, from the entry as it is now: right after the commit, or when the report is repeated.
pub fn accepted(view: &View<'_>, id: LeaseId, policy: &Policy) -> ReportAnswer {
    if view.entry.value.as_ref().is_none_or(|value| value.version != id.token) {
        return ReportAnswer::Accepted {
            version: Seq::NONE,
            expiry: None,
        };
    }
    let (cost, beta) = (view.entry.cost.length(), policy.beta);
    // An invalidation may have come between the report and its repetition: then no life is left that the caller could count on.
    let left = match view.standing() {
        Some(standing) => Expiry::of(view, &standing, beta),
        None => Planned::nothing().expiry(cost, beta),
    };
    ReportAnswer::Accepted {
        version: id.token,
        expiry: Some(left),
    }
}

/// What a report's value will want next, whichever draw it is decided with: for choosing that draw.
#[derive(Clone, Copy, Debug)]
pub struct Outlook {
    now: StoreTime,
    fresh: Range,
    cost: Duration,
    /// What the refresh must have time for.
    longer_cost: Duration,
    beta: f64,
}

/// The outlook of a report. `None` where it brings no value that stays.
pub fn outlook(view: &View<'_>, report: &Report, policy: &Policy) -> Option<Outlook> {
    let content = match &report.outcome {
        Outcome::Built(content) => content,
        Outcome::NotModified => &view.entry.value.as_ref()?.content,
        Outcome::Failed { .. } | Outcome::Abandoned => return None,
    };
    let fresh = report.lifetimes.freshness(policy, *content == Content::NotFound);
    let (measured, cost) = costs(view, view.lease_of(report.lease)?, report);
    let stays = !report.do_not_store && !fresh.longest.is_zero();
    stays.then_some(Outlook {
        now: view.now,
        fresh,
        cost,
        longer_cost: measured.max(cost),
        beta: policy.beta,
    })
}

impl Outlook {
    /// When it will want to be rebuilt if it is decided with this draw, and at what cost.
    pub fn plan(&self, draw: Draw) -> Plan {
        let fresh = self.fresh.at(draw);
        let gap = Refresh::gap(fresh, self.longer_cost, self.beta, draw);
        Plan {
            at: self.now.after(fresh - gap),
            cost: known_cost(self.cost, fresh),
        }
    }
}

/// What a rebuild cost, and what rebuilds of the key cost by and large.
fn costs(view: &View<'_>, lease: &Lease, report: &Report) -> (Duration, Duration) {
    let measured = report.cost.unwrap_or_else(|| view.now.since(lease.granted_at));
    (measured, smooth(view.entry.cost.length(), measured))
}

/// Why a lease that is not here is not.
fn why_not(view: &View<'_>, report: &Report) -> Rejection {
    let token = report.lease.token;
    let newest = view.newest_grant();
    if token == newest {
        // The number of a grant that is known, with another random part.
        Rejection::UnknownLease
    } else if view.makes_old(token, &report.tags) {
        Rejection::Invalidated
    } else if token < newest {
        Rejection::Superseded
    } else {
        Rejection::UnknownLease
    }
}

/// A lease that ends with this report.
struct Ended<'a> {
    view: &'a View<'a>,
    lease: &'a Lease,
    report: &'a Report,
    policy: &'a Policy,
    draw: Draw,
}

impl Ended<'_> {
    /// The entry without the lease.
    fn draft(&self) -> Draft {
        let reported = Reported {
            lease: self.report.lease,
            at: When::now(),
        };
        Draft {
            lease: None,
            reported: Some(reported),
            ..self.view.entry.draft()
        }
    }

    fn built(&self, content: &Content) -> ReportDecision {
        let tags = union(&[self.lease.tags(), &self.report.tags]);
        let draft = self.stored(content.clone(), self.lease.token, tags);
        let body = if matches!(content, Content::Bytes(_)) {
            Body::Replace
        } else {
            Body::Clear
        };
        ReportDecision::Accept {
            draft: Box::new(draft),
            body,
        }
    }

    fn not_modified(&self) -> ReportDecision {
        let Some(old) = self
            .view
            .standing()
            .map(|standing| standing.value)
            .filter(|value| value.is_kept())
        else {
            return ReportDecision::Refuse {
                rejection: Rejection::NoValue,
                revoke: None,
            };
        };
        // Those of the acquire mark the value too: it was confirmed under them.
        let tags = union(&[old.tags(), self.lease.tags(), &self.report.tags]);
        let draft = self.stored(old.content.clone(), old.since, tags);
        ReportDecision::Accept {
            draft: Box::new(draft),
            body: Body::Keep,
        }
    }

    fn failed(&self, message: &Arc<str>, retry_after: Option<Duration>) -> ReportDecision {
        let before = self
            .view
            .entry
            .trouble
            .as_ref()
            .filter(|trouble| self.view.now < trouble.remember_until);
        let failures = before.map_or(0, |trouble| trouble.failures).saturating_add(1);
        let pause = self.policy.backoff.pause(failures, retry_after, self.draw);
        let trouble = Trouble {
            failures,
            retry_at: When::after(pause),
            remember_until: When::after(pause.saturating_add(remember_failures(self.policy))),
            message: message.clone(),
        };
        let draft = Draft {
            trouble: Some(Box::new(trouble)),
            ..self.draft()
        };
        ReportDecision::Accept {
            draft: Box::new(draft),
            body: Body::Keep,
        }
    }

    /// The entry with a value instead of the lease.
    fn stored(&self, content: Content, since: Seq, tags: Option<Arc<[Tag]>>) -> Draft {
        let (measured, cost) = costs(self.view, self.lease, self.report);
        let settled = self.settled(tags.as_deref().unwrap_or_default());
        let planned = self.planned(&content);
        // What is built before its origin has settled must be built again after that: to do it a moment before would be in vain.
        let gap = if settled <= self.view.now.after(planned.fresh) {
            Duration::ZERO
        } else {
            Refresh::gap(planned.fresh, measured.max(cost), self.policy.beta, self.draw)
        };
        let value = Value {
            version: self.lease.token,
            since,
            content,
            stored_at: When::now(),
            fresh_until: When::after(planned.fresh).at_most(settled),
            stale_while_revalidate: planned.stale_while_revalidate.into(),
            stale_if_error: planned.stale_if_error.into(),
            labels: Labels::of(tags, self.lease.traceparent.clone()),
        };
        Draft {
            value: Some(value),
            trouble: None,
            cost: cost.into(),
            refresh: self.view.entry.refresh.with_gap(gap),
            ..self.draft()
        }
    }

    fn planned(&self, content: &Content) -> Planned {
        match content {
            _ if self.report.do_not_store => Planned::nothing(),
            _ if self.report.lifetimes.fresh_ttl == Some(Duration::ZERO) => Planned::nothing(),
            Content::NotFound => Planned::negative(self.policy, self.report.lifetimes, self.draw),
            Content::Bytes(_) | Content::External(_) => Planned::value(self.policy, self.report.lifetimes, self.draw),
        }
    }

    /// The origin's replicas may have lagged when this was built: then it is fresh at most until they have caught up.
    fn settled(&self, tags: &[Tag]) -> StoreTime {
        let mark = self
            .view
            .entry
            .mark
            .as_ref()
            .map_or(StoreTime::ZERO, |mark| mark.settle_until);
        let settle_until = mark.max(self.view.generations.settle_until(tags));
        if self.lease.granted_at < settle_until {
            settle_until
        } else {
            StoreTime::NEVER
        }
    }
}

/// All of them, each tag once.
fn union(sets: &[&[Tag]]) -> Option<Arc<[Tag]>> {
    let mut tags: Vec<Tag> = Vec::new();
    for tag in sets.iter().copied().flatten() {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    if tags.is_empty() { None } else { Some(tags.into()) }
}
