//! How many rebuilds of a namespace run at once: places, and the line of those who want one.
//!
//! *Owns* the places of one namespace over the fleet ([`Budget`]) and the order in which those of one replica get them ([`Line`]). *Never* parks
//! anybody: it says whose turn it is.
//!
//! *Invariants.* Never more places are taken than the limit says. Never fewer while somebody waits: each call that frees a place says who has
//! it now. A place is a key's, because a key has one live lease at most; so a caller that is promoted after its key's holder inherits the place
//! by asking for what its key has, and the line is not asked. A place comes back when its lease ends, or with the lease's time if its
//! holder crashed.
//!
//! *Order*: on a miss before early before scheduled, since whoever misses has nothing; first come, first served within.
//!
//! *Over a shared store* the places live there, in the namespace's home partition; a replica then has a [`Line`] of its own and asks the store for
//! a place for its first in line whenever one may be free. There is no order between replicas, as with waiters.
//!
//! *Why no queue in the store*: a caller leaves when its time is over, and a queue would have to be told, at the price of a trip for each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Cause, Grant, Key, Seq, StoreTime};

/// Who goes first, from first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The caller has nothing that it could use meanwhile.
    OnMiss,
    /// The caller has something, fresh or stale.
    Early,
    /// A worker asks.
    Scheduled,
}

impl Class {
    /// That of a grant.
    pub fn of(grant: &Grant) -> Class {
        let serves = grant.fallback.is_some() && !grant.fallback_on_failure_only;
        match grant.cause {
            Cause::Scheduled => Class::Scheduled,
            _ if serves => Class::Early,
            _ => Class::OnMiss,
        }
    }

    /// Its name in logs, metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::OnMiss => "on_miss",
            Class::Early => "early",
            Class::Scheduled => "scheduled",
        }
    }
}

/// Who has been let in must have taken up the place within so much, or it goes to the next.
pub const TAKE_UP: Duration = Duration::from_secs(2);

/// Places of one namespace, and the line for them.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: u32,
    places: BTreeMap<Key, Place>,
    /// When each comes back by itself.
    ends: BTreeSet<(StoreTime, Key)>,
    line: Line,
}

/// A place that is taken.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of its lease; none while the grant is under way.
    token: Seq,
    until: StoreTime,
}

impl Budget {
    /// With so many places, at least one: a namespace without a limit needs no budget.
    pub fn new(limit: u32) -> Budget {
        Budget {
            limit: limit.max(1),
            places: BTreeMap::new(),
            ends: BTreeSet::new(),
            line: Line::default(),
        }
    }

    /// A place for a key, until the time of the lease that it is for; `false`: the key stands in line. One that has a place keeps it.
    pub fn take(&mut self, key: &Key, class: Class, until: StoreTime) -> bool {
        let token = match self.places.get(key) {
            Some(place) => place.token,
            None if self.is_free() => Seq::NONE,
            None => {
                self.line.join(key, class);
                return false;
            }
        };
        self.line.leave(key);
        self.put(key, Place { token, until });
        true
    }

    /// The lease of a place was granted, or renewed. `false`: the place has come back by itself.
    pub fn hold(&mut self, key: &Key, token: Seq, until: StoreTime) -> bool {
        let has = self.places.contains_key(key);
        if has {
            self.put(key, Place { token, until });
        }
        has
    }

    /// A lease has ended, or (with no number) a grant has not come about. Answers who has the place now; it is theirs for [`TAKE_UP`]. A
    /// place that another lease of the key has inherited stays.
    pub fn give_back(&mut self, key: &Key, token: Seq, now: StoreTime) -> Option<Key> {
        let held = self.places.get(key).is_some_and(|place| place.token == token);
        if held {
            self.remove(key);
        }
        self.let_in(now)
    }

    /// Nobody waits for the key any more.
    pub fn leave(&mut self, key: &Key) {
        self.line.leave(key);
    }

    /// Places whose time is over come back. Answers who has them now.
    pub fn expire(&mut self, now: StoreTime) -> Vec<Key> {
        while let Some((until, key)) = self.ends.first()
            && *until <= now
        {
            let key = key.clone();
            self.remove(&key);
        }
        std::iter::from_fn(|| self.let_in(now)).collect()
    }

    /// The policy has changed. Answers who has a place now; where there are fewer places, those that are taken stay.
    pub fn set_limit(&mut self, limit: u32, now: StoreTime) -> Vec<Key> {
        self.limit = limit.max(1);
        std::iter::from_fn(|| self.let_in(now)).collect()
    }

    /// When the next place comes back by itself.
    pub fn next_end(&self) -> Option<StoreTime> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.places.len()
    }

    /// Those that wait.
    pub fn line(&self) -> &Line {
        &self.line
    }

    fn is_free(&self) -> bool {
        self.places.len() < self.limit as usize
    }

    fn let_in(&mut self, now: StoreTime) -> Option<Key> {
        let key = if self.is_free() {
            self.line.take_first()?
        } else {
            return None;
        };
        let place = Place {
            token: Seq::NONE,
            until: now.after(TAKE_UP),
        };
        self.put(&key, place);
        Some(key)
    }

    fn put(&mut self, key: &Key, place: Place) {
        self.remove(key);
        self.ends.insert((place.until, key.clone()));
        self.places.insert(key.clone(), place);
    }

    fn remove(&mut self, key: &Key) {
        if let Some(place) = self.places.remove(key) {
            self.ends.remove(&(place.until, key.clone()));
        }
    }
}

/// Keys of one replica that wait for a place, each once.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// By class, and in the order in which they came.
    row: BTreeMap<(Class, u64), Key>,
    standing: BTreeMap<Key, (Class, u64)>,
    came: u64,
}

impl Line {
    /// Takes a key into the line. One that stands there already keeps its place, or goes to the end of a better class.
    pub fn join(&mut self, key: &Key, class: Class) {
        if self.standing.get(key).is_some_and(|(before, _)| *before <= class) {
            return;
        }
        self.leave(key);
        self.came += 1;
        self.row.insert((class, self.came), key.clone());
        self.standing.insert(key.clone(), (class, self.came));
    }

    /// Nobody wants the key any more.
    pub fn leave(&mut self, key: &Key) {
        if let Some(place) = self.standing.remove(key) {
            self.row.remove(&place);
        }
    }

    /// Takes the first out of the line.
    pub fn take_first(&mut self) -> Option<Key> {
        let (_, key) = self.row.pop_first()?;
        self.standing.remove(&key);
        Some(key)
    }

    /// The first in line, and its class.
    pub fn first(&self) -> Option<(&Key, Class)> {
        self.row.first_key_value().map(|((class, _), key)| (key, *class))
    }

    /// How many stand in it.
    pub fn len(&self) -> usize {
        self.row.len()
    }

    /// Whether nobody stands in it.
    pub fn is_empty(&self) -> bool {
        self.row.is_empty()
    }
}
