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
    /// How long before the end of freshness a refresh begins.
    Refresh = 6,
    /// In which order the choices of a levelled lifetime are looked at.
    Level = 7,
    /// Further draws to choose from.
    Choice = 8,
    /// How long a circuit stays open.
    Circuit = 9,
    /// Where in its slot a planned refresh is.
    Spread = 10,
}

impl Draw {
    /// The secret part of a lease id. Never zero, which one draw in 2⁶⁴ would be.
    pub fn secret(self) -> NonZeroU64 {
        NonZeroU64::new(self.secret).unwrap_or(NonZeroU64::MIN)
    }

    /// Uniform in [0, 1).
    pub fn unit(self, purpose: Purpose) -> f64 {
        (self.bits(purpose) >> 11) as f64 / UNITS as f64
    }

    /// The draw whose unit for one purpose is this one. What it draws for other purposes is as random as what the draw that it comes
    /// from does, but not the same.
    pub fn with_unit(self, purpose: Purpose, unit: f64) -> Draw {
        let units = ((unit * UNITS as f64) as u64).min(UNITS - 1);
        // The digits that no unit shows stay random, or draws with one unit would share all others.
        let bits = units << 11 | self.bits(purpose) & ((1 << 11) - 1);
        Draw {
            secret: self.secret,
            seed: unmix(bits).wrapping_sub((purpose as u64).wrapping_mul(STEP)),
        }
    }

    /// One of many draws that have nothing to do with each other, nor with this one.
    pub fn other(self, purpose: Purpose, number: u64) -> Draw {
        Draw {
            secret: self.secret,
            seed: mix(self.bits(purpose).wrapping_add(number)),
        }
    }

    /// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one step from a state apart for each purpose.
    fn bits(self, purpose: Purpose) -> u64 {
        mix(self.seed.wrapping_add((purpose as u64).wrapping_mul(STEP)))
    }

    /// Uniform in [low, high).
    pub fn between(self, purpose: Purpose, low: f64, high: f64) -> f64 {
        low + self.unit(purpose) * (high - low)
    }
}

/// How many units there are.
const UNITS: u64 = 1 << 53;
/// From one state of SplitMix64 to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// Its two multipliers, and what undoes them.
const MULTIPLIERS: [(u64, u64); 2] = [
    (0xbf58_476d_1ce4_e5b9, 0x96de_1b17_3f11_9089),
    (0x94d0_49bb_1331_11eb, 0x3196_42b2_d24d_8ec3),
];

/// Its output function.
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(MULTIPLIERS[0].0);
    let z = (z ^ (z >> 27)).wrapping_mul(MULTIPLIERS[1].0);
    z ^ (z >> 31)
}

/// The state of which this is the output: each step of the output function can be undone.
fn unmix(z: u64) -> u64 {
    let z = (z ^ (z >> 31) ^ (z >> 62)).wrapping_mul(MULTIPLIERS[1].1);
    let z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(MULTIPLIERS[0].1);
    z ^ (z >> 30) ^ (z >> 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSES: [Purpose; 9] = [
        Purpose::Lifetime,
        Purpose::Backoff,
        Purpose::Fan,
        Purpose::Reentry,
        Purpose::Retry,
        Purpose::Refresh,
        Purpose::Level,
        Purpose::Choice,
        Purpose::Circuit,
    ];

    /// How much two rows go together, −1 to 1; around 0, by 1/√n, where they do not.
    fn correlation(one: &[f64], other: &[f64]) -> f64 {
        let products: f64 = one.iter().zip(other).map(|(a, b)| (a - 0.5) * (b - 0.5)).sum();
        products / one.len() as f64 * 12.0
    }

    #[test]
    fn what_is_drawn_for_one_purpose_says_nothing_about_another() {
        let rows = |change: fn(Draw) -> Draw| {
            PURPOSES.map(|purpose| {
                (0..40_000)
                    .map(|seed| change(Draw { secret: 0, seed }).unit(purpose))
                    .collect::<Vec<f64>>()
            })
        };
        let plain = rows(|draw| draw);
        let placed = rows(|draw| draw.with_unit(Purpose::Lifetime, 0.3 + 0.1 * draw.unit(Purpose::Choice)));
        for i in 0..PURPOSES.len() {
            for j in 0..i {
                let together = correlation(&plain[i], &plain[j]);
                assert!(
                    together.abs() < 0.025,
                    "{:?}, {:?}: {together}",
                    PURPOSES[i],
                    PURPOSES[j]
                );
            }
            // The first was placed, so it has another mean.
            if i > 0 {
                let together = correlation(&plain[i], &placed[i]);
                assert!(together.abs() < 0.025, "{:?}, placed: {together}", PURPOSES[i]);
                let mean = placed[i].iter().sum::<f64>() / placed[i].len() as f64;
                assert!((mean - 0.5).abs() < 0.01, "{:?}, placed: mean {mean}", PURPOSES[i]);
            }
        }
    }

    #[test]
    fn a_draw_can_be_given_any_unit_for_a_purpose() {
        for seed in 0..1_000 {
            let draw = Draw { secret: 7, seed };
            for purpose in PURPOSES {
                let unit = draw.unit(Purpose::Choice);
                let placed = draw.with_unit(purpose, unit);
                assert_eq!((placed.unit(purpose), placed.secret), (unit, 7));
                assert_eq!(draw.with_unit(purpose, draw.unit(purpose)), draw);
                assert!(draw.with_unit(purpose, 1.0).unit(purpose) < 1.0);
                assert_eq!(draw.with_unit(purpose, f64::NAN).unit(purpose), 0.0);
            }
        }
    }

    #[test]
    fn units_lie_in_their_range_with_the_mean_in_the_middle() {
        for purpose in PURPOSES {
            let draws: Vec<f64> = (0..100_000)
                .map(|seed| Draw { secret: 0, seed }.unit(purpose))
                .collect();
            assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            assert!((mean - 0.5).abs() < 0.005, "{purpose:?}: mean {mean}");
        }
    }
}
