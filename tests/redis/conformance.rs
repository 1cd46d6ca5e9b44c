//! The shared store keeps what every store promises.

use std::sync::Arc;

use drover::store::Store;
use drover::store::conformance::Harness;

use crate::world::World;

struct Shared {
    world: World,
    store: Arc<dyn Store>,
}

impl Harness for Shared {
    fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

impl Shared {
    async fn on_one_server() -> Shared {
        let world = World::single().await;
        let store = world.replica().await.store;
        Shared { world, store }
    }
}

mod single {
    use super::Shared;

    drover::store_conformance!(Shared::on_one_server(), #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);
}
