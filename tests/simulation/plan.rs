//! What one seed stands for: how many of everything, the policy, and what goes wrong.

use std::time::Duration;

use drover::decision::{Backoff, Jitter, JitterAmount, JitterMode, Policy, StoreDown};
use drover::store::faulty::{Faults, Forgetful};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Everything random about a run comes from it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from.
    pub seed: u64,
    /// Coordinators over the one store.
    pub replicas: usize,
    /// Actors.
    pub clients: usize,
    /// What each of them does, one after the other.
    pub steps: usize,
    /// Keys that they all use.
    pub keys: usize,
    /// Of their namespace.
    pub policy: Policy,
    /// By chance, at each replica.
    pub faults: Faults,
    /// The store costs trips, and replicas remember what they saw, so badly.
    pub far: Option<Forgetful>,
    /// The store goes away and comes back, as seen from a replica: the chance of it at each disruption.
    pub downs: f64,
    /// Time jumps: everybody was stopped for a while.
    pub jumps: bool,
    /// A replica leaves early.
    pub drain: bool,
    /// Workers: the first does what it is told at once, the others are as they are. 0: callers refresh.
    pub workers: usize,
    /// The origin fails for so long, and most rebuilds with it.
    pub outage: Duration,
}

pub fn ms(length: u64) -> Duration {
    Duration::from_millis(length)
}

/// A random stream of a run, one a part of it: an actor more does not change what the others do.
pub fn stream(seed: u64, part: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(part))
}

pub fn one_of<T: Copy>(rng: &mut StdRng, among: &[T]) -> T {
    among[rng.random_range(0..among.len())]
}

impl Plan {
    /// One seed in five meets no fault at all, one late calls only, one late calls and bad rings, one everything, one a store that goes
    /// away and comes back and is otherwise well.
    pub fn of(seed: u64) -> Plan {
        let mut rng = stream(seed, 0);
        let late = ms(one_of(&mut rng, &[1, 3, 20]));
        let mut plan = Plan {
            seed,
            replicas: rng.random_range(1..=2),
            clients: rng.random_range(2..=6),
            steps: rng.random_range(5..=16),
            keys: rng.random_range(1..=3),
            policy: policy(&mut rng),
            faults: Faults::default(),
            far: far(&mut rng),
            downs: 0.0,
            jumps: rng.random_bool(0.2),
            drain: rng.random_bool(0.2),
            workers: 0,
            outage: Duration::ZERO,
        };
        let mut staff = stream(seed, 3);
        if staff.random_bool(0.5) {
            plan.workers = staff.random_range(1..=3);
            plan.policy.idle_refreshes = one_of(&mut staff, &[0, 1, 3, 255]);
        }
        let mut budget = stream(seed, 2);
        if budget.random_bool(0.35) {
            plan.policy.max_concurrent_rebuilds = budget.random_range(1..=2);
            plan.keys += budget.random_range(0..=3);
        }
        let mut outage = stream(seed, 3);
        if outage.random_bool(0.15) {
            plan.outage = ms(outage.random_range(1_500..6_000));
            (plan.keys, plan.clients, plan.steps) = (8, 6, 40);
            plan.policy.backoff.base = ms(50);
        }
        let kind = seed % 5;
        plan.policy.store_down = one_of(&mut rng, &[StoreDown::Local, StoreDown::Local, StoreDown::Refuse]);
        if kind > 0 {
            (plan.faults.before, plan.faults.after) = (late, late);
        }
        if kind == 4 {
            plan.downs = 0.9;
            return plan;
        }
        if kind > 1 {
            plan.faults.ring_lost = one_of(&mut rng, &[0.1, 0.5, 1.0]);
            plan.faults.ring_twice = 0.2;
        }
        if kind > 2 {
            plan.faults.unavailable = one_of(&mut rng, &[0.0, 0.05, 0.15]);
            plan.faults.unknown = one_of(&mut rng, &[0.0, 0.05, 0.15]);
            plan.downs = one_of(&mut rng, &[0.0, 0.4]);
        }
        plan
    }

    /// How long one store call takes at the most.
    pub fn call(&self) -> Duration {
        self.faults.before + self.faults.after
    }

    /// What a caller's own steps may take besides waiting: some store calls, with conflicts, and the grain of the timers.
    pub fn slack(&self) -> Duration {
        self.call() * 16 + ms(6)
    }

    /// How long a parked caller may go unnoticed once there is something for it.
    pub fn notice(&self) -> Duration {
        let looks = if self.fails() {
            3
        } else {
            u64::from(self.faults.ring_lost > 0.0)
        };
        self.slack() + ms(looks * 1_010)
    }

    /// Whether store calls may fail.
    pub fn fails(&self) -> bool {
        self.downs > 0.0 || self.calls_fail()
    }

    /// Whether single calls may fail while the store is there.
    pub fn calls_fail(&self) -> bool {
        self.faults.unavailable > 0.0 || self.faults.unknown > 0.0
    }
}

fn far(rng: &mut StdRng) -> Option<Forgetful> {
    let forgetful = Forgetful {
        old: one_of(rng, &[0.0, 0.2, 0.7]),
        nothing: one_of(rng, &[0.0, 0.2]),
        behind: ms(one_of(rng, &[0, 100, 2_000])),
    };
    rng.random_bool(0.6).then_some(forgetful)
}

fn policy(rng: &mut StdRng) -> Policy {
    let max_hold = ms(one_of(rng, &[600, 1_500, 3_000]));
    Policy {
        fresh_ttl: ms(one_of(rng, &[40, 400, 2_000, 10_000])),
        stale_while_revalidate: ms(one_of(rng, &[0, 300, 2_000])),
        stale_if_error: ms(one_of(rng, &[0, 500, 4_000])),
        negative_ttl: ms(one_of(rng, &[50, 800])),
        jitter: Jitter {
            mode: one_of(rng, &[JitterMode::Both, JitterMode::Down]),
            amount: JitterAmount::Ratio(0.2),
            level: true,
        },
        lease_ttl: ms(one_of(rng, &[150, 500])),
        max_hold,
        max_wait: ms(one_of(rng, &[400, 2_000, 5_000])),
        backoff: Backoff {
            base: ms(one_of(rng, &[50, 400])),
            max: ms(800),
        },
        max_waiters_per_key: one_of(rng, &[2, 10_000]),
        ..Policy::default()
    }
}
