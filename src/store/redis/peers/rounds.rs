//! The barriers that this replica has asked others about.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::fanout::Barrier;

/// Those under way, by number.
#[derive(Default)]
pub struct Rounds {
    next: AtomicU64,
    open: Mutex<HashMap<u64, Answers>>,
}

#[derive(Default)]
struct Answers {
    by: HashMap<u64, Barrier>,
    changed: Arc<Notify>,
}

/// One of them. It ends when this is dropped, also with a caller that left.
pub struct Round<'a> {
    rounds: &'a Rounds,
    /// Its number.
    pub number: u64,
}

impl Rounds {
    /// A new one.
    pub fn begin(&self) -> Round<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(number, Answers::default());
        Round { rounds: self, number }
    }

    /// A replica answers. Its first answer counts, and none to a round that is over.
    pub fn answered(&self, from: u64, round: u64, barrier: Barrier) {
        if let Some(answers) = self.open.lock().get_mut(&round) {
            answers.by.entry(from).or_insert(barrier);
            answers.changed.notify_waiters();
        }
    }

    /// How many there are.
    #[cfg(test)]
    pub fn open(&self) -> usize {
        self.open.lock().len()
    }
}

impl Round<'_> {
    /// What came so far, by replica.
    pub fn answers(&self) -> HashMap<u64, Barrier> {
        let open = self.rounds.open.lock();
        open.get(&self.number)
            .map(|answers| answers.by.clone())
            .unwrap_or_default()
    }

    /// Rings when there is one more.
    pub fn changed(&self) -> Arc<Notify> {
        let open = self.rounds.open.lock();
        open.get(&self.number)
            .map(|answers| answers.changed.clone())
            .unwrap_or_default()
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.rounds.open.lock().remove(&self.number);
    }
}
