//! A drover in miniature for the tests of its callers, over an in-process connection: paused time works with it.
//!
//! One lease a key, parked callers, stale-while-revalidate, fencing of late reports; no more than the lab's callers touch.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout_at};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::task::TaskTracker;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status, Streaming};

use super::client::{Client, proto_duration};
use crate::config::Policies;
use crate::coordinator::{Coordinator, Dice};
use crate::fanout::{Hub, HubLimits};
use crate::metrics::Metrics;
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::coordinator_service_server::{CoordinatorService, CoordinatorServiceServer};
use crate::proto::hit::Content;
use crate::proto::report_value_request::Outcome;
use crate::proto::*;
use crate::rpc::CoordinatorRpc;
use crate::store::Store as _;
use crate::store::memory::{Limits, Memory};

/// The length of its leases.
pub const LEASE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct Key {
    token: i64,
    lease: Option<String>,
    value: Option<(Bytes, Instant)>,
}

/// What it remembers, and what it was asked.
#[derive(Debug, Default)]
pub struct Fake {
    keys: Mutex<HashMap<String, Key>>,
    changed: Notify,
    /// So many calls are answered UNAVAILABLE before it works.
    pub unavailable: AtomicU64,
    /// Renewals so far.
    pub renewals: AtomicU64,
    /// Whether fallbacks are for failures only.
    pub fallback_on_failure_only: std::sync::atomic::AtomicBool,
}

/// The fake and a client of it.
pub async fn start() -> (Arc<Fake>, Arc<Client>) {
    let fake = Arc::new(Fake::default());
    let client = client_of(fake.clone()).await;
    (fake, client)
}

/// A client of a real coordinator over an empty store, where workers are given refreshes.
pub async fn real() -> Arc<Client> {
    let store = Memory::new(Limits::default());
    let hub = Hub::new(store.feed(), HubLimits::default());
    let coordinator = Coordinator::new(store, Policies::default(), hub, Dice::seeded(1), 1_000);
    TaskTracker::new().spawn(coordinator.clone().refresh());
    client_of(Arc::new(CoordinatorRpc::new(coordinator, Metrics::detached()))).await
}

async fn client_of(service: Arc<impl CoordinatorService>) -> Arc<Client> {
    let (send, incoming) = mpsc::unbounded_channel();
    let incoming = UnboundedReceiverStream::new(incoming).map(Ok::<_, std::io::Error>);
    let service = CoordinatorServiceServer::from_arc(service);
    TaskTracker::new().spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
    let askers = vec![channel(&send).await, channel(&send).await];
    Arc::new(Client::over(askers, channel(&send).await, "lab"))
}

async fn channel(send: &mpsc::UnboundedSender<tokio::io::DuplexStream>) -> Channel {
    let send = send.clone();
    let connector = tower::service_fn(move |_| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let sent = send.send(theirs).map_err(std::io::Error::other);
        async move { sent.map(|()| TokioIo::new(ours)) }
    });
    Endpoint::from_static("http://fake")
        .connect_with_connector(connector)
        .await
        .unwrap()
}

impl Fake {
    fn available(&self) -> Result<(), Status> {
        let left = self
            .unavailable
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_ok() {
            Err(Status::unavailable("not yet"))
        } else {
            Ok(())
        }
    }

