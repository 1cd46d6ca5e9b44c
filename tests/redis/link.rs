//! The way to Redis: each form of the URL, what is told where it does not work, and what goes on through faults.

mod circuit;
mod cluster;
mod conditions;
mod forms;
mod sentinel;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ::redis::{FromRedisValue, from_redis_value};
use drover::config::RedisSettings;
use drover::store::StoreError;
use drover::store::redis::condition::Condition;
use drover::store::redis::link::{Link, Script};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::until;

static PUT: LazyLock<Script> =
    LazyLock::new(|| Script::new("put", "redis.call('SET', KEYS[1], ARGV[1]) return 'done'"));
static GET: LazyLock<Script> = LazyLock::new(|| Script::new("get", "return redis.call('GET', KEYS[1])"));

/// A link that is tended.
struct Linked {
    link: Arc<Link>,
    tending: JoinHandle<()>,
    cut: DropGuard,
}

impl Linked {
    fn to(url: &str) -> Linked {
        Linked::with(RedisSettings::at(url).expect("a good URL"))
    }

    fn with(settings: RedisSettings) -> Linked {
        let link = Link::new(&settings).expect("good settings");
        let cut = CancellationToken::new();
        Linked {
            tending: tokio::spawn(link.clone().tend(cut.clone())),
            cut: cut.drop_guard(),
            link,
        }
    }

    async fn put(&self, partition: u16, value: &str) -> Result<String, StoreError> {
        let answer = self
            .link
            .call(partition, &PUT, &[key(partition)], &[value], true)
            .await?;
        Ok(from_redis_value(answer).expect("a text"))
    }

    async fn get<T: FromRedisValue>(&self, partition: u16) -> Result<T, StoreError> {
        let none: [&str; 0] = [];
        let answer = self.link.call(partition, &GET, &[key(partition)], &none, false).await?;
        Ok(from_redis_value(answer).expect("what is asked for"))
    }

    /// Until a write goes through.
    async fn works(&self, partition: u16) {
        let begin = std::time::Instant::now();
        while let Err(error) = self.put(partition, "works").await {
            assert!(begin.elapsed() < crate::support::PATIENCE, "{error}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Until calls are refused, and how they are.
    async fn refused(&self, partition: u16) -> String {
        until("calls are refused", || !self.link.is_up(partition)).await;
        match self.put(partition, "refused").await {
            Err(StoreError::Unavailable(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// Until calls are refused for a reason that names these, and what it is.
    async fn refused_with(&self, partition: u16, parts: &[&str]) -> String {
        let begin = std::time::Instant::now();
        loop {
            let reason = self.refused(partition).await;
            if parts.iter().all(|part| reason.contains(part)) {
                return reason;
            }
            assert!(begin.elapsed() < Duration::from_secs(5), "{parts:?} not in: {reason}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn met(&self, condition: Condition) -> u64 {
        self.link.conditions().of(condition)
    }

    async fn end(self) {
        drop(self.cut);
        self.tending.await.expect("it ends without a panic");
    }
}

fn key(partition: u16) -> String {
    format!("{{drover.{partition}}}:a")
}

impl Linked {
    /// Asks until calls are refused, and how they are.
    async fn refused_or_asked(&self, partition: u16) -> String {
        while self.link.is_up(partition) {
            let _ = self.put(partition, "asked").await;
        }
        self.refused(partition).await
    }
}
