//! Whether this replica should be asked, told twice: as `grpc.health.v1` to clients, and as `/readyz` to whoever routes to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::proto;

/// What a replica is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The store has not answered yet.
    Starting,
    /// Ask it.
    Serving,
    /// It is about to leave.
    Draining,
}

impl Phase {
    /// As `/readyz` says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Starting => "starting: the store has not answered yet",
            Phase::Serving => "serving",
            Phase::Draining => "draining: this replica is about to leave",
        }
    }
}

/// The phase, shared by those who tell it.
#[derive(Clone, Debug)]
pub(super) struct Readiness {
    phase: Arc<AtomicU8>,
    health: HealthReporter,
}

/// The names that a client may ask about: the whole, and each service.
const NAMES: [&str; 3] = [
    "",
    proto::coordinator_service_server::SERVICE_NAME,
    proto::admin_service_server::SERVICE_NAME,
];

impl Readiness {
    pub(super) async fn starting() -> Readiness {
        let readiness = Readiness {
            phase: Arc::new(AtomicU8::new(Phase::Starting as u8)),
            health: HealthReporter::new(),
        };
        readiness.tell(ServingStatus::NotServing).await;
        readiness
    }

    /// The service that answers for it.
    pub(super) fn service(&self) -> tonic_health::server::HealthService {
        tonic_health::server::HealthService::from_health_reporter(self.health.clone())
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    /// The store has answered. Does nothing once it is draining: a slow start never calls back those who were sent away.
    pub(super) async fn serving(&self) {
        let (starting, serving) = (Phase::Starting as u8, Phase::Serving as u8);
        let turned = self
            .phase
            .compare_exchange(starting, serving, Ordering::AcqRel, Ordering::Acquire);
        if turned.is_ok() {
            self.tell(ServingStatus::Serving).await;
            // A drain that began between the two has told NOT_SERVING before us: tell it again.
            if self.phase() == Phase::Draining {
                self.tell(ServingStatus::NotServing).await;
            }
        }
    }

    /// This replica leaves. Told once: who watches the health hears each telling.
    pub(super) async fn draining(&self) {
        let before = self.phase.swap(Phase::Draining as u8, Ordering::AcqRel);
        if before != Phase::Draining as u8 {
            self.tell(ServingStatus::NotServing).await;
        }
    }

    /// Ends the streams of those who watch the health; they hold their connections open otherwise.
    pub(super) async fn close(&mut self) {
        for name in NAMES {
            self.health.clear_service_status(name).await;
        }
    }

    async fn tell(&self, status: ServingStatus) {
        for name in NAMES {
            self.health.set_service_status(name, status).await;
        }
    }
}
