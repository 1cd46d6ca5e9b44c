//! A shared cache as the usual recipes use one: get, set with a time to live, delete, and a lock that is set if absent.
//!
//! Simulated, so that the lab needs no Redis: each call costs one [`TRIP`], and happens at once when the trip is over.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// What one call costs: a round trip in one data centre, as much as tokio's timer can resolve.
pub const TRIP: Duration = Duration::from_millis(1);

/// A cached value with what probabilistic early expiry stores beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The number of the origin's data.
    pub data: u64,
    /// When it stops to exist.
    pub expires: Instant,
    /// How long its rebuild took.
    pub cost: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Lock {
    token: u64,
    expires: Instant,
}

/// The shared cache.
#[derive(Debug, Default)]
pub struct Cache {
    entries: Mutex<HashMap<String, Entry>>,
    locks: Mutex<HashMap<String, Lock>>,
}

impl Cache {
    /// `GET`: the entry, unless its time is over.
    pub async fn get(&self, key: &str) -> Option<Entry> {
        sleep(TRIP).await;
        self.entries
            .lock()
            .get(key)
            .copied()
            .filter(|entry| entry.expires > Instant::now())
    }

    /// `SET PX`: whoever comes last wins.
    pub async fn set(&self, key: &str, data: u64, lives: Duration, cost: Duration) {
        sleep(TRIP).await;
        self.entries.lock().insert(
            key.to_owned(),
            Entry {
                data,
                expires: Instant::now() + lives,
                cost,
            },
        );
    }

    /// `DEL`, what an invalidation is in the usual recipe. The lock stays.
    pub async fn delete(&self, key: &str) {
        sleep(TRIP).await;
        self.entries.lock().remove(key);
    }

    /// `SET NX PX` of the lock: whether it is ours now.
    pub async fn lock(&self, key: &str, token: u64, lives: Duration) -> bool {
        sleep(TRIP).await;
        let (mut locks, now) = (self.locks.lock(), Instant::now());
        if locks.get(key).is_some_and(|lock| lock.expires > now) {
            return false;
        }
        locks.insert(
            key.to_owned(),
            Lock {
                token,
                expires: now + lives,
            },
        );
        true
    }

    /// Compare-and-delete of the lock, as a script does it: another's lock stays.
    pub async fn unlock(&self, key: &str, token: u64) {
        sleep(TRIP).await;
        let mut locks = self.locks.lock();
        if locks.get(key).is_some_and(|lock| lock.token == token) {
            locks.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_entry_leaves_when_its_time_is_over() {
        let cache = Cache::default();
        cache.set("k", 7, Duration::from_secs(3), Duration::ZERO).await;
        assert_eq!(cache.get("k").await.map(|entry| entry.data), Some(7));
        sleep(Duration::from_secs(3)).await;
        assert_eq!(cache.get("k").await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lock_has_one_owner_and_only_the_owner_frees_it() {
        let cache = Cache::default();
        let lives = Duration::from_secs(5);
        assert!(cache.lock("k", 1, lives).await);
        assert!(!cache.lock("k", 2, lives).await);
        cache.unlock("k", 2).await;
        assert!(!cache.lock("k", 2, lives).await);
        cache.unlock("k", 1).await;
        assert!(cache.lock("k", 2, lives).await);
        sleep(lives).await;
        assert!(cache.lock("k", 3, lives).await);
    }
}
