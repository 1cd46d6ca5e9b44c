//! How long to keep off after failures, and how answers are fanned out so that callers do not come back together.

use std::time::Duration;

use super::{Backoff, Draw, Purpose};

impl Backoff {
    /// After the n-th failure in a row: U(1/2, 1) · min(max, base · 2ⁿ⁻¹), but at least what the report asked for (that, too, at
    /// most `max`).
    pub fn pause(&self, failures: u32, asked: Option<Duration>, draw: Draw) -> Duration {
        let drawn = self.ceiling(failures).mul_f64(draw.between(Purpose::Backoff, 0.5, 1.0));
        drawn.max(asked.unwrap_or_default().min(self.max))
    }

    /// The longest pause after the n-th failure in a row: min(max, base · 2ⁿ⁻¹).
    pub fn ceiling(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.max)
    }
}

/// A time to ask again with U(0, 10 %) added, drawn for each answer.
pub fn fan(length: Duration, draw: Draw) -> Duration {
    length.saturating_add(length.mul_f64(draw.between(Purpose::Fan, 0.0, 0.1)))
}

/// When to come back after a refusal, with U(0, ½) of it added: those who were refused together do not come back together.
pub fn scattered(length: Duration, draw: Draw) -> Duration {
    length.saturating_add(length.mul_f64(draw.between(Purpose::Retry, 0.0, 0.5)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        base: Duration::from_secs(1),
        max: Duration::from_secs(60),
    };

    #[test]
    fn the_pause_doubles_with_each_failure_up_to_the_longest() {
        for (failures, ceiling) in [
            (1, 1.0),
            (2, 2.0),
            (3, 4.0),
            (6, 32.0),
            (7, 60.0),
            (100, 60.0),
            (u32::MAX, 60.0),
        ] {
            for seed in 0..1_000 {
                let pause = BACKOFF.pause(failures, None, Draw { secret: 0, seed }).as_secs_f64();
                assert!(
                    pause >= ceiling / 2.0 && pause <= ceiling,
                    "failure {failures}: {pause}"
                );
            }
        }
    }

    #[test]
    fn the_report_s_own_retry_after_is_a_lower_bound_up_to_the_longest() {
        let draw = Draw { secret: 0, seed: 7 };
        assert_eq!(
            BACKOFF.pause(1, Some(Duration::from_secs(20)), draw),
            Duration::from_secs(20)
        );
        assert_eq!(
            BACKOFF.pause(1, Some(Duration::from_secs(3600)), draw),
            Duration::from_secs(60)
        );
    }

    #[test]
    fn a_fanned_time_is_never_earlier_and_at_most_a_tenth_later() {
        for seed in 0..1_000 {
            let fanned = fan(Duration::from_secs(10), Draw { secret: 0, seed });
            assert!((Duration::from_secs(10)..=Duration::from_secs(11)).contains(&fanned));
        }
    }

    #[test]
    fn a_scattered_time_is_never_earlier_and_at_most_half_later() {
        let times: Vec<Duration> = (0..1_000)
            .map(|seed| scattered(Duration::from_secs(10), Draw { secret: 0, seed }))
            .collect();
        assert!(times.iter().all(|time| (10.0..=15.0).contains(&time.as_secs_f64())));
        assert!(times.iter().max() > Some(&Duration::from_secs(14)));
    }
}
