//! The way to Redis: connections, who is the primary, time limits, and the circuit.
//!
//! *Owns* everything between a script and the network.
//!
//! ```text
//!  call ─▶ seats ─▶ primary ─▶ gate ─▶ wire ─▶ Redis
//!            ▲          ▲
//!          scout      mend
//! ```
//!
//! | part | what it is |
//! |---|---|
//! | `call` | one call: the way to its server, redirections, what the caller is told |
//! | `seats` | which server has which partition; [`States`] |
//! | `primary` | a server, with shared connections that are used in turn and a pool for chores |
//! | `gate` | the circuit of a server |
//! | `wire` | a connection that many calls share |
//! | `mend` | makes connections, and again, and probes |
//! | `scout` | finds out which server is the primary: Sentinel, Cluster |
//! | `access` | credentials, TLS, files |
//! | `trouble` | what went wrong, and what to do |
//! | `script` | a script and its digest |
//!
//! The forms of the URL are those of [`StoreUrl`](crate::config::StoreUrl).
//!
//! *Never does*: look into a reply. What a script says is the store's.
//!
//! *Invariants.*
//! * Every call ends within the time limit of the settings, and within microseconds while the circuit is open.
//! * `Unavailable` means that nothing was changed; a write that was sent and not answered is `Unknown`.
//! * A write is sent once, unless the server has surely not run it (NOSCRIPT, MOVED, ASK, TRYAGAIN). What only reads is sent again when its
//!   connection breaks.
//!
//! *Why not* the library's `ClusterConnection`, `SentinelClient` and `ConnectionManager`. The first repairs its map under one lock, so that a lost
//! node stops the calls of all others, takes any other node meanwhile, and repeats a write whose connection broke, so that its fate
//! can't be told. The second believes the first sentinel that answers, also one that is cut off together with the old primary. The
//! third has no circuit. With 16 partitions whose slots are known, a map of the Cluster is a list of 16 servers, and all three forms are
//! the same: servers, and a scout that says which.

mod access;
mod call;
mod gate;
mod mend;
mod primary;
mod scout;
mod script;
mod seats;
#[cfg(test)]
mod tests;
mod trouble;
mod wire;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::redis::RedisError;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::condition::{Condition, Conditions};
use super::keys::{CLUSTER_PARTITIONS, Keys};
use crate::config::{Address, RedisSettings, Topology};
use crate::metrics::{CallTimes, Metrics, Shared};
use access::{Access, Place};
use gate::State;
use primary::Primary;
use scout::Scout;
use seats::{Gone, Seats};
use trouble::Trouble;

pub use access::BadStore;
pub use call::Dedicated;
pub use script::Script;
pub use seats::States;

/// Connections to a Redis, to the primary that sentinels name, or to a Cluster.
#[derive(Debug)]
pub struct Link {
    access: Access,
    scout: Scout,
    /// By partition: a name in it that never exists.
    probes: Box<[String]>,
    timeout: Duration,
    connections: usize,
    seats: Seats,
    /// Every server that is, or may soon be, in a seat.
    primaries: Mutex<Vec<Arc<Primary>>>,
    /// There is a server that nobody mends yet.
    newcomer: Notify,
    /// The scout should look now.
    search: Notify,
    conditions: Conditions,
    told_of_evictions: AtomicBool,
    times: OnceLock<CallTimes>,
}

