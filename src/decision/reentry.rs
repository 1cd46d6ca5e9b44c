//! How many rebuilds a replica grants at once when its store answers again.
//!
//! Every key that was asked for during the loss is missing or old by then, at every replica. So the first grant comes after a random
//! part of 0.4 s (that the store is back takes nearly as long to be noticed, and callers are promised a second), and from there the pace
//! doubles every tenth of a second: 1, 2, 4, … until it is no bound any more.

use std::time::Duration;

use super::{Draw, Purpose};

/// The first grant comes within so much.
const FIRST_WITHIN: Duration = Duration::from_millis(400);
/// The pace doubles after this.
const DOUBLES_EVERY: Duration = Duration::from_millis(100);
/// After so many doublings there is no bound: that would be 160,000 grants a second.
const DOUBLINGS: u32 = 14;

/// The pace of one partition at one replica, from when the store answered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reentry {
    first: Duration,
}

impl Reentry {
    /// With a first grant of its own random moment.
    pub fn new(draw: Draw) -> Reentry {
        Reentry {
            first: FIRST_WITHIN.mul_f64(draw.unit(Purpose::Reentry)),
        }
    }

    /// When grant number `n`, from 0, may be made, counted from when the store answered again. Within a tenth of a second they are
    /// spread evenly.
    pub fn due(&self, n: u64) -> Duration {
        let doublings = n.saturating_add(1).ilog2();
        if doublings >= DOUBLINGS {
            return self.over();
        }
        let slot = 1u64 << doublings;
        let within = (n + 1 - slot) as f64 / slot as f64;
        self.first + DOUBLES_EVERY * doublings + DOUBLES_EVERY.mul_f64(within)
    }

    /// From then on there is no bound.
    pub fn over(&self) -> Duration {
        self.first + DOUBLES_EVERY * DOUBLINGS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reentry(seed: u64) -> Reentry {
        Reentry::new(Draw { secret: 0, seed })
    }

    #[test]
    fn the_first_grant_comes_soon_and_at_a_moment_of_its_own() {
        let firsts: Vec<Duration> = (0..1_000).map(|seed| reentry(seed).due(0)).collect();
        assert!(firsts.iter().all(|first| *first < FIRST_WITHIN));
        let mean = firsts.iter().sum::<Duration>() / 1_000;
        assert!(mean.abs_diff(FIRST_WITHIN / 2) < Duration::from_millis(15), "{mean:?}");
    }

    #[test]
    fn the_pace_doubles_every_tenth_of_a_second_until_there_is_no_bound() {
        let reentry = reentry(7);
        let first = reentry.due(0);
        for doublings in 0..DOUBLINGS {
            let from = first + DOUBLES_EVERY * doublings;
            let granted = (0..1 << DOUBLINGS)
                .filter(|n| (from..from + DOUBLES_EVERY).contains(&reentry.due(*n)))
                .count();
            assert_eq!(granted, 1 << doublings, "in the slot after {doublings} doublings");
        }
        assert_eq!(reentry.due(1 << DOUBLINGS), reentry.over());
        assert_eq!(reentry.due(u64::MAX), reentry.over());
    }

    #[test]
    fn later_grants_are_never_due_earlier() {
        let reentry = reentry(3);
        let due: Vec<Duration> = (0..40_000).map(|n| reentry.due(n)).collect();
        assert!(due.is_sorted());
    }
}
