//! The usual recipes over a shared cache: cache-aside, with or without a lock, with or without early expiry.
//!
//! They are written as well as they are found: the lock is freed by its owner only, the cache is looked at again once the lock
//! is held, and an early rebuild runs in the background while its caller serves what it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use super::Trouble;
use super::cache::{Cache, Entry};
use crate::lab::origin::{Failing, Origin};

/// How often a caller without the lock looks again.
pub const POLL: Duration = Duration::from_millis(50);
/// How long a lock lives if its owner dies; as long as a lease of drover's.
pub const LOCK_LIVES: Duration = Duration::from_secs(10);
/// How long a caller waits for somebody else, whatever the strategy.
pub const WAIT: Duration = Duration::from_secs(10);

/// A recipe.
#[derive(Debug)]
pub struct Recipe {
    early: bool,
    locked: bool,
    lives: Duration,
    cache: Cache,
    origin: Arc<Origin>,
    tokens: AtomicU64,
    background: TaskTracker,
}

impl Recipe {
    /// With early expiry or not, with a lock or not; values live `lives`.
    pub fn new(early: bool, locked: bool, lives: Duration, origin: Arc<Origin>) -> Arc<Self> {
        Arc::new(Self {
            early,
            locked,
            lives,
            cache: Cache::default(),
            origin,
            tokens: AtomicU64::new(1),
            background: TaskTracker::new(),
        })
    }

    /// See [`super::Strategy::get`].
    pub async fn get(self: &Arc<Self>, key: &str, rng: &mut SmallRng) -> Result<u64, Trouble> {
        let give_up = Instant::now() + WAIT;
        loop {
            if let Some(entry) = self.cache.get(key).await {
                if self.early && is_due_early(&entry, Instant::now(), rng.random()) {
                    self.refresh(key).await;
                }
                return Ok(entry.data);
            }
            if !self.locked {
                return Ok(self.rebuild(key, None).await?);
            }
            if let Some(token) = self.try_lock(key).await {
                if let Some(entry) = self.cache.get(key).await {
                    self.cache.unlock(key, token).await;
                    return Ok(entry.data);
                }
                return Ok(self.rebuild(key, Some(token)).await?);
            }
            if Instant::now() + POLL > give_up {
                return Err(Trouble::Busy);
            }
            sleep(POLL).await;
        }
    }

    async fn try_lock(&self, key: &str) -> Option<u64> {
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        self.cache.lock(key, token, LOCK_LIVES).await.then_some(token)
    }

    /// Rebuilds in the background, unless there is a lock and somebody has it.
    async fn refresh(self: &Arc<Self>, key: &str) {
        let token = match self.locked {
            true => match self.try_lock(key).await {
                Some(token) => Some(token),
                None => return,
            },
            false => None,
        };
        let (recipe, key) = (self.clone(), key.to_owned());
        self.background.spawn(async move { recipe.rebuild(&key, token).await });
    }

    async fn rebuild(&self, key: &str, token: Option<u64>) -> Result<u64, Failing> {
        let began = Instant::now();
        let answer = self.origin.query().await;
        if let Ok(data) = answer {
            self.cache.set(key, data, self.lives, began.elapsed()).await;
        }
        if let Some(token) = token {
            self.cache.unlock(key, token).await;
        }
        answer
    }

    /// See [`super::Strategy::invalidate`].
    pub async fn invalidate(&self, key: &str) {
        self.cache.delete(key).await;
    }

    /// See [`super::Strategy::settle`].
    pub async fn settle(&self) {
        self.background.close();
        self.background.wait().await;
        self.background.reopen();
    }
}

/// The rule of the paper, with its eagerness β at 1: rebuild when `now − cost · ln(draw) ≥ expiry`.
fn is_due_early(entry: &Entry, now: Instant, draw: f64) -> bool {
    // The draw is in [0, 1); its complement is never 0, so the logarithm is finite.
    let ahead = entry.cost.mul_f64(-(1.0 - draw).ln());
    now + ahead >= entry.expires
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const QUERY: Duration = Duration::from_millis(200);

    async fn herd(recipe: &Arc<Recipe>, callers: u64) {
        let all: Vec<_> = (0..callers)
            .map(|caller| {
                let recipe = recipe.clone();
                TaskTracker::new()
                    .spawn(async move { recipe.get("k", &mut SmallRng::seed_from_u64(caller)).await.unwrap() })
            })
            .collect();
        for one in all {
            one.await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_protection_every_caller_queries() {
        let origin = Arc::new(Origin::new(QUERY, 20));
        herd(
            &Recipe::new(false, false, Duration::from_secs(300), origin.clone()),
            200,
        )
        .await;
        assert_eq!(origin.count(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn with_the_lock_one_caller_queries() {
        let origin = Arc::new(Origin::new(QUERY, 20));
        herd(&Recipe::new(false, true, Duration::from_secs(300), origin.clone()), 200).await;
        assert_eq!(origin.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_rebuild_frees_the_lock() {
        let origin = Arc::new(Origin::new(QUERY, 20));
        let recipe = Recipe::new(false, true, Duration::from_secs(300), origin.clone());
        let mut rng = SmallRng::seed_from_u64(1);
        origin.set_failing(true);
        assert!(matches!(recipe.get("k", &mut rng).await, Err(Trouble::Origin(_))));
        origin.set_failing(false);
        assert_eq!(recipe.get("k", &mut rng).await.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn early_expiry_serves_at_once_and_refreshes_behind() {
        let origin = Arc::new(Origin::new(QUERY, 20));
        let recipe = Recipe::new(true, true, Duration::from_secs(3), origin.clone());
        let mut rng = SmallRng::seed_from_u64(1);
        recipe.get("k", &mut rng).await.unwrap();
        let until = Instant::now() + Duration::from_secs(12);
        while Instant::now() < until {
            let asked = Instant::now();
            recipe.get("k", &mut rng).await.unwrap();
            assert!(
                asked.elapsed() < Duration::from_millis(10),
                "waited {:?}",
                asked.elapsed()
            );
            sleep(Duration::from_millis(5)).await;
        }
        recipe.settle().await;
        assert!((4..=8).contains(&origin.count()), "{} queries", origin.count());
    }

    #[test]
    fn the_early_draw_follows_the_papers_rule() {
        let now = Instant::now();
        let entry = |left: u64| Entry {
            data: 1,
            expires: now + Duration::from_millis(left),
            cost: QUERY,
        };
        let draw = 1.0 - (-1.0_f64).exp(); // makes −ln(1 − draw) = 1: just one cost ahead
        assert!(is_due_early(&entry(199), now, draw));
        assert!(!is_due_early(&entry(201), now, draw));
        assert!(is_due_early(&entry(0), now, 0.0));
        assert!(!is_due_early(&entry(1), now, 0.0));
    }
}
