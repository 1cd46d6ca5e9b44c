//! Loads of one key that come together share a trip.
//!
//! *Invariant.* A caller gets the answer of a load that was sent after it asked: what was under way when it came may be older than an
//! invalidation that it knows of. So of any number of callers at once the first has a load of its own, and all others one together.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use crate::decision::{Key, Tag};
use crate::store::{Loaded, StoreError, Want};

/// The answer to a load.
type Answer = Result<Loaded, StoreError>;

/// Who waits while a load is under way, and for what.
#[derive(Default)]
struct Next {
    tags: Vec<Tag>,
    want: Want,
    callers: Vec<oneshot::Sender<Answer>>,
}

/// Keys that are being loaded.
#[derive(Clone)]
pub struct Gather {
    under_way: Arc<Mutex<HashMap<Key, Next>>>,
    tasks: TaskTracker,
}

impl Gather {
    pub fn new(tasks: TaskTracker) -> Gather {
        Gather {
            under_way: Arc::default(),
            tasks,
        }
    }

    /// Loads, alone or with others. `load` may be called later and by somebody else.
    pub async fn load<L, F>(&self, key: &Key, tags: &[Tag], want: Want, load: L) -> Answer
    where
        L: Fn(Key, Vec<Tag>, Want) -> F + Clone + Send + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let waiting = {
            let mut under_way = self.under_way.lock();
            match under_way.get_mut(key) {
                None => {
                    under_way.insert(key.clone(), Next::default());
                    None
                }
                Some(next) => Some(next.join(tags, want)),
            }
        };
        match waiting {
            None => {
                let _turn = Turn {
                    gather: self,
                    key,
                    load: load.clone(),
                };
                load(key.clone(), tags.to_vec(), want).await
            }
            Some(waiting) => waiting
                .await
                .unwrap_or_else(|_| Err(StoreError::Unavailable("the replica is stopping".to_owned()))),
        }
    }

    /// A load has ended, or its caller has left: those who came meanwhile get theirs.
    fn turn<L, F>(&self, key: &Key, load: L)
    where
        L: Fn(Key, Vec<Tag>, Want) -> F + Send + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let Some(mut next) = self.take(key) else {
            return;
        };
        let (gather, key) = (self.clone(), key.clone());
        self.tasks.spawn(async move {
            loop {
                let answer = load(key.clone(), std::mem::take(&mut next.tags), next.want).await;
                for caller in next.callers.drain(..) {
                    // Who has left needs no answer.
                    let _ = caller.send(answer.clone());
                }
                match gather.take(&key) {
                    Some(more) => next = more,
                    None => return,
                }
            }
        });
    }

    /// Those who wait for the next load; if there are none, the key is not under way any more.
    fn take(&self, key: &Key) -> Option<Next> {
        let mut under_way = self.under_way.lock();
        let next = under_way.get_mut(key).map(std::mem::take)?;
        if next.callers.is_empty() {
            under_way.remove(key);
            return None;
        }
        Some(next)
    }
}

impl Next {
    fn join(&mut self, tags: &[Tag], want: Want) -> oneshot::Receiver<Answer> {
        for tag in tags {
            if !self.tags.contains(tag) {
                self.tags.push(tag.clone());
            }
        }
        self.want.bytes |= want.bytes;
        self.want.rings |= want.rings;
        let (give, take) = oneshot::channel();
        self.callers.push(give);
        take
    }
}

/// The turn of the first caller; over when it is dropped.
struct Turn<'a, L, F>
where
    L: Fn(Key, Vec<Tag>, Want) -> F + Clone + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    gather: &'a Gather,
    key: &'a Key,
    load: L,
}

impl<L, F> Drop for Turn<'_, L, F>
where
    L: Fn(Key, Vec<Tag>, Want) -> F + Clone + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    fn drop(&mut self) {
        self.gather.turn(self.key, self.load.clone());
    }
}
