//! How a rebuild ended, and whether a holder may keep its lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::ask::Seen;
use super::shaping::End;
use super::{Coordinator, Error, MAX_TAGS, MOST_CONFLICTS, Renew, Renewed, ReportValue, Reported};
use crate::decision::{
    self, Body, Content, Draft, Lease, LeaseId, Outcome as Ending, Plan, Policy, Rejection, RenewDecision, Report,
    ReportAnswer, ReportDecision, StoreTime, Tag, Value, View, When,
};
use crate::store::{Commit, Committed, Event, Guard, Loaded, NewBytes, Outcome, StoreError, Want};

impl Coordinator {
    /// Takes a report: the value is stored and handed to those who wait, or it is refused.
    pub async fn report(self: &Arc<Self>, mut request: ReportValue) -> Result<Reported, Error> {
        let policy = self.policy(request.key.namespace())?;
        if request.report.lease.is_degraded() && !self.is_alone {
            return self.report_alone(request).await;
        }
        let too_large = too_large(&request, &policy);
        if let Some(Error::ValueTooLarge { size, max }) = &too_large {
            // It ends the lease as a failure: no retry of this rebuild would fare better.
            let message = format!("the value has {size} bytes, the namespace allows {max}").into();
            request.report.outcome = Ending::Failed {
                message,
                retry_after: None,
            };
            request.bytes = None;
        }
        let answer = self.report_until_committed(&request, &policy).await?;
        self.is_reported(&request, &answer);
        match too_large {
            Some(error) if matches!(answer, ReportAnswer::Accepted { .. }) => Err(error),
            _ => Ok(Reported {
                answer,
                degraded: false,
            }),
        }
    }

    /// Its lease has ended: a worker of this replica that had it may be given another. New demand is for the new value.
    fn is_reported(&self, request: &ReportValue, answer: &ReportAnswer) {
        if matches!(answer, ReportAnswer::Rejected(Rejection::NoValue)) {
            return;
        }
        let ReportValue { key, report, .. } = request;
        let given_back = report.outcome == Ending::Abandoned;
        self.workers.ended(key, report.lease.token, given_back);
        match &report.outcome {
            Ending::Built(_) | Ending::NotModified => self.demand.forget(key),
            // It was wanted, and was not refreshed.
            Ending::Abandoned if self.has_workers(key.namespace()) => self.demand.mark(key),
            Ending::Abandoned | Ending::Failed { .. } => {}
        }
    }

    /// Decides and commits, again for as long as somebody else is faster. What this replica remembers of the key is enough to accept the
    /// report, since the store checks it; whatever else comes of it is decided anew from what the store says.
    async fn report_until_committed(
        self: &Arc<Self>,
        request: &ReportValue,
        policy: &Policy,
    ) -> Result<ReportAnswer, Error> {
        let ReportValue { key, report, .. } = request;
        let mut seen = self.recall_or_see(key, &report.tags).await?;
        for _ in 0..MOST_CONFLICTS {
            let (mut decision, mut plan) = self.decide_report(&seen, report, policy);
            let accepts = matches!(decision, ReportDecision::Accept { .. }) && check_tags(&seen, report).is_ok();
            if seen.recalled && !accepts {
                self.shaping.levels.withdraw(key, plan);
                seen = self.see(key, &report.tags, Want::default()).await?;
                (decision, plan) = self.decide_report(&seen, report, policy);
            }
            if let Err(error) = check_tags(&seen, report) {
                self.shaping.levels.withdraw(key, plan);
                return Err(error);
            }
            let committed = self.commit_report(request, &seen, decision, policy).await;
            if !matches!(committed, Ok(Ok(_))) {
                self.shaping.levels.withdraw(key, plan);
            }
            match committed? {
                Ok(answer) => return Ok(answer),
                Err(now) => seen = now,
            }
        }
        Err(Error::contended())
    }

    /// The decision, with a lifetime that puts the value's next rebuild into a quiet second; that is noted.
    fn decide_report(&self, seen: &Seen, report: &Report, policy: &Policy) -> (ReportDecision, Option<Plan>) {
        let levels = &self.shaping.levels;
        let (draw, plan) = levels.choose(&seen.loaded, report, policy, self.dice.draw());
        let decision = decision::report(&seen.loaded.view(), report, policy, draw);
        if matches!(decision, ReportDecision::Accept { .. }) {
            return (decision, plan);
        }
        levels.withdraw(&seen.loaded.snapshot.key, plan);
        (decision, None)
    }

