//! Levelled jitter: many keys over many generations, against plain jitter and against what the doc of the rule says.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use proptest::prelude::*;

use super::*;

const KEYS: usize = 10_000;
/// Fresh for 300 s ± 10 %: the jitter is 60 s wide.
const FRESH: u64 = 300;
const WIDTH: u64 = 60;

/// Keys that are rebuilt the moment they come due, by replicas with a ledger each.
struct World {
    ledgers: Vec<Ledger>,
    levelled: bool,
    costs: Vec<Duration>,
    /// Seconds of work a second.
    work: BTreeMap<u64, f64>,
    lives: Vec<f64>,
    seed: u64,
}

impl World {
    fn new(replicas: usize, levelled: bool, costs: Vec<Duration>) -> World {
        World {
            ledgers: vec![Ledger::default(); replicas],
            levelled,
            costs,
            work: BTreeMap::new(),
            lives: Vec::new(),
            seed: 1,
        }
    }

    fn draw(&mut self) -> Draw {
        self.seed += 1;
        Draw {
            secret: 0,
            seed: self.seed,
        }
    }

    /// Rebuilds a key at some replica; when it comes due again.
    fn rebuild(&mut self, now: StoreTime, key: usize) -> StoreTime {
        let jitter = Policy::default().jitter;
        let draw = self.draw();
        let replica = (draw.unit(Purpose::Retry) * self.ledgers.len() as f64) as usize;
        let ledger = &mut self.ledgers[replica];
        let due = |draw| now.after(jitter.spread(secs(FRESH), LONGEST, draw));
        let at = if self.levelled {
            ledger.advance(now);
            let cost = self.costs[key];
            let burden = |at: &StoreTime| ledger.burden(Plan { at: *at, cost });
            let choices = draw.choices(ledger.choices(cost)).map(due);
            choices
                .min_by(|one, other| burden(one).total_cmp(&burden(other)))
                .expect("some")
        } else {
            due(draw)
        };
        ledger.add(Plan {
            at,
            cost: self.costs[key],
        });
        self.lives.push(at.since(now).as_secs_f64());
        at
    }

    /// Fills all keys within `filling`, and goes on until `end`.
    fn run(&mut self, filling: Duration, end: Duration) {
        let mut coming = BinaryHeap::new();
        for key in 0..self.costs.len() {
            let at = StoreTime::ZERO.after(filling.mul_f64(self.draw().unit(Purpose::Retry)));
            coming.push(Reverse((at, key)));
        }
        let filled = StoreTime::ZERO.after(filling);
        while let Some(Reverse((at, key))) = coming.pop()
            && at < StoreTime::ZERO.after(end)
        {
            if at >= filled {
                *self.work.entry(at.0 / 1_000_000).or_default() += self.costs[key].as_secs_f64();
            }
            coming.push(Reverse((self.rebuild(at, key), key)));
        }
    }

    /// The busiest second of a time.
    fn busiest(&self, seconds: std::ops::Range<u64>) -> f64 {
        self.work.range(seconds).map(|(_, work)| *work).fold(0.0, f64::max)
    }

    /// The same, against the mean of that time.
    fn ratio(&self, seconds: std::ops::Range<u64>) -> f64 {
        let length = (seconds.end - seconds.start) as f64;
        self.busiest(seconds.clone()) / (self.work.range(seconds).map(|(_, work)| work).sum::<f64>() / length)
    }
}

fn even() -> Vec<Duration> {
    vec![secs(1); KEYS]
}

/// Pareto(1.5), capped at 200.
fn uneven(seed: u64) -> Vec<Duration> {
    let draws = (0..KEYS as u64).map(|number| {
        Draw { secret: 0, seed }
            .other(Purpose::Choice, number)
            .unit(Purpose::Fan)
    });
    draws
        .map(|unit| Duration::from_secs_f64((1.0 - unit).powf(-1.0 / 1.5).min(200.0)))
        .collect()
}

