//! The shared store keeps what every store promises.

use std::sync::Arc;

use drover::store::Store;
use drover::store::conformance::Harness;

use crate::world::{Replica, World};

struct Shared {
    _world: World,
    replica: Replica,
}

impl Harness for Shared {
    fn store(&self) -> &Arc<dyn Store> {
        &self.replica.store
    }
}

impl Shared {
    async fn on_one_server() -> Shared {
        let world = World::single().await;
        let replica = world.replica().await;
        Shared { _world: world, replica }
    }
}

mod single {
    use super::Shared;

    drover::store_conformance!(Shared::on_one_server(), #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);
    drover::store_conformance!(@schedule Shared::on_one_server(), #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);
}