    /// `Err`: something has changed meanwhile, and how it is now.
    async fn commit_report(
        self: &Arc<Self>,
        request: &ReportValue,
        seen: &Seen,
        decision: ReportDecision,
        policy: &Policy,
    ) -> Result<Result<ReportAnswer, Seen>, StoreError> {
        let (ReportValue { key, report, bytes }, loaded) = (request, &seen.loaded);
        let sent = Instant::now();
        match decision {
            ReportDecision::Repeat => {
                self.lease_is_gone(key, report.lease);
                Ok(Ok(decision::accepted(&loaded.view(), report.lease, policy)))
            }
            ReportDecision::Refuse { rejection, revoke } => {
                if let Some(draft) = revoke {
                    // A renewal may have come in between: then the dead lease is still there, and is looked at again.
                    match self.store.commit(Commit::new(key, loaded, *draft)).await? {
                        Outcome::Conflict(now) => return Ok(Err(Seen::loaded(now, sent))),
                        Outcome::Committed(done) => self.lease_ended(key, report.lease, End::Vacated, done.now),
                    }
                }
                Ok(Ok(ReportAnswer::Rejected(rejection)))
            }
            ReportDecision::Accept { draft, body } => {
                let mut commit = Commit::new(key, loaded, *draft);
                commit.bytes = new_bytes(body, bytes);
                commit.guard = Some(guard(loaded, report.lease, &report.tags));
                commit.events = self.refreshed(request, commit.draft.as_ref());
                match self.store.commit(commit).await? {
                    Outcome::Committed(done) => {
                        self.lease_ended(key, report.lease, end(&report.outcome), done.now);
                        let view = View {
                            entry: &done.snapshot.entry,
                            generations: &loaded.generations,
                            now: done.now,
                        };
                        Ok(Ok(decision::accepted(&view, report.lease, policy)))
                    }
                    Outcome::Conflict(now) => Ok(Err(Seen::loaded(now, sent))),
                }
            }
        }
    }

    /// What watchers are told who asked for accepted reports, while there are any.
    fn refreshed(&self, request: &ReportValue, draft: Option<&Draft>) -> Vec<Event> {
        let built = matches!(request.report.outcome, Ending::Built(_) | Ending::NotModified);
        let value = draft.and_then(|draft| draft.value.as_ref());
        match value {
            Some(value) if built && self.store.feed().takes_refreshed() => vec![Event::Refreshed {
                key: request.key.clone(),
                version: value.version,
                fresh_until: value.fresh_until,
                stale_while_revalidate: value.stale_while_revalidate.length(),
                stale_if_error: value.stale_if_error.length(),
            }],
            _ => Vec::new(),
        }
    }

    /// Keeps a lease, up to its longest hold. As with a report, what this replica remembers is enough to keep it, and never to refuse.
    pub async fn renew(self: &Arc<Self>, request: Renew) -> Result<Renewed, Error> {
        let policy = self.policy(request.key.namespace())?;
        if request.lease.is_degraded() && !self.is_alone {
            return self.renew_alone(request).await;
        }
        let Renew { key, lease, ttl } = &request;
        let mut seen = self.recall_or_see(key, &[]).await?;
        let mut kept_place = false;
        for _ in 0..MOST_CONFLICTS {
            let mut decision = decision::renew(&seen.loaded.view(), *lease, *ttl, &policy);
            if seen.recalled && matches!(decision, RenewDecision::Lost { .. }) {
                seen = self.see(key, &[], Want::default()).await?;
                decision = decision::renew(&seen.loaded.view(), *lease, *ttl, &policy);
            }
            let draft = match decision {
                RenewDecision::Keep(draft) => draft,
                RenewDecision::Lost { reason, ttl, max_hold } => {
                    if kept_place && ttl.is_zero() {
                        self.lease_is_gone(key, *lease);
                    }
                    let age = seen.sent.elapsed();
                    return Ok(Renewed {
                        lost: Some(reason),
                        ttl: ttl.saturating_sub(age),
                        max_hold: max_hold.saturating_sub(age),
                    });
                }
            };
            let before = deadline(&seen.loaded, *lease);
            let until = self.keep_place(&seen, *lease, before, new_deadline(&draft)).await?;
            kept_place = true;
            let mut commit = Commit::new(key, &seen.loaded, *draft);
            commit.until = before.min(until);
            commit.guard = Some(guard(&seen.loaded, *lease, &[]));
            let sent = Instant::now();
            match self.store.commit(commit).await? {
                Outcome::Conflict(now) => seen = Seen::loaded(now, sent),
                Outcome::Committed(done) => {
                    let kept = kept(&done, sent.elapsed());
                    self.workers.renewed(key, lease.token, Instant::now() + kept.ttl);
                    let renewed = done
                        .snapshot
                        .entry
                        .lease
                        .as_deref()
                        .map_or(before, |lease| lease.deadline);
                    self.lease_renewed(key, *lease, before, renewed, done.now).await;
                    return Ok(kept);
                }
            }
        }
        Err(Error::contended())
    }
}

