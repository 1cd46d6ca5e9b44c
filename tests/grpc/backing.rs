//! What the servers of these tests stand on: the embedded store. The same tests run over others in `grpc_redis` and `grpc_cluster`.

use drover::config::StoreKind;

/// The embedded store needs nothing.
pub struct Backing;

/// Replicas of a test.
pub const REPLICAS: usize = 1;

impl Backing {
    pub fn start() -> Backing {
        Backing
    }

    pub fn store(&self) -> StoreKind {
        StoreKind::Memory
    }
}
