//! What goes wrong, one kind a run: broken for a while, whole for a while, again and again until the time is over.
//!
//! Each writes down when what was broken: the checker makes its exceptions by that alone.

pub mod clocks;
mod cluster;
mod network;
mod processes;
mod stores;

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::field::{Field, Kind, Layout, pass};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Nothing,
    OneReplica,
    ReplicaKilled,
    ReplicaStopped,
    ReplicaStoppedLong,
    RollingRestart,
    RedisStopped,
    RedisStoppedLong,
    RedisKilled,
    RedisEmptied,
    FlushAll,
    ScriptFlush,
    MemoryPressure,
    LogTrimmed,
    LaggingFailover,
    SentinelFailover,
    SlotMigration,
    NodeKilled,
    StoreHalfOpen,
    StoreStalled,
    StoreReset,
    ClientHalfOpen,
    ClientStalled,
    ReplicaClocks,
    RedisClock,
    SlowSubscribers,
    CallsTwice,
}

use Fault::*;

impl Fault {
    pub const ALL: [Fault; 27] = [
        Nothing,
        OneReplica,
        CallsTwice,
        SlowSubscribers,
        ReplicaKilled,
        ReplicaStopped,
        ReplicaStoppedLong,
        RollingRestart,
        RedisStopped,
        RedisStoppedLong,
        RedisKilled,
        RedisEmptied,
        FlushAll,
        ScriptFlush,
        MemoryPressure,
        LogTrimmed,
        LaggingFailover,
        SentinelFailover,
        SlotMigration,
        NodeKilled,
        StoreHalfOpen,
        StoreStalled,
        StoreReset,
        ClientHalfOpen,
        ClientStalled,
        ReplicaClocks,
        RedisClock,
    ];

    /// As in the table.
    pub fn as_str(self) -> &'static str {
        match self {
            Nothing => "nothing",
            OneReplica => "nothing, one replica with the embedded store",
            CallsTwice => "every call made twice",
            SlowSubscribers => "slow subscribers",
            ReplicaKilled => "replica killed and started",
            ReplicaStopped => "replica stopped, shorter than a lease",
            ReplicaStoppedLong => "replica stopped, longer than a lease",
            RollingRestart => "replicas restarted in turn, drained",
            RedisStopped => "Redis stopped, shorter than a lease",
            RedisStoppedLong => "Redis stopped, longer than a lease",
            RedisKilled => "Redis killed, started with its data",
            RedisEmptied => "Redis killed, started empty",
            FlushAll => "FLUSHALL",
            ScriptFlush => "SCRIPT FLUSH in a loop",
            MemoryPressure => "memory pressure, allkeys-lru",
            LogTrimmed => "log trimmed under live watchers",
            LaggingFailover => "failover to a replica that lags",
            SentinelFailover => "Sentinel failover, primary killed",
            SlotMigration => "Cluster, slots migrate",
            NodeKilled => "Cluster, node killed",
            StoreHalfOpen => "replica to Redis half open, one way",
            StoreStalled => "replica to Redis stalled, then late",
            StoreReset => "replica to Redis reset, refused",
            ClientHalfOpen => "clients to replica half open, one way",
            ClientStalled => "clients to replica stalled, then late",
            ReplicaClocks => "replica clocks +300 s, -300 s, +10 s",
            RedisClock => "Redis clock set by 10 s and 300 s",
        }
    }

    /// The shortest run in which it is broken once, and whole for a while before and after.
    pub fn shortest(self) -> Duration {
        Duration::from_millis(match self {
            NodeKilled => 8_500,
            SentinelFailover => 7_500,
            ReplicaStoppedLong | RedisStoppedLong | LaggingFailover | StoreHalfOpen | ClientHalfOpen => 6_500,
            StoreStalled | ClientStalled => 6_000,
            _ => 5_000,
        })
    }

    /// What a run of it must reach beside keeping the promises: how long nobody may be granted a key, and how soon after something is
    /// whole again somebody must be.
    pub fn reaches(self) -> (Option<Duration>, Option<Duration>) {
        let second = Duration::from_secs(1);
        match self {
            // A lease, and half a second.
            ReplicaKilled => (Some(second + second / 2), None),
            RedisStopped | RedisStoppedLong | RedisKilled | RedisEmptied | FlushAll => (None, Some(second)),
            _ => (None, None),
        }
    }

    pub fn layout(self) -> Layout {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let mut layout = Layout::default();
        match self {
            OneReplica => layout.kind = Kind::Memory,
            RedisKilled => layout.redis = lines(&["appendonly yes", "appendfsync always"]),
            RollingRestart => layout.direct = true,
            LaggingFailover => layout.kind = Kind::Pair,
            SentinelFailover => layout.kind = Kind::Sentinels,
            SlotMigration | NodeKilled => layout.kind = Kind::Cluster,
            ReplicaClocks => layout.clocks = Some([300, -300, 10]),
            RedisClock => layout.redis_clock = true,
            _ => {}
        }
        layout
    }
}

