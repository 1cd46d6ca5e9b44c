//! Randomness as a value: one draw comes in with each question, and every random choice of the answer is made from it.

use std::num::NonZeroU64;

/// What a question brings along to be random with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Unguessable; the secret part of a lease id.
    pub secret: u64,
    /// For everything else.
    pub seed: u64,
}

/// What a random number is for: different purposes get independent numbers from one seed.
#[derive(Clone, Copy, Debug)]
pub enum Purpose {
    /// Spread of a lifetime.
    Lifetime = 1,
    /// Length of a back-off.
    Backoff = 2,
    /// What each answer adds to a time to ask again.
    Fan = 3,
    /// When the first grant comes after a loss of the store.
    Reentry = 4,
    /// What a refused call adds to the time after which to come back.
    Retry = 5,
}

impl Draw {
    /// The secret part of a lease id. Never zero, which one draw in 2⁶⁴ would be.
    pub fn secret(self) -> NonZeroU64 {
        NonZeroU64::new(self.secret).unwrap_or(NonZeroU64::MIN)
    }

    /// Uniform in [0, 1).
    pub fn unit(self, purpose: Purpose) -> f64 {
        // SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one step from a state apart for each purpose.
        let mut z = self
            .seed
            .wrapping_add((purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [low, high).
    pub fn between(self, purpose: Purpose, low: f64, high: f64) -> f64 {
        low + self.unit(purpose) * (high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_lie_in_their_range_with_the_mean_in_the_middle() {
        for purpose in [
            Purpose::Lifetime,
            Purpose::Backoff,
            Purpose::Fan,
            Purpose::Reentry,
            Purpose::Retry,
        ] {
            let draws: Vec<f64> = (0..100_000)
                .map(|seed| Draw { secret: 0, seed }.unit(purpose))
                .collect();
            assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            assert!((mean - 0.5).abs() < 0.005, "{purpose:?}: mean {mean}");
        }
    }
}