impl Link {
    /// Reads the files; connects when [`tend`](Link::tend) runs. Does not fail because Redis is down.
    pub fn new(settings: &RedisSettings) -> Result<Arc<Link>, BadStore> {
        let access = Access::new(settings)?;
        let at = |place: Place| -> Result<Primary, BadStore> {
            let pool = access.pool(&place)?;
            Ok(Primary::at(place, settings.connections, Some(pool)))
        };
        let (primary, scout, partitions) = match settings.url.topology.clone() {
            Topology::Single(address) => (at(Place::Tcp(address))?, Scout::Fixed, 1),
            Topology::Socket(path) => (at(Place::Socket(path))?, Scout::Fixed, 1),
            Topology::Sentinel { sentinels, master } => (Primary::nowhere(), Scout::sentinels(sentinels, master), 1),
            Topology::Cluster(nodes) => {
                let scout = Scout::cluster(nodes, &settings.prefix, CLUSTER_PARTITIONS);
                (Primary::nowhere(), scout, CLUSTER_PARTITIONS)
            }
        };
        let primary = Arc::new(primary);
        Ok(Arc::new(Link {
            access,
            scout,
            probes: (0..partitions)
                .map(|number| Keys::new(&settings.prefix, number).probe())
                .collect(),
            timeout: settings.timeout,
            connections: settings.connections,
            seats: Seats::new(partitions, primary.clone()),
            primaries: Mutex::new(vec![primary]),
            newcomer: Notify::new(),
            search: Notify::new(),
            conditions: Conditions::default(),
            told_of_evictions: AtomicBool::new(false),
            times: OnceLock::new(),
        }))
    }

    /// 1, or 16 on a Cluster.
    pub fn partitions(&self) -> u16 {
        u16::try_from(self.probes.len()).unwrap_or(u16::MAX)
    }

    /// Whether calls for the partition are let through, or wait for a connection that is just being made.
    pub fn is_up(&self, partition: u16) -> bool {
        self.seats.of(partition).gate.state().lets_through()
    }

    /// The same for all partitions, and its changes.
    pub fn watch(&self) -> watch::Receiver<States> {
        self.seats.states().subscribe()
    }

    /// The connections to the partition's primary lead to another server, or to one that is cut off: every one of them is probed, or made
    /// again, and whoever knows the primary is asked for it. Calls wait for that meanwhile.
    pub fn distrust(&self, partition: u16) {
        let primary = self.seats.of(partition);
        self.seats.doubt(&primary);
        primary.wake.notify_one();
        self.search.notify_one();
    }

    /// How many replicas the partition's primary is told to see (`min-replicas-to-write`), where that is known and not 0.
    pub fn min_replicas(&self, partition: u16) -> Option<u32> {
        match self.seats.of(partition).min_replicas.load(Ordering::Relaxed) {
            0 => None,
            count => Some(count),
        }
    }

    /// Tells its figures from now on.
    pub fn told_to(self: &Arc<Self>, metrics: &Metrics) {
        let _ = self.times.set(metrics.call_times());
        let link = Arc::downgrade(self);
        metrics.observe_shared(move || {
            let counts = |link: Arc<Link>| Shared {
                down: link.seats.states().borrow().down() as u64,
                conditions: link
                    .conditions
                    .each()
                    .map(|(one, count)| (one.as_str(), count))
                    .collect(),
            };
            link.upgrade().map(counts).unwrap_or_default()
        });
    }

