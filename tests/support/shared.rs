//! One Redis for all tests of a process that run at the same time: the first starts it, the last ends it. Each test has a prefix of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use drover::config::{RedisSettings, StoreKind};

/// A place in a Redis that others use too.
pub struct Place<T> {
    redis: Arc<T>,
    prefix: String,
}

impl<T> Place<T> {
    /// In the one that runs, or in a new one.
    pub fn take(running: &Mutex<Weak<T>>, start: impl FnOnce() -> T) -> Place<T> {
        static TAKEN: AtomicU32 = AtomicU32::new(0);
        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
        let redis = running.upgrade().unwrap_or_else(|| Arc::new(start()));
        *running = Arc::downgrade(&redis);
        Place {
            redis,
            prefix: format!("test-{}", TAKEN.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// As a replica's settings have it. These tests are about answers: a machine that has other things to do as well may be slow.
    pub fn store(&self, url: impl FnOnce(&T) -> String) -> StoreKind {
        let mut settings = RedisSettings::at(&url(&self.redis)).expect("a store's URL");
        settings.prefix = self.prefix.clone();
        settings.timeout = Duration::from_secs(5);
        StoreKind::Redis(Box::new(settings))
    }
}
