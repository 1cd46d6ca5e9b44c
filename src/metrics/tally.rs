//! Counts for each namespace, apart for each core.
//!
//! *Invariants.* Counting takes no lock and, on a machine that gives each core its shard, shares no cache line. A namespace that is
//! counted once is counted under the same label for ever.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

/// So many namespaces have a label of their own; the rest are counted together. The largest family has 30 cells a namespace, and
/// the SDK keeps at most 2,000 label sets an instrument.
pub const NAMED: usize = 60;

/// More shards than this bring nothing.
const MOST_SHARDS: usize = 16;

/// The counts of every namespace.
pub(super) struct Tallies<const N: usize> {
    named: ArcSwap<HashMap<Arc<str>, Arc<Tally<N>>>>,
    other: Tally<N>,
    adding: Mutex<()>,
}

/// The counts of one namespace.
pub(super) struct Tally<const N: usize> {
    shards: Box<[Shard<N>]>,
}

/// Two cache lines, because the prefetcher brings them in pairs.
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

impl<const N: usize> Tallies<N> {
    pub(super) fn new() -> Tallies<N> {
        Tallies {
            named: ArcSwap::default(),
            other: Tally::new(),
            adding: Mutex::new(()),
        }
    }

    /// Calls with the namespace's counts, which begin now if they are new.
    pub(super) fn with<T>(&self, namespace: &str, count: impl FnOnce(&Tally<N>) -> T) -> T {
        let named = self.named.load();
        if let Some(tally) = named.get(namespace) {
            return count(tally);
        }
        if named.len() >= NAMED {
            return count(&self.other);
        }
        drop(named);
        match self.begin(namespace) {
            Some(tally) => count(&tally),
            None => count(&self.other),
        }
    }

    /// Every namespace with counts, in the order of the names, then what is counted together.
    pub(super) fn each(&self, mut see: impl FnMut(&str, &Tally<N>)) {
        let named = self.named.load();
        let mut names: Vec<_> = named.iter().collect();
        names.sort_unstable_by_key(|(name, _)| *name);
        for (name, tally) in names {
            see(name, tally);
        }
        see("other", &self.other);
    }

    #[cold]
    fn begin(&self, namespace: &str) -> Option<Arc<Tally<N>>> {
        let _one_at_a_time = self.adding.lock();
        let named = self.named.load();
        if let Some(tally) = named.get(namespace) {
            return Some(tally.clone());
        }
        // A namespace that happens to be called `other` is counted with the rest, or its label would appear twice.
        if named.len() >= NAMED || namespace == "other" {
            return None;
        }
        let tally = Arc::new(Tally::new());
        let mut more = HashMap::clone(&named);
        more.insert(namespace.into(), tally.clone());
        self.named.store(Arc::new(more));
        Some(tally)
    }
}

impl<const N: usize> Tally<N> {
    fn new() -> Tally<N> {
        let shard = || Shard(std::array::from_fn(|_| AtomicU64::new(0)));
        Tally {
            shards: (0..shards()).map(|_| shard()).collect(),
        }
    }

    /// One more.
    pub(super) fn add(&self, cell: usize) {
        let shard = &self.shards[own_shard() & (self.shards.len() - 1)];
        shard.0[cell].fetch_add(1, Relaxed);
    }

    /// How many so far.
    pub(super) fn sum(&self, cell: usize) -> u64 {
        self.shards.iter().map(|shard| shard.0[cell].load(Relaxed)).sum()
    }
}

/// A power of two, so that a thread's shard is a mask away.
fn shards() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.next_power_of_two().min(MOST_SHARDS)
}

/// The number of this thread, in the order in which threads first counted.
fn own_shard() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.try_with(|own| {
        own.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Relaxed);
            own.set(Some(next));
            next
        })
    })
    .unwrap_or(0)
}
