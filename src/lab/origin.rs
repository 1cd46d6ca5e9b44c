//! The origin: what a cache is there to spare.
//!
//! *Owns* the queries that reach it, each with the moment it arrived, got a connection, and ended. *Never does* caching: every
//! question costs a whole query. A query reads the data as it is when it *gets its connection*, like a statement reads its
//! snapshot, so a slow query brings old news back: that is what the race scenario lives on.
//!
//! *Why a clock of tokio's*: tests run it on paused time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

/// One query, in time since [`Origin::begin`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Query {
    /// When it was asked; it may then wait for a connection.
    pub arrived: Duration,
    /// When it got its connection; `None` while it waits for one.
    pub began: Option<Duration>,
    /// When it answered; `None` while it runs.
    pub ended: Option<Duration>,
}

/// The origin is down.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the origin answered with an error")]
pub struct Failing;

/// A data source that is slow and has few connections.
#[derive(Debug)]
pub struct Origin {
    connections: Semaphore,
    query_time: Mutex<Duration>,
    data: AtomicU64,
    failing: AtomicBool,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    epoch: Instant,
    queries: Vec<Query>,
}

impl Origin {
    /// An origin that answers `connections` queries at a time, each in `query_time`; its data starts as number 1.
    pub fn new(query_time: Duration, connections: usize) -> Self {
        Self {
            connections: Semaphore::new(connections),
            query_time: Mutex::new(query_time),
            data: AtomicU64::new(1),
            failing: AtomicBool::new(false),
            log: Mutex::new(Log {
                epoch: Instant::now(),
                queries: Vec::new(),
            }),
        }
    }

    /// Asks the origin. Counts as reached even when the caller goes away before the answer.
    pub async fn query(&self) -> Result<u64, Failing> {
        let slot = {
            let mut log = self.log.lock();
            let arrived = log.epoch.elapsed();
            log.queries.push(Query {
                arrived,
                began: None,
                ended: None,
            });
            log.queries.len() - 1
        };
        // The semaphore is never closed, so an error cannot come; if it did, the origin would be as good as down.
        let _connection = self.connections.acquire().await.map_err(|_| Failing)?;
        let (read, failing) = (self.data.load(Ordering::Acquire), self.failing.load(Ordering::Acquire));
        let time = *self.query_time.lock();
        self.note(slot, |query, now| query.began = Some(now));
        sleep(time).await;
        self.note(slot, |query, now| query.ended = Some(now));
        if failing { Err(Failing) } else { Ok(read) }
    }

    fn note(&self, slot: usize, set: impl FnOnce(&mut Query, Duration)) {
        let mut log = self.log.lock();
        let now = log.epoch.elapsed();
        if let Some(query) = log.queries.get_mut(slot) {
            set(query, now);
        }
    }

    /// Forgets the queries so far (those of warming up) and counts time from now. Call it while no query runs.
    pub fn begin(&self) -> Instant {
        let mut log = self.log.lock();
        *log = Log {
            epoch: Instant::now(),
            queries: Vec::new(),
        };
        log.epoch
    }

    /// Every query since [`Origin::begin`], in the order in which they arrived.
    pub fn queries(&self) -> Vec<Query> {
        self.log.lock().queries.clone()
    }

    /// How many queries arrived since [`Origin::begin`].
    pub fn count(&self) -> usize {
        self.log.lock().queries.len()
    }

    /// How many queries are there now, running or waiting for a connection.
    pub fn running(&self) -> usize {
        let log = self.log.lock();
        log.queries.iter().filter(|query| query.ended.is_none()).count()
    }

    /// The data changes; answers its new number.
    pub fn change_data(&self) -> u64 {
        self.data.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// How long queries take that get their connection from now on.
    pub fn set_query_time(&self, time: Duration) {
        *self.query_time.lock() = time;
    }

    /// Whether queries that get their connection from now on fail.
    pub fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio_util::task::TaskTracker;

    #[tokio::test(start_paused = true)]
    async fn queries_beyond_its_connections_wait_for_one() {
        let origin = Arc::new(Origin::new(Duration::from_millis(200), 2));
        origin.begin();
        let asked: Vec<_> = (0..4)
            .map(|_| {
                TaskTracker::new().spawn({
                    let origin = origin.clone();
                    async move { origin.query().await }
                })
            })
            .collect();
        for one in asked {
            assert_eq!(one.await.unwrap(), Ok(1));
        }
        let ends: Vec<_> = origin
            .queries()
            .iter()
            .map(|query| query.ended.unwrap().as_millis())
            .collect();
        assert_eq!(ends, [200, 200, 400, 400]);
        assert!(origin.queries().iter().all(|query| query.arrived.is_zero()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_brings_the_data_of_its_beginning() {
        let origin = Arc::new(Origin::new(Duration::from_millis(200), 1));
        let slow = TaskTracker::new().spawn({
            let origin = origin.clone();
            async move { origin.query().await }
        });
        sleep(Duration::from_millis(100)).await;
        assert_eq!(origin.change_data(), 2);
        assert_eq!(slow.await.unwrap(), Ok(1));
        assert_eq!(origin.query().await, Ok(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_origin_still_costs_the_query_and_counts_it() {
        let origin = Origin::new(Duration::from_millis(200), 1);
        let began = origin.begin();
        origin.set_failing(true);
        assert_eq!(origin.query().await, Err(Failing));
        assert_eq!((began.elapsed().as_millis(), origin.count()), (200, 1));
        origin.set_failing(false);
        assert_eq!(origin.query().await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_whose_caller_went_away_is_counted() {
        let origin = Origin::new(Duration::from_millis(200), 1);
        let gave_up = tokio::time::timeout(Duration::from_millis(50), origin.query()).await;
        assert!(gave_up.is_err());
        assert_eq!(origin.count(), 1);
        assert_eq!(origin.queries()[0].ended, None);
    }
}
