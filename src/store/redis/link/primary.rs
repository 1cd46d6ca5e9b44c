//! A server that has partitions, and the connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwapOption;
use deadpool_redis::Pool;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::access::Place;
use super::gate::Gate;
use super::wire::Wire;

/// A server, or the place of one that is not known yet.
#[derive(Debug)]
pub(super) struct Primary {
    /// `None`: nobody has said yet where it is.
    pub place: Option<Place>,
    pub gate: Gate,
    /// Shared connections, used in turn.
    pub lines: Box<[ArcSwapOption<Wire>]>,
    next: AtomicUsize,
    /// Connections for chores.
    pub pool: Option<Pool>,
    /// Something is to be mended.
    pub wake: Arc<Notify>,
    /// Another server has its place.
    pub gone: CancellationToken,
    /// Whether somebody mends it already.
    pub tended: AtomicBool,
    /// Its `min-replicas-to-write`, as far as it may be seen.
    pub min_replicas: AtomicU32,
    /// Whether it evicts what it likes, as far as it may be seen.
    pub evicts: AtomicBool,
    /// How many looks at the map it has not been on.
    pub missed: AtomicU32,
}

impl Primary {
    pub fn at(place: Place, connections: usize, pool: Option<Pool>) -> Primary {
        Primary {
            place: Some(place),
            lines: (0..connections).map(|_| ArcSwapOption::empty()).collect(),
            pool,
            ..Primary::nowhere()
        }
    }

    pub fn nowhere() -> Primary {
        Primary {
            place: None,
            gate: Gate::new(),
            lines: Box::default(),
            next: AtomicUsize::new(0),
            pool: None,
            wake: Arc::default(),
            gone: CancellationToken::new(),
            tended: AtomicBool::new(false),
            min_replicas: AtomicU32::new(0),
            evicts: AtomicBool::new(false),
            missed: AtomicU32::new(0),
        }
    }

    /// A connection that lives, each in turn.
    pub fn wire(&self) -> Option<Arc<Wire>> {
        let count = self.lines.len();
        let first = self.next.fetch_add(1, Relaxed);
        (0..count).find_map(|step| self.living(first.wrapping_add(step) % count))
    }

    /// The connection in this place, if it lives.
    pub fn living(&self, line: usize) -> Option<Arc<Wire>> {
        self.lines[line].load_full().filter(|wire| !wire.is_dead())
    }

    /// Whether every connection lives.
    pub fn is_whole(&self) -> bool {
        (0..self.lines.len()).all(|line| self.living(line).is_some())
    }

    /// How many answers came over the connections of now.
    pub fn answers(&self) -> u64 {
        let wires = self.lines.iter().filter_map(|line| line.load_full());
        wires.map(|wire| wire.answers()).sum()
    }

    /// Ends all connections, and every call on them.
    pub fn hang_up(&self) {
        self.gone.cancel();
        for line in &self.lines {
            if let Some(wire) = line.swap(None) {
                wire.kill();
            }
        }
        if let Some(pool) = &self.pool {
            pool.close();
        }
    }
}

impl std::fmt::Display for Primary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.place {
            Some(place) => place.fmt(f),
            None => f.write_str("the primary"),
        }
    }
}
