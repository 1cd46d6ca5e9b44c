//! Subscribers with a cache of their own, that obey the contract: nothing is kept before the stream is live, nor an answer whose call
//! began before an invalidation of it arrived; a reset forgets everything; after the longest silence nothing is served; a stream that
//! breaks is taken up at another replica where it ended.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::time::Duration;

use drover::decision::{Intent, LeaseId, Mode};
use drover::proto;
use drover::proto::watch_request::Kind as Said;
use drover::proto::watch_response::Event;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::calls::{Lines, Who, intent_of, micros, span};
use crate::checker::model::{End, Op, Question, Read, Target, Told, Watcher, What};
use crate::client::{holder, stream};
use crate::names::{RELAY, SHOP, STILL};
use crate::rest::Unheard;

/// How often each looks into its cache.
const LOOKS: Duration = Duration::from_millis(5);
/// A stream that does not begin within this is looked for elsewhere.
const OPENING: Duration = Duration::from_secs(2);

/// How a subscriber behaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Habits {
    /// Only keys that begin with this.
    pub prefix: &'static str,
    /// It wants to hear of new values too.
    pub refreshed: bool,
    /// It rests so long after each event.
    pub slow: Duration,
}

/// A value in its cache.
struct Copy {
    version: u64,
    tags: Box<[u32]>,
    fresh_until: u64,
}

/// What it does at the end of its life.
pub struct Diary {
    pub watcher: Watcher,
    pub ops: Vec<Op>,
}

pub struct Subscriber {
    number: u32,
    lines: Lines,
    habits: Habits,
    rng: StdRng,
    watcher: Watcher,
    ops: Vec<Op>,
    copies: HashMap<u32, Copy>,
    /// The place in which each target was last told of.
    made_old: HashMap<Target, u64>,
    /// The place of the last reset, or of the beginning.
    all_old: u64,
    live: bool,
    cursor: String,
    heard: Instant,
    max_silence: Duration,
    /// Marks that it has not heard of.
    unheard: HashSet<(u16, String)>,
    left: watch::Sender<usize>,
}

type Fill = Pin<Box<dyn Future<Output = Op> + Send>>;

impl Subscriber {
    /// Beside it: how many marks it has not heard of.
    pub fn new(number: u32, lines: Lines, habits: Habits, seed: u64) -> (Subscriber, Unheard) {
        let watcher = Watcher {
            name: format!("watcher {number}"),
            keys: (!habits.prefix.is_empty()).then(|| lines.names.with_prefix(habits.prefix).into()),
            namespaces: [SHOP, RELAY, STILL].into(),
            slow: !habits.slow.is_zero(),
            ..Watcher::default()
        };
        let namespaces = watcher.namespaces.iter();
        let marks = namespaces.flat_map(|namespace| lines.names.marks().into_iter().map(|mark| (*namespace, mark)));
        let unheard: HashSet<(u16, String)> = marks.filter(|(_, mark)| mark.starts_with(habits.prefix)).collect();
        let (left, told) = watch::channel(unheard.len());
        let subscriber = Subscriber {
            unheard,
            left,
            rng: stream(seed, 500 + u64::from(number)),
            number,
            lines,
            habits,
            watcher,
            ops: Vec::new(),
            copies: HashMap::new(),
            made_old: HashMap::new(),
            all_old: 0,
            live: false,
            cursor: String::new(),
            heard: Instant::now(),
            max_silence: Duration::ZERO,
        };
        (subscriber, told)
    }

    /// Watches until it is over. `hurry` comes once nothing happens any more, `over` once everybody has been told everything.
    pub async fn live(mut self, hurry: CancellationToken, over: CancellationToken) -> Diary {
        let mut replica = (self.number % u32::from(self.lines.replicas())) as u16;
        while !over.is_cancelled() {
            let opened = timeout(OPENING, self.open(replica)).await;
            if let Ok(Some((acks, events))) = opened {
                self.follow(replica, acks, events, (&hurry, &over)).await;
                self.tell(What::Broken);
            }
            self.live = false;
            if !over.is_cancelled() {
                let pause = self.rng.random_range(10..60);
                sleep(Duration::from_millis(pause)).await;
                replica = (replica + 1) % self.lines.replicas();
            }
        }
        Diary {
            watcher: self.watcher,
            ops: self.ops,
        }
    }