/// The first generation after a fill within a moment, its busiest second against the mean over the width of the jitter.
fn first_generation(replicas: usize, levelled: bool, costs: Vec<Duration>) -> f64 {
    let mean = costs.iter().sum::<Duration>().as_secs_f64() / WIDTH as f64;
    let mut world = World::new(replicas, levelled, costs);
    world.run(millis(10), secs(FRESH + WIDTH));
    world.busiest(0..FRESH + WIDTH) / mean
}

#[test]
fn what_was_filled_in_a_moment_comes_due_levelly() {
    let plain = first_generation(1, false, even());
    assert!((1.1..1.4).contains(&plain), "plain jitter: {plain}");
    for (replicas, bound) in [(1, 1.015), (3, 1.03)] {
        let levelled = first_generation(replicas, true, even());
        assert!(levelled <= bound, "{replicas} replicas: {levelled}");
    }
}

#[test]
fn costs_are_levelled_and_not_keys() {
    const RUNS: u64 = 6;
    let plain: Vec<f64> = (0..RUNS).map(|seed| first_generation(1, false, uneven(seed))).collect();
    for (replicas, most) in [(1, 0.85), (3, 1.0)] {
        let runs = (0..RUNS).zip(&plain);
        let shares: Vec<f64> = runs
            .map(|(seed, plain)| first_generation(replicas, true, uneven(seed)) / plain)
            .collect();
        assert!(
            shares.iter().all(|share| *share <= most),
            "{replicas} replicas: {shares:?}"
        );
        let mean = shares.iter().sum::<f64>() / RUNS as f64;
        assert!(mean <= 0.8, "{replicas} replicas: {mean}");
    }
}

#[test]
fn at_rest_no_second_is_busier_than_a_twentieth_above_the_mean() {
    // Filled over a whole lifetime, so that hardly any wave has to ebb away first.
    let late = 16 * FRESH..20 * FRESH;
    for (replicas, levelled, bounds) in [(1, false, 1.35..1.8), (1, true, 1.0..1.05), (3, true, 1.0..1.1)] {
        let mut world = World::new(replicas, levelled, even());
        world.run(secs(FRESH), secs(late.end));
        let ratio = world.ratio(late.clone());
        assert!(
            bounds.contains(&ratio),
            "{replicas} replicas, levelled {levelled}: {ratio}"
        );
    }
}

#[test]
fn later_generations_of_what_was_filled_in_a_moment_are_never_as_busy_as_the_first() {
    let mut levelled = World::new(1, true, even());
    levelled.run(millis(10), secs(10 * FRESH));
    let mut plain = World::new(1, false, even());
    plain.run(millis(10), secs(10 * FRESH));
    let generation = |number: u64| {
        let first = number * (FRESH - WIDTH / 2);
        first..first + number * WIDTH + 2
    };
    let mean = KEYS as f64 / WIDTH as f64;
    assert!(levelled.busiest(0..10 * FRESH) <= 1.05 * mean);
    for number in 2..=6 {
        let [calm, wild] = [&levelled, &plain].map(|world| world.busiest(generation(number)));
        assert!(calm < 0.75 * wild, "generation {number}: {calm} levelled, {wild} plain");
    }
}

#[test]
fn levelled_lifetimes_stay_within_the_jitter_s_range_and_are_spread_over_it() {
    let mut world = World::new(1, true, even());
    world.run(secs(FRESH), secs(10 * FRESH));
    let lives = &world.lives;
    assert!(lives.iter().all(|life| (270.0..=330.0).contains(life)));
    let mean = lives.iter().sum::<f64>() / lives.len() as f64;
    let deviation = (lives.iter().map(|life| (life - mean).powi(2)).sum::<f64>() / lives.len() as f64).sqrt();
    assert!(
        (310.0..=328.0).contains(&mean) && deviation > 4.0,
        "{mean} ± {deviation}"
    );
    // Where all seconds are alike, as at first, it is plain jitter.
    let early: Vec<f64> = (0..2_000)
        .map(|seed| {
            Draw { secret: 0, seed }
                .choices(CHOICES)
                .next()
                .expect("some")
                .unit(Purpose::Lifetime)
        })
        .collect();
    let mean = early.iter().sum::<f64>() / early.len() as f64;
    assert!((mean - 0.5).abs() < 0.02, "{mean}");
}