/// What a report's outcome is to others.
fn end(outcome: &Ending) -> End {
    match outcome {
        Ending::Built(_) | Ending::NotModified => End::Succeeded,
        Ending::Failed { .. } => End::Failed,
        Ending::Abandoned => End::Vacated,
    }
}

/// Until when the lease of a renewal is to live.
fn new_deadline(draft: &Draft) -> When {
    let lease = draft.lease.as_deref();
    lease.map_or(When::at(StoreTime::ZERO), |lease| lease.deadline)
}

/// What is left of a lease that was renewed by a commit that took so long: it counts from when that was sent.
fn kept(done: &Committed, took: Duration) -> Renewed {
    let lease = done.snapshot.entry.lease.as_deref();
    let left =
        |until: fn(&Lease) -> StoreTime| lease.map_or(Duration::ZERO, |lease| until(lease).since(done.now.after(took)));
    Renewed {
        lost: None,
        ttl: left(|lease| lease.deadline),
        max_hold: left(|lease| lease.hold_until),
    }
}

fn too_large(request: &ReportValue, policy: &Policy) -> Option<Error> {
    let size = request.bytes.as_ref().map_or(0, |bytes| bytes.len());
    let max = policy.max_value_bytes;
    let is_value = matches!(request.report.outcome, Ending::Built(Content::Bytes(_)));
    (is_value && size > max as usize).then_some(Error::ValueTooLarge { size, max })
}

/// Tags of the acquire, of the report and of a value that is confirmed are bounded together. The lease stays: the report may be
/// repeated with fewer, or with the value in full.
fn check_tags(seen: &Seen, report: &Report) -> Result<(), Error> {
    let view = seen.loaded.view();
    let Some(lease) = view.lease_of(report.lease) else {
        return Ok(());
    };
    let confirmed = view
        .entry
        .value
        .as_ref()
        .filter(|_| report.outcome == Ending::NotModified);
    let mut tags: HashSet<&Tag> = lease.tags().iter().chain(&report.tags).collect();
    tags.extend(confirmed.map_or(&[][..], Value::tags));
    let count = tags.len();
    if count <= MAX_TAGS {
        return Ok(());
    }
    Err(Error::InvalidField {
        field: "tags",
        problem: format!("with those given before, the entry would have {count} tags; at most {MAX_TAGS} are allowed"),
    })
}

fn new_bytes(body: Body, bytes: &Option<crate::store::Bytes>) -> NewBytes {
    match (body, bytes) {
        (Body::Keep, _) => NewBytes::Keep,
        (Body::Replace, Some(bytes)) => NewBytes::Put(bytes.clone()),
        (Body::Replace, None) | (Body::Clear, _) => NewBytes::Clear,
    }
}

/// No generation that bears on the lease, on the stored value, or on what the report names may be newer than the grant.
///
/// *Why not* "newer than what the decision knew": of a tag that the report is the first to name, what this replica remembers may know nothing,
/// and of another tag something newer.
fn guard(loaded: &Loaded, lease: LeaseId, reported: &[Tag]) -> Guard {
    let entry = &loaded.snapshot.entry;
    let stored = entry.value.as_ref().map_or(&[][..], Value::tags);
    let leased = entry.lease.as_deref().map_or(&[][..], Lease::tags);
    let tags = stored.iter().chain(leased).chain(reported).cloned().collect();
    Guard {
        tags,
        newest: lease.token,
    }
}

fn deadline(loaded: &Loaded, id: LeaseId) -> StoreTime {
    loaded
        .view()
        .lease_of(id)
        .map_or(StoreTime::NEVER, |lease| lease.deadline)
}
