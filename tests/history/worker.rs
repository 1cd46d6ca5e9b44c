//! Workers: streams of refreshes at every replica, that break and are opened elsewhere, with tasks in hand. Each task is written down as the
//! grant of a lease, so that callers and workers are held against the same promises.
//!
//! *When a task was granted* its worker is not told: it may have been under way for as long as a cable was stalled. It was after whatever got a
//! smaller number had been asked for; so the numbers of all others tell it, to some milliseconds.

use std::collections::HashMap;
use std::time::Duration;

use drover::decision::LeaseId;
use drover::proto;
use drover::proto::pull_refreshes_request::Kind as Said;
use drover::proto::pull_refreshes_response::Event;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Streaming;

use crate::calls::{Lines, micros, span};
use crate::checker::model::{Asked, End, Grant, Moment, Op, PULLS, Question, Target};
use crate::client::{Client, Manners, holder, stream};
use crate::names::{FARM, MILL};

/// A stream that does not begin within this is looked for elsewhere.
const OPENING: Duration = Duration::from_secs(2);
/// No cable is stalled for longer: what was granted so long before the last word was heard is here, in microseconds.
const UNDER_WAY: u64 = 4_000_000;
/// A grant takes no longer than this from when its lease's time is counted, in microseconds.
const TRIP: u64 = 1_000_000;

/// How a worker behaves.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    namespaces: &'static [u16],
    prefix: &'static str,
    max_in_flight: usize,
    /// How likely it leaves, and comes again, when it has got a task.
    leaves: f64,
    /// How likely it takes its time before it reads on.
    stalls: f64,
}

impl Ways {
    const PLAIN: Ways = Ways {
        namespaces: &[FARM, MILL],
        prefix: "",
        max_in_flight: 3,
        leaves: 0.0,
        stalls: 0.0,
    };

    pub const ALL: [Ways; 6] = [
        Ways::PLAIN,
        Ways {
            max_in_flight: 1,
            ..Ways::PLAIN
        },
        Ways {
            prefix: "a",
            stalls: 0.1,
            ..Ways::PLAIN
        },
        Ways {
            namespaces: &[FARM],
            leaves: 0.1,
            ..Ways::PLAIN
        },
        Ways {
            namespaces: &[MILL],
            leaves: 0.01,
            ..Ways::PLAIN
        },
        Ways {
            namespaces: &[FARM],
            max_in_flight: 2,
            stalls: 0.2,
            ..Ways::PLAIN
        },
    ];
}

pub struct Worker {
    number: u32,
    lines: Lines,
    manners: Manners,
    seed: u64,
    ways: Ways,
    rng: StdRng,
    over: CancellationToken,
    ops: Vec<Op>,
    tasks: JoinSet<Vec<Op>>,
    taken: u64,
}

type Tasks = Streaming<proto::PullRefreshesResponse>;

impl Worker {
    pub fn new(number: u32, lines: Lines, manners: Manners, seed: u64, ways: Ways, over: CancellationToken) -> Worker {
        Worker {
            number,
            lines,
            manners,
            seed,
            ways,
            rng: stream(seed, 500_000 + u64::from(number)),
            over,
            ops: Vec::new(),
            tasks: JoinSet::new(),
            taken: 0,
        }
    }

    /// Until it is over; what it did, with what became of its tasks.
    pub async fn live(mut self) -> Vec<Op> {
        let mut replica = (self.number % u32::from(self.lines.replicas())) as u16;
        while !self.over.is_cancelled() {
            let opened = self.lines.recorder.moment();
            if let Ok(Some((said, tasks))) = timeout(OPENING, self.open(replica)).await {
                let heard = self.follow(replica, opened, tasks).await;
                drop(said);
                self.may_have_been_granted_more(replica, opened, heard);
            }
            let pause = self.rng.random_range(5..150);
            sleep(Duration::from_millis(pause)).await;
            replica = self.rng.random_range(0..self.lines.replicas());
        }
        while let Some(done) = self.tasks.join_next().await {
            self.ops.extend(done.expect("a worker does not panic"));
        }
        self.ops
    }

