//! Replicas' stores over a Redis of their own.

use std::sync::Arc;

use drover::config::RedisSettings;
use drover::store::Store;
use drover::store::redis::Redis;
use drover::store::redis::link::Link;
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
}

impl World {
    pub async fn single() -> World {
        let server = Server::start();
        World {
            url: server.url(),
            server,
        }
    }

    /// One more replica: its store answers.
    pub async fn replica(&self) -> Replica {
        let settings = RedisSettings::at(&self.url).expect("a store's URL");
        let link = Link::new(&settings).expect("settings of a store");
        let tasks = TaskTracker::new();
        let cut = CancellationToken::new();
        tasks.spawn(link.clone().tend(cut.clone()));
        let redis = Redis::new(link, &settings.prefix, &tasks);
        tasks.spawn(redis.clone().run(cut.clone()));
        std::mem::forget(cut.drop_guard());
        for _ in 0..500 {
            if redis.ping().await.is_ok() {
                return Replica {
                    store: redis.clone(),
                    redis,
                };
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the store does not answer: {:?}", redis.ping().await);
    }
}