    fn tell(&mut self, what: What) -> u64 {
        let moment = self.lines.recorder.moment();
        self.watcher.told.push(Told { moment, what });
        moment.place
    }

    async fn open(&self, replica: u16) -> Option<(mpsc::Sender<proto::WatchRequest>, Streaming<proto::WatchResponse>)> {
        let (acks, said) = mpsc::channel(64);
        let names = &self.lines.names;
        let subscribe = proto::Subscribe {
            namespaces: self
                .watcher
                .namespaces
                .iter()
                .map(|number| names.namespace(*number).to_owned())
                .collect(),
            key_prefixes: (!self.habits.prefix.is_empty())
                .then(|| self.habits.prefix.to_owned())
                .into_iter()
                .collect(),
            // It is told, too, of what becomes of a client's leases.
            holder: holder(self.number),
            resume_from: self.cursor.clone(),
            include_refreshed: self.habits.refreshed,
            observe_only: false,
        };
        let first = proto::WatchRequest {
            kind: Some(Said::Subscribe(subscribe)),
        };
        acks.send(first).await.ok()?;
        let mut service = self.lines.service(replica);
        let events = service.watch(ReceiverStream::new(said)).await.ok()?;
        Some((acks, events.into_inner()))
    }

    async fn follow(
        &mut self,
        replica: u16,
        acks: mpsc::Sender<proto::WatchRequest>,
        mut events: Streaming<proto::WatchResponse>,
        (hurry, over): (&CancellationToken, &CancellationToken),
    ) {
        let mut looks = interval(LOOKS);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut fill: Option<Fill> = None;
        loop {
            tokio::select! {
                biased;
                () = over.cancelled() => {
                    self.come_to_rest();
                    return;
                }
                event = events.message() => {
                    let Ok(Some(event)) = event else { return };
                    let leaves = matches!(&event.event, Some(Event::Progress(progress)) if progress.draining);
                    self.take(replica, event);
                    let ack = proto::WatchRequest {
                        kind: Some(Said::Ack(proto::Ack { cursor: self.cursor.clone(), hits: Vec::new() })),
                    };
                    let _ = acks.try_send(ack);
                    if leaves {
                        return;
                    }
                    if !self.habits.slow.is_zero() {
                        // In the end it reads what it has left unread.
                        let _ = timeout(self.habits.slow, hurry.cancelled()).await;
                    }
                }
                op = async { fill.as_mut().expect("looked at before").await }, if fill.is_some() => {
                    fill = None;
                    self.learn(op);
                }
                _ = looks.tick() => {
                    let missing = self.look(replica);
                    if fill.is_none() {
                        fill = missing;
                    }
                }
            }
            if self.live && self.heard.elapsed() > self.max_silence {
                // A stream that does not even say that nothing happens is dead.
                return;
            }
        }
    }

    fn take(&mut self, replica: u16, event: proto::WatchResponse) {
        self.heard = Instant::now();
        if !event.cursor.is_empty() {
            self.cursor = event.cursor;
        }
        match event.event {
            Some(Event::Started(started)) => {
                self.max_silence = Duration::from_micros(micros(&started.max_silence));
                self.tell(What::Started(replica));
                self.live = true;
            }
            Some(Event::Invalidated(event)) => self.invalidated(event),
            Some(Event::Refreshed(event)) => {
                if let Some(key) = self.lines.names.number(&event.namespace, &event.key) {
                    let version = event.version as u64;
                    self.tell(What::Refreshed { key, version });
                }
            }
            Some(Event::LeaseRevoked(event)) => {
                let key = self.lines.names.number(&event.namespace, &event.key);
                match (key, event.lease_id.parse::<LeaseId>()) {
                    (Some(key), Ok(lease)) => _ = self.tell(What::Revoked { key, lease }),
                    _ => self.lines.recorder.wrong(format!("not a lease: {event:?}")),
                }
            }
            Some(Event::Progress(_)) => {}
            Some(Event::Reset(reset)) => self.reset(reset.reason().as_str_name()),
            None => self.reset("unset"),
        }
    }

    fn reset(&mut self, why: &'static str) {
        self.copies.clear();
        self.all_old = self.tell(What::Reset(why));
    }

