//! Callers that are parked: one queue a key, oldest first.
//!
//! *Owns* who waits for which key at this replica. *Never* decides what they get: [`flight`](super::flight) asks `decision` for that.
//!
//! *Invariants.* A key has a flight if and only if a task looks after it; the task ends only by taking the flight out of the table
//! while its queue is empty, under the table's lock, so a caller is never parked in a queue that nobody looks after. Queues are
//! bounded a key (policy) and in total.

mod queue;

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::DefaultHashBuilder;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::queue::{Farewell, Reply, Waiter};
use self::queue::{Queue, is_unseen};
use super::Error;
use crate::decision::{Answer, Grant, Intent, Key, Seq};

const SHARDS: usize = 16;
/// So many callers are looked at while a queue is held.
const STEP: usize = 256;

/// What is under way for the keys of one shard.
#[derive(Default)]
struct Shard {
    flights: HashMap<Key, Arc<Flight>, DefaultHashBuilder>,
    /// Keys for which a newcomer's grant is on its way to a store that costs a trip.
    granting: HashSet<Key, DefaultHashBuilder>,
}

/// All flights of a replica.
pub struct Flights {
    shards: Box<[Mutex<Shard>]>,
    hasher: DefaultHashBuilder,
    parked: AtomicUsize,
    most: usize,
}

/// The parked callers of one key.
pub struct Flight {
    /// Which.
    pub key: Key,
    /// Rings when there is something to look at.
    bell: Notify,
    queue: Mutex<Queue>,
}

/// What becomes of a parked caller that was looked at.
pub enum Judgement {
    /// It goes on waiting, for the lease with this number.
    Stays(Seq),
    /// It is not its turn yet.
    Later,
    /// It has its answer.
    Gets(Reply),
    /// It may rebuild, if the store takes the grant.
    Promote(Box<Grant>),
    /// Another try at its question has the lease: it gets the same, if the store takes note of that.
    TakeAgain(Answer),
}

/// How far a walk through a queue came.
pub enum Walk {
    /// To the end.
    Done,
    /// It goes on with this ticket.
    GoesOn(u64),
    /// To a caller that may rebuild.
    Promote(u64, Box<Grant>),
    /// To a caller whose other try has the lease.
    TakeAgain(u64, Answer),
}

/// A place in a queue, for one try at a question.
pub struct Place {
    /// Of which flight.
    pub flight: Arc<Flight>,
    ticket: u64,
    attempt: u64,
}

/// The right to try for a lease that no other newcomer of this replica tries for. It ends when it is dropped; then those who have
/// parked behind are looked after.
pub struct Turn(Option<(Arc<Flights>, Key)>);

/// What became of an attempt to park.
pub enum Parking {
    /// In the queue; `true`: the flight is new and needs a task.
    Parked(Place, bool),
    /// The key has as many as its policy allows.
    KeyFull,
}

impl Flights {
    /// None yet, and never more than `most` parked callers.
    pub fn new(most: usize) -> Flights {
        Flights {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: DefaultHashBuilder::default(),
            parked: AtomicUsize::new(0),
            most,
        }
    }

    /// The most that it parks.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Callers parked at this replica.
    pub fn parked(&self) -> usize {
        self.parked.load(Ordering::Relaxed)
    }

    /// Callers parked for a key.
    pub fn parked_for(&self, key: &Key) -> usize {
        self.get(key).map_or(0, |flight| flight.queue.lock().waiters.len())
    }

    /// Whether anybody is parked for a key who may rebuild it.
    pub fn has_heirs(&self, key: &Key) -> bool {
        let may_rebuild = |waiter: &Waiter| waiter.ask.intent != Intent::Read;
        self.get(key)
            .is_some_and(|flight| flight.queue.lock().waiters.values().any(may_rebuild))
    }

    /// Callers parked, by namespace.
    pub fn census(&self) -> HashMap<String, u64> {
        let mut counts = HashMap::new();
        for shard in &self.shards {
            for (key, flight) in &shard.lock().flights {
                *counts.entry(key.namespace().to_owned()).or_default() += flight.queue.lock().waiters.len() as u64;
            }
        }
        counts
    }

