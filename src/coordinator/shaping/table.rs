//! Something for each namespace, in bounded memory: callers make namespaces at will.
//!
//! *Invariants.* At most [`MOST`] namespaces have something. A new one takes the place of the one that has not been used for longest, but of none
//! that was used within [`IDLE`], and not more often than once in a tenth of that: until then it goes without. Finding what is there takes no
//! lock that anybody holds for long, and reads no clock: that a row is used is noted there, and when, by whoever looks for room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use arc_swap::ArcSwap;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

/// So many namespaces have something.
pub(super) const MOST: usize = 256;
/// Who has been used within so long keeps it.
pub(super) const IDLE: Duration = Duration::from_secs(60);

/// A table by namespace.
pub(super) struct Table<T> {
    rows: ArcSwap<HashMap<Arc<str>, Arc<Row<T>>>>,
    /// One at a time adds a row; when room was last looked for.
    adding: Mutex<Option<Instant>>,
}

struct Row<T> {
    /// Since room was last looked for.
    used: AtomicBool,
    /// When it was last seen to have been used.
    seen: Mutex<Instant>,
    held: Mutex<T>,
}

impl<T> Table<T> {
    /// Nothing yet.
    pub fn new() -> Table<T> {
        Table {
            rows: ArcSwap::default(),
            adding: Mutex::default(),
        }
    }

    /// Calls with what a namespace has, which `new` makes; `None`: there is no room for it.
    pub fn with<R>(&self, namespace: &str, new: impl FnOnce() -> T, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        let rows = self.rows.load();
        if let Some(row) = rows.get(namespace) {
            return Some(row.call(call));
        }
        drop(rows);
        let row = self.add(namespace, new)?;
        Some(row.call(call))
    }

    /// Calls with what a namespace has, if it has anything.
    pub fn look<R>(&self, namespace: &str, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        let rows = self.rows.load();
        rows.get(namespace).map(|row| call(&mut row.held.lock()))
    }

    #[cold]
    fn add(&self, namespace: &str, new: impl FnOnce() -> T) -> Option<Arc<Row<T>>> {
        let mut full = self.adding.lock();
        let rows = self.rows.load();
        if let Some(row) = rows.get(namespace) {
            return Some(row.clone());
        }
        let mut more = HashMap::clone(&rows);
        if more.len() >= MOST {
            if full.is_some_and(|at| at.elapsed() < IDLE / 10) {
                return None;
            }
            let now = Instant::now();
            *full = Some(now);
            let (name, used) = more
                .iter()
                .map(|(name, row)| (name, row.last_used(now)))
                .min_by_key(|(_, used)| *used)?;
            if now - used < IDLE {
                return None;
            }
            let name = name.clone();
            more.remove(&name);
        }
        let row = Arc::new(Row {
            used: AtomicBool::new(true),
            seen: Mutex::new(Instant::now()),
            held: Mutex::new(new()),
        });
        more.insert(namespace.into(), row.clone());
        self.rows.store(Arc::new(more));
        Some(row)
    }
}

impl<T> Row<T> {
    fn call<R>(&self, call: impl FnOnce(&mut T) -> R) -> R {
        // A store of the same would take the line from the other cores for nothing.
        if !self.used.load(Relaxed) {
            self.used.store(true, Relaxed);
        }
        call(&mut self.held.lock())
    }

    /// No earlier than it was, and later by no more than since room was last looked for.
    fn last_used(&self, now: Instant) -> Instant {
        let mut seen = self.seen.lock();
        if self.used.swap(false, Relaxed) {
            *seen = now;
        }
        *seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(table: &Table<u32>, namespace: &str) -> Option<u32> {
        table.with(
            namespace,
            || 0,
            |count| {
                *count += 1;
                *count
            },
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_namespace_takes_the_place_of_the_one_that_was_not_used_for_longest() {
        let table = Table::new();
        for number in 0..MOST {
            assert_eq!(count(&table, &format!("n{number}")), Some(1));
        }
        assert_eq!(count(&table, "late"), None, "all are in use");
        tokio::time::advance(IDLE / 2).await;
        for number in 1..MOST {
            assert_eq!(count(&table, &format!("n{number}")), Some(2));
        }
        tokio::time::advance(IDLE / 2).await;
        assert_eq!(count(&table, "late"), Some(1));
        assert_eq!(table.look("n0", |count| *count), None, "it was used longest ago");
        assert_eq!(count(&table, "later"), None, "once in a while");
        assert_eq!(table.look("n1", |count| *count), Some(2));
    }
}
