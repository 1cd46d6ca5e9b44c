//! A server of its own for each test, and short words for what is asked and answered.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use drover::config::{PolicySet, Settings};
use drover::decision::Policy;
use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::admin_service_client::AdminServiceClient;
use drover::proto::coordinator_service_client::CoordinatorServiceClient;
use drover::proto::hit::Content;
use drover::proto::report_value_request::Outcome;
use drover::proto::{
    Abandon, AcquireRebuildRequest, AcquireRebuildResponse, Backoff, Busy, Failure, Hit, InvalidateRequest,
    InvalidateResponse, Lease, Mode, NotFound, Rebuild, Rejection, ReportValueRequest, ReportValueResponse,
};
use drover::server::{Running, start};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower::ServiceExt as _;

use crate::backing::{Backing, REPLICAS};

pub type Calls = CoordinatorServiceClient<InTurn>;

/// What a test asks, and the connections over which it does.
pub struct Drover {
    /// A replica.
    pub running: Running,
    /// The others, where the store is one that replicas share.
    others: Vec<Running>,
    /// Each call goes to the next replica.
    pub calls: Calls,
    /// Last: it may end with this.
    _backing: Backing,
}

/// A parked, or at least sent, question.
pub type Asking = JoinHandle<Result<AcquireRebuildResponse, Status>>;

impl Drover {
    pub async fn start() -> Drover {
        Drover::with(|_| ()).await
    }

    /// With another policy for every namespace.
    pub async fn with(change: impl FnOnce(&mut Policy)) -> Drover {
        let mut policy = Policy::default();
        change(&mut policy);
        Drover::under(PolicySet {
            defaults: Arc::new(policy),
            ..PolicySet::default()
        })
        .await
    }

    pub async fn under(policies: PolicySet) -> Drover {
        let backing = Backing::start();
        let settings = Settings {
            policies,
            drain_timeout: Duration::from_secs(2),
            store: backing.store(),
            ..Settings::ephemeral()
        };
        let running = serving(settings.clone()).await;
        let mut others = Vec::new();
        while others.len() + 1 < REPLICAS {
            others.push(serving(settings.clone()).await);
        }
        let calls = calls(std::iter::once(&running).chain(&others)).await;
        Drover {
            running,
            others,
            calls,
            _backing: backing,
        }
    }

    /// The same, with all calls to one replica: for what is counted or bounded a replica.
    pub async fn at_one_replica(mut self) -> Drover {
        self.calls = calls(std::iter::once(&self.running)).await;
        self
    }

    fn replicas(&self) -> impl Iterator<Item = &Running> {
        std::iter::once(&self.running).chain(&self.others)
    }

    /// Callers parked at all replicas.
    pub fn parked(&self) -> usize {
        self.replicas().map(Running::parked).sum()
    }

    /// Gives replicas the time to look at a key for those that have parked, which they do once a second at least: from memory alone, a
    /// replica that shares its store does not know whether they were there before its lease ended. Nothing tells from outside that it has
    /// looked.
    pub async fn looked_at(&self) {
        if REPLICAS > 1 {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
    }

    /// Drains all replicas.
    pub async fn drain(&self) {
        for replica in self.replicas() {
            replica.drain().await;
        }
    }

    pub async fn admin(&self) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(connect(&self.running).await)
    }

    /// Over connections of its own.
    pub async fn another(&self) -> Calls {
        calls(self.replicas()).await
    }

    pub async fn ask(&self, question: AcquireRebuildRequest) -> Decision {
        self.answer(question).await.decision.expect("a decision")
    }

    pub async fn answer(&self, question: AcquireRebuildRequest) -> AcquireRebuildResponse {
        let answer = self.calls.clone().acquire_rebuild(question).await;
        answer.expect("an answer").into_inner()
    }

    pub async fn granted(&self, question: AcquireRebuildRequest) -> Rebuild {
        granted(self.ask(question).await)
    }

    pub async fn hit(&self, question: AcquireRebuildRequest) -> Hit {
        hit(self.ask(question).await)
    }

