//! How a rebuild ended, and whether a holder may keep its lease.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Coordinator, Error, MAX_TAGS, Renew, Renewed, ReportValue, Reported};
use crate::decision::{
    self, Body, Content, Draft, LeaseId, Outcome as Ending, Policy, RenewDecision, Report, ReportAnswer,
    ReportDecision, Tag, Value, View, lease_length,
};
use crate::store::{Commit, Event, Guard, Loaded, NewBytes, Outcome, Want};

impl Coordinator {
    /// Takes a report: the value is stored and handed to those who wait, or it is refused.
    pub async fn report(self: &Arc<Self>, mut request: ReportValue) -> Result<Reported, Error> {
        let policy = self.policy(request.key.namespace())?;
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
        let mut loaded = self
            .store
            .load(&request.key, &request.report.tags, Want::default())
            .await?;
        let answer = loop {
            match self.report_once(&request, &loaded, &policy).await? {
                Ok(answer) => break answer,
                Err(now) => loaded = now,
            }
        };
        match too_large {
            Some(error) if matches!(answer, ReportAnswer::Accepted { .. }) => Err(error),
            _ => Ok(Reported {
                answer,
                degraded: false,
            }),
        }
    }

    /// Decides and commits; `Err`: something has changed meanwhile, and how it is now.
    async fn report_once(
        &self,
        request: &ReportValue,
        loaded: &Loaded,
        policy: &Policy,
    ) -> Result<Result<ReportAnswer, Loaded>, Error> {
        let ReportValue { key, report, bytes } = request;
        let view = loaded.view();
        check_tags(&view, report)?;
        match decision::report(&view, report, policy, self.dice.draw()) {
            ReportDecision::Repeat => Ok(Ok(decision::accepted(&view, report.lease, policy))),
            ReportDecision::Refuse { rejection, revoke } => {
                if let Some(draft) = revoke {
                    // A renewal may have come in between: then the dead lease is still there, and is looked at again.
                    if let Outcome::Conflict(now) = self.store.commit(Commit::new(key, loaded, *draft)).await? {
                        return Ok(Err(now));
                    }
                }
                Ok(Ok(ReportAnswer::Rejected(rejection)))
            }
            ReportDecision::Accept { draft, body } => {
                let mut commit = Commit::new(key, loaded, *draft);
                commit.bytes = new_bytes(body, bytes);
                commit.guard = Some(guard(loaded, &report.tags));
                commit.events = self.refreshed(request, commit.draft.as_ref());
                match self.store.commit(commit).await? {
                    Outcome::Committed(done) => {
                        let view = View {
                            entry: &done.snapshot.entry,
                            generations: &loaded.generations,
                            now: done.now,
                        };
                        Ok(Ok(decision::accepted(&view, report.lease, policy)))
                    }
                    Outcome::Conflict(now) => Ok(Err(now)),
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

    /// Keeps a lease, up to its longest hold.
    pub async fn renew(self: &Arc<Self>, request: Renew) -> Result<Renewed, Error> {
        let policy = self.policy(request.key.namespace())?;
        let mut loaded = self.store.load(&request.key, &[], Want::default()).await?;
        loop {
            match decision::renew(&loaded.view(), request.lease, request.ttl, &policy) {
                RenewDecision::Lost { reason, ttl, max_hold } => {
                    return Ok(Renewed {
                        lost: Some(reason),
                        ttl,
                        max_hold,
                    });
                }
                RenewDecision::Keep(draft) => {
                    let mut commit = Commit::new(&request.key, &loaded, *draft);
                    commit.until = deadline(&loaded, request.lease);
                    match self.store.commit(commit).await? {
                        Outcome::Conflict(now) => loaded = now,
                        Outcome::Committed(done) => {
                            let lease = done.snapshot.entry.lease.as_deref();
                            let ttl = lease.map_or_else(
                                || lease_length(request.ttl, &policy),
                                |lease| lease.deadline.since(done.now),
                            );
                            let max_hold = lease.map_or(ttl, |lease| lease.hold_until.since(done.now));
                            return Ok(Renewed {
                                lost: None,
                                ttl,
                                max_hold,
                            });
                        }
                    }
                }
            }
        }
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
fn check_tags(view: &View<'_>, report: &Report) -> Result<(), Error> {
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

/// The report holds against every generation that bears on the lease, on the stored value, or on what the report names.
fn guard(loaded: &Loaded, reported: &[Tag]) -> Guard {
    let entry = &loaded.snapshot.entry;
    let stored = entry.value.as_ref().map_or(&[][..], Value::tags);
    let leased = entry.lease.as_deref().map_or(&[][..], decision::Lease::tags);
    let tags = stored.iter().chain(leased).chain(reported).cloned().collect();
    Guard {
        tags,
        newest: loaded.generations.newest(),
    }
}

fn deadline(loaded: &Loaded, id: LeaseId) -> decision::StoreTime {
    loaded
        .view()
        .lease_of(id)
        .map_or(decision::StoreTime::NEVER, |lease| lease.deadline)
}
