//! A server that answers as it is told.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status, Streaming};

use crate::proto::admin_service_server::{AdminService, AdminServiceServer};
use crate::proto::coordinator_service_server::{CoordinatorService, CoordinatorServiceServer};
use crate::proto::watch_request::Kind;
use crate::proto::*;

type Answers<T> = Mutex<VecDeque<Result<T, Status>>>;

/// What one watch connection says, and whether it stays open afterwards.
pub struct Script {
    pub events: Vec<Result<WatchResponse, Status>>,
    pub stays: bool,
}

/// Answers are used up in their order; what has none is UNIMPLEMENTED.
#[derive(Default)]
pub struct Fake {
    pub acquire: Answers<AcquireRebuildResponse>,
    pub renew: Answers<RenewLeaseResponse>,
    pub report: Answers<ReportValueResponse>,
    pub invalidate: Answers<InvalidateResponse>,
    pub describe: Answers<DescribeKeyResponse>,
    pub leases: Answers<ListLeasesResponse>,
    pub namespaces: Answers<ListNamespacesResponse>,
    pub schedule: Answers<ScheduleRefreshResponse>,
    pub watches: Mutex<VecDeque<Script>>,
    /// What came in that answers depend on: subscriptions, acknowledgements, page tokens.
    pub seen: watch::Sender<Vec<String>>,
    /// The deadline of the last acquire.
    pub deadline: Mutex<Option<String>>,
}

/// A running fake; it ends with this.
pub struct Running {
    pub url: String,
    pub fake: Arc<Fake>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn with<T>(answers: impl IntoIterator<Item = Result<T, Status>>) -> Answers<T> {
    Mutex::new(answers.into_iter().collect())
}

fn next<T>(answers: &Answers<T>) -> Result<Response<T>, Status> {
    answers
        .lock()
        .pop_front()
        .unwrap_or_else(|| Err(Status::unimplemented("no answer was prepared")))
        .map(Response::new)
}

impl Fake {
    pub async fn start(self) -> Running {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let fake = Arc::new(self);
        let server = tonic::transport::Server::builder()
            .add_service(CoordinatorServiceServer::from_arc(fake.clone()))
            .add_service(AdminServiceServer::from_arc(fake.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let task = tokio::spawn(async move { server.await.expect("the fake serves until it is dropped") });
        Running { url, fake, task }
    }
}

type Events<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl CoordinatorService for Fake {
    async fn acquire_rebuild(
        &self,
        request: Request<AcquireRebuildRequest>,
    ) -> Result<Response<AcquireRebuildResponse>, Status> {
        let deadline = request
            .metadata()
            .get("grpc-timeout")
            .and_then(|value| value.to_str().ok());
        *self.deadline.lock() = deadline.map(str::to_owned);
        next(&self.acquire)
    }

    async fn renew_lease(&self, _: Request<RenewLeaseRequest>) -> Result<Response<RenewLeaseResponse>, Status> {
        next(&self.renew)
    }

    async fn report_value(&self, _: Request<ReportValueRequest>) -> Result<Response<ReportValueResponse>, Status> {
        next(&self.report)
    }

    async fn invalidate(&self, _: Request<InvalidateRequest>) -> Result<Response<InvalidateResponse>, Status> {
        next(&self.invalidate)
    }

    type WatchStream = Events<WatchResponse>;

    async fn watch(&self, request: Request<Streaming<WatchRequest>>) -> Result<Response<Self::WatchStream>, Status> {
        let Some(script) = self.watches.lock().pop_front() else {
            return Err(Status::permission_denied("no watch was prepared"));
        };
        let mut requests = request.into_inner();
        if let Some(Kind::Subscribe(first)) = requests.message().await?.and_then(|request| request.kind) {
            let (from, observes) = (first.resume_from, first.observe_only);
            let line = format!("subscribe {:?} from {from:?} observe {observes}", first.namespaces);
            self.seen.send_modify(|seen| seen.push(line));
        }
        let seen = self.seen.clone();
        let acknowledgements = async move {
            while let Ok(Some(request)) = requests.message().await {
                if let Some(Kind::Ack(ack)) = request.kind {
                    seen.send_modify(|seen| seen.push(format!("ack {}", ack.cursor)));
                }
            }
        };
        let reader = AbortOnDropHandle::new(tokio::spawn(acknowledgements));
        let events = tokio_stream::iter(script.events);
        let events: Events<WatchResponse> = match script.stays {
            true => Box::pin(events.chain(tokio_stream::pending())),
            false => Box::pin(events),
        };
        // The reader lives as long as the response does.
        Ok(Response::new(Box::pin(events.map(move |event| {
            let _ = &reader;
            event
        }))))
    }

    type PullRefreshesStream = Events<PullRefreshesResponse>;

    async fn pull_refreshes(
        &self,
        _: Request<Streaming<PullRefreshesRequest>>,
    ) -> Result<Response<Self::PullRefreshesStream>, Status> {
        Err(Status::unimplemented("ctl does not pull"))
    }

    async fn schedule_refresh(
        &self,
        request: Request<ScheduleRefreshRequest>,
    ) -> Result<Response<ScheduleRefreshResponse>, Status> {
        let ScheduleRefreshRequest {
            keys, only_if_missing, ..
        } = request.into_inner();
        self.seen
            .send_modify(|seen| seen.push(format!("schedule {} missing={only_if_missing}", keys.join(","))));
        next(&self.schedule)
    }
}

#[tonic::async_trait]
impl AdminService for Fake {
    async fn describe_key(&self, _: Request<DescribeKeyRequest>) -> Result<Response<DescribeKeyResponse>, Status> {
        next(&self.describe)
    }

    async fn list_leases(&self, request: Request<ListLeasesRequest>) -> Result<Response<ListLeasesResponse>, Status> {
        let page = format!("page {:?}", request.into_inner().page_token);
        self.seen.send_modify(|seen| seen.push(page));
        next(&self.leases)
    }

    async fn list_namespaces(
        &self,
        _: Request<ListNamespacesRequest>,
    ) -> Result<Response<ListNamespacesResponse>, Status> {
        next(&self.namespaces)
    }

    async fn list_hot_keys(&self, _: Request<ListHotKeysRequest>) -> Result<Response<ListHotKeysResponse>, Status> {
        Err(Status::unimplemented("ctl does not ask"))
    }
}
