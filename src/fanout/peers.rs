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
use std::sync::Arc;
use std::time::Duration;

use super::barrier::Barrier;
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
    /// Every other replica's answer, and what is known of those that gave none. Takes little longer than the question's `wait`.
    fn ask(&self, question: Question) -> Answer<'_, Vec<Barrier>>;

    /// From now on this one answers for the watchers of this replica.
    fn answer_for(&self, respondent: Arc<dyn Respondent>);
}

/// Answers other replicas.
pub trait Respondent: Send + Sync {
    /// How far the watchers of this replica are, once they are there or the question's `wait` is over.
    fn asked(&self, question: Question) -> Pin<Box<dyn Future<Output = Barrier> + Send>>;

    /// How many watch each namespace, observers aside, those that have left but may trust their copies included: to be registered.
    fn watching(&self) -> Vec<(Arc<str>, u32)>;
}