#[test]
fn one_choice_lies_in_each_part_of_the_range_whatever_is_drawn() {
    for seed in 0..500 {
        for count in [CHOICES, HEAVY_CHOICES] {
            let choices: Vec<Draw> = Draw { secret: 3, seed }.choices(count).collect();
            let mut parts: Vec<usize> = choices
                .iter()
                .map(|draw| (draw.unit(Purpose::Lifetime) * count as f64) as usize)
                .collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..count).collect::<Vec<usize>>());
            assert!(choices.iter().all(|draw| draw.secret == 3));
        }
    }
}

#[test]
fn a_report_takes_the_draw_whose_next_rebuild_falls_into_the_quietest_second() {
    let mut room = Room::new();
    room.policy.jitter = Policy::default().jitter;
    room.policy.beta = 1.0;
    let lease = room.grant(&ask("a"));
    room.pass(secs(2));
    let body = ended(lease, bytes());
    let mut ledger = Ledger::default();
    ledger.advance(room.now);
    // All but one second is taken.
    let draw = room.draw();
    let outlook = outlook(&room.view(), &body, &room.policy).expect("it stays");
    let choices: Vec<Draw> = draw.choices(CHOICES).collect();
    let plans: Vec<Plan> = choices.iter().map(|draw| outlook.plan(*draw)).collect();
    plans[..5].iter().chain(&plans[6..]).for_each(|plan| ledger.add(*plan));
    let (chosen, plan) = level(&mut ledger, &room.view(), &body, &room.policy, draw);
    assert_eq!((chosen, plan), (choices[5], Some(plans[5])));
    assert_eq!(plans[5].cost, secs(2));
    assert!((ledger.load(plans[5].at) - 2.0).abs() < 1e-3);
    ledger.withdraw(plans[5]);
    assert!(ledger.load(plans[5].at) < 1e-3);
    // And what is planned is what is then written.
    let ReportDecision::Accept { draft, .. } = report(&room.view(), &body, &room.policy, chosen) else {
        panic!("refused");
    };
    room.commit(*draft, Seq::NONE);
    let due = room.view().refresh_due().expect("planned");
    assert!(
        due.since(plans[5].at) + plans[5].at.since(due) < millis(1),
        "{due:?}, {plan:?}"
    );
}

#[test]
fn without_levelling_the_draw_stays_and_is_noted_all_the_same() {
    let mut room = Room::new();
    room.policy.jitter.level = false;
    let lease = room.grant(&ask("a"));
    let (draw, mut ledger) = (room.draw(), Ledger::default());
    let (same, plan) = level(&mut ledger, &room.view(), &ended(lease, bytes()), &room.policy, draw);
    assert_eq!(same, draw);
    assert!(ledger.load(plan.expect("planned").at) > 0.0);
    for outcome in [failed(secs(1)), Outcome::Abandoned, Outcome::NotModified] {
        assert_eq!(
            level(&mut ledger, &room.view(), &ended(lease, outcome), &room.policy, draw).1,
            None
        );
    }
    let unstored = Report {
        do_not_store: true,
        ..ended(lease, bytes())
    };
    assert_eq!(level(&mut ledger, &room.view(), &unstored, &room.policy, draw).1, None);
}

#[test]
fn a_ledger_is_as_large_as_its_lifetimes_are_long_and_bounded() {
    let size = |furthest: u64| {
        let mut ledger = Ledger::default();
        ledger.advance(START);
        for at in (1..=furthest)
            .step_by(furthest.div_ceil(5_000) as usize)
            .chain([furthest])
        {
            ledger.add(Plan {
                at: START.after(secs(at)),
                cost: secs(1),
            });
        }
        ledger.size()
    };
    assert_eq!(size(1), 256);
    assert_eq!(size(330), 2_048);
    assert_eq!(size(4_095), 16_384);
    assert!(size(LONGEST.as_secs()) <= 28 * 1_024);
    assert!(size(u64::from(u32::MAX)) <= 28 * 1_024);
}

