//! What a client does with a lease: it works, renews, reports in any of the ways there are, comes late, or never; and it misuses old ones.

use std::time::Duration;

use drover::decision::LeaseId;
use drover::proto;
use drover::proto::report_value_request::Outcome as Outcomes;
use futures_util::future::join;
use rand::RngExt;
use tokio::time::sleep;

use super::{Client, HAD};
use crate::calls::{Who, bytes_of, span};
use crate::checker::model::{End, Grant, Outcome, Report};
use crate::names::{LONGEST_LEASE, LONGEST_LIFE, MILL};

impl Client {
    pub(super) async fn rebuild(&mut self, replica: u16, key: u32, grant: Grant) {
        if self.had.len() == HAD {
            self.had.remove(0);
        }
        self.had.push((key, grant.lease));
        let left = grant.over_by.saturating_sub(self.lines.recorder.now()).max(1_000);
        let work = match self.rng.random_range(0..100) {
            0..60 => self.rng.random_range(0..20_000),
            60..92 => self.rng.random_range(0..left),
            // It was paused, and comes late.
            _ => self.rng.random_range(left..=2 * left),
        };
        sleep(Duration::from_micros(work / 2)).await;
        if self.chance(0.2) {
            self.renew(key, grant.lease).await;
        }
        sleep(Duration::from_micros(work - work / 2)).await;
        if self.chance(0.04) {
            return; // It crashed.
        }
        let report = self.outcome(key, &grant);
        self.tell(replica, report, 4).await;
    }

    /// So that values come due again and again; where there are few places, long enough that others wait for them.
    pub(super) async fn rebuild_mostly_at_once(&mut self, replica: u16, key: u32, grant: Grant) {
        if self.chance(0.2) {
            return self.rebuild(replica, key, grant).await;
        }
        let shortest = if self.lines.names.namespace_of(key) == MILL {
            60_000
        } else {
            0
        };
        let work = self.rng.random_range(shortest..shortest + 20_000);
        sleep(Duration::from_micros(work)).await;
        let report = self.outcome(key, &grant);
        self.tell(replica, report, 4).await;
    }

    /// A plain value: its bytes name the lease that it was built under.
    pub(super) fn value(&mut self, key: u32, grant: &Grant) -> (proto::ReportValueRequest, Report) {
        self.value_of(key, grant.lease)
    }

    pub(super) fn value_of(&mut self, key: u32, lease: LeaseId) -> (proto::ReportValueRequest, Report) {
        let (namespace, name) = self.lines.names.key(key);
        let length = self.rng.random_range(0..=2 * self.manners.bytes);
        let request = proto::ReportValueRequest {
            namespace: namespace.to_owned(),
            key: name.to_owned(),
            lease_id: lease.to_string(),
            outcome: Some(Outcomes::Value(bytes_of(lease, length).into())),
            ..Default::default()
        };
        let report = Report {
            key,
            lease,
            outcome: Outcome::Built,
            tags: Box::default(),
        };
        (request, report)
    }

    pub(super) fn outcome(&mut self, key: u32, grant: &Grant) -> (proto::ReportValueRequest, Report) {
        let value = self.value(key, grant);
        self.varied(value)
    }

    /// Changes a plain value into one of the ways that a rebuild may end.
    pub(super) fn varied(&mut self, value: (proto::ReportValueRequest, Report)) -> (proto::ReportValueRequest, Report) {
        let (mut request, mut report) = value;
        let (outcome, sent) = match self.rng.random_range(0..100) {
            0..60 => (Outcome::Built, None),
            60..64 => {
                let external = proto::External {
                    locator: "there".to_owned(),
                };
                (Outcome::Built, Some(Outcomes::External(external)))
            }
            64..68 => (Outcome::Built, Some(Outcomes::NotFound(proto::NotFound {}))),
            68..75 => (Outcome::NotModified, Some(Outcomes::NotModified(proto::NotModified {}))),
            75..83 => {
                let failure = proto::Failure {
                    message: "the origin is down".to_owned(),
                    retry_after: None,
                };
                (Outcome::Failed, Some(Outcomes::Failure(failure)))
            }
            83..94 => (Outcome::Abandoned, Some(Outcomes::Abandon(proto::Abandon {}))),
            _ => {
                request.do_not_store = true;
                (Outcome::NotStored, None)
            }
        };
        report.outcome = outcome;
        if let Some(sent) = sent {
            request.outcome = Some(sent);
        }
        if self.chance(0.2) {
            report.tags = self.tags(report.key);
            request.tags = report.tags.iter().map(|tag| self.lines.names.tag(*tag)).collect();
        }
        if self.chance(0.15) {
            let mut life = || span(self.rng.random_range(0..LONGEST_LIFE / 2));
            request.ttl = Some(proto::Lifetimes {
                fresh_ttl: life(),
                stale_while_revalidate: life(),
                stale_if_error: life(),
            });
        }
        (request, report)
    }

    /// Reports until it is known what became of it, a few times; at the replica that granted the lease first.
    pub(super) async fn tell(&mut self, replica: u16, report: (proto::ReportValueRequest, Report), tries: usize) {
        let (request, asked) = report;
        let mut who = Who {
            replica,
            ..self.somewhere()
        };
        let twice = self.manners.twice || self.chance(0.05);
        for _ in 0..tries {
            let op = if twice {
                let there = self.somewhere();
                let (one, other) = join(
                    self.lines.report(who, request.clone(), asked.clone()),
                    self.lines.report(there, request.clone(), asked.clone()),
                )
                .await;
                self.keep(other);
                one
            } else {
                self.lines.report(who, request.clone(), asked.clone()).await
            };
            let known = !matches!(op.end, End::Unknown(_) | End::Failed(_));
            self.keep(op);
            if known {
                break;
            }
            who = self.somewhere();
            let pause = self.one_of(&[1, 10, 120]);
            sleep(Duration::from_millis(pause)).await;
        }
        if self.chance(0.04) {
            // Its answer was lost, as far as the client knows; or it has lost its mind.
            let (request, asked) = if self.chance(0.3) {
                let value = self.value_of(asked.key, asked.lease);
                self.varied(value)
            } else {
                (request, asked)
            };
            let who = self.somewhere();
            let op = self.lines.report(who, request, asked).await;
            self.keep(op);
        }
    }

    pub(super) async fn renew(&mut self, key: u32, lease: LeaseId) {
        let ttl = self.chance(0.5).then(|| self.rng.random_range(100_000..=LONGEST_LEASE));
        let (namespace, name) = self.lines.names.key(key);
        let request = proto::RenewLeaseRequest {
            namespace: namespace.to_owned(),
            key: name.to_owned(),
            lease_id: lease.to_string(),
            ttl: ttl.and_then(span),
        };
        let who = self.somewhere();
        let op = self.lines.renew(who, request, key, lease).await;
        self.keep(op);
    }

    /// Reports and renews with leases that are over, or of somebody else, or never were.
    pub(super) async fn misuse(&mut self) {
        if self.had.is_empty() {
            return;
        }
        let (key, mut lease) = self.had[self.rng.random_range(0..self.had.len())];
        match self.rng.random_range(0..4) {
            0 => lease.secret = lease.secret.saturating_add(1),
            1 => lease.token.0 += 1,
            _ => {}
        }
        if self.chance(0.5) {
            let (request, asked) = self.value_of(key, lease);
            let who = self.somewhere();
            let op = self.lines.report(who, request, asked).await;
            self.keep(op);
        } else {
            self.renew(key, lease).await;
        }
    }
}
