//! Replicas that share a Redis, asked over gRPC.

use std::sync::Arc;
use std::time::Duration;

use drover::config::{PolicySet, RedisSettings, Settings, StoreKind};
use drover::decision::Policy;
use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::coordinator_service_client::CoordinatorServiceClient;
use drover::proto::report_value_request::Outcome;
use drover::proto::{AcquireRebuildRequest, AcquireRebuildResponse, Lifetimes, ReportValueRequest};
use drover::server::{Running, start};
use tonic::transport::{Channel, Endpoint};

use crate::support::Server;

pub type Calls = CoordinatorServiceClient<Channel>;

pub struct Fleet {
    pub server: Server,
    pub replicas: Vec<Running>,
}

impl Fleet {
    pub async fn of(count: usize) -> Fleet {
        Fleet::over(Server::start(), count).await
    }

    /// With another policy for every namespace.
    pub async fn with(count: usize, change: impl FnOnce(&mut Policy)) -> Fleet {
        let mut policy = Policy::default();
        change(&mut policy);
        let policies = PolicySet {
            defaults: Arc::new(policy),
            ..PolicySet::default()
        };
        Fleet::under(Server::start(), count, policies).await
    }

    pub async fn over(server: Server, count: usize) -> Fleet {
        Fleet::under(server, count, PolicySet::default()).await
    }

    async fn under(server: Server, count: usize, policies: PolicySet) -> Fleet {
        let mut replicas = Vec::new();
        for _ in 0..count {
            let mut redis = RedisSettings::at(&server.url()).expect("a store's URL");
            // Ten thousand callers in one process, unoptimized: this is about trips, not about time.
            redis.timeout = Duration::from_secs(5);
            let settings = Settings {
                store: StoreKind::Redis(Box::new(redis)),
                policies: policies.clone(),
                drain_timeout: Duration::from_secs(2),
                ..Settings::ephemeral()
            };
            replicas.push(start(settings).await.expect("free ports"));
        }
        let fleet = Fleet { server, replicas };
        for replica in 0..count {
            fleet.serves(replica).await;
        }
        fleet
    }

    /// Waits until a replica says that it serves.
    async fn serves(&self, replica: usize) {
        let mut health = tonic_health::pb::health_client::HealthClient::new(self.channel(replica).await);
        for _ in 0..1_000 {
            let asked = tonic_health::pb::HealthCheckRequest::default();
            if health
                .check(asked)
                .await
                .is_ok_and(|answer| answer.into_inner().status == 1)
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("replica {replica} does not serve");
    }

    async fn channel(&self, replica: usize) -> Channel {
        let address = format!("http://{}", self.replicas[replica].grpc);
        Endpoint::from_shared(address)
            .expect("an address")
            .connect()
            .await
            .expect("it listens")
    }

    /// A connection of one's own to a replica.
    pub async fn calls(&self, replica: usize) -> Calls {
        Calls::new(self.channel(replica).await)
    }

    /// Reports a value that lives so long. Whether it was accepted.
    pub async fn report_for(&self, calls: &Calls, key: &str, lease: &str, fresh: Duration) -> bool {
        let request = ReportValueRequest {
            ttl: Some(Lifetimes {
                fresh_ttl: prost_types::Duration::try_from(fresh).ok(),
                stale_while_revalidate: Some(prost_types::Duration::default()),
                stale_if_error: Some(prost_types::Duration::default()),
            }),
            ..value(key, lease, "value")
        };
        let answer = calls.clone().report_value(request).await;
        answer.expect("an answer").into_inner().accepted
    }
}

/// An answer that is to be a grant.
pub trait Granted {
    /// The lease's id.
    fn granted(self) -> String;
}

impl Granted for AcquireRebuildResponse {
    fn granted(self) -> String {
        match self.decision {
            Some(Decision::Rebuild(rebuild)) => rebuild.lease.expect("a lease").lease_id,
            other => panic!("not granted: {other:?}"),
        }
    }
}

pub async fn acquire(calls: &Calls, key: &str) -> AcquireRebuildResponse {
    let question = AcquireRebuildRequest {
        namespace: "shop".to_owned(),
        key: key.to_owned(),
        ..Default::default()
    };
    calls
        .clone()
        .acquire_rebuild(question)
        .await
        .expect("an answer")
        .into_inner()
}

pub async fn report(calls: &Calls, key: &str, lease: &str, bytes: &str) -> bool {
    let answer = calls.clone().report_value(value(key, lease, bytes)).await;
    answer.expect("an answer").into_inner().accepted
}

fn value(key: &str, lease: &str, bytes: &str) -> ReportValueRequest {
    ReportValueRequest {
        namespace: "shop".to_owned(),
        key: key.to_owned(),
        lease_id: lease.to_owned(),
        outcome: Some(Outcome::Value(bytes.as_bytes().to_vec().into())),
        ..Default::default()
    }
}
