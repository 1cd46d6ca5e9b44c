//! The shared store keeps what every store promises.

use std::sync::Arc;

use drover::store::Store;
use drover::store::conformance::Harness;

use crate::support::Cluster;
use crate::world::{Replica, World};

struct Shared {
    replica: Replica,
    _world: Box<dyn Send + Sync>,
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
        Shared {
            replica,
            _world: Box::new(world),
        }
    }

    /// Three primaries.
    async fn on_a_cluster() -> Shared {
        let cluster = Cluster::start(0);
        let replica = Replica::at(&cluster.url()).await;
        Shared {
            replica,
            _world: Box::new(cluster),
        }
    }
}

mod cluster {
    use super::Shared;

    drover::store_conformance!(Shared::on_a_cluster(), #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);
    drover::store_conformance!(@schedule Shared::on_a_cluster(), #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);
}

mod single {
    use super::Shared;

    drover::store_conformance!(Shared::on_one_server(), #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);
    drover::store_conformance!(@schedule Shared::on_one_server(), #[tokio::test(flavor = "multi_thread", worker_threads = 2)]);
}
