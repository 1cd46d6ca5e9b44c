//! A client that does everything a client may do, and much that it should not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use drover::coordinator::{Acquire, Invalidate, Renew, ReportValue};
use drover::decision::{
    Answer, Ask, Content, Intent, Key, LeaseId, Lifetimes, Mode, Outcome, Rebuild, Report, Seq, Tag,
};
use drover::store::Target;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::{Instant, sleep, timeout};

use crate::plan::{ms, one_of, stream};
use crate::world::{World, key};

/// No client asks for a longer lease.
pub const LONGEST_LEASE: Duration = Duration::from_millis(900);
/// No report asks for more, in any part.
pub const LONGEST_LIFE: Duration = Duration::from_millis(5_000);

pub struct Client {
    world: Arc<World>,
    number: usize,
    rng: StdRng,
    questions: u64,
    /// Leases it once had, to misuse them.
    had: Vec<(Key, LeaseId)>,
    /// The highest version it has seen.
    seen: HashMap<Key, Seq>,
}

pub fn holder(number: usize) -> String {
    format!("c{number}")
}

/// A plain value: its bytes name the lease that it was built under.
pub fn value(key: &Key, lease: LeaseId) -> ReportValue {
    let bytes: Arc<[u8]> = lease.to_string().into_bytes().into();
    ReportValue {
        key: key.clone(),
        report: Report {
            lease,
            outcome: Outcome::Built(Content::Bytes(bytes.len() as u32)),
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        },
        bytes: Some(bytes),
    }
}

impl Client {
    pub fn new(world: Arc<World>, number: usize) -> Client {
        Client {
            rng: stream(world.plan.seed, 10 + number as u64),
            world,
            number,
            questions: 0,
            had: Vec::new(),
            seen: HashMap::new(),
        }
    }

    pub async fn live(mut self) {
        for _ in 0..self.world.plan.steps {
            let pause = one_of(&mut self.rng, &[0, 1, 5, 40, 300]);
            sleep(ms(pause)).await;
            match self.rng.random_range(0..100) {
                0..78 => self.ask().await,
                78..88 => self.invalidate().await,
                88..95 => self.misuse().await,
                _ => sleep(ms(self.rng.random_range(0..1_500))).await,
            }
        }
    }

    fn replica(&mut self) -> usize {
        self.rng.random_range(0..self.world.replicas.len())
    }

    fn chance(&mut self, chance: f64) -> bool {
        self.rng.random_bool(chance)
    }

    fn tags(&mut self) -> Vec<Tag> {
        let chosen = one_of(&mut self.rng, &[&[][..], &[], &["t0"], &["t1"], &["t0", "t1"]]);
        chosen.iter().map(|tag| Tag::from(*tag)).collect()
    }

    fn question(&mut self) -> Acquire {
        let key = key(self.rng.random_range(0..self.world.plan.keys));
        let seen = self.seen.get(&key).copied().unwrap_or_default();
        self.questions += 1;
        let mut ask = Ask {
            holder: holder(self.number).into(),
            ..Ask::plain()
        };
        if self.chance(0.3) {
            ask.request_id = format!("c{}-{}", self.number, self.questions).into();
        }
        ask.intent = match self.rng.random_range(0..100) {
            0..76 => Intent::Use,
            76..84 => Intent::Early,
            84..92 => Intent::Force,
            _ => Intent::Read,
        };
        ask.accept_stale = self.chance(0.85);
        ask.omit_value = self.chance(0.1);
        if self.chance(0.2) {
            ask.known_version = seen;
        }
        if self.chance(0.08) {
            ask.newer_than = seen;
        }
        if self.chance(0.1) {
            ask.min_token = Seq(seen.0 + self.rng.random_range(0..1_000));
        }
        if self.chance(0.4) {
            ask.lease_ttl = Some(ms(self.rng.random_range(100..=LONGEST_LEASE.as_millis() as u64)));
        }
        let tags = self.tags();
        ask.tags = (!tags.is_empty()).then(|| tags.into());
        let wait = one_of(&mut self.rng, &[None, None, Some(0), Some(30), Some(250), Some(1_500)]).map(ms);
        let answer_by = self
            .chance(0.1)
            .then(|| Instant::now() + ms(one_of(&mut self.rng, &[20, 100, 700])));
        Acquire {
            key,
            ask,
            wait,
            answer_by,
            hits: 0,
        }
    }

    async fn ask(&mut self) {
        let request = self.question();
        let retries = !request.ask.request_id.is_empty();
        let mut answer = self.try_once(&request, retries).await;
        if answer.is_none() && retries && self.chance(0.7) {
            sleep(ms(one_of(&mut self.rng, &[0, 1, 20]))).await;
            answer = self.try_once(&request, false).await;
        }
        let Some(answer) = answer else { return };
        if let Some(hit) = answer.hit() {
            let seen = self.seen.entry(request.key.clone()).or_default();
            *seen = hit.version.max(*seen);
        }
        if let Answer::Rebuild(rebuild) = answer {
            self.rebuild(&request, *rebuild).await;
        }
    }

    /// Asks, and perhaps leaves before there is an answer; or asks twice at once, as one does who takes the first for lost.
    async fn try_once(&mut self, request: &Acquire, twice: bool) -> Option<Answer> {
        let (here, there) = (self.replica(), self.replica());
        let world = self.world.clone();
        let leaves = self.chance(0.15);
        let asking = world.acquire(here, request.clone());
        if leaves {
            let patience = ms(one_of(&mut self.rng, &[0, 1, 2, 10, 60, 400]));
            return timeout(patience, asking).await.ok().flatten();
        }
        if !twice || !self.chance(0.3) {
            return asking.await;
        }
        let gap = ms(one_of(&mut self.rng, &[0, 1, 5, 50]));
        let again = async {
            sleep(gap).await;
            world.acquire(there, request.clone()).await
        };
        let (first, second) = futures_util::future::join(asking, again).await;
        let granted = |answer: &Option<Answer>| matches!(answer, Some(Answer::Rebuild(_)));
        if granted(&first) { first } else { second.or(first) }
    }