    fn invalidated(&mut self, event: proto::Invalidated) {
        let names = &self.lines.names;
        if let Some(namespace) = names.namespace_number(&event.namespace) {
            for key in &event.keys {
                self.unheard.remove(&(namespace, key.clone()));
            }
            self.left.send_replace(self.unheard.len());
        }
        let targets = names.targets(&event.namespace, &event.keys, &event.tags, event.everything);
        let mode = match event.mode() {
            proto::Mode::Expire => Mode::Expire,
            _ => Mode::Drop,
        };
        self.copies.retain(|key, copy| {
            let namespace = names.namespace_of(*key);
            !targets.iter().any(|target| match target {
                Target::Key(named) => named == key,
                Target::Tag(tag) => copy.tags.contains(tag),
                Target::Everything(all) => *all == namespace,
            })
        });
        let version = event.version as u64;
        let place = self.tell(What::Invalidated {
            targets: targets.clone().into(),
            mode,
            version,
        });
        for target in targets {
            self.made_old.insert(target, place);
        }
    }

    /// Reads one key from its cache; where it is not there, asks for it.
    fn look(&mut self, replica: u16) -> Option<Fill> {
        let key = if self.rng.random_bool(0.8) {
            self.rng.random_range(self.lines.names.of(SHOP))
        } else {
            self.rng.random_range(self.lines.names.of(STILL))
        };
        let now = self.lines.recorder.now();
        let trusted = !self.max_silence.is_zero() && self.heard.elapsed() < self.max_silence;
        if let Some(copy) = self.copies.get(&key).filter(|copy| trusted && now < copy.fresh_until) {
            let read = Read {
                moment: self.lines.recorder.moment(),
                key,
                version: copy.version,
                tags: copy.tags.clone(),
            };
            self.watcher.reads.push(read);
            return None;
        }
        self.copies.remove(&key);
        if !self.live || self.watcher.keys.as_ref().is_some_and(|keys| !keys.contains(&key)) {
            return None;
        }
        let (namespace, name) = self.lines.names.key(key);
        let request = proto::AcquireRebuildRequest {
            namespace: namespace.to_owned(),
            key: name.to_owned(),
            holder: holder(self.number),
            wait: span(0),
            intent: intent_of(Intent::Read).into(),
            ..Default::default()
        };
        let question = Question {
            key,
            intent: Intent::Read,
            wait: 0,
            newer_than: 0,
            request: 0,
            tags: Box::default(),
        };
        // Mostly not from the replica that it watches.
        let who = Who {
            client: self.number,
            replica: (replica + self.rng.random_range(0..self.lines.replicas())) % self.lines.replicas(),
            leaves: None,
        };
        let lines = self.lines.clone();
        Some(Box::pin(async move { lines.acquire(who, request, question).await }))
    }

    fn learn(&mut self, op: Op) {
        if let (Some(key), Some(hit), End::Hit(_)) = (op.key(), op.hit(), &op.end) {
            let namespace = self.lines.names.namespace_of(key);
            let tags = hit.tags.iter().map(|tag| Target::Tag(*tag));
            let mut targets = [Target::Key(key), Target::Everything(namespace)]
                .into_iter()
                .chain(tags);
            let since = op.invoked.place;
            let is_old = targets.any(|target| self.made_old.get(&target).is_some_and(|place| *place > since));
            let begun = self.all_old.max(self.started());
            if hit.fresh && self.live && !is_old && begun < since {
                let copy = Copy {
                    version: hit.version,
                    tags: hit.tags.clone(),
                    fresh_until: op.invoked.at + hit.fresh_for,
                };
                self.copies.insert(key, copy);
            }
        }
        self.ops.push(op);
    }

    /// The place in which the stream last became live.
    fn started(&self) -> u64 {
        let told = self.watcher.told.iter().rev();
        let started = told.map(|told| (told.moment.place, &told.what));
        let mut started = started.filter(|(_, what)| matches!(what, What::Started(_)));
        started.next().map_or(u64::MAX, |(place, _)| place)
    }

    fn come_to_rest(&mut self) {
        if !self.live {
            return;
        }
        let moment = self.lines.recorder.moment();
        let held = self.copies.iter().map(|(key, copy)| Read {
            moment,
            key: *key,
            version: copy.version,
            tags: copy.tags.clone(),
        });
        self.watcher.rest = Some((moment, held.collect()));
    }
}
