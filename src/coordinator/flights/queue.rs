//! The callers that are parked for one key, oldest first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::decision::{Answer, Ask, Seq};
use crate::store::{Bytes, Snapshot, StoreError};

/// A question that may be asked again: whose, and its name. Callers that count their questions use the same names.
type Question = (Arc<str>, Arc<str>);

/// Who is parked, and what their task knows.
#[derive(Default)]
pub(super) struct Queue {
    pub next_ticket: u64,
    next_attempt: u64,
    /// The lease that the flight's task last saw; none, if it saw none.
    pub current: Seq,
    /// The task is looking, or knows when it will: whoever parks meanwhile need not ring.
    pub quiet: bool,
    pub waiters: BTreeMap<u64, Waiter>,
    /// Of the callers that may retry: a retry takes the place of its first try.
    by_request: HashMap<Question, u64>,
}

/// A parked caller.
pub struct Waiter {
    /// Its question.
    pub ask: Ask,
    /// The number of the lease that it waits for.
    pub on: Seq,
    /// The lowest number that the next grant can have had when this caller was looked at and nobody had the lease; none: it was not.
    next: Seq,
    /// Which try at the question this is, within the flight.
    pub(super) attempt: u64,
    /// Where its answer goes.
    pub(super) reply: oneshot::Sender<Reply>,
}

/// How a wait ends.
pub enum Reply {
    /// With an answer.
    Answer(Answer, Option<Bytes>),
    /// With a new lease; and the entry from which it is to be given back if the caller has left.
    Lease(Answer, Option<Bytes>, Arc<Snapshot>),
    /// A retry of the same question has taken the place.
    Replaced,
    /// Nobody is parked here any more.
    Farewell(Farewell),
}

/// Why nobody is parked here any more.
#[derive(Clone, Debug)]
pub enum Farewell {
    /// This replica is about to leave.
    Draining,
    /// The store does not answer: it is decided elsewhere.
    Lost(StoreError),
    /// The store answers again: ask there.
    Back,
}

/// Whether somebody who waits for `on` must be looked at although the last load has shown `current`. Whoever waits for no lease stands
/// behind others and may be the next, whatever that load has shown.
pub(super) fn is_unseen(on: Seq, current: Seq) -> bool {
    on != current || on == Seq::NONE
}

impl Waiter {
    /// A caller with a question that is to wait for a lease, and where its answer goes. `is_held`: it is known that somebody has it.
    pub fn new(ask: Ask, on: Seq, is_held: bool) -> (Waiter, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        let mut waiter = Waiter {
            ask,
            on,
            next: Seq::NONE,
            attempt: 0,
            reply,
        };
        if is_held {
            waiter.waits_on(on);
        }
        (waiter, answer)
    }

    /// It waits for this lease for certain: then the value that ends it is for this caller, whenever it is looked at.
    pub(super) fn waits_on(&mut self, on: Seq) {
        self.on = on;
        if on.is_some() {
            self.ask.parked_on.get_or_insert(on);
        }
    }

    /// It is looked at while the newest grant is this one, and `held` says whether that lives. A grant that has come since it was looked at
    /// before is one on which it was parked, whether or not this replica ever saw it live: it may have ended, at another one, between two looks.
    pub fn is_looked_at(&mut self, newest: Seq, held: bool) {
        if self.next.is_some() && newest >= self.next {
            self.ask.parked_on.get_or_insert(self.next);
        } else if !self.next.is_some() && !held {
            self.next = Seq(newest.0.saturating_add(1));
        }
    }

    /// By which its retries know it; `None`: they cannot.
    fn question(&self) -> Option<Question> {
        let named = !self.ask.request_id.is_empty();
        named.then(|| (self.ask.holder.clone(), self.ask.request_id.clone()))
    }

    /// Whether it has left without a word.
    pub fn is_gone(&self) -> bool {
        self.reply.is_closed()
    }
}

impl Queue {
    /// Nobody yet. Its task will begin with a look.
    pub(super) fn new() -> Queue {
        Queue {
            quiet: true,
            ..Queue::default()
        }
    }

    /// Where the first try of this caller's question is parked.
    pub(super) fn place_of(&self, waiter: &Waiter) -> Option<u64> {
        self.by_request.get(&waiter.question()?).copied()
    }

    /// The ticket is the place in the queue; the attempt tells a retry from its first try, which must not find it there.
    pub(super) fn take_in(&mut self, mut waiter: Waiter, replaces: Option<u64>) -> (u64, u64) {
        self.next_attempt += 1;
        waiter.attempt = self.next_attempt;
        let ticket = match replaces {
            Some(place) => place,
            None => {
                self.next_ticket += 1;
                self.next_ticket
            }
        };
        if let Some(first) = self.take_out(ticket) {
            waiter.ask.parked_on = first.ask.parked_on.or(waiter.ask.parked_on);
            waiter.next = first.next;
            let _ = first.reply.send(Reply::Replaced);
        }
        if let Some(question) = waiter.question() {
            self.by_request.insert(question, ticket);
        }
        let attempt = waiter.attempt;
        self.waiters.insert(ticket, waiter);
        (ticket, attempt)
    }

    pub(super) fn take_out(&mut self, ticket: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&ticket)?;
        if let Some(question) = waiter.question() {
            self.by_request.remove(&question);
        }
        Some(waiter)
    }
}