    async fn rebuild(&mut self, request: &Acquire, rebuild: Rebuild) {
        let key = request.key.clone();
        self.had.push((key.clone(), rebuild.lease));
        let longest = rebuild.ttl.as_millis() as u64;
        let work = match self.rng.random_range(0..10) {
            0..3 => 0,
            3..9 => self.rng.random_range(0..=longest),
            _ => self.rng.random_range(longest..=2 * longest + 1),
        };
        sleep(ms(work / 2)).await;
        if self.chance(0.3) {
            self.renew(&key, rebuild.lease).await;
        }
        sleep(ms(work - work / 2)).await;
        if self.chance(0.08) {
            return; // It crashed.
        }
        let mut report = self.outcome(value(&key, rebuild.lease));
        for _ in 0..4 {
            if self.send(report.clone()).await {
                break;
            }
            sleep(ms(one_of(&mut self.rng, &[1, 10, 120]))).await;
        }
        if self.chance(0.12) {
            // Its answer was lost, as far as the client knows; or it has lost its mind.
            if self.chance(0.3) {
                report = self.outcome(value(&key, rebuild.lease));
            }
            self.send(report).await;
        }
    }

    /// Changes a plain value into one of the ways that a rebuild may end.
    fn outcome(&mut self, mut report: ReportValue) -> ReportValue {
        let began = self.world.history.lock().moment().at;
        let fails = began < self.world.plan.outage.as_micros() as u64 && self.chance(0.9);
        let details = &mut report.report;
        if fails {
            report.bytes = None;
            details.outcome = Outcome::Failed {
                message: "the origin is down".into(),
                retry_after: None,
            };
            return report;
        }
        match self.rng.random_range(0..100) {
            0..55 => {}
            55..60 => details.outcome = Outcome::Built(Content::External("there".into())),
            60..65 => details.outcome = Outcome::Built(Content::NotFound),
            65..73 => details.outcome = Outcome::NotModified,
            73..82 => {
                details.outcome = Outcome::Failed {
                    message: "the origin is down".into(),
                    retry_after: None,
                }
            }
            82..94 => details.outcome = Outcome::Abandoned,
            _ => details.do_not_store = true,
        }
        if !matches!(details.outcome, Outcome::Built(Content::Bytes(_))) {
            report.bytes = None;
        }
        if self.chance(0.2) {
            report.report.tags = self.tags();
        }
        if self.chance(0.15) {
            let longest = LONGEST_LIFE.as_millis() as u64 / 2;
            let mut life = || Some(ms(self.rng.random_range(0..longest)));
            report.report.lifetimes = Lifetimes {
                fresh_ttl: life(),
                stale_while_revalidate: life(),
                stale_if_error: life(),
            };
        }
        report
    }

    async fn send(&mut self, report: ReportValue) -> bool {
        let replica = self.replica();
        let sending = self.world.report(replica, report);
        if self.rng.random_bool(0.06) {
            return timeout(ms(one_of(&mut self.rng, &[0, 1, 8])), sending)
                .await
                .unwrap_or(false);
        }
        sending.await
    }

    async fn renew(&mut self, key: &Key, lease: LeaseId) {
        let replica = self.replica();
        let ttl = self
            .chance(0.5)
            .then(|| ms(self.rng.random_range(100..=LONGEST_LEASE.as_millis() as u64)));
        let request = Renew {
            key: key.clone(),
            lease,
            ttl,
        };
        self.world.renew(replica, request).await;
    }

    /// Reports and renews with leases that are over, or of somebody else, or never were.
    async fn misuse(&mut self) {
        if self.had.is_empty() {
            return;
        }
        let (key, mut lease) = self.had[self.rng.random_range(0..self.had.len())].clone();
        match self.rng.random_range(0..4) {
            0 => lease.secret = lease.secret.saturating_add(1),
            1 => lease.token.0 += 1,
            _ => {}
        }
        if self.chance(0.5) {
            let report = self.outcome(value(&key, lease));
            self.send(report).await;
        } else {
            self.renew(&key, lease).await;
        }
    }

    async fn invalidate(&mut self) {
        let replica = self.replica();
        let targets = match self.rng.random_range(0..10) {
            0..5 => vec![self.some_key()],
            5..8 => vec![Target::Tag(one_of(&mut self.rng, &["t0", "t1"]).into())],
            8 => vec![self.some_key(), Target::Tag("t0".into())],
            _ => vec![Target::Everything],
        };
        let request = Invalidate {
            namespace: "shop".into(),
            targets,
            mode: one_of(&mut self.rng, &[Mode::Drop, Mode::Drop, Mode::Expire]),
            reason: String::new(),
            wait_for_watchers: ms(one_of(&mut self.rng, &[0, 0, 30])),
            settle: Duration::ZERO,
        };
        let invalidating = self.world.invalidate(replica, request);
        if self.rng.random_bool(0.1) {
            let _ = timeout(ms(one_of(&mut self.rng, &[0, 2])), invalidating).await;
        } else {
            invalidating.await;
        }
    }

    fn some_key(&mut self) -> Target {
        Target::Key(key(self.rng.random_range(0..self.world.plan.keys)))
    }
}
