//! Replicas' stores over a Redis of their own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use drover::config::RedisSettings;
use drover::decision::Key;
use drover::fanout::{Listener, Record, ResetReason};
use drover::store::redis::Redis;
use drover::store::redis::condition::Condition;
use drover::store::redis::link::Link;
use drover::store::{Store, Want};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::support::Server;

/// A Redis, and what is needed to reach it.
pub struct World {
    pub server: Server,
    pub url: String,
}

/// A replica's store.
pub struct Replica {
    pub store: Arc<dyn Store>,
    pub redis: Arc<Redis>,
    heard: Heard,
    _cut: DropGuard,
}

impl World {
    pub async fn single() -> World {
        World::over(Server::start())
    }

    pub fn over(server: Server) -> World {
        World {
            url: server.url(),
            server,
        }
    }

    /// One more replica: its store answers.
    pub async fn replica(&self) -> Replica {
        Replica::at(&self.url).await
    }

    /// One that does nothing unless it is asked: it does not read the log.
    pub async fn passive_replica(&self) -> Replica {
        Replica::join(&self.url, false).await
    }
}

impl Replica {
    /// Its store answers.
    pub async fn at(url: &str) -> Replica {
        Replica::join(url, true).await
    }

    async fn join(url: &str, reads: bool) -> Replica {
        let settings = RedisSettings::at(url).expect("a store's URL");
        let link = Link::new(&settings).expect("settings of a store");
        let tasks = TaskTracker::new();
        let cut = CancellationToken::new();
        tasks.spawn(link.clone().tend(cut.clone()));
        let redis = Redis::new(link, &settings.prefix, &tasks);
        if reads {
            tasks.spawn(redis.clone().run(cut.clone()));
        }
        let heard = Heard::default();
        redis.feed().listen(Arc::new(heard.clone()));
        let replica = Replica {
            store: redis.clone(),
            redis,
            heard,
            _cut: cut.drop_guard(),
        };
        if reads {
            replica.answers().await;
        } else {
            replica.takes_calls().await;
        }
        replica
    }

    /// Waits until the store answers.
    pub async fn answers(&self) {
        for _ in 0..3_000 {
            if self.store.ping().await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the store does not answer: {:?}", self.store.ping().await);
    }

    /// Waits until a call comes through, which is before the log is read.
    pub async fn takes_calls(&self) {
        let any = Key::new("shop", "any");
        for _ in 0..3_000 {
            if self.store.load(&any, &[], Want::default()).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no call comes through");
    }

    /// How often a condition was met.
    pub fn met(&self, condition: Condition) -> u64 {
        self.redis.link().conditions().of(condition)
    }

    /// Records of the log that have come.
    pub fn heard(&self) -> usize {
        self.heard.0.load(Ordering::SeqCst)
    }

    /// Every partition is looked after once.
    pub async fn looked_after(&self) {
        self.redis.look_after().await.expect("an answer");
    }
}

/// Counts what a feed tells.
#[derive(Clone, Default)]
pub struct Heard(Arc<AtomicUsize>);

impl Listener for Heard {
    fn rung(&self, _: &Key) {}

    fn logged(&self, _: &Record) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn reset(&self, _: ResetReason) {}
}
