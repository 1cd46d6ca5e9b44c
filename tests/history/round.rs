//! One run: a field, clients, workers and watchers in it, one kind of fault; then rest, and the question whether the history keeps the promises.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use drover::decision::TAKE_UP;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::calls::Lines;
use crate::checker::model::{End, History, Kind, Op, Question, Terms, Watcher};
use crate::checker::{self, Found};
use crate::client::{Client, Manners, stream};
use crate::faults::{Fault, Rhythm, play};
use crate::field::{self, Field};
use crate::names::{FARM, LONGEST_LEASE, LONGEST_LIFE, MILL, PLACES, RELAY};
use crate::recorder::{Recorder, arrange};
use crate::rest::{Unheard, come_to_rest};
use crate::watcher::{Diary, Habits, Subscriber};
use crate::worker::{self, Ways, Worker};

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Measure {
    pub seed: u64,
    /// How long the clients go on.
    pub length: Duration,
    /// Clients in `shop`; others in proportion. The workers are always the same.
    pub clients: u32,
    /// Between one thing that a client does and the next, on average.
    pub pause: Duration,
    /// What the machine may take for a caller's own steps.
    pub slack: Duration,
    /// In the end an invalidation must be confirmed, too.
    pub thorough: bool,
}

/// What a run showed.
pub struct Round {
    pub fault: Fault,
    pub history: History,
    pub found: Found,
    pub figures: Figures,
    /// The last that the replicas said.
    pub said: String,
}

