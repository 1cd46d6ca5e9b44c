//! Keys of this replica that wait for a place in their namespace's rebuild budget.
//!
//! *Owns* whose turn it is to ask the store for a place, and when that is worth a trip. *Never* asks.
//!
//! *Invariants.* Only keys for which somebody is parked stand in line, so whose turn it is has a [flight](super::super::flights) to be rung for: one
//! that has none any more is passed over. Who has been refused does not ask again before a place may be free: one has been given back, one
//! has come back by itself, or a second has passed. So a lost ring costs a second and never a place.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::decision::{Class, Key, Line};

/// Whoever waits asks at least so often.
const AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// What there is of namespaces in which nobody waits is tidied away when there is more.
const TIDY: usize = 1_000;

/// A line a namespace.
#[derive(Default)]
pub(in crate::coordinator) struct Lines {
    namespaces: Mutex<HashMap<Arc<str>, State>>,
    /// How many there are: nobody takes the lock where there is none.
    count: AtomicUsize,
}

#[derive(Default)]
struct State {
    line: Line,
    /// Until then it is not worth asking.
    refused_until: Option<Instant>,
    /// How often a place was given back.
    freed: u64,
    /// Keys whose place was left to those who are parked for them.
    left: BTreeSet<Key>,
    /// Those who do not stand in line were refused: until then it is not worth it for a worker's task to be looked at.
    others_refused: Option<Instant>,
    /// Places that were taken when the store last said so.
    taken: u32,
}

/// Who is to try for a place that may be free.
pub(in crate::coordinator) enum Next {
    /// The first in line.
    Key(Key),
    /// Nobody stands in line; there may be tasks for workers.
    Tasks,
}

/// Whether to ask the store for a place.
pub(in crate::coordinator) enum Try {
    /// Yes; how often a place had been given back before, and whether others wait.
    Now { freed: u64, others: bool },
    /// Not before so long.
    NotYet(Duration),
}

impl Lines {
    /// A key wants a place. `stands`: somebody is parked for it, so it may stand in line; else it tries only if nobody does.
    /// `is_waited` says of others whether anybody still is.
    pub fn may_try(&self, key: &Key, class: Class, stands: bool, is_waited: impl Fn(&Key) -> bool) -> Try {
        let mut namespaces = self.namespaces.lock();
        let state = self.state(&mut namespaces, key.namespace());
        if stands {
            state.line.join(key, class);
        }
        let first = state.first(|other| other == key || is_waited(other));
        let now = Instant::now();
        let left = state
            .refused_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        match first {
            _ if !left.is_zero() => state.not_yet(stands, left),
            Some(first) if first != *key => state.not_yet(stands, AT_LEAST_EVERY),
            _ => Try::Now {
                freed: state.freed,
                others: state.line.len() > usize::from(stands),
            },
        }
    }

    /// The store had no place. After how long to ask again: `next` is when one comes back by itself.
    pub fn refused(&self, namespace: &str, stands: bool, freed: u64, next: Option<Duration>) -> Duration {
        let mut namespaces = self.namespaces.lock();
        let state = self.state(&mut namespaces, namespace);
        if state.freed != freed {
            // One was given back while the refusal was on its way.
            return Duration::ZERO;
        }
        let again = next.map_or(AT_LEAST_EVERY, |next| next.min(AT_LEAST_EVERY));
        let again = again.max(Duration::from_millis(1));
        state.refused_until = Some(Instant::now() + again);
        state.not_yet(stands, again);
        again
    }

    /// A place may be free. Who is to ask.
    pub fn freed(&self, namespace: &str, is_waited: impl Fn(&Key) -> bool) -> Option<Next> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut namespaces = self.namespaces.lock();
        let state = namespaces.get_mut(namespace)?;
        state.freed += 1;
        state.refused_until = None;
        state.next(is_waited)
    }

    /// A key has a place, or nobody wants one for it any more. Who is to ask next. Even while it is not worth asking: whoever is first now must
    /// learn until when.
    pub fn leave(&self, key: &Key, is_waited: impl Fn(&Key) -> bool) -> Option<Next> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut namespaces = self.namespaces.lock();
        let state = namespaces.get_mut(key.namespace())?;
        let was_first = state.line.first().is_some_and(|(first, _)| first == key);
        state.line.leave(key);
        if was_first { state.next(is_waited) } else { None }
    }

    /// The store has said how many places are taken.
    pub fn saw(&self, namespace: &str, taken: u32) {
        if self.count.load(Ordering::Acquire) > 0
            && let Some(state) = self.namespaces.lock().get_mut(namespace)
        {
            state.taken = taken;
        }
    }

    /// How many tasks are worth looking at, of as many places; none, and for how long, where places are waited for.
    pub fn room_for_tasks(&self, namespace: &str, limit: u32) -> Result<u32, Duration> {
        let namespaces = self.namespaces.lock();
        let Some(state) = namespaces.get(namespace) else {
            return Ok(limit);
        };
        let left = state
            .others_refused
            .map(|until| until.saturating_duration_since(Instant::now()));
        match left.filter(|left| !left.is_zero()) {
            Some(left) => Err(left),
            None => Ok(limit.saturating_sub(state.taken).max(1)),
        }
    }

    /// Keys that stand in all lines.
    pub fn len(&self) -> usize {
        self.namespaces.lock().values().map(|state| state.line.len()).sum()
    }

    /// The place of a key was left to those who are parked for it.
    pub fn left_to_next(&self, key: &Key) {
        let mut namespaces = self.namespaces.lock();
        let state = self.state(&mut namespaces, key.namespace());
        state.left.insert(key.clone());
    }

    /// Whether that was so.
    pub fn is_left(&self, key: &Key) -> bool {
        self.of(key, |state| state.left.contains(key))
    }

    /// The same; it is not any more.
    pub fn take_left(&self, key: &Key) -> bool {
        self.of(key, |state| state.left.remove(key))
    }

    /// Whether a key stands in line.
    pub fn has(&self, key: &Key) -> bool {
        self.of(key, |state| state.line.has(key))
    }

    fn of(&self, key: &Key, look: impl FnOnce(&mut State) -> bool) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.namespaces.lock().get_mut(key.namespace()).is_some_and(look)
    }

    fn state<'a>(&self, namespaces: &'a mut HashMap<Arc<str>, State>, namespace: &str) -> &'a mut State {
        if !namespaces.contains_key(namespace) {
            if namespaces.len() >= TIDY {
                namespaces.retain(|_, state| !state.is_idle());
            }
            namespaces.insert(namespace.into(), State::default());
            self.count.store(namespaces.len(), Ordering::Release);
        }
        namespaces.entry(namespace.into()).or_default()
    }
}

impl State {
    fn is_idle(&self) -> bool {
        let refused = self.refused_until.is_some_and(|until| until > Instant::now());
        self.line.is_empty() && self.left.is_empty() && !refused
    }

    fn not_yet(&mut self, stands: bool, left: Duration) -> Try {
        if !stands {
            self.others_refused = Some(Instant::now() + left);
        }
        Try::NotYet(left)
    }

    fn next(&mut self, is_waited: impl Fn(&Key) -> bool) -> Option<Next> {
        match self.first(is_waited) {
            Some(first) => Some(Next::Key(first)),
            None => self.others_refused.take().map(|_| Next::Tasks),
        }
    }

    /// The first for whom anybody waits.
    fn first(&mut self, is_waited: impl Fn(&Key) -> bool) -> Option<Key> {
        loop {
            let first = self.line.first()?.0.clone();
            if is_waited(&first) {
                return Some(first);
            }
            self.line.leave(&first);
        }
    }
}