/// What happens to a ledger; seconds.
#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Add { ahead: u64, cost: u32, withdrawn: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let length = || prop_oneof![4 => 0..400u64, 2 => 0..5_000u64, 1 => 0..3_000_000u64];
    prop::collection::vec(
        prop_oneof![
            1 => length().prop_map(Step::Pass),
            3 => (length(), 1..100u32, prop::bool::weighted(0.2))
                .prop_map(|(ahead, cost, withdrawn)| Step::Add { ahead, cost, withdrawn }),
        ],
        1..60,
    )
}

/// What a ledger holds, as a list.
#[derive(Default)]
struct List {
    now: u64,
    /// Width and number of a cell, and what is in it.
    noted: Vec<(u64, u64, f64)>,
}

impl List {
    fn add(&mut self, at: u64, cost: f64) {
        let cells = [(1, 4_096), (16, 1_024), (256, 1_024), (4_096, 1_024)];
        let finest = cells
            .into_iter()
            .find(|(width, count)| at / width - self.now / width < *count);
        self.noted.extend(finest.map(|(width, _)| (width, at / width, cost)));
    }

    /// A cell is forgotten as a whole, when it is over.
    fn load(&self, at: u64) -> f64 {
        let there = |(width, number, _): &&(u64, u64, f64)| at / width == *number && *number >= self.now / width;
        self.noted
            .iter()
            .filter(there)
            .map(|(width, _, cost)| cost / *width as f64)
            .sum()
    }
}

proptest! {
    #[test]
    fn a_ledger_holds_what_lies_ahead_and_nothing_else(steps in steps(), elsewhere in prop::collection::vec(0..5_000u64, 8)) {
        let (mut ledger, mut list) = (Ledger::default(), List { now: START.0 / 1_000_000, ..List::default() });
        let mut seconds: Vec<u64> = elsewhere.into_iter().map(|ahead| list.now + ahead).collect();
        ledger.advance(START);
        for step in steps {
            let instant = |second: u64| StoreTime(second * 1_000_000 + 7);
            match step {
                Step::Pass(length) => {
                    list.now += length;
                    ledger.advance(instant(list.now));
                    // A clock that goes back changes nothing.
                    ledger.advance(START);
                }
                Step::Add { ahead, cost, withdrawn } => {
                    let plan = Plan { at: instant(list.now + ahead), cost: secs(u64::from(cost)) };
                    ledger.add(plan);
                    if withdrawn {
                        ledger.withdraw(plan);
                    } else {
                        list.add(list.now + ahead, f64::from(cost));
                    }
                    seconds.push(list.now + ahead);
                }
            }
            for second in seconds.iter().filter(|second| **second >= list.now) {
                let (load, expected) = (ledger.load(instant(*second)), list.load(*second));
                prop_assert!((load - expected).abs() < 1e-3 * (1.0 + expected), "{load}, not {expected}, {} ahead", second - list.now);
            }
        }
    }

    #[test]
    fn far_plans_are_spread_over_their_cell_and_none_is_lost_while_it_lies_ahead(ahead in 1..2_592_000_u64, later in 0.0..1.0_f64) {
        let mut ledger = Ledger::default();
        ledger.advance(START);
        let at = START.after(secs(ahead));
        ledger.add(Plan { at, cost: secs(8_192) });
        ledger.advance(START.after(secs(ahead).mul_f64(later)));
        let load = ledger.load(at);
        let width = if ahead < 4_095 { 1 } else if ahead < 16_000 { 16 } else if ahead < 260_000 { 256 } else { 4_096 };
        prop_assert!((2.0..=8_192.0).contains(&load), "{load}");
        prop_assert!(load >= 8_192.0 / f64::from(width), "{load} at {ahead}");
        ledger.advance(START.after(secs(ahead + 4_097)));
        prop_assert_eq!(ledger.load(START.after(secs(ahead + 4_097))), 0.0);
    }
}