impl Round {
    /// What it was to reach and did not.
    pub fn misses(&self) -> Vec<String> {
        let (without_grant, back_after) = self.fault.reaches();
        let figures = &self.figures;
        let pairs = [
            (without_grant, Some(figures.without_grant), "nobody was granted a key"),
            (
                back_after,
                figures.back_after,
                "nobody was granted anything once it was whole",
            ),
        ];
        let missed = pairs.into_iter().filter_map(|(bound, was, what)| {
            let (bound, was) = (bound?, was?);
            (was > bound).then(|| format!("{}: {what} for {was:?}, the bound is {bound:?}", self.fault.as_str()))
        });
        missed.collect()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub operations: usize,
    /// Of these: refreshes that workers were given.
    pub tasks: usize,
    pub unknown: usize,
    pub degraded: usize,
    /// The longest that nobody was granted a key of `relay`, all of which somebody always wants.
    pub without_grant: Duration,
    /// The longest from when something was whole again to the next grant.
    pub back_after: Option<Duration>,
    /// How calls failed, by the word for it.
    pub failures: BTreeMap<&'static str, usize>,
    /// How watchers were reset.
    pub resets: BTreeMap<&'static str, usize>,
}

pub async fn run(fault: Fault, measure: Measure) -> Round {
    let layout = fault.layout();
    let mut field = Field::lay(&layout).await;
    let manners = Manners {
        pause: measure.pause.as_micros() as u64,
        bytes: if fault == Fault::MemoryPressure { 60_000 } else { 200 },
        twice: fault == Fault::CallsTwice,
    };
    let (over, rested) = (CancellationToken::new(), CancellationToken::new());
    let watchers = watch(&field, fault, measure.seed, (&over, &rested));
    let clients = clients(&field, measure, manners, &over);
    let mut rhythm = Rhythm {
        until: Instant::now() + measure.length,
        rng: stream(measure.seed, 1),
    };
    play(fault, &mut field, &mut rhythm).await;
    over.cancel();
    let mut ops: Vec<Op> = clients.join_all().await.into_iter().flatten().collect();
    ops.extend(prober(&field, measure, manners).probe(Duration::from_secs(5)).await);
    let unheard = watchers.iter().map(|(unheard, _)| unheard.clone()).collect();
    come_to_rest(&field, unheard, measure.thorough).await;
    rested.cancel();
    let mut seen = Vec::new();
    for (_, watcher) in watchers {
        let diary = watcher.await.expect("a watcher does not panic");
        ops.extend(diary.ops);
        seen.push(diary.watcher);
    }
    let said = field.said();
    let recorder = field.recorder.clone();
    let keys = field.names.namespaces();
    field.clear().await;
    for watcher in seen.iter().filter(|watcher| watcher.rest.is_none()) {
        recorder.wrong(format!("{} was not live in the end", watcher.name));
    }
    if fault == Fault::RollingRestart {
        only_retryable(&ops, &recorder);
    }
    let lapses = recorder.lapses();
    worker::tell_when_granted(&mut ops, layout.kind != field::Kind::Cluster);
    let history = History {
        terms: terms(fault, measure, &layout),
        keys,
        ops: arrange(ops, &lapses),
        watchers: seen,
        lapses,
        stuck: recorder.stuck(),
    };
    Round {
        fault,
        found: checker::check(&history),
        figures: Figures::of(&history),
        history,
        said,
    }
}

/// A replica that leaves well makes nobody fail in a way that is not retried: by another code than UNAVAILABLE.
fn only_retryable(ops: &[Op], recorder: &Recorder) {
    let not_retried = |op: &&Op| matches!(op.end, End::Unknown(why) if why.starts_with("connection, "));
    for op in ops.iter().filter(not_retried).take(5) {
        recorder.wrong(format!("a status that is not retried: {op:?}"));
    }
}

fn terms(fault: Fault, measure: Measure, layout: &field::Layout) -> Terms {
    let slack = measure.slack.as_micros() as u64;
    // Where a replica dies or nothing happens, a ring comes; else the look that comes each second does it.
    let notice = match fault {
        Fault::Nothing | Fault::OneReplica | Fault::ReplicaKilled | Fault::RollingRestart => 500_000,
        _ => 1_100_000,
    };
    Terms {
        slack,
        notice: notice + slack,
        recovery: 1_000_000 + slack,
        one_sequence: layout.kind != field::Kind::Cluster,
        longest_lease: LONGEST_LEASE,
        shortest_lease: 100_000,
        windows: vec![
            2 * LONGEST_LIFE,
            LONGEST_LIFE,
            u64::MAX / 2,
            2 * LONGEST_LIFE,
            2 * LONGEST_LIFE,
        ],
        max_silence: 15_000_000,
        budgets: vec![0, 0, 0, 0, PLACES],
        // It is free with the report, or with its time and what a grace there is; where something fails, as late as it may come back at all.
        place_is_back: Some(match fault {
            Fault::Nothing | Fault::OneReplica => 350_000,
            _ => 350_000 + LONGEST_LEASE + TAKE_UP.as_micros() as u64,
        }),
    }
}

fn watch(
    field: &Field,
    fault: Fault,
    seed: u64,
    (over, rested): (&CancellationToken, &CancellationToken),
) -> Vec<(Unheard, JoinHandle<Diary>)> {
    let slow = Duration::from_millis(if fault == Fault::SlowSubscribers { 700 } else { 0 });
    let habits = [
        Habits::default(),
        Habits {
            refreshed: true,
            ..Habits::default()
        },
        Habits {
            prefix: "a",
            ..Habits::default()
        },
        Habits::default(),
        Habits {
            slow,
            ..Habits::default()
        },
        Habits {
            slow,
            refreshed: true,
            ..Habits::default()
        },
    ];
    let start = |(number, habits): (u32, Habits)| {
        let quiet = number % 2 == 1;
        let lines = Lines::to(&field.fronts(), &field.recorder, &field.names, !quiet);
        let (subscriber, unheard) = Subscriber::new(number, lines, habits, seed);
        (unheard, tokio::spawn(subscriber.live(over.clone(), rested.clone())))
    };
    (0..).zip(habits).map(start).collect()
}

fn clients(field: &Field, measure: Measure, manners: Manners, over: &CancellationToken) -> JoinSet<Vec<Op>> {
    let mut tasks = JoinSet::new();
    let client = |number: u32| {
        // Some share their connections, as the callers of one process do.
        let lines = Lines::to(&field.fronts(), &field.recorder, &field.names, true);
        Client::new(number, lines, manners, measure.seed, over.clone())
    };
    let (shop, still) = (measure.clients, measure.clients / 2);
    let keys = field.names.of(RELAY).len() as u32;
    for number in 0..shop {
        tasks.spawn(client(number).shop());
    }
    for number in shop..shop + still {
        tasks.spawn(client(number).still());
    }
    // Their number says which key each has, and three have the same.
    let first = (shop + still).next_multiple_of(keys * 3);
    for number in first..first + keys * 3 {
        tasks.spawn(client(number).relay());
    }
    let next = first + keys * 3;
    for number in next..next + measure.clients / 2 {
        tasks.spawn(client(number).beside_workers(if number % 2 == 0 { FARM } else { MILL }));
    }
    let next = next + measure.clients / 2;
    for (number, ways) in (next..).zip(Ways::ALL) {
        let lines = Lines::to(&field.fronts(), &field.recorder, &field.names, true);
        tasks.spawn(Worker::new(number, lines, manners, measure.seed, ways, over.clone()).live());
    }
    tasks
}

fn prober(field: &Field, measure: Measure, manners: Manners) -> Client {
    let lines = Lines::to(&field.fronts(), &field.recorder, &field.names, true);
    Client::new(1_000_000, lines, manners, measure.seed, CancellationToken::new())
}

impl Figures {
    fn of(history: &History) -> Figures {
        let mut figures = Figures {
            tasks: history
                .ops
                .iter()
                .filter(|op| is_task(op) && op.granted().is_some())
                .count(),
            without_grant: longest_gap(history),
            back_after: back_after(history),
            ..Figures::default()
        };
        for op in history.ops.iter().filter(|op| !(is_task(op) && op.is_unknown())) {
            figures.operations += 1;
            figures.unknown += usize::from(op.is_unknown());
            figures.degraded += usize::from(op.degraded);
            if let End::Failed(why) | End::Unknown(why) = op.end {
                *figures.failures.entry(why).or_default() += 1;
            }
        }
        for told in history.watchers.iter().flat_map(|watcher: &Watcher| &watcher.told) {
            if let checker::model::What::Reset(why) = told.what {
                *figures.resets.entry(why).or_default() += 1;
            }
        }
        figures
    }
}

fn is_task(op: &Op) -> bool {
    op.question().is_some_and(Question::pulls)
}

/// When each key of `relay` was granted to somebody, in order.
fn relays(history: &History) -> HashMap<u32, Vec<u64>> {
    let mut grants: HashMap<u32, Vec<u64>> = HashMap::new();
    for op in &history.ops {
        if let Some(key) = op.key().filter(|key| history.keys[*key as usize] == RELAY)
            && op.granted().is_some()
        {
            grants.entry(key).or_default().push(op.ended.at);
        }
    }
    grants.values_mut().for_each(|grants| grants.sort_unstable());
    grants
}

fn longest_gap(history: &History) -> Duration {
    let grants = relays(history);
    let gaps = grants
        .values()
        .flat_map(|grants| grants.windows(2).map(|pair| pair[1] - pair[0]));
    Duration::from_micros(gaps.max().unwrap_or_default())
}

fn back_after(history: &History) -> Option<Duration> {
    let mut grants: Vec<u64> = relays(history).into_values().flatten().collect();
    grants.sort_unstable();
    let whole = history.lapses(|kind| matches!(kind, Kind::Away(_) | Kind::CutOff(_) | Kind::Lost | Kind::Failover));
    let back = whole.filter_map(|(_, to)| {
        let next = grants.partition_point(|at| *at < to);
        grants.get(next).map(|at| at - to)
    });
    back.max().map(Duration::from_micros)
}