    async fn open(&self, replica: u16) -> Option<(mpsc::Sender<proto::PullRefreshesRequest>, Tasks)> {
        let (say, said) = mpsc::channel(1);
        let namespaces = self.ways.namespaces.iter();
        let register = proto::Register {
            namespaces: namespaces
                .map(|number| self.lines.names.namespace(*number).to_owned())
                .collect(),
            key_prefixes: (!self.ways.prefix.is_empty())
                .then(|| self.ways.prefix.to_owned())
                .into_iter()
                .collect(),
            holder: holder(self.number),
            max_in_flight: self.ways.max_in_flight as i32,
        };
        let first = proto::PullRefreshesRequest {
            kind: Some(Said::Register(register)),
        };
        say.send(first).await.ok()?;
        let mut service = self.lines.service(replica);
        let tasks = service.pull_refreshes(ReceiverStream::new(said)).await.ok()?;
        Some((say, tasks.into_inner()))
    }

    /// Until the stream breaks or the worker leaves it; when it heard something last.
    async fn follow(&mut self, replica: u16, opened: Moment, mut tasks: Tasks) -> Moment {
        let (mut heard, mut silence) = (opened, OPENING);
        loop {
            let over = self.over.clone();
            let event = tokio::select! {
                biased;
                () = over.cancelled() => return heard,
                event = timeout(silence, tasks.message()) => event,
            };
            let Ok(Ok(Some(event))) = event else { return heard };
            heard = self.lines.recorder.moment();
            match event.event {
                Some(Event::Started(started)) => silence = Duration::from_micros(micros(&started.max_silence)),
                Some(Event::Task(task)) => self.take(replica, opened, heard, &task),
                Some(Event::Progress(progress)) if progress.draining => return heard,
                Some(Event::Progress(_)) => continue,
                None => self.lines.recorder.wrong("a worker was told nothing".to_owned()),
            }
            if self.rng.random_bool(self.ways.leaves) {
                return heard;
            }
            if self.rng.random_bool(self.ways.stalls) {
                let pause = self.rng.random_range(100..1_500);
                sleep(Duration::from_millis(pause)).await;
            }
        }
    }

    fn take(&mut self, replica: u16, opened: Moment, heard: Moment, task: &proto::RefreshTask) {
        let lease = task.lease.clone().unwrap_or_default();
        let key = self.lines.names.number(&task.namespace, &task.key);
        let id = lease.lease_id.parse::<LeaseId>();
        let (Some(key), Ok(id), true) = (key, id, lease.fencing_token > 0) else {
            self.lines.recorder.wrong(format!("not a task: {task:?}"));
            return;
        };
        let (_, name) = self.lines.names.key(key);
        let is_its =
            name.starts_with(self.ways.prefix) && self.ways.namespaces.contains(&self.lines.names.namespace_of(key));
        if !is_its || id.token.0 != lease.fencing_token as u64 {
            self.lines
                .recorder
                .wrong(format!("not a task of this worker: {task:?}"));
        }
        let ttl = micros(&lease.ttl);
        let grant = Grant {
            lease: id,
            // What is left of it; from when on is told afterwards.
            sure_until: ttl,
            over_by: heard.at + ttl,
            fallback: None,
        };
        let pulled = self.pulled(replica, key, (opened, heard), End::Granted(grant.clone()));
        self.ops.push(pulled);
        self.taken += 1;
        let seed = self.seed ^ (u64::from(self.number) << 32) ^ (self.taken << 40);
        let hand = Client::new(self.number, self.lines.clone(), self.manners, seed, self.over.clone());
        self.tasks.spawn(hand.at_task(replica, key, grant));
    }

    fn pulled(&self, replica: u16, key: u32, (invoked, ended): (Moment, Moment), end: End) -> Op {
        Op {
            client: self.number,
            replica,
            asked: Asked::Acquire(Question::pull(key)),
            invoked,
            ended,
            end,
            degraded: false,
            until: ended,
        }
    }

    /// What was on its way when the stream ended nobody will know of.
    fn may_have_been_granted_more(&mut self, replica: u16, opened: Moment, heard: Moment) {
        let from = opened.at.max(heard.at.saturating_sub(UNDER_WAY));
        let from = Moment {
            place: opened.place.max(from * 1_000),
            at: from,
        };
        let ended = self.lines.recorder.moment();
        let names = self.lines.names.clone();
        for key in self.ways.namespaces.iter().flat_map(|namespace| names.of(*namespace)) {
            if names.key(key).1.starts_with(self.ways.prefix) {
                let lost = self.pulled(replica, key, (from, ended), End::Unknown("stream"));
                self.ops.push(lost);
            }
        }
    }
}

