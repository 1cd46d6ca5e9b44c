//! Where the coordinator's randomness comes from: the operating system, or a seed when a simulation must be repeatable.

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::decision::Draw;

/// A source of draws.
pub struct Dice(Option<Mutex<StdRng>>);

impl Dice {
    /// Unpredictable: the secret parts of lease ids are made of it.
    pub fn random() -> Dice {
        Dice(None)
    }

    /// The same draws for the same seed. For simulations only.
    pub fn seeded(seed: u64) -> Dice {
        Dice(Some(Mutex::new(StdRng::seed_from_u64(seed))))
    }

    /// The next draw.
    pub fn draw(&self) -> Draw {
        match &self.0 {
            None => Draw {
                secret: rand::random(),
                seed: rand::random(),
            },
            Some(seeded) => {
                let mut seeded = seeded.lock();
                Draw {
                    secret: seeded.next_u64(),
                    seed: seeded.next_u64(),
                }
            }
        }
    }
}