    /// The flight of a key.
    pub fn get(&self, key: &Key) -> Option<Arc<Flight>> {
        self.shard(key).lock().flights.get(key).cloned()
    }

    /// Rings for a key, if anybody is parked for it.
    pub fn ring(&self, key: &Key) {
        if let Some(flight) = self.shard(key).lock().flights.get(key) {
            flight.ring();
        }
    }

    /// Rings for all of these that anybody is parked for; in the order of the keys, as a simulation must not depend on a hasher.
    pub fn ring_all(&self, of: impl Fn(&Key) -> bool) {
        let mut flights: Vec<Arc<Flight>> = Vec::new();
        for shard in &self.shards {
            flights.extend(shard.lock().flights.values().filter(|flight| of(&flight.key)).cloned());
        }
        flights.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        flights.iter().for_each(|flight| flight.ring());
    }

    /// Whether a newcomer may try for the lease of a key: nobody is parked for it, and no other newcomer tries.
    pub fn is_free(&self, key: &Key) -> bool {
        self.shard(key).lock().is_free(key)
    }

    /// A newcomer's turn to try for the lease of a key, if it may. `exclusive`: others are to stand behind until it ends, which saves
    /// them a trip each; where there is no trip to be saved, the store's comparison is enough.
    pub fn turn(self: &Arc<Self>, key: &Key, exclusive: bool) -> Option<Turn> {
        let mut shard = self.shard(key).lock();
        if !shard.is_free(key) {
            return None;
        }
        if !exclusive {
            return Some(Turn::free());
        }
        shard.granting.insert(key.clone());
        Some(Turn(Some((self.clone(), key.clone()))))
    }

    /// Whether a newcomer's grant is under way.
    pub fn is_granting(&self, key: &Key) -> bool {
        self.shard(key).lock().granting.contains(key)
    }

    /// Parks a caller at the end of its key's queue, or in the place of the try that it repeats.
    pub fn park(&self, key: &Key, mut waiter: Waiter, most_of_key: usize) -> Result<Parking, Error> {
        let mut shard = self.shard(key).lock();
        let known = shard.flights.get(key).cloned();
        let is_new = known.is_none();
        let flight = known.unwrap_or_else(|| Flight::new(key));
        let mut queue = flight.queue.lock();
        let on = waiter.on;
        if on == queue.current {
            waiter.waits_on(on);
        }
        let replaced = queue.place_of(&waiter);
        if replaced.is_none() {
            if queue.waiters.len() >= most_of_key {
                return Ok(Parking::KeyFull);
            }
            if self.parked.fetch_add(1, Ordering::Relaxed) >= self.most {
                self.parked.fetch_sub(1, Ordering::Relaxed);
                return Err(Error::Overloaded {
                    what: "too many callers are parked at this replica",
                    retry_after: super::RETRY_SOON,
                });
            }
        }
        let (ticket, attempt) = queue.take_in(waiter, replaced);
        if !queue.quiet && is_unseen(on, queue.current) {
            flight.ring();
        }
        drop(queue);
        if is_new {
            shard.flights.insert(key.clone(), flight.clone());
        }
        Ok(Parking::Parked(
            Place {
                flight,
                ticket,
                attempt,
            },
            is_new,
        ))
    }

    /// Takes a caller out of its queue; `None`: it has its answer already.
    pub fn leave(&self, place: &Place) -> Option<Waiter> {
        let mut queue = place.flight.queue.lock();
        queue
            .waiters
            .get(&place.ticket)
            .filter(|waiter| waiter.attempt == place.attempt)?;
        let waiter = queue.take_out(place.ticket)?;
        self.parked.fetch_sub(1, Ordering::Relaxed);
        if queue.waiters.is_empty() {
            place.flight.ring();
        }
        Some(waiter)
    }

    /// Takes the flight out of the table if nobody is parked in it any more.
    pub fn close(&self, flight: &Arc<Flight>) -> bool {
        let mut shard = self.shard(&flight.key).lock();
        let empty = flight.queue.lock().waiters.is_empty();
        if empty {
            let flights = &mut shard.flights;
            flights.remove(&flight.key);
            if flights.is_empty() && flights.capacity() > 1_024 {
                flights.shrink_to_fit();
            }
        }
        empty
    }