    /// Asks on the side, and comes back once the caller is parked.
    pub async fn park(&self, question: AcquireRebuildRequest) -> Asking {
        let before = self.parked();
        let asking = self.asking(question);
        until(|| self.parked() > before || asking.is_finished()).await;
        assert!(!asking.is_finished(), "it was to be parked");
        asking
    }

    pub fn asking(&self, question: AcquireRebuildRequest) -> Asking {
        let mut calls = self.calls.clone();
        tokio::spawn(async move { calls.acquire_rebuild(question).await.map(tonic::Response::into_inner) })
    }

    pub async fn report(&self, report: ReportValueRequest) -> ReportValueResponse {
        let answer = self.calls.clone().report_value(report).await;
        answer.expect("an answer").into_inner()
    }

    /// The report is accepted; the version it got.
    pub async fn accept(&self, report: ReportValueRequest) -> i64 {
        let answer = self.report(report).await;
        assert!(answer.accepted, "{answer:?}");
        answer.version
    }

    pub async fn refuse(&self, report: ReportValueRequest) -> Rejection {
        let answer = self.report(report).await;
        assert!(!answer.accepted, "{answer:?}");
        assert_eq!((answer.version, &answer.expiry), (0, &None));
        answer.rejection()
    }

    /// A key that is fresh with this value; its version.
    pub async fn fill(&self, key: &str, value: &str) -> i64 {
        let rebuild = self.granted(ask(key)).await;
        self.accept(report(key, &rebuild, value)).await
    }

    pub async fn invalidate(&self, request: InvalidateRequest) -> InvalidateResponse {
        let answer = self.calls.clone().invalidate(request).await;
        answer.expect("an answer").into_inner()
    }

    /// The pages of figures.
    pub async fn metrics(&self) -> String {
        let mut pages = String::new();
        for replica in self.replicas() {
            pages.push_str(&page(replica.http.expect("an address"), "/metrics").await);
        }
        pages
    }

    /// The end of a test: nothing was a bug to the server.
    pub async fn end(self) {
        let metrics = self.metrics().await;
        assert_no_bug(&metrics);
        drop(self.calls);
        for replica in std::iter::once(self.running).chain(self.others) {
            replica.stop().await;
        }
    }
}

pub fn assert_no_bug(metrics: &str) {
    let bugs: Vec<&str> = metrics
        .lines()
        .filter(|line| line.starts_with("drover_errors_total") && line.contains("INTERNAL") && !line.ends_with(" 0"))
        .collect();
    assert!(bugs.is_empty(), "{bugs:?}");
}

/// A page of the HTTP port.
pub async fn page(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nhost: drover\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("an answer");
    text
}

/// A replica that serves.
async fn serving(settings: Settings) -> Running {
    let running = start(settings).await.expect("free ports");
    let mut health = HealthClient::new(connect(&running).await);
    let serving = HealthCheckResponse {
        status: ServingStatus::Serving.into(),
    };
    eventually(async || {
        let checked = health.check(HealthCheckRequest::default()).await;
        checked.is_ok_and(|answer| answer.into_inner() == serving).then_some(())
    })
    .await;
    running
}

async fn calls(replicas: impl Iterator<Item = &Running>) -> Calls {
    let mut channels = Vec::new();
    for replica in replicas {
        channels.push(connect(replica).await);
    }
    Calls::new(InTurn::over(channels))
}

/// A client over one connection.
pub fn calls_over(channel: Channel) -> Calls {
    Calls::new(InTurn::over(vec![channel]))
}

/// Connections that are used in turn: each call goes over the next one.
#[derive(Clone)]
pub struct InTurn {
    channels: Arc<[Channel]>,
    next: Arc<AtomicUsize>,
}

impl InTurn {
    fn over(channels: Vec<Channel>) -> InTurn {
        InTurn {
            channels: channels.into(),
            next: Arc::default(),
        }
    }
}

impl tower::Service<http::Request<tonic::body::Body>> for InTurn {
    type Response = http::Response<tonic::body::Body>;
    type Error = tonic::transport::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        let mut channel = self.channels[turn % self.channels.len()].clone();
        Box::pin(async move { channel.ready().await?.call(request).await })
    }
}

pub async fn connect(running: &Running) -> Channel {
    connect_to(running.grpc).await
}

