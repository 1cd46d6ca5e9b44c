//! How many rebuilds of a namespace run at once: places, and the line of those who want one.
//!
//! *Owns* the places of one namespace over the fleet ([`Budget`]) and the order in which those of one replica try for them ([`Line`]). *Never* parks
//! anybody: it says whose turn it is.
//!
//! *Invariants.* Never more places are taken than the limit says. A place is a key's, because a key has one live lease at most, and it is
//! kept up by claims: one of each lease, and one of each grant under way, which may come to nothing because somebody else was faster. It is
//! free when the last of them is gone. So a caller that is promoted after its key's holder inherits the place, in whatever order the end of
//! the one and the beginning of the other are told. A claim goes when its lease ends, or with the lease's time if its holder crashed.
//!
//! *Order*: on a miss before early before scheduled, since whoever misses has nothing; first come, first served within. Only who has nothing to
//! serve meanwhile stands in line; the others try when nobody does.
//!
//! *Where*: the places are in the store, one place a namespace for the fleet. A line is a replica's; it asks the store for its first whenever a
//! place may be free. There is no order between replicas, as with waiters.
//!
//! *Why no queue in the store*: a caller leaves when its time is over, and a queue would have to be told, at the price of a trip for each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Cause, Grant, Key, StoreTime};

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

/// A place that is left to whoever comes next for its key must be taken up within so much, or it is free.
pub const TAKE_UP: Duration = Duration::from_secs(2);

/// The claim of whoever comes next: no lease has this secret.
const NEXT: u64 = 0;

/// Places of one namespace.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    /// By key: each claim, and until when it counts.
    places: BTreeMap<Key, Vec<(u64, StoreTime)>>,
    /// When each place comes back by itself.
    ends: BTreeSet<(StoreTime, Key)>,
}

impl Budget {
    /// Claims a place for a key, where it has one already or fewer than `limit` are taken. `lease` is the secret of the lease that is to be
    /// granted, `until` when that will be over. What was left to whoever comes next is used up.
    pub fn take(&mut self, key: &Key, lease: u64, limit: u32, until: StoreTime, now: StoreTime) -> bool {
        self.expire(now);
        if !self.places.contains_key(key) && self.places.len() >= limit as usize {
            return false;
        }
        self.change(key, now, |claims| put(claims, NEXT, lease, until));
        true
    }

    /// The lease is to live until then, as it is renewed; or another `instead_of` it. `false`: there is no claim of either, and none is made: a renewal
    /// of a lease that is over must not bring its place back.
    pub fn hold(&mut self, key: &Key, lease: u64, instead_of: u64, until: StoreTime, now: StoreTime) -> bool {
        self.expire(now);
        let is_it = |claim: &(u64, StoreTime)| claim.1 > now && (claim.0 == lease || claim.0 == instead_of);
        let has = self.places.get(key).is_some_and(|claims| claims.iter().any(is_it));
        if has {
            self.change(key, now, |claims| put(claims, instead_of, lease, until));
        }
        has
    }

    /// A lease has ended, or a grant has not come about. `left_until`: those who wait for the key may take the place over until then, unless one
    /// of them has a claim already; else it is free, unless another claim keeps it up.
    pub fn give_back(&mut self, key: &Key, lease: u64, left_until: Option<StoreTime>, now: StoreTime) {
        self.expire(now);
        let has = |claims: &Vec<(u64, StoreTime)>| claims.iter().any(|claim| claim.0 == lease && claim.1 > now);
        if !self.places.get(key).is_some_and(has) {
            return;
        }
        self.change(key, now, |claims| match left_until {
            Some(until) if claims.iter().all(|claim| claim.0 == lease || claim.0 == NEXT) => {
                put(claims, lease, NEXT, until)
            }
            _ => claims.retain(|claim| claim.0 != lease),
        });
    }

    /// Nobody waits for the key any more: what was left to them is free.
    pub fn leave(&mut self, key: &Key, now: StoreTime) {
        self.give_back(key, NEXT, None, now);
    }

    /// Claims whose time is over are none.
    pub fn expire(&mut self, now: StoreTime) {
        while let Some((until, key)) = self.ends.first()
            && *until <= now
        {
            let key = key.clone();
            self.change(&key, now, |_| ());
        }
    }

    /// When the next place comes back by itself.
    pub fn next_end(&self) -> Option<StoreTime> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// How many places are taken.
    pub fn taken(&self) -> usize {
        self.places.len()
    }

    fn change(&mut self, key: &Key, now: StoreTime, change: impl FnOnce(&mut Vec<(u64, StoreTime)>)) {
        let mut claims = self.places.remove(key).unwrap_or_default();
        if let Some(until) = end(&claims) {
            self.ends.remove(&(until, key.clone()));
        }
        claims.retain(|claim| claim.1 > now);
        change(&mut claims);
        if let Some(until) = end(&claims) {
            self.ends.insert((until, key.clone()));
            self.places.insert(key.clone(), claims);
        }
    }
}

/// One claim instead of another, or of an earlier one of the same lease.
fn put(claims: &mut Vec<(u64, StoreTime)>, instead_of: u64, lease: u64, until: StoreTime) {
    claims.retain(|claim| claim.0 != instead_of && claim.0 != lease);
    claims.push((lease, until));
}

/// A place lasts as long as its last claim.
fn end(claims: &[(u64, StoreTime)]) -> Option<StoreTime> {
    claims.iter().map(|claim| claim.1).max()
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

    /// Whether a key stands in it.
    pub fn has(&self, key: &Key) -> bool {
        self.standing.contains_key(key)
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
