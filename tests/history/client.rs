//! Clients that do everything a client may do, and much that it should not. Each keeps its own account.

mod asking;
mod reporting;

use std::collections::HashMap;
use std::time::Duration;

use drover::decision::{Intent, LeaseId};
use drover::proto;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::calls::{Lines, Who, span};
use crate::checker::model::{End, Grant, Op, Target};
use crate::names::{FARM, MILL, RELAY, SHOP, STILL};
use crate::worker::plan;

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

    /// In `farm` or `mill`, where workers are at it too.
    pub async fn beside_workers(mut self, namespace: u16) -> Vec<Op> {
        self.begin().await;
        while !self.over.is_cancelled() {
            self.rest().await;
            let key = self.key(namespace);
            if self.chance(0.01) {
                let who = self.somewhere();
                let mode = self.one_of(&[proto::Mode::Drop, proto::Mode::Expire]);
                self.make_old(who, namespace, vec![Target::Key(key)], mode, 0).await;
                continue;
            }
            if self.chance(0.01) {
                plan(&self.lines, namespace, &mut self.rng).await;
                continue;
            }
            let intent = match self.rng.random_range(0..100) {
                0..88 => Intent::Use,
                88..91 => Intent::Early,
                91..94 => Intent::Force,
                _ => Intent::Read,
            };
            let wait = self.one_of(&[None, None, Some(0), Some(250_000), Some(1_500_000)]);
            let (request, question) = self.plain(key, intent, wait);
            let who = self.somewhere();
            let op = self.lines.acquire(who, request, question).await;
            let granted = op.granted_or_degraded().cloned();
            self.keep(op);
            if let Some(grant) = granted {
                self.rebuild_mostly_at_once(who.replica, key, grant).await;
            }
        }
        self.ops
    }

    /// A worker's task: with its lease it does what every client does; what it did.
    pub async fn at_task(mut self, replica: u16, key: u32, grant: Grant) -> Vec<Op> {
        if self.chance(0.3) {
            self.renew(key, grant.lease).await;
        }
        self.rebuild_mostly_at_once(replica, key, grant).await;
        self.ops
    }

    /// Insists on every key of some namespaces once all is well: within leases, pauses and what it takes to come back, it is let.
    pub async fn probe(mut self, bound: Duration) -> Vec<Op> {
        let names = self.lines.names.clone();
        for key in [SHOP, FARM, MILL].into_iter().flat_map(|namespace| names.of(namespace)) {
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
