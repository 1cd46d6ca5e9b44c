//! What was seen of one strategy in one scenario.
//!
//! *Why no histogram library*: a run has at most some hundred thousand requests; sorting them gives exact quantiles.

use std::time::Duration;

use super::origin::Query;
use super::strategy::{Kind, Trouble};

mod worked;

pub use worked::Worked;

/// A request that takes longer than this is one that a user notices.
pub const SLOW: Duration = Duration::from_millis(100);

/// One request.
#[derive(Debug)]
pub struct Sample {
    /// How long its caller waited.
    pub took: Duration,
    /// The number of the data that it got.
    pub got: Result<u64, Trouble>,
}

/// A herd that went through one strategy.
#[derive(Debug)]
pub struct Herd {
    /// Which strategy.
    pub kind: Kind,
    /// What is special about it; empty where nothing is.
    pub variant: &'static str,
    /// How long each request took, shortest first; failed ones too.
    pub latencies: Vec<Duration>,
    /// Requests that got no value.
    pub failed: u64,
    /// What the first of them was told, or what went wrong behind them.
    pub trouble: Option<String>,
    /// The queries that reached the origin, from the moment when the herd was let go.
    pub queries: Vec<Query>,
    /// What its workers did, where it had some.
    pub worked: Option<Worked>,
}

impl Herd {
    /// Sums up.
    pub fn new(kind: Kind, samples: Vec<Sample>, queries: Vec<Query>, background: Option<String>) -> Self {
        let mut latencies: Vec<_> = samples.iter().map(|sample| sample.took).collect();
        latencies.sort_unstable();
        let mut troubles = samples.iter().filter_map(|sample| sample.got.as_ref().err());
        let first = troubles.next();
        let failed = first.iter().count() + troubles.count();
        Self {
            kind,
            variant: "",
            latencies,
            failed: failed as u64,
            trouble: first.map(ToString::to_string).or(background),
            queries,
            worked: None,
        }
    }

    /// Its name, with what is special about it.
    pub fn name(&self) -> String {
        match self.variant {
            "" => self.kind.as_str().to_owned(),
            variant => format!("{} {variant}", self.kind.as_str()),
        }
    }

    /// When the last query was done.
    pub fn last_query(&self) -> Duration {
        self.queries
            .iter()
            .filter_map(|query| query.ended)
            .max()
            .unwrap_or_default()
    }

    /// How many requests there were.
    pub fn requests(&self) -> u64 {
        self.latencies.len() as u64
    }

    /// How many queries reached the origin.
    pub fn queried(&self) -> u64 {
        self.queries.len() as u64
    }

    /// The latency that the part `share` (0 to 1) of the requests did not exceed, by nearest rank.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.latencies.len() as f64).ceil() as usize;
        self.latencies.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// The longest that a caller waited.
    pub fn slowest(&self) -> Duration {
        self.latencies.last().copied().unwrap_or_default()
    }

    /// How many requests took longer than [`SLOW`].
    pub fn slow(&self) -> u64 {
        (self.latencies.len() - self.latencies.partition_point(|&took| took <= SLOW)) as u64
    }

    /// The longest that a query itself took, the wait for a connection aside.
    pub fn longest_query(&self) -> Duration {
        let own = |query: &Query| Some(query.ended?.saturating_sub(query.began?));
        self.queries.iter().filter_map(own).max().unwrap_or_default()
    }

    /// The most queries that were at the origin at once, running or waiting for a connection.
    pub fn most_at_once(&self) -> u64 {
        self.at_origin().iter().map(|&(_, open)| open).max().unwrap_or_default()
    }

    /// How many queries are at the origin from each moment on, beginning with none at zero. A query without an end stays.
    pub fn at_origin(&self) -> Vec<(Duration, u64)> {
        let mut turns: Vec<(Duration, i64)> = Vec::with_capacity(self.queries.len() * 2);
        for query in &self.queries {
            turns.push((query.arrived, 1));
            turns.extend(query.ended.map(|ended| (ended, -1)));
        }
        turns.sort_unstable_by_key(|&(at, turn)| (at, -turn));
        let mut open = 0;
        let mut steps = vec![(Duration::ZERO, 0)];
        for (at, turn) in turns {
            open += turn;
            steps.push((at, open.unsigned_abs()));
        }
        steps
    }
}

#[cfg(test)]
pub(in crate::lab) mod tests {
    use super::*;

    /// A herd with these latencies and queries `(arrived, began, ended)`, all in milliseconds.
    pub fn herd(kind: Kind, latencies: &[u64], queries: &[(u64, u64, u64)]) -> Herd {
        let ms = Duration::from_millis;
        let samples = latencies
            .iter()
            .map(|&took| Sample {
                took: ms(took),
                got: Ok(1),
            })
            .collect();
        let query = |&(arrived, began, ended): &_| Query {
            arrived: ms(arrived),
            began: Some(ms(began)),
            ended: Some(ms(ended)),
        };
        Herd::new(kind, samples, queries.iter().map(query).collect(), None)
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        let hundred: Vec<u64> = (1..=100).rev().collect();
        let seen = herd(Kind::None, &hundred, &[]);
        let ms = [0.5, 0.99, 1.0].map(|share| seen.quantile(share).as_millis());
        assert_eq!(ms, [50, 99, 100]);
        assert_eq!(herd(Kind::None, &[], &[]).quantile(0.5), Duration::ZERO);
    }

    #[test]
    fn exactly_the_threshold_is_not_slow() {
        assert_eq!(herd(Kind::None, &[99, 100, 101, 500], &[]).slow(), 2);
    }

    #[test]
    fn queries_at_the_origin_rise_and_fall() {
        let seen = herd(Kind::None, &[], &[(0, 0, 200), (10, 200, 400), (10, 10, 210)]);
        let steps: Vec<_> = seen
            .at_origin()
            .iter()
            .map(|&(at, open)| (at.as_millis(), open))
            .collect();
        assert_eq!(steps, [(0, 0), (0, 1), (10, 2), (10, 3), (200, 2), (210, 1), (400, 0)]);
        assert_eq!((seen.most_at_once(), seen.longest_query().as_millis()), (3, 200));
    }

    #[test]
    fn failed_requests_are_counted_and_the_first_one_explains_itself() {
        let took = Duration::from_millis(1);
        let samples = vec![
            Sample { took, got: Ok(1) },
            Sample {
                took,
                got: Err(Trouble::Busy),
            },
            Sample {
                took,
                got: Err(Trouble::Nonsense("x")),
            },
        ];
        let seen = Herd::new(Kind::Drover, samples, Vec::new(), None);
        assert_eq!((seen.requests(), seen.failed), (3, 2));
        assert_eq!(
            seen.trouble.as_deref(),
            Some("the wait was over before there was a value")
        );
    }
}
