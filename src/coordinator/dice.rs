//! Where the coordinator's randomness comes from: the operating system, or a seed when a simulation must be repeatable.

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::decision::{Draw, LeaseId};

/// A source of draws.
pub struct Dice {
    seeded: Option<Mutex<StdRng>>,
    /// Whether the leases made with them are those of a replica alone.
    degraded: bool,
}

impl Dice {
    /// Unpredictable: the secret parts of lease ids are made of it.
    pub fn random() -> Dice {
        Dice {
            seeded: None,
            degraded: false,
        }
    }

    /// The same draws for the same seed. For simulations only.
    pub fn seeded(seed: u64) -> Dice {
        Dice {
            seeded: Some(Mutex::new(StdRng::seed_from_u64(seed))),
            degraded: false,
        }
    }

    /// Of the same kind as these, for the leases that a replica grants alone.
    pub fn degraded(&self) -> Dice {
        let seed = self.seeded.as_ref().map(|seeded| seeded.lock().next_u64());
        Dice {
            degraded: true,
            ..seed.map_or_else(Dice::random, Dice::seeded)
        }
    }

    /// A name for a replica, which nothing depends on but that others have others.
    pub fn id() -> u64 {
        rand::random()
    }

    /// What keeps others from choosing what falls together in a table.
    pub fn salt(&self) -> u64 {
        if self.seeded.is_some() { 0 } else { rand::random() }
    }

    /// The next draw.
    pub fn draw(&self) -> Draw {
        let (secret, seed) = match &self.seeded {
            None => (rand::random(), rand::random()),
            Some(seeded) => {
                let mut seeded = seeded.lock();
                (seeded.next_u64(), seeded.next_u64())
            }
        };
        Draw {
            secret: LeaseId::secret_of(secret, self.degraded),
            seed,
        }
    }
}
