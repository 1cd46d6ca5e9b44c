//! Places at workers: who takes which task.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Handed, InHand, SHUN, Worker, Workers};
use crate::decision::Key;
use crate::store::Snapshot;

/// What workers of a namespace could take now.
pub struct Wanting {
    pub prefixes: Vec<String>,
    pub free: usize,
}

/// A place at a worker, for one task. Dropped without one, it is free again.
pub struct Seat {
    workers: Arc<Workers>,
    id: u64,
    pub holder: Arc<str>,
    taken: bool,
}

/// Who can take a task.
pub enum Seating {
    Seat(Seat),
    /// Nobody at the moment.
    Full,
    /// Only somebody who has just given it back.
    NotYet,
}

impl Workers {
    /// The namespaces in which somebody could take a task, by name.
    pub fn wanting(&self) -> Vec<Arc<str>> {
        let inner = self.inner.lock();
        let free = inner.workers.values().filter(|worker| worker.free(inner.draining) > 0);
        let names: BTreeSet<&Arc<str>> = free.flat_map(|worker| &worker.registration.namespaces).collect();
        names.into_iter().cloned().collect()
    }

    /// What could be taken of a namespace.
    pub fn wants(&self, namespace: &str) -> Option<Wanting> {
        let inner = self.inner.lock();
        let (mut prefixes, mut free, mut all) = (BTreeSet::new(), 0, false);
        for worker in inner.workers.values().filter(|worker| worker.is_of(namespace)) {
            let more = worker.free(inner.draining);
            if more > 0 {
                free += more;
                all |= worker.registration.key_prefixes.is_empty();
                prefixes.extend(&worker.registration.key_prefixes);
            }
        }
        let prefixes = if all { BTreeSet::new() } else { prefixes };
        (free > 0).then(|| Wanting {
            prefixes: prefixes.into_iter().cloned().collect(),
            free,
        })
    }

    /// A place for a task of this key.
    pub fn seat(self: &Arc<Self>, key: &Key) -> Seating {
        let mut inner = self.inner.lock();
        let shuns = inner.shunned.get(key).filter(|(_, since)| since.elapsed() < SHUN);
        let shuns = shuns.map(|(id, _)| *id);
        let draining = inner.draining;
        let could = inner
            .workers
            .iter()
            .filter(|(_, worker)| worker.takes(key) && worker.free(draining) > 0);
        let (shunned, could): (Vec<_>, Vec<_>) = could.partition(|(id, _)| shuns == Some(**id));
        let Some(id) = could
            .into_iter()
            .min_by(|one, other| one.1.busier(other.1))
            .map(|(id, _)| *id)
        else {
            return if shunned.is_empty() {
                Seating::Full
            } else {
                Seating::NotYet
            };
        };
        inner.served += 1;
        let served = inner.served;
        let Some(worker) = inner.workers.get_mut(&id) else {
            return Seating::Full;
        };
        worker.in_hand += 1;
        worker.served = served;
        Seating::Seat(Seat {
            workers: self.clone(),
            id,
            holder: worker.registration.holder.clone(),
            taken: false,
        })
    }
}

impl Worker {
    fn takes(&self, key: &Key) -> bool {
        let prefixes = &self.registration.key_prefixes;
        self.is_of(key.namespace())
            && (prefixes.is_empty() || prefixes.iter().any(|prefix| key.name().starts_with(&**prefix)))
    }

    fn free(&self, draining: bool) -> usize {
        if draining || self.retiring || !self.started {
            return 0;
        }
        self.registration.max_in_flight.saturating_sub(self.in_hand)
    }

    /// Whose part in hand is greater; of equals, who was served later.
    fn busier(&self, other: &Worker) -> std::cmp::Ordering {
        let part = |one: &Worker, of: &Worker| one.in_hand as u128 * of.registration.max_in_flight as u128;
        part(self, other)
            .cmp(&part(other, self))
            .then(self.served.cmp(&other.served))
    }
}

impl Seat {
    /// Sends the task to the worker; `Err`: it has left meanwhile, and the lease is to be given back.
    pub fn hand(mut self, handed: Handed) -> Result<(), Arc<Snapshot>> {
        let workers = self.workers.clone();
        let mut inner = workers.inner.lock();
        let draining = inner.draining;
        let Some(worker) = inner.workers.get_mut(&self.id).filter(|_| !draining) else {
            return Err(handed.granted);
        };
        self.taken = true;
        let key = handed.task.key.clone();
        let in_hand = InHand {
            worker: self.id,
            token: handed.task.lease.token,
            until: handed.sent + handed.task.ttl,
        };
        worker.queue.push_back(handed);
        worker.wake();
        // Somebody here had the key before, and lost it.
        inner.drop_in_hand(&key);
        inner.ends.insert((in_hand.until, key.clone()));
        inner.in_hand.insert(key, in_hand);
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if !self.taken {
            self.workers.inner.lock().free(self.id);
        }
    }
}
