//! Clients that do everything a client may do, and much that it should not. Each keeps its own account.

use std::collections::HashMap;
use std::time::Duration;

use drover::decision::{Intent, LeaseId};
use drover::proto;
use drover::proto::report_value_request::Outcome as Outcomes;
use futures_util::future::join;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::calls::{Lines, Who, bytes_of, intent_of, span};
use crate::checker::model::{End, Grant, Op, Outcome, Question, Report, Target};
use crate::names::{LONGEST_LEASE, LONGEST_LIFE, MAX_WAIT, RELAY, SHOP, STILL};

/// How clients behave in a run.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Between one thing and the next, on average, in microseconds.
    pub pause: u64,
    /// Of a value.
    pub bytes: usize,
    /// Every call is made twice, at two replicas.
    pub twice: bool,
}

pub struct Client {
    pub number: u32,
    lines: Lines,
    manners: Manners,
    rng: StdRng,
    questions: u64,
    ops: Vec<Op>,
    /// Leases it once had, to misuse them: the last few.
    had: Vec<(u32, LeaseId)>,
    /// The highest version it has seen, by key.
    seen: HashMap<u32, u64>,
    over: CancellationToken,
}

/// So many leases are remembered for misuse.
const HAD: usize = 16;

pub fn holder(number: u32) -> String {
    format!("c{number}")
}

/// A random stream of a run, one a part of it.
pub fn stream(seed: u64, part: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part))
}

impl Client {
    pub fn new(number: u32, lines: Lines, manners: Manners, seed: u64, over: CancellationToken) -> Client {
        Client {
            rng: stream(seed, 1_000 + u64::from(number)),
            number,
            lines,
            manners,
            questions: 0,
            ops: Vec::new(),
            had: Vec::new(),
            seen: HashMap::new(),
            over,
        }
    }

    fn chance(&mut self, chance: f64) -> bool {
        self.rng.random_bool(chance)
    }

