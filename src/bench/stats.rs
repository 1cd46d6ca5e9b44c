//! Medians and ratios of interleaved pairs. Pure.
//!
//! *Why the median of the pairs' ratios* and not the ratio of the medians: the two runs of a pair see the same minute of the
//! machine, so what disturbs both leaves their ratio alone.

use serde::Serialize;

/// One drover run beside the bare run that followed it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// What drover took.
    pub drover: f64,
    /// What the bare server took; absent where there is none.
    pub bare: Option<f64>,
}

impl Pair {
    /// A run without a bare one.
    pub const fn alone(drover: f64) -> Self {
        Self { drover, bare: None }
    }

    /// drover ÷ bare; absent without a bare run or when it took nothing.
    pub fn ratio(&self) -> Option<f64> {
        self.bare.filter(|bare| *bare > 0.0).map(|bare| self.drover / bare)
    }
}

/// The middle and the ends of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Smallest.
    pub min: f64,
    /// Middle; of an even count the mean of both middles.
    pub median: f64,
    /// Largest.
    pub max: f64,
}

/// None of nothing.
pub fn spread(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    let half = sorted.len() / 2;
    let median = if sorted.len() % 2 == 1 {
        sorted[half]
    } else {
        f64::midpoint(sorted[half - 1], sorted[half])
    };
    Some(Spread { min, median, max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(
            spread([3.0, 1.0, 2.0]),
            Some(Spread {
                min: 1.0,
                median: 2.0,
                max: 3.0
            })
        );
        assert_eq!(
            spread([4.0, 1.0, 2.0, 3.0]),
            Some(Spread {
                min: 1.0,
                median: 2.5,
                max: 4.0
            })
        );
        assert_eq!(
            spread([7.0]),
            Some(Spread {
                min: 7.0,
                median: 7.0,
                max: 7.0
            })
        );
        assert_eq!(spread([]), None);
    }

    #[test]
    fn a_pair_without_a_bare_run_has_no_ratio() {
        assert_eq!(
            Pair {
                drover: 3.0,
                bare: Some(2.0)
            }
            .ratio(),
            Some(1.5)
        );
        assert_eq!(Pair::alone(3.0).ratio(), None);
        assert_eq!(
            Pair {
                drover: 3.0,
                bare: Some(0.0)
            }
            .ratio(),
            None
        );
    }
}
