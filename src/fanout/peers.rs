//! The watchers of other replicas, as far as a barrier needs them.
//!
//! *Owns* the question that a barrier asks of other replicas, and what they answer. How it travels is the store's business: it is
//! the only thing that all replicas share.
//!
//! *Invariants.* A replica answers for the watchers that it had once its own log had come up to the places asked about, so that one which
//! subscribed behind them needs no count. A replica that is registered and is not heard counts with every watcher that it last
//! registered for the namespace, and with one at the least: none of them has acknowledged.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::barrier::Barrier;
use super::hub::Hub;
use crate::store::{Answer, Place, Target};

/// How far are your watchers?
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Where.
    pub namespace: Arc<str>,
    /// What was invalidated.
    pub targets: Vec<Target>,
    /// Where the events stand, at most one a partition.
    pub places: Vec<Place>,
    /// Answer when all have acknowledged, or after this.
    pub wait: Duration,
}

/// Asks other replicas.
pub trait Peers: Send + Sync {
    /// Every other replica's answer, and what is known of those that gave none. Takes no longer than the question's `wait`.
    fn ask(&self, question: Question) -> Answer<'_, Vec<Barrier>>;

    /// How many watchers of a namespace each other replica registered last. Without a trip, so a few seconds old.
    fn registered(&self, namespace: &str) -> Vec<u32>;

    /// From now on this one answers for the watchers of this replica, and they are registered.
    fn answer_for(&self, respondent: Arc<dyn Respondent>);
}

/// Answers other replicas.
pub trait Respondent: Send + Sync {
    /// How far the watchers of this replica are, once they are there or the question's `wait` is over.
    fn asked(&self, question: Question) -> Pin<Box<dyn Future<Output = Barrier> + Send>>;

    /// How many watch each namespace, observers aside, those that have left but may trust their copies included: to be registered.
    fn watching(&self) -> Vec<(Arc<str>, u32)>;

    /// Every barrier that begins before this moment counts the watchers of this replica, and for [`MAX_SILENCE`](super::MAX_SILENCE)
    /// longer. After it they are told nothing until the next such promise. A moment that is past: nobody knows of them yet.
    fn known_until(&self, until: Instant);
}

/// How far an invalidation has come at all replicas. Waits as the question says; a `wait` of zero asks nobody else, counts what the
/// others have registered, and confirms nothing.
pub async fn ask_everywhere(hub: &Hub, peers: Option<&dyn Peers>, question: Question) -> Barrier {
    let Some(peers) = peers else {
        return hub.barrier(&question).await;
    };
    if question.wait.is_zero() {
        let unheard = |watchers| Barrier::unheard(watchers as usize);
        let others = peers.registered(&question.namespace).into_iter().map(unheard);
        let all = others.fold(hub.barrier(&question).await, Barrier::and);
        // No other replica was heard, and of those that came since the registrations were read nothing is known.
        return Barrier {
            confirmed: false,
            ..all
        };
    }
    let over = Instant::now() + question.wait;
    let (own, others) = tokio::join!(hub.barrier(&question), peers.ask(question.clone()));
    let all = match others {
        Ok(others) => others.into_iter().fold(own, Barrier::and),
        Err(error) => {
            tracing::warn!(namespace = &*question.namespace, %error, "the watchers of other replicas could not be asked; they count as one that lags");
            own.and(Barrier::unheard(1))
        }
    };
    if !all.confirmed {
        // The others were given less time, for the way. But it is by this time that a client has stopped trusting its copies.
        sleep_until(over).await;
    }
    all
}

/// A hub that answers for its watchers. It does not keep the hub alive.
struct Voice(Weak<Hub>);

impl Hub {
    /// Answers other replicas for the watchers of this one.
    pub fn respondent(self: &Arc<Hub>) -> Arc<dyn Respondent> {
        Arc::new(Voice(Arc::downgrade(self)))
    }
}

impl Respondent for Voice {
    fn asked(&self, question: Question) -> Pin<Box<dyn Future<Output = Barrier> + Send>> {
        let hub = self.0.upgrade();
        Box::pin(async move {
            match hub {
                Some(hub) => hub.barrier(&question).await,
                // Its streams have ended, and nobody remembers how long ago.
                None => Barrier::unheard(1),
            }
        })
    }

    fn watching(&self) -> Vec<(Arc<str>, u32)> {
        // Of a hub that is gone nobody remembers whose clients trust what they have.
        let forgotten = || vec![(Arc::from(""), 1)];
        self.0.upgrade().map_or_else(forgotten, |hub| hub.trusting())
    }

    fn known_until(&self, until: Instant) {
        if let Some(hub) = self.0.upgrade() {
            hub.known_until(until);
        }
    }
}
