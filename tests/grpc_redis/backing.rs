//! What the servers of these tests stand on: one Redis, and two replicas that are asked in turn.

use std::sync::{Mutex, Weak};

use drover::config::StoreKind;

use crate::redis::Server;
use crate::shared::Place;

pub struct Backing(Place<Server>);

/// Replicas of a test.
pub const REPLICAS: usize = 2;

static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());

impl Backing {
    pub fn start() -> Backing {
        Backing(Place::take(&RUNNING, Server::start))
    }

    pub fn store(&self) -> StoreKind {
        self.0.store(Server::url)
    }
}
