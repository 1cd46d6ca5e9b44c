//! What this replica knows of a partition: the names of its keys, its epoch, its time, and the highest number seen.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::keys::Keys;
use crate::decision::{Mode, Seq, StoreTime};
use crate::store::{Event, Target};

/// Invalidations of so long ago are committed again when a new primary may have lost them.
const REMEMBER: Duration = Duration::from_secs(60);
/// And so many of them at the most.
const MOST: usize = 10_000;
/// A clock that goes back by more is worth a word; less is rounding, or two connections whose answers overtook each other.
const BACK: Duration = Duration::from_secs(1);

/// A partition.
pub struct Partition {
    /// Its number.
    pub number: u16,
    /// The names of its keys.
    pub keys: Keys,
    /// The epoch of its log as far as this replica knows; 0 at first.
    epoch: watch::Sender<u64>,
    /// One at a time takes over a new primary.
    pub taking_over: tokio::sync::Mutex<()>,
    high: AtomicU64,
    time: Mutex<Option<(StoreTime, Instant)>>,
    recent: Mutex<VecDeque<Recent>>,
}

/// An invalidation that this replica knows of.
#[derive(Clone, Debug, PartialEq)]
pub struct Recent {
    /// Where.
    pub namespace: Arc<str>,
    /// What.
    pub target: Target,
    /// How hard.
    pub mode: Mode,
    /// Its number in this partition.
    pub number: Seq,
    heard: Instant,
}

impl Recent {
    /// What watchers are told of it.
    pub fn event(&self) -> Event {
        Event::Invalidated {
            namespace: self.namespace.clone(),
            target: self.target.clone(),
            mode: self.mode,
        }
    }
}

impl Partition {
    pub fn new(prefix: &str, number: u16) -> Partition {
        Partition {
            number,
            keys: Keys::new(prefix, number),
            epoch: watch::Sender::new(0),
            taking_over: tokio::sync::Mutex::default(),
            high: AtomicU64::new(0),
            time: Mutex::default(),
            recent: Mutex::default(),
        }
    }

    /// The epoch as a script compares it; empty while none is known.
    pub fn known(&self) -> String {
        match *self.epoch.borrow() {
            0 => String::new(),
            epoch => epoch.to_string(),
        }
    }

    /// The epoch; 0 while none is known.
    pub fn epoch(&self) -> u64 {
        *self.epoch.borrow()
    }

    /// Hears of new epochs.
    pub fn epochs(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// `true`: it was another before.
    pub fn enter(&self, epoch: u64) -> bool {
        self.epoch
            .send_if_modified(|known| std::mem::replace(known, epoch) != epoch)
    }

    /// Numbers that are taken from now on must exceed this.
    pub fn high(&self) -> Seq {
        Seq(self.high.load(Ordering::Relaxed))
    }

    /// A number was seen.
    pub fn saw(&self, number: Seq) {
        self.high.fetch_max(number.0, Ordering::Relaxed);
    }

    /// The store's time in an answer that has just come. `false`: it has gone back.
    pub fn told(&self, now: StoreTime) -> bool {
        let mut time = self.time.lock();
        let steady = time.is_none_or(|(before, _)| before <= now.after(BACK));
        *time = Some((now, Instant::now()));
        steady
    }

    /// The store's time, or a little before it; `None` while it has not answered yet.
    pub fn now(&self) -> Option<StoreTime> {
        let (then, at) = (*self.time.lock())?;
        Some(then.after(at.elapsed()))
    }

    /// An invalidation was committed, here or elsewhere.
    pub fn heard(&self, namespace: &Arc<str>, target: &Target, mode: Mode, number: Seq) {
        let heard = Instant::now();
        let mut recent = self.recent.lock();
        while recent.len() >= MOST || recent.front().is_some_and(|first| first.heard + REMEMBER < heard) {
            recent.pop_front();
        }
        recent.push_back(Recent {
            namespace: namespace.clone(),
            target: target.clone(),
            mode,
            number,
            heard,
        });
    }

    /// The last minute's invalidations, oldest first.
    pub fn recent(&self) -> Vec<Recent> {
        let now = Instant::now();
        let recent = self.recent.lock();
        recent
            .iter()
            .filter(|one| one.heard + REMEMBER >= now)
            .cloned()
            .collect()
    }
}
