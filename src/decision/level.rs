//! Levelled jitter: which lifetime of a few puts the next rebuild into the quietest second.
//!
//! *Owns* the [`Ledger`] of one namespace at one replica: planned cost a second. *Never* holds a key.
//!
//! *Source*: Y. Azar, A. Broder, A. Karlin, E. Upfal, "Balanced Allocations", STOC 1994. Of m balls that each go to the least full of d random bins
//! of n, the fullest bin has m/n + ln ln n / ln d + O(1), and the excess does not grow with m, where one choice leaves √(m/n · ln n). Bins are
//! seconds, balls are rebuilds, weighed by their cost.
//!
//! *How many choices*: [`CHOICES`], one in each eighth of the jitter's range, so that no part of it is overlooked. 10,000 keys, 300 s ± 10 %:
//!
//! | draws | filled at once: busiest second of the 60 | at rest, 33 a second: busiest of 300 s | mean lifetime, its deviation |
//! |---|---|---|---|
//! | 1 (plain jitter) | 1.18 × the mean | 1.53 × | 300 ± 17 s |
//! | 4 | 1.01 | 1.05 | 317 ± 11 s |
//! | 8 | 1.00 | 1.03 | 323 ± 8 s |
//! | 8, one in each eighth | 1.00 | 1.02 | 325 ± 5 s |
//! | all 60 seconds | 1.00 | 1.02 | 329 ± 4 s |
//!
//! One key is 3 % of such a second, so more choices bring nothing but less randomness: at rest the seconds that come last are the emptiest, so
//! what is levelled lives longer than the middle of its range. It never leaves the range, and `down` keeps a maximum age.
//!
//! *Uneven costs*: a heavy rebuild that comes late finds every second full, and no number of choices helps it. So where costs are uneven every
//! sixth second is left to the heavy ones: to lighter ones it seems fuller, by twice what they are lighter than the heaviest of late. And what
//! costs more than four times the mean chooses among [`HEAVY_CHOICES`]. With costs after Pareto(1.5), capped at 200, filled at once, the
//! busiest second has, as a mean over 300 runs, 0.68 of that of plain jitter, and never more than 0.84 (without this 0.77, and more than 0.85 in
//! every seventh run); with three replicas it is 0.74 (without this 0.83). Even costs are not touched by it.
//!
//! *What it can't do*: keys that were filled within a second come due within the width of the jitter, whatever is chosen, and so do the
//! next generations, each twice as wide and half as high as the one before it at first. That wave ebbs away by a tenth to a third of its height each
//! generation (with one draw by a fifteenth, once it is wider than the lifetime). Fill slowly (`ScheduleRefresh` with `spread_over`).
//!
//! *Several replicas*: each levels what is reported to it, and nothing is shared. A sum of level parts is level: three replicas with a third
//! of the keys each come to 1.01 filled at once and to 1.07 at rest, where one comes to 1.00 and 1.02; the difference is one key a second and
//! replica, so with ten times the keys it is gone. (Rejected: to share it in the store, which is a write a report for that; to gossip
//! it, since many who choose by the same old news choose the same second: M. Mitzenmacher, "How Useful Is Old Information?", PODC 1997.)
//!
//! *Bounds*: a cell is 4 bytes. The next 4,096 seconds have a cell a second, allocated as far as lifetimes reach: 2 KiB for 300 s,
//! 16 KiB at most. What lies further has coarser cells, 1,024 each of 16 s, 256 s and 4,096 s, 4 KiB each, allocated at first use: 28 KiB at most,
//! and 48 days far. Within such a cell nothing is levelled, but seconds there are in the thousands.

use std::time::Duration;

use super::{Draw, Policy, Purpose, Report, StoreTime, View, outlook};

/// Among how many lifetimes the one in the quietest second is chosen.
pub const CHOICES: usize = 8;

/// The same for what is far heavier than others.
pub const HEAVY_CHOICES: usize = 32;

