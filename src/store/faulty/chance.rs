//! What goes wrong next: from the script, else by chance.

use std::collections::VecDeque;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Store::load`](crate::store::Store::load).
    Load,
    /// [`Store::commit`](crate::store::Store::commit).
    Commit,
    /// [`Store::invalidate`](crate::store::Store::invalidate).
    Invalidate,
    /// [`Store::leases`](crate::store::Store::leases) and [`Store::census`](crate::store::Store::census).
    List,
    /// [`Store::ping`](crate::store::Store::ping).
    Ping,
    /// [`Store::schedule`](crate::store::Store::schedule) and the like.
    Schedule,
    /// [`Store::budget`](crate::store::Store::budget).
    Budget,
    /// [`Store::circuit`](crate::store::Store::circuit).
    Circuit,
}

impl Call {
    /// Whether it may change the store.
    pub fn writes(self) -> bool {
        use Call::{Budget, Circuit, Commit, Invalidate, Schedule};
        matches!(self, Commit | Invalidate | Schedule | Budget | Circuit)
    }
}

/// What a call meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not reach the store.
    Unavailable,
    /// It is done, and its answer is lost: the fate of a write is unknown, a read was in vain.
    Unknown,
    /// It reaches the store so much later.
    Late(Duration),
    /// Its answer comes so much later.
    AnswerLate(Duration),
}

/// What may go wrong by chance, each call anew. The default: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// A call reaches the store later, by whole milliseconds up to this.
    pub before: Duration,
    /// Its answer comes later, by whole milliseconds up to this.
    pub after: Duration,
    /// The chance that a call does not reach the store, 0 to 1.
    pub unavailable: f64,
    /// The chance that a call's answer is lost, 0 to 1.
    pub unknown: f64,
    /// The chance that a ring is lost, 0 to 1.
    pub ring_lost: f64,
    /// The chance that a ring comes twice, 0 to 1.
    pub ring_twice: f64,
}

/// What one call meets.
pub(super) struct Met {
    pub before: Duration,
    pub after: Duration,
    pub fault: Option<Fault>,
}

/// The dice and the script.
pub(super) struct Chance {
    rng: StdRng,
    pub faults: Faults,
    pub script: VecDeque<(Call, Fault)>,
    pub down: bool,
    pub met: u64,
}

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance {
            rng: StdRng::seed_from_u64(seed),
            faults: Faults::default(),
            script: VecDeque::new(),
            down: false,
            met: 0,
        }
    }

    pub fn meet(&mut self, call: Call) -> Met {
        let mut met = Met {
            before: self.length(self.faults.before),
            after: self.length(self.faults.after),
            fault: None,
        };
        let scripted = self.script.iter().position(|(of, _)| *of == call);
        match scripted.and_then(|at| self.script.remove(at)) {
            Some((_, Fault::Late(length))) => met.before += length,
            Some((_, Fault::AnswerLate(length))) => met.after += length,
            Some((_, fault)) => met.fault = Some(fault),
            None if self.happens(self.faults.unavailable) => met.fault = Some(Fault::Unavailable),
            None if self.happens(self.faults.unknown) => met.fault = Some(Fault::Unknown),
            None => {}
        }
        self.met += u64::from(met.fault.is_some());
        met
    }

    /// How often a ring comes through.
    pub fn rings(&mut self) -> u32 {
        if self.down || self.happens(self.faults.ring_lost) {
            self.met += 1;
            return 0;
        }
        1 + u32::from(self.happens(self.faults.ring_twice))
    }

    fn happens(&mut self, chance: f64) -> bool {
        // No draw for what cannot happen; the order of draws depends on the faults that are set, which a seed decides too.
        chance > 0.0 && self.rng.random_bool(chance.min(1.0))
    }

    fn length(&mut self, most: Duration) -> Duration {
        let most = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        if most == 0 {
            return Duration::ZERO;
        }
        Duration::from_millis(self.rng.random_range(0..=most))
    }
}
