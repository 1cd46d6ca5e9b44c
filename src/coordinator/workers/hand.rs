//! Tasks that workers have in hand, until their leases end.

use tokio::time::Instant;

use super::{Inner, SHUN, SHUNNED, Workers};
use crate::decision::{Key, Seq};

impl Workers {
    /// A lease has ended. `given_back`: its holder did not want it.
    pub fn ended(&self, key: &Key, token: Seq, given_back: bool) {
        if !self.is_any() {
            return;
        }
        let mut inner = self.inner.lock();
        let Some(worker) = inner
            .in_hand
            .get(key)
            .filter(|in_hand| in_hand.token == token)
            .map(|in_hand| in_hand.worker)
        else {
            return;
        };
        if given_back && inner.shunned.len() < SHUNNED {
            inner.shunned.insert(key.clone(), (worker, Instant::now()));
        }
        inner.drop_in_hand(key);
        drop(inner);
        self.ring();
    }

    /// A lease lives on.
    pub fn renewed(&self, key: &Key, token: Seq, until: Instant) {
        if !self.is_any() {
            return;
        }
        let mut inner = self.inner.lock();
        let Some(in_hand) = inner.in_hand.get_mut(key).filter(|in_hand| in_hand.token == token) else {
            return;
        };
        let before = std::mem::replace(&mut in_hand.until, until);
        inner.ends.remove(&(before, key.clone()));
        inner.ends.insert((until, key.clone()));
        drop(inner);
        self.ring();
    }

    /// The entry of a key has changed.
    pub fn rung_for(&self, key: &Key) {
        if !self.is_any() {
            return;
        }
        let mut inner = self.inner.lock();
        if inner.in_hand.contains_key(key) {
            inner.changed.insert(key.clone());
            drop(inner);
            self.ring();
        }
    }

    /// Rings may have been lost, and with them all that the store knew of who works here: it is told at once, for until then it plans nothing.
    pub fn rung_for_all(&self) {
        if !self.is_any() {
            return;
        }
        let mut inner = self.inner.lock();
        let all: Vec<Key> = inner.in_hand.keys().cloned().collect();
        inner.changed.extend(all);
        inner.staff_changed = true;
        drop(inner);
        self.ring();
    }

    /// Keys in hand whose leases may have ended, with the leases' numbers, and when the next one's time is over.
    pub fn to_look_at(&self) -> (Vec<(Key, Seq)>, Option<Instant>) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        inner.shunned.retain(|_, (_, since)| since.elapsed() < SHUN);
        let mut keys = std::mem::take(&mut inner.changed);
        keys.extend(
            inner
                .ends
                .iter()
                .take_while(|(until, _)| *until <= now)
                .map(|(_, key)| key.clone()),
        );
        let with_token = |key: Key| inner.in_hand.get(&key).map(|in_hand| (key, in_hand.token));
        let looks = keys.into_iter().filter_map(with_token).collect();
        let next = inner.ends.iter().map(|(until, _)| *until).find(|until| *until > now);
        (looks, next)
    }
}

impl Inner {
    pub(super) fn in_hand_of(&self, worker: u64) -> Vec<Key> {
        let its = self.in_hand.iter().filter(|(_, in_hand)| in_hand.worker == worker);
        its.map(|(key, _)| key.clone()).collect()
    }

    pub(super) fn drop_in_hand(&mut self, key: &Key) {
        let Some(in_hand) = self.in_hand.remove(key) else {
            return;
        };
        self.ends.remove(&(in_hand.until, key.clone()));
        self.changed.remove(key);
        self.free(in_hand.worker);
    }
}