    fn shard(&self, key: &Key) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

impl Shard {
    fn is_free(&self, key: &Key) -> bool {
        !self.granting.contains(key) && self.flights.get(key).is_none_or(|flight| flight.len() == 0)
    }
}

impl Turn {
    /// One that others need not stand behind.
    pub fn free() -> Turn {
        Turn(None)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((flights, key)) = self.0.take() {
            let mut shard = flights.shard(&key).lock();
            shard.granting.remove(&key);
            if let Some(flight) = shard.flights.get(&key) {
                flight.ring();
            }
        }
    }
}

impl Flight {
    fn new(key: &Key) -> Arc<Flight> {
        Arc::new(Flight {
            key: key.clone(),
            bell: Notify::new(),
            queue: Mutex::new(Queue::new()),
        })
    }

    /// There is something to look at.
    pub fn ring(&self) {
        self.bell.notify_one();
    }

    /// Until it rings.
    pub async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Callers parked.
    pub fn len(&self) -> usize {
        self.queue.lock().waiters.len()
    }

    /// Begins a look: those parked now have smaller tickets. Whoever parks from now on need not ring until it is said what was
    /// [seen](Flight::saw); a look that sees nothing is repeated soon.
    pub fn cohort(&self) -> u64 {
        let mut queue = self.queue.lock();
        queue.quiet = true;
        queue.next_ticket + 1
    }

    /// Ends it: takes note of the lease that a load has shown. `true`: somebody has parked since `cohort` who waits for something
    /// else, so that this load says nothing about it. Whoever has parked since for this very lease waits for it for certain, as if it had come
    /// after the load: how the lease ends, this replica has not heard before.
    pub fn saw(&self, current: Seq, cohort: u64) -> bool {
        let mut queue = self.queue.lock();
        (queue.current, queue.quiet) = (current, false);
        let mut says_nothing = false;
        for (_, waiter) in queue.waiters.range_mut(cohort..) {
            if is_unseen(waiter.on, current) {
                says_nothing = true;
            } else {
                waiter.waits_on(current);
            }
        }
        says_nothing
    }

    /// Ends it without having seen anything: what an earlier one saw may be over.
    pub fn saw_nothing(&self) {
        self.queue.lock().current = Seq::NONE;
    }

    /// Looks at the callers from `from` to before `end`, oldest first and a bounded number at a time, and does with each what
    /// `judge` says. It holds the queue while it does.
    pub fn walk(
        &self,
        flights: &Flights,
        from: u64,
        end: u64,
        mut judge: impl FnMut(&mut Waiter) -> Judgement,
    ) -> Walk {
        let mut queue = self.queue.lock();
        let step: Vec<u64> = queue
            .waiters
            .range(from..end)
            .take(STEP)
            .map(|(ticket, _)| *ticket)
            .collect();
        let full = step.len() == STEP;
        let mut next = from;
        for ticket in step {
            let Some(waiter) = queue.waiters.get_mut(&ticket) else {
                continue;
            };
            match judge(waiter) {
                Judgement::Stays(on) => waiter.waits_on(on),
                Judgement::Later => {}
                Judgement::Promote(decision) => return Walk::Promote(ticket, decision),
                Judgement::TakeAgain(answer) => return Walk::TakeAgain(ticket, answer),
                Judgement::Gets(reply) => {
                    if let Some(waiter) = queue.take_out(ticket) {
                        flights.parked.fetch_sub(1, Ordering::Relaxed);
                        let _ = waiter.reply.send(reply);
                    }
                }
            }
            next = ticket + 1;
        }
        if full { Walk::GoesOn(next) } else { Walk::Done }
    }

    /// Gives a caller its answer. `false`: it is not there any more.
    pub fn answer(&self, flights: &Flights, ticket: u64, reply: Reply) -> bool {
        let Some(waiter) = self.queue.lock().take_out(ticket) else {
            return false;
        };
        flights.parked.fetch_sub(1, Ordering::Relaxed);
        waiter.reply.send(reply).is_ok()
    }
}