    /// What was met, counted.
    pub fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Connects, and again whenever a connection is lost, and follows the primary, until `cut`.
    pub async fn tend(self: Arc<Self>, cut: CancellationToken) {
        let tasks = TaskTracker::new();
        let scouting = self.clone();
        tasks.spawn(
            cut.clone()
                .run_until_cancelled_owned(async move { scouting.scout.go(&scouting).await }),
        );
        loop {
            let untended = |primary: &&Arc<Primary>| !primary.tended.swap(true, Ordering::Relaxed);
            for primary in self.primaries.lock().iter().filter(untended) {
                let mending = mend::mend(self.clone(), primary.clone());
                tasks.spawn(cut.clone().run_until_cancelled_owned(mending));
            }
            if cut.run_until_cancelled(self.newcomer.notified()).await.is_none() {
                break;
            }
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// What the parts tell each other.
impl Link {
    /// A connection is good: the gate is up.
    fn up(&self, primary: &Primary) {
        let before = primary.gate.state();
        if self.seats.turn(primary, State::Up)
            && let State::Open(_) = before
        {
            tracing::info!("Redis {primary} answers again");
        }
    }

    /// No connection is left: calls wait a moment for the next.
    fn lost(&self, primary: &Primary) {
        if self.seats.doubt(primary) {
            self.conditions.count(Condition::Broken);
            primary.wake.notify_one();
            self.search.notify_one();
        }
    }

    /// Calls are refused from now on, until a probe is answered.
    fn open(&self, primary: &Primary, why: &Trouble) {
        let before = primary.gate.state();
        if !self.seats.turn(primary, State::Open(why.text.clone())) {
            return;
        }
        if before.lets_through() {
            self.conditions.count(Condition::CircuitOpened);
        }
        tracing::warn!(condition = why.condition.as_str(), "Redis is down: {why}");
        primary.wake.notify_one();
        self.search.notify_one();
    }

    /// A server is, or is now, one that forgets what it likes.
    fn evicts(&self, place: &Place, policy: &str) {
        self.conditions.count(Condition::Evicting);
        if !self.told_of_evictions.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                condition = Condition::Evicting.as_str(),
                "Redis {place} has maxmemory-policy {policy}: where it is full it forgets leases and invalidations, so that a key may be \
                 rebuilt twice and an invalidated value come back; set noeviction, or give drover a Redis of its own"
            );
        }
    }

    /// Whether a node of a Cluster says that another has the slot.
    fn is_elsewhere(&self, error: &RedisError) -> bool {
        matches!(self.scout, Scout::Cluster(_)) && matches!(error.code(), Some("MOVED" | "ASK" | "TRYAGAIN"))
    }

    /// The server at a place; it is mended from now on.
    fn primary_at(&self, place: Place) -> Arc<Primary> {
        let mut primaries = self.primaries.lock();
        if let Some(known) = primaries.iter().find(|known| known.place.as_ref() == Some(&place)) {
            known.missed.store(0, Ordering::Relaxed);
            return known.clone();
        }
        // The settings were good for the first: they are for this one.
        let pool = self.access.pool(&place).ok();
        let primary = Arc::new(Primary::at(place, self.connections, pool));
        primaries.push(primary.clone());
        self.newcomer.notify_one();
        primary
    }

    /// A partition is there now; whether that is new.
    fn seat(&self, partition: u16, address: Address) -> bool {
        let place = Place::Tcp(address);
        let (primary, before) = loop {
            let primary = self.primary_at(place.clone());
            match self.seats.settle(partition, &primary) {
                Ok(before) => break (primary, before),
                // It was let go a moment ago.
                Err(Gone) => self.forget(&primary),
            }
        };
        if before.place.is_none() {
            self.retire(&before);
        }
        !Arc::ptr_eq(&before, &primary)
    }

    /// A partition is nowhere.
    fn unseat(&self, partition: u16, why: &Trouble) {
        let mut primary = self.seats.of(partition);
        if primary.place.is_some() {
            primary = Arc::new(Primary::nowhere());
            let _ = self.seats.settle(partition, &primary);
        }
        self.conditions.count(why.condition);
        self.open(&primary, why);
    }

    /// Lets servers go that have no partition any more.
    fn let_go(&self, missed: u32) {
        let idle = |primary: &&Arc<Primary>| {
            self.seats.held_by(primary).is_empty() && primary.missed.fetch_add(1, Ordering::Relaxed) >= missed
        };
        let idle: Vec<_> = self.primaries.lock().iter().filter(idle).cloned().collect();
        for primary in idle {
            self.retire(&primary);
        }
    }

    /// Others have its places: whoever waits there looks again. Not while it has one.
    fn retire(&self, primary: &Primary) {
        if self.seats.retire(primary) {
            self.forget(primary);
            primary.hang_up();
        }
    }

    fn forget(&self, primary: &Primary) {
        self.primaries
            .lock()
            .retain(|known| !std::ptr::eq(Arc::as_ptr(known), primary));
    }
}