pub async fn connect_to(address: std::net::SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
    endpoint.connect().await.expect("it listens")
}

pub const SHOP: &str = "shop";

/// Waits for nothing.
pub fn ask(key: &str) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        namespace: SHOP.to_owned(),
        key: key.to_owned(),
        holder: "holder".to_owned(),
        wait: span(0),
        ..AcquireRebuildRequest::default()
    }
}

/// Waits for as long as the policy lets it.
pub fn wait(key: &str) -> AcquireRebuildRequest {
    AcquireRebuildRequest { wait: None, ..ask(key) }
}

pub fn report(key: &str, rebuild: &Rebuild, value: &str) -> ReportValueRequest {
    ended(key, rebuild, Outcome::Value(value.to_owned().into()))
}

pub fn ended(key: &str, rebuild: &Rebuild, outcome: Outcome) -> ReportValueRequest {
    ReportValueRequest {
        namespace: SHOP.to_owned(),
        key: key.to_owned(),
        lease_id: lease(rebuild).lease_id,
        outcome: Some(outcome),
        ..ReportValueRequest::default()
    }
}

pub fn abandoned() -> Outcome {
    Outcome::Abandon(Abandon {})
}

pub fn not_found() -> Outcome {
    Outcome::NotFound(NotFound {})
}

pub fn failed(message: &str) -> Outcome {
    Outcome::Failure(Failure {
        message: message.to_owned(),
        retry_after: None,
    })
}

pub fn drop_keys(keys: &[&str]) -> InvalidateRequest {
    InvalidateRequest {
        namespace: SHOP.to_owned(),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        mode: Mode::Drop.into(),
        ..InvalidateRequest::default()
    }
}

pub fn drop_tags(tags: &[&str]) -> InvalidateRequest {
    InvalidateRequest {
        keys: Vec::new(),
        tags: words(tags),
        ..drop_keys(&[])
    }
}

pub fn drop_everything() -> InvalidateRequest {
    InvalidateRequest {
        everything: true,
        ..drop_keys(&[])
    }
}

pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub fn granted(decision: Decision) -> Rebuild {
    match decision {
        Decision::Rebuild(rebuild) => rebuild,
        other => panic!("no rebuild but {other:?}"),
    }
}

pub fn hit(decision: Decision) -> Hit {
    match decision {
        Decision::Hit(hit) => hit,
        other => panic!("no hit but {other:?}"),
    }
}

pub fn busy(decision: Decision) -> Busy {
    match decision {
        Decision::Busy(busy) => busy,
        other => panic!("no busy but {other:?}"),
    }
}

pub fn keep_off(decision: Decision) -> Backoff {
    match decision {
        Decision::Backoff(backoff) => backoff,
        other => panic!("no backoff but {other:?}"),
    }
}

/// What a parked caller got.
pub async fn got(asking: Asking) -> Decision {
    let answer = asking.await.expect("it runs").expect("an answer");
    answer.decision.expect("a decision")
}

pub fn text(hit: &Hit) -> &str {
    match &hit.content {
        Some(Content::Value(bytes)) => std::str::from_utf8(bytes).expect("text"),
        other => panic!("no bytes but {other:?}"),
    }
}

pub fn lease(rebuild: &Rebuild) -> Lease {
    rebuild.lease.clone().expect("a lease")
}

pub fn token(rebuild: &Rebuild) -> i64 {
    lease(rebuild).fencing_token
}

/// Milliseconds.
pub fn span(millis: u64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration {
        seconds: (millis / 1_000) as i64,
        nanos: (millis % 1_000) as i32 * 1_000_000,
    })
}

pub fn length(span: &Option<prost_types::Duration>) -> Duration {
    span.map_or(Duration::ZERO, |span| {
        Duration::new(span.seconds as u64, span.nanos as u32)
    })
}

/// Lets everything else run until it is so. Without time: a test that would wait for ever is ended by whoever runs it.
pub async fn until(mut so: impl FnMut() -> bool) {
    while !so() {
        tokio::task::yield_now().await;
    }
}

/// Asks again and again until the answer will do: for what passes with the server's time.
pub async fn eventually<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    loop {
        if let Some(found) = look().await {
            return found;
        }
    }
}