/// Has some keys refreshed that nobody asked for, or that are good.
pub async fn plan(lines: &Lines, namespace: u16, rng: &mut StdRng) {
    let names = &lines.names;
    let spreads = [0, 200_000, 2_000_000];
    let mut request = tonic::Request::new(proto::ScheduleRefreshRequest {
        namespace: names.namespace(namespace).to_owned(),
        keys: names.of(namespace).map(|key| names.key(key).1.to_owned()).collect(),
        spread_over: span(spreads[rng.random_range(0..spreads.len())]),
        only_if_missing: rng.random_bool(0.5),
    });
    request.set_timeout(Duration::from_secs(1));
    let replica = rng.random_range(0..lines.replicas());
    // Whether it was done shows in the tasks.
    let _ = lines.service(replica).schedule_refresh(request).await;
}

/// Says of each task when it was granted at the earliest: when that was asked for which got a smaller number.
pub fn tell_when_granted(ops: &mut [Op], one_sequence: bool) {
    let sequence = |key: u32| if one_sequence { u32::MAX } else { key };
    let mut numbers: HashMap<u32, Vec<(u64, Moment)>> = HashMap::new();
    for op in ops.iter() {
        if let Some((targets, _, done)) = op.invalidated() {
            for (target, number) in targets.iter().zip(&done.numbers) {
                let of = match target {
                    Target::Key(key) => sequence(*key),
                    Target::Tag(_) | Target::Everything(_) if one_sequence => u32::MAX,
                    Target::Tag(_) | Target::Everything(_) => continue,
                };
                numbers.entry(of).or_default().push((*number, op.invoked));
            }
        }
        // Who repeats a question may be told of a lease that its first try got earlier.
        let first = op
            .question()
            .is_some_and(|question| question.request == 0 && !question.pulls());
        if let (Some(grant), Some(key), true) = (op.granted(), op.key(), first) {
            numbers
                .entry(sequence(key))
                .or_default()
                .push((grant.lease.token.0, op.invoked));
        }
    }
    for numbers in numbers.values_mut() {
        numbers.sort_unstable();
        let mut latest = Moment::default();
        for (_, moment) in numbers {
            latest = latest.max(*moment);
            *moment = latest;
        }
    }
    for op in ops.iter_mut() {
        let is_task = op.question().is_some_and(Question::pulls);
        let (Some(key), true) = (op.key(), is_task) else {
            continue;
        };
        let End::Granted(grant) = &mut op.end else { continue };
        let before = numbers.get(&sequence(key)).and_then(|numbers| {
            let smaller = numbers.partition_point(|(number, _)| *number < grant.lease.token.0);
            Some(numbers[smaller.checked_sub(1)?].1)
        });
        op.invoked = op.invoked.max(before.unwrap_or_default()).min(op.ended);
        grant.sure_until += op.invoked.at;
        grant.over_by += TRIP;
    }
}

#[test]
fn a_task_was_granted_after_whatever_got_a_smaller_number_was_asked_for() {
    let moment = |at| Moment { place: at * 1_000, at };
    let granted = |token, wait, (invoked, ended), sure_until| Op {
        client: 0,
        replica: 0,
        asked: Asked::Acquire(Question {
            wait,
            ..Question::pull(0)
        }),
        invoked: moment(invoked),
        ended: moment(ended),
        end: End::Granted(Grant {
            lease: LeaseId {
                token: drover::decision::Seq(token),
                secret: std::num::NonZeroU64::MIN,
            },
            sure_until,
            over_by: ended + 500,
            fallback: None,
        }),
        degraded: false,
        until: moment(ended),
    };
    // The task of number 7 came out of a cable that was stalled.
    let mut ops = [
        granted(7, PULLS, (0, 1_000), 500),
        granted(5, 0, (100, 110), 610),
        granted(3, 0, (90, 120), 600),
        granted(9, 0, (300, 310), 810),
    ];
    tell_when_granted(&mut ops, true);
    assert_eq!(ops[0].invoked, moment(100));
    let sure_until = ops[0].granted().map(|grant| grant.sure_until);
    assert_eq!(sure_until, Some(600), "its time began no earlier");
    assert_eq!(ops[3].invoked, moment(300), "a caller knows when it asked");
}
