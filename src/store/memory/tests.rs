//! The embedded store keeps what every store promises, alone and behind [`Faulty`](crate::store::faulty::Faulty) without faults.

use std::sync::Arc;

use super::{Limits, Memory};
use crate::store::Store;
use crate::store::conformance::Harness;
use crate::store::faulty::Faulty;

struct Embedded(Arc<dyn Store>);

impl Harness for Embedded {
    fn store(&self) -> &Arc<dyn Store> {
        &self.0
    }
}

impl Embedded {
    async fn start() -> Embedded {
        Embedded(Memory::new(Limits::default()))
    }

    async fn behind_a_faulty_one() -> Embedded {
        Embedded(Faulty::new(Memory::new(Limits::default()), 1))
    }
}

mod alone {
    use super::Embedded;

    crate::store_conformance!(Embedded::start(), #[tokio::test(start_paused = true)]);
    crate::store_conformance!(@schedule Embedded::start(), #[tokio::test(start_paused = true)]);
}

mod without_faults {
    use super::Embedded;

    crate::store_conformance!(@in_turn Embedded::behind_a_faulty_one(), #[tokio::test(start_paused = true)]);
    crate::store_conformance!(@schedule Embedded::behind_a_faulty_one(), #[tokio::test(start_paused = true)]);
}