/// How long things are broken and whole, and until when.
pub struct Rhythm {
    pub until: Instant,
    pub rng: StdRng,
}

impl Rhythm {
    /// All is well for a while. False: there is no time for what takes so long, and for the while after it; then it is over.
    pub async fn goes_on(&mut self, takes: u64) -> bool {
        let calm = Duration::from_millis(self.rng.random_range(700..1_300));
        let left = self.until.saturating_duration_since(Instant::now());
        if left < calm + Duration::from_millis(takes + 1_500) {
            tokio::time::sleep(left).await;
            return false;
        }
        tokio::time::sleep(calm).await;
        true
    }

    pub async fn between(&mut self, least: u64, most: u64) {
        pass(self.rng.random_range(least..=most)).await;
    }

    pub fn one_of(&mut self, count: usize) -> usize {
        self.rng.random_range(0..count)
    }
}

/// Breaks and mends, until the time is over. All is whole when this returns.
pub async fn play(fault: Fault, field: &mut Field, rhythm: &mut Rhythm) {
    match fault {
        Nothing | OneReplica | CallsTwice | SlowSubscribers | ReplicaClocks => {
            tokio::time::sleep_until(rhythm.until).await;
        }
        ReplicaKilled => processes::replica_killed(field, rhythm).await,
        ReplicaStopped => processes::replica_stopped(field, rhythm, 200, 700).await,
        ReplicaStoppedLong => processes::replica_stopped(field, rhythm, 1_600, 3_000).await,
        RollingRestart => processes::rolling_restart(field, rhythm).await,
        RedisStopped => processes::redis_stopped(field, rhythm, 200, 700).await,
        RedisStoppedLong => processes::redis_stopped(field, rhythm, 1_600, 3_000).await,
        RedisKilled => processes::redis_killed(field, rhythm, false).await,
        RedisEmptied => processes::redis_killed(field, rhythm, true).await,
        FlushAll => stores::flush_all(field, rhythm).await,
        ScriptFlush => stores::script_flush(field, rhythm).await,
        MemoryPressure => stores::memory_pressure(field, rhythm).await,
        LogTrimmed => stores::log_trimmed(field, rhythm).await,
        LaggingFailover => stores::lagging_failover(field, rhythm).await,
        SentinelFailover => stores::sentinel_failover(field, rhythm).await,
        SlotMigration => cluster::slot_migration(field, rhythm).await,
        NodeKilled => cluster::node_killed(field, rhythm).await,
        StoreHalfOpen => network::store_half_open(field, rhythm).await,
        StoreStalled => network::store_stalled(field, rhythm).await,
        StoreReset => network::store_reset(field, rhythm).await,
        ClientHalfOpen => network::client_half_open(field, rhythm).await,
        ClientStalled => network::client_stalled(field, rhythm).await,
        RedisClock => clocks::redis_clock(field, rhythm).await,
    }
    field.mend();
}