/// Far heavier is what costs more than so many times the mean.
const HEAVY: f32 = 4.0;
/// Of so many seconds one is left to the heavy ones, where there are any.
const RESERVED: u64 = 6;
/// How much fuller such a second seems, in parts of what a rebuild is lighter than the heaviest.
const HANDICAP: f32 = 2.0;
/// The weight of a cost in the mean; and how the heaviest is forgotten: by half over some 700 rebuilds.
const WEIGHT: f32 = 1.0 / 1_024.0;

/// Seconds a cell, and how many cells at most, from near to far.
const RINGS: [(u64, usize); 4] = [(1, 4_096), (16, 1_024), (256, 1_024), (4_096, 1_024)];
/// The first allocation of a ring.
const FIRST_CELLS: usize = 64;

/// A rebuild that lies ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// When it is due.
    pub at: StoreTime,
    /// What it will cost.
    pub cost: Duration,
}

/// Planned cost of rebuilds a second, of one namespace.
#[derive(Clone, Debug)]
pub struct Ledger {
    now: u64,
    rings: [Ring; RINGS.len()],
    /// Mean cost of late, and the highest; seconds.
    mean: f32,
    heaviest: f32,
}

/// Cells of one width, each for the next time that falls into it.
#[derive(Clone, Debug)]
struct Ring {
    width: u64,
    most: usize,
    /// Seconds of work. A power of two of them, or none.
    cells: Vec<f32>,
}

/// The draw with which a report is to be decided, so that the value's next rebuild falls into a quiet second; that is noted, and to be
/// [withdrawn](Ledger::withdraw) if the report is not committed. Without levelling in the policy the draw is what it was.
pub fn level(
    ledger: &mut Ledger,
    view: &View<'_>,
    report: &Report,
    policy: &Policy,
    draw: Draw,
) -> (Draw, Option<Plan>) {
    ledger.advance(view.now);
    let Some(outlook) = outlook(view, report, policy) else {
        return (draw, None);
    };
    let plain = outlook.plan(draw);
    let count = if policy.jitter.level {
        ledger.choices(plain.cost)
    } else {
        0
    };
    let mut chosen = (f64::INFINITY, draw, plain);
    for draw in draw.choices(count) {
        let plan = outlook.plan(draw);
        let burden = ledger.burden(plan);
        if burden < chosen.0 {
            chosen = (burden, draw, plan);
        }
        // None is quieter, and of several that are, the first is taken.
        if burden <= 0.0 {
            break;
        }
    }
    let (_, draw, plan) = chosen;
    ledger.add(plan);
    (draw, Some(plan))
}

impl Draw {
    /// Draws whose lifetimes lie one in each part of the jitter's range, in random order: where all seconds are alike the first is taken.
    pub fn choices(self, count: usize) -> impl Iterator<Item = Draw> {
        let first = (self.unit(Purpose::Level) * count as f64) as usize;
        (0..count).map(move |number| {
            let draw = self.other(Purpose::Choice, number as u64);
            let part = ((first + number) % count) as f64;
            let unit = (part + draw.unit(Purpose::Lifetime)) / count as f64;
            draw.with_unit(Purpose::Lifetime, unit)
        })
    }
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            now: 0,
            rings: RINGS.map(|(width, most)| Ring {
                width,
                most,
                cells: Vec::new(),
            }),
            mean: 0.0,
            heaviest: 0.0,
        }
    }
}

impl Ledger {
    /// Forgets what has come due. A time that goes back changes nothing.
    pub fn advance(&mut self, now: StoreTime) {
        let now = second(now);
        if now > self.now {
            self.rings.iter_mut().for_each(|ring| ring.forget(self.now, now));
            self.now = now;
        }
    }

    /// Among how many lifetimes a rebuild of this cost is to choose.
    pub fn choices(&self, cost: Duration) -> usize {
        if cost.as_secs_f32() > HEAVY * self.mean && self.mean > 0.0 {
            HEAVY_CHOICES
        } else {
            CHOICES
        }
    }

