//! What the servers of these tests stand on: a Cluster of three, and two replicas that are asked in turn.

use std::sync::{Mutex, Weak};

use drover::config::StoreKind;

use crate::redis::Cluster;
use crate::shared::Place;

pub struct Backing(Place<Cluster>);

/// Replicas of a test.
pub const REPLICAS: usize = 2;

static RUNNING: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

impl Backing {
    pub fn start() -> Backing {
        Backing(Place::take(&RUNNING, || Cluster::start(0)))
    }

    pub fn store(&self) -> StoreKind {
        self.0.store(Cluster::url)
    }
}