    fn one_of<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.rng.random_range(0..among.len())]
    }

    fn key(&mut self, namespace: u16) -> u32 {
        let keys = self.lines.names.of(namespace);
        self.rng.random_range(keys)
    }

    fn somewhere(&mut self) -> Who {
        Who {
            client: self.number,
            replica: self.rng.random_range(0..self.lines.replicas()),
            leaves: None,
        }
    }

    async fn rest(&mut self) {
        let pause = self.rng.random_range(0..=2 * self.manners.pause);
        sleep(Duration::from_micros(pause)).await;
    }

    fn keep(&mut self, op: Op) {
        if let (Some(key), Some(hit)) = (op.key(), op.hit()) {
            let seen = self.seen.entry(key).or_default();
            *seen = hit.version.max(*seen);
        }
        self.ops.push(op);
    }

    /// Not all at once.
    async fn begin(&mut self) {
        let pause = self.rng.random_range(0..1_000);
        sleep(Duration::from_millis(pause)).await;
    }

    /// In `shop`, until it is over; what it did.
    pub async fn shop(mut self) -> Vec<Op> {
        self.begin().await;
        while !self.over.is_cancelled() {
            self.rest().await;
            match self.rng.random_range(0..100) {
                0..84 => self.ask().await,
                84..93 => self.invalidate().await,
                _ => self.misuse().await,
            }
        }
        self.ops
    }

    /// In `still`, where what is built stays.
    pub async fn still(mut self) -> Vec<Op> {
        self.begin().await;
        while !self.over.is_cancelled() {
            self.rest().await;
            let key = self.key(STILL);
            if self.chance(0.000_5) {
                let who = self.somewhere();
                self.make_old(who, STILL, vec![Target::Key(key)], proto::Mode::Drop, 0)
                    .await;
                continue;
            }
            let intent = if self.chance(0.2) { Intent::Read } else { Intent::Use };
            let (request, question) = self.plain(key, intent, self.number.is_multiple_of(2).then_some(0));
            let who = self.somewhere();
            let op = self.lines.acquire(who, request, question).await;
            let granted = op.granted_or_degraded().cloned();
            self.keep(op);
            if let Some(grant) = granted {
                let work = self.rng.random_range(0..40_000);
                sleep(Duration::from_micros(work)).await;
                let report = self.value(key, &grant);
                self.tell(who.replica, report, 4).await;
            }
        }
        self.ops
    }

    /// In `relay`: asks for its one key again and again, and mostly at one replica, so that somebody always waits everywhere.
    pub async fn relay(mut self) -> Vec<Op> {
        let keys = self.lines.names.of(RELAY);
        let count = keys.len() as u32;
        let key = keys.start + self.number % count;
        let home = (self.number / count % u32::from(self.lines.replicas())) as u16;
        self.begin().await;
        while !self.over.is_cancelled() {
            let away = self.ops.last().is_some_and(|op| op.is_unknown()) || self.chance(0.05);
            let replica = if away { self.somewhere().replica } else { home };
            let who = Who {
                replica,
                ..self.somewhere()
            };
            let (request, question) = self.plain(key, Intent::Force, None);
            let op = self.lines.acquire(who, request, question).await;
            let granted = op.granted_or_degraded().cloned();
            let failed = matches!(op.end, End::Failed(_) | End::Unknown(_) | End::Busy | End::Backoff);
            self.keep(op);
            if failed {
                sleep(Duration::from_millis(20)).await;
            }
            let Some(grant) = granted else { continue };
            let work = self.rng.random_range(2_000..40_000);
            sleep(Duration::from_micros(work)).await;
            if !self.chance(0.03) {
                let report = self.value(key, &grant);
                self.tell(replica, report, 6).await;
            }
        }
        self.ops
    }

    fn plain(&mut self, key: u32, intent: Intent, wait: Option<u64>) -> (proto::AcquireRebuildRequest, Question) {
        let (namespace, name) = self.lines.names.key(key);
        let request = proto::AcquireRebuildRequest {
            namespace: namespace.to_owned(),
            key: name.to_owned(),
            holder: holder(self.number),
            wait: wait.and_then(span),
            intent: intent_of(intent).into(),
            ..Default::default()
        };
        let question = Question {
            key,
            intent,
            wait: wait.unwrap_or(MAX_WAIT).min(MAX_WAIT),
            newer_than: 0,
            request: 0,
            tags: Box::default(),
        };
        (request, question)
    }

    fn question(&mut self) -> (proto::AcquireRebuildRequest, Question) {
        let key = self.key(SHOP);
        let seen = self.seen.get(&key).copied().unwrap_or_default();
        let intent = match self.rng.random_range(0..100) {
            0..76 => Intent::Use,
            76..84 => Intent::Early,
            84..90 => Intent::Force,
            _ => Intent::Read,
        };
        let wait = self.one_of(&[
            None,
            None,
            Some(0),
            Some(0),
            Some(30_000),
            Some(250_000),
            Some(1_500_000),
        ]);
        let (mut request, mut question) = self.plain(key, intent, wait);
        self.questions += 1;
        if self.chance(0.3) || self.manners.twice {
            request.request_id = format!("c{}-{}", self.number, self.questions);
            question.request = self.questions;
        }
        if self.chance(0.15) {
            request.accept_stale = Some(false);
        }
        request.omit_value = self.chance(0.1);
        if self.chance(0.2) {
            request.known_version = seen as i64;
        }
        if self.chance(0.05) {
            request.newer_than = seen as i64;
            question.newer_than = seen;
        }
        if self.chance(0.1) {
            request.min_fencing_token = seen as i64;
        }
        if self.chance(0.4) {
            request.lease_ttl = span(self.rng.random_range(100_000..=LONGEST_LEASE));
        }
        question.tags = self.tags(key);
        request.tags = question.tags.iter().map(|tag| self.lines.names.tag(*tag)).collect();
        (request, question)
    }

    fn tags(&mut self, key: u32) -> Box<[u32]> {
        let [one, other] = self.lines.names.tags_for(key);
        match self.rng.random_range(0..5) {
            0 => Box::new([one]),
            1 => Box::new([other]),
            2 => Box::new([one, other]),
            _ => Box::default(),
        }
    }

    async fn ask(&mut self) {
        let (request, question) = self.question();
        let mut replica = 0;
        let mut granted = None;
        let tries = if question.request == 0 { 1 } else { 2 };
        for number in 0..tries {
            let who = self.somewhere();
            replica = who.replica;
            let op = self.try_once(who, &request, &question, number == 0).await;
            granted = op.granted_or_degraded().cloned();
            let unanswered = matches!(op.end, End::Unknown(_) | End::Failed(_));
            self.keep(op);
            if !unanswered {
                break;
            }
            let pause = self.one_of(&[0, 1, 20]);
            sleep(Duration::from_millis(pause)).await;
        }
        if let Some(grant) = granted {
            self.rebuild(replica, question.key, grant).await;
        }
    }

    /// Asks, and perhaps leaves before there is an answer; or asks twice at once, as one does who takes the first for lost.
    async fn try_once(
        &mut self,
        mut who: Who,
        request: &proto::AcquireRebuildRequest,
        question: &Question,
        first: bool,
    ) -> Op {
        if self.chance(0.03) {
            let patience = self.one_of(&[0, 1, 2, 10, 60, 400]);
            who.leaves = Some(Duration::from_millis(patience));
        }
        let twice = first && question.request != 0 && (self.manners.twice || self.chance(0.2));
        if !twice {
            return self.lines.acquire(who, request.clone(), question.clone()).await;
        }
        let gap = self.one_of(&[0, 0, 1, 5, 50]);
        let there = self.somewhere();
        let lines = self.lines.clone();
        let again = async {
            sleep(Duration::from_millis(gap)).await;
            lines.acquire(there, request.clone(), question.clone()).await
        };
        let asking = lines.acquire(who, request.clone(), question.clone());
        let (first, second) = join(asking, again).await;
        let (lost, kept) = if first.granted().is_some() {
            (second, first)
        } else {
            (first, second)
        };
        self.keep(lost);
        kept
    }

    async fn rebuild(&mut self, replica: u16, key: u32, grant: Grant) {
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

    /// A plain value: its bytes name the lease that it was built under.
    fn value(&mut self, key: u32, grant: &Grant) -> (proto::ReportValueRequest, Report) {
        self.value_of(key, grant.lease)
    }

    fn value_of(&mut self, key: u32, lease: LeaseId) -> (proto::ReportValueRequest, Report) {
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

    fn outcome(&mut self, key: u32, grant: &Grant) -> (proto::ReportValueRequest, Report) {
        let value = self.value(key, grant);
        self.varied(value)
    }

    /// Changes a plain value into one of the ways that a rebuild may end.
    fn varied(&mut self, value: (proto::ReportValueRequest, Report)) -> (proto::ReportValueRequest, Report) {
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
    async fn tell(&mut self, replica: u16, report: (proto::ReportValueRequest, Report), tries: usize) {
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

    async fn renew(&mut self, key: u32, lease: LeaseId) {
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
    async fn misuse(&mut self) {
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

    async fn invalidate(&mut self) {
        let key = self.key(SHOP);
        let tag = self.lines.names.some_tag(self.rng.random());
        let targets = match self.rng.random_range(0..100) {
            0..70 => vec![Target::Key(key)],
            70..90 => vec![Target::Tag(tag)],
            90..97 => vec![Target::Key(key), Target::Tag(tag)],
            _ => vec![Target::Everything(SHOP)],
        };
        let mode = self.one_of(&[proto::Mode::Drop, proto::Mode::Drop, proto::Mode::Expire]);
        let wait = self.one_of(&[0, 0, 30_000, 500_000]);
        let mut who = self.somewhere();
        if self.chance(0.02) {
            who.leaves = Some(Duration::from_millis(1));
        }
        self.make_old(who, SHOP, targets, mode, wait).await;
    }

    async fn make_old(&mut self, who: Who, namespace: u16, targets: Vec<Target>, mode: proto::Mode, wait: u64) {
        let names = &self.lines.names;
        let mut request = proto::InvalidateRequest {
            namespace: names.namespace(namespace).to_owned(),
            mode: mode.into(),
            wait_for_watchers: span(wait),
            ..Default::default()
        };
        for target in &targets {
            match target {
                Target::Key(key) => request.keys.push(names.key(*key).1.to_owned()),
                Target::Tag(tag) => request.tags.push(names.tag(*tag)),
                Target::Everything(_) => request.everything = true,
            }
        }
        let op = self.lines.invalidate(who, request, targets).await;
        self.keep(op);
    }

    /// Insists on every key of `shop` once all is well: within leases, pauses and what it takes to come back, it is let.
    pub async fn probe(mut self, bound: Duration) -> Vec<Op> {
        for key in self.lines.names.of(SHOP) {
            let begun = tokio::time::Instant::now();
            loop {
                let (request, question) = self.plain(key, Intent::Force, Some(300_000));
                let who = self.somewhere();
                let op = self.lines.acquire(who, request, question).await;
                let granted = op.granted().cloned();
                let last = format!("{op:?}");
                self.keep(op);
                if let Some(grant) = granted {
                    let report = self.value(key, &grant);
                    self.tell(who.replica, report, 4).await;
                    break;
                }
                if begun.elapsed() > bound {
                    let what = format!("nobody is granted key {key} for {:?}: {last}", begun.elapsed());
                    self.lines.recorder.wrong(what);
                    break;
                }
                sleep(Duration::from_millis(20)).await;
            }
        }
        self.ops
    }
}