    fn decide(&self, name: &str) -> Option<Decision> {
        let (mut keys, now) = (self.keys.lock(), Instant::now());
        let key = keys.entry(name.to_owned()).or_default();
        let hit = key.value.as_ref().map(|(bytes, until)| Hit {
            freshness: if *until > now {
                Freshness::Fresh
            } else {
                Freshness::Stale
            }
            .into(),
            content: Some(Content::Value(bytes.clone())),
            ..Default::default()
        });
        match (hit, &key.lease) {
            (Some(hit), _) if hit.freshness == i32::from(Freshness::Fresh) => Some(Decision::Hit(hit)),
            (Some(hit), Some(_)) => Some(Decision::Hit(hit)),
            (None, Some(_)) => None,
            (fallback, None) => {
                key.token += 1;
                let lease_id = format!("{name}#{}", key.token);
                key.lease = Some(lease_id.clone());
                Some(Decision::Rebuild(Rebuild {
                    lease: Some(Lease {
                        lease_id,
                        fencing_token: key.token,
                        ttl: proto_duration(LEASE),
                        max_hold: None,
                    }),
                    fallback,
                    fallback_on_failure_only: self.fallback_on_failure_only.load(Ordering::Relaxed),
                    ..Default::default()
                }))
            }
        }
    }
}

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl CoordinatorService for Fake {
    async fn acquire_rebuild(
        &self,
        request: Request<AcquireRebuildRequest>,
    ) -> Result<Response<AcquireRebuildResponse>, Status> {
        self.available()?;
        let request = request.into_inner();
        let wait = request
            .wait
            .and_then(|wait| Duration::try_from(wait).ok())
            .unwrap_or_default();
        let until = Instant::now() + wait;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let decision = match self.decide(&request.key) {
                Some(decision) => decision,
                None if timeout_at(until, changed).await.is_ok() => continue,
                None => Decision::Busy(Busy::default()),
            };
            return Ok(Response::new(AcquireRebuildResponse {
                decision: Some(decision),
                ..Default::default()
            }));
        }
    }

    async fn renew_lease(&self, request: Request<RenewLeaseRequest>) -> Result<Response<RenewLeaseResponse>, Status> {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        let request = request.into_inner();
        let renewed = self
            .keys
            .lock()
            .get(&request.key)
            .is_some_and(|key| key.lease.as_ref() == Some(&request.lease_id));
        Ok(Response::new(RenewLeaseResponse {
            renewed,
            ttl: proto_duration(LEASE),
            ..Default::default()
        }))
    }

    async fn report_value(
        &self,
        request: Request<ReportValueRequest>,
    ) -> Result<Response<ReportValueResponse>, Status> {
        self.available()?;
        let request = request.into_inner();
        let mut keys = self.keys.lock();
        let key = keys.entry(request.key).or_default();
        if key.lease.as_ref() != Some(&request.lease_id) {
            let rejection = Rejection::Invalidated.into();
            return Ok(Response::new(ReportValueResponse {
                rejection,
                ..Default::default()
            }));
        }
        key.lease = None;
        let fresh = request.ttl.and_then(|ttl| ttl.fresh_ttl);
        if let Some(Outcome::Value(bytes)) = request.outcome {
            let lives = fresh
                .and_then(|fresh| Duration::try_from(fresh).ok())
                .unwrap_or(Duration::from_secs(300));
            key.value = Some((bytes, Instant::now() + lives));
        }
        self.changed.notify_waiters();
        let expiry = Some(Expiry {
            fresh_for: fresh,
            ..Default::default()
        });
        Ok(Response::new(ReportValueResponse {
            accepted: true,
            version: key.token,
            expiry,
            ..Default::default()
        }))
    }

    async fn invalidate(&self, request: Request<InvalidateRequest>) -> Result<Response<InvalidateResponse>, Status> {
        for name in request.into_inner().keys {
            let mut keys = self.keys.lock();
            let key = keys.entry(name).or_default();
            (key.lease, key.value) = (None, None);
            key.token += 1;
        }
        self.changed.notify_waiters();
        Ok(Response::new(InvalidateResponse::default()))
    }

    type WatchStream = Events<WatchResponse>;
    async fn watch(&self, _: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("watch"))
    }

    type PullRefreshesStream = Events<PullRefreshesResponse>;
    async fn pull_refreshes(
        &self,
        _: Request<Streaming<PullRefreshesRequest>>,
    ) -> Result<Response<Self::PullRefreshesStream>, Status> {
        Err(Status::unimplemented("pull_refreshes"))
    }

    async fn schedule_refresh(
        &self,
        _: Request<ScheduleRefreshRequest>,
    ) -> Result<Response<ScheduleRefreshResponse>, Status> {
        Err(Status::unimplemented("schedule_refresh"))
    }
}