    /// How unwelcome a rebuild is at its time; the least is the best choice: what is planned there, and more where it is to be left to
    /// heavier ones.
    pub fn burden(&self, plan: Plan) -> f64 {
        let at = second(plan.at).max(self.now);
        let uneven = self.heaviest > HEAVY * self.mean;
        let reserved = uneven && at.is_multiple_of(RESERVED) && at - self.now < RINGS[0].1 as u64;
        let lighter = (self.heaviest - plan.cost.as_secs_f32()).max(0.0);
        self.load(plan.at) + if reserved { f64::from(HANDICAP * lighter) } else { 0.0 }
    }

    /// Seconds of work planned for the second that an instant lies in.
    pub fn load(&self, at: StoreTime) -> f64 {
        let at = second(at).max(self.now);
        self.rings.iter().map(|ring| ring.load(self.now, at)).sum()
    }

    /// Notes a rebuild, in the finest cell that there is for its time. What is too far away is not noted.
    pub fn add(&mut self, plan: Plan) {
        let cost = plan.cost.as_secs_f32();
        self.mean += if self.mean > 0.0 {
            (cost - self.mean) * WEIGHT
        } else {
            cost
        };
        self.heaviest = cost.max(self.heaviest * (1.0 - WEIGHT));
        self.change(plan, cost);
    }

    /// Takes back what was noted a moment ago.
    pub fn withdraw(&mut self, plan: Plan) {
        self.change(plan, -plan.cost.as_secs_f32());
    }

    /// Bytes that it takes beside itself.
    pub fn size(&self) -> usize {
        self.rings
            .iter()
            .map(|ring| ring.cells.capacity() * size_of::<f32>())
            .sum()
    }

    fn change(&mut self, plan: Plan, work: f32) {
        let (now, at) = (self.now, second(plan.at).max(self.now));
        if let Some(cell) = self.rings.iter_mut().find_map(|ring| ring.cell(now, at)) {
            *cell = (*cell + work).max(0.0);
        }
    }
}

impl Ring {
    fn forget(&mut self, before: u64, now: u64) {
        let (first, end) = (before / self.width, now / self.width);
        let passed = (end - first).min(self.cells.len() as u64);
        for number in first..first + passed {
            if let Some(cell) = self.place(number) {
                self.cells[cell] = 0.0;
            }
        }
    }

    /// In a second.
    fn load(&self, now: u64, at: u64) -> f64 {
        if self.cells.is_empty() {
            return 0.0;
        }
        let number = at / self.width;
        let ahead = number - now / self.width;
        match self.place(number) {
            Some(cell) if ahead < self.cells.len() as u64 => f64::from(self.cells[cell]) / self.width as f64,
            _ => 0.0,
        }
    }

    /// The cell of a time, if this ring reaches so far.
    fn cell(&mut self, now: u64, at: u64) -> Option<&mut f32> {
        let number = at / self.width;
        let ahead = usize::try_from(number - now / self.width)
            .ok()
            .filter(|ahead| *ahead < self.most)?;
        if ahead >= self.cells.len() {
            self.grow(now, ahead);
        }
        let cell = self.place(number)?;
        self.cells.get_mut(cell)
    }

    fn grow(&mut self, now: u64, ahead: usize) {
        let length = (ahead + 1).next_power_of_two().max(FIRST_CELLS).min(self.most);
        let before = std::mem::replace(&mut self.cells, vec![0.0; length]);
        let first = now / self.width;
        for number in first..first + before.len() as u64 {
            if let Some(cell) = self.place(number) {
                self.cells[cell] = before[number as usize & (before.len() - 1)];
            }
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        let last = self.cells.len().checked_sub(1)?;
        // There is a power of two of them.
        Some(number as usize & last)
    }
}

fn second(at: StoreTime) -> u64 {
    at.0 / 1_000_000
}
