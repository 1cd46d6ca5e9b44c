//! A client of drover as an SDK's heart does it (contract §9), for as many callers as the lab has.
//!
//! *Owns* the connections: several for asking, one more for reports, renewals and invalidations, so that parked questions never
//! stand in their way. Deadlines, request ids and the repeat on UNAVAILABLE are here; what to do with an answer is not.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status, Streaming};

use super::Trouble;
use super::recipe::WAIT;
use crate::proto::coordinator_service_client::CoordinatorServiceClient;
use crate::proto::pull_refreshes_response::Event;
use crate::proto::report_value_request::Outcome;
use crate::proto::{
    AcquireRebuildRequest, AcquireRebuildResponse, Intent, InvalidateRequest, Lifetimes, Mode, PullRefreshesRequest,
    PullRefreshesResponse, Register, RenewLeaseRequest, RenewLeaseResponse, ReportValueRequest, ReportValueResponse,
    ScheduleRefreshRequest, ScheduleRefreshResponse, pull_refreshes_request,
};

type Stub = CoordinatorServiceClient<Channel>;

/// Callers that share one connection for asking: well below the streams that servers allow on one.
const CALLERS_A_CONNECTION: usize = 100;
/// How long a call may take that never parks.
const SHORT_CALL: Duration = Duration::from_secs(5);
/// How often a call is made at most when the server is unavailable.
const ATTEMPTS: u32 = 3;

/// Connections to one drover, and who we are.
#[derive(Debug)]
pub struct Client {
    askers: Vec<Stub>,
    turn: AtomicUsize,
    reporter: Stub,
    namespace: String,
    holder: String,
    wait: Duration,
    questions: AtomicU64,
}

impl Client {
    /// Connects to `url` (`http://host:port`) for so many callers, and asks once over each connection so that the first measured
    /// call meets warm ones.
    pub async fn connect(url: &str, namespace: &str, callers: usize) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(url.to_owned())
            .with_context(|| format!("`{url}` is no address; write host:port"))?
            .connect_timeout(SHORT_CALL)
            .tcp_nodelay(true);
        let cannot_reach = || {
            format!(
                "cannot reach drover at {url}; is `drover serve` running there? (without --server the lab starts its own)"
            )
        };
        let mut askers = Vec::new();
        for _ in 0..callers.div_ceil(CALLERS_A_CONNECTION).clamp(2, 64) {
            askers.push(endpoint.connect().await.with_context(cannot_reach)?);
        }
        let reporter = endpoint.connect().await.with_context(cannot_reach)?;
        let client = Self::over(askers, reporter, namespace);
        client
            .warm()
            .await
            .with_context(|| format!("drover at {url} answered, but would not take the lab's first question"))?;
        Ok(client)
    }

    /// Over ready channels; at least one for asking.
    pub fn over(askers: Vec<Channel>, reporter: Channel, namespace: &str) -> Self {
        Self {
            askers: askers.into_iter().map(Stub::new).collect(),
            turn: AtomicUsize::new(0),
            reporter: Stub::new(reporter),
            namespace: namespace.to_owned(),
            holder: format!("lab-{:08x}", rand::random::<u32>()),
            wait: WAIT,
            questions: AtomicU64::new(1),
        }
    }

    /// The same connections, for another namespace and with another patience.
    pub fn beside(&self, namespace: &str, wait: Duration) -> Self {
        Self {
            askers: self.askers.clone(),
            turn: AtomicUsize::new(0),
            reporter: self.reporter.clone(),
            namespace: namespace.to_owned(),
            holder: self.holder.clone(),
            wait,
            // Apart from those of the client that this one comes from.
            questions: AtomicU64::new(1 << 32),
        }
    }

    /// In which its keys are.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Unique to this run; keys carry it, so that a run on a shared server meets nothing of an earlier one.
    pub fn run_id(&self) -> &str {
        &self.holder
    }

    async fn warm(&self) -> Result<(), Trouble> {
        let warming = format!("{}/warming", self.holder);
        for _ in 0..self.askers.len() {
            self.ask(&warming, Intent::Read, Duration::ZERO).await?;
        }
        // A renewal of no lease: any answer will do, the connection has worked.
        match self.renew(&warming, "none", SHORT_CALL).await {
            Err(Trouble::Rpc { status, .. }) if status.code() == Code::Unavailable => Err(Trouble::Rpc {
                call: "RenewLease",
                status,
            }),
            _ => Ok(()),
        }
    }

    /// `AcquireRebuild`: parks for as long as every strategy of the lab waits.
    pub async fn acquire(&self, key: &str) -> Result<AcquireRebuildResponse, Trouble> {
        self.ask(key, Intent::Unspecified, self.wait).await
    }

    async fn ask(&self, key: &str, intent: Intent, wait: Duration) -> Result<AcquireRebuildResponse, Trouble> {
        let question = self.questions.fetch_add(1, Ordering::Relaxed);
        let message = AcquireRebuildRequest {
            namespace: self.namespace.clone(),
            key: key.to_owned(),
            holder: self.holder.clone(),
            request_id: format!("{}-{question}", self.holder),
            wait: proto_duration(wait),
            intent: intent.into(),
            ..Default::default()
        };
        repeating("AcquireRebuild", || {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.askers.len();
            let (mut stub, request) = (
                self.askers[turn].clone(),
                timed(&message, wait + Duration::from_secs(1)),
            );
            async move { stub.acquire_rebuild(request).await }
        })
        .await
    }

    /// `RenewLease`: to `ttl` from now.
    pub async fn renew(&self, key: &str, lease_id: &str, ttl: Duration) -> Result<RenewLeaseResponse, Trouble> {
        let message = RenewLeaseRequest {
            namespace: self.namespace.clone(),
            key: key.to_owned(),
            lease_id: lease_id.to_owned(),
            ttl: proto_duration(ttl),
        };
        repeating("RenewLease", || {
            let (mut stub, request) = (self.reporter.clone(), timed(&message, SHORT_CALL));
            async move { stub.renew_lease(request).await }
        })
        .await
    }

    /// `ReportValue`; repeating it is harmless.
    pub async fn report(
        &self,
        key: &str,
        lease_id: &str,
        outcome: Outcome,
        lives: &Lifetimes,
    ) -> Result<ReportValueResponse, Trouble> {
        self.report_at_cost(key, lease_id, outcome, lives, None).await
    }

    /// The same, of a rebuild that cost so much.
    pub async fn report_at_cost(
        &self,
        key: &str,
        lease_id: &str,
        outcome: Outcome,
        lives: &Lifetimes,
        cost: Option<Duration>,
    ) -> Result<ReportValueResponse, Trouble> {
        let message = ReportValueRequest {
            namespace: self.namespace.clone(),
            key: key.to_owned(),
            lease_id: lease_id.to_owned(),
            ttl: Some(*lives),
            outcome: Some(outcome),
            rebuild_cost: cost.and_then(proto_duration),
            ..Default::default()
        };
        repeating("ReportValue", || {
            let (mut stub, request) = (self.reporter.clone(), timed(&message, SHORT_CALL));
            async move { stub.report_value(request).await }
        })
        .await
    }

    /// `Invalidate` of one key, hard.
    pub async fn invalidate(&self, key: &str) -> Result<(), Trouble> {
        let message = InvalidateRequest {
            namespace: self.namespace.clone(),
            keys: vec![key.to_owned()],
            mode: Mode::Drop.into(),
            reason: "drover lab".to_owned(),
            ..Default::default()
        };
        repeating("Invalidate", || {
            let (mut stub, request) = (self.reporter.clone(), timed(&message, SHORT_CALL));
            async move { stub.invalidate(request).await }
        })
        .await?;
        Ok(())
    }

    /// `PullRefreshes` of keys that start so, with at most so many tasks at once.
    pub async fn pull(&self, key_prefix: &str, most: usize) -> Result<Pull, Trouble> {
        let (says, said) = mpsc::unbounded_channel();
        let register = Register {
            namespaces: vec![self.namespace.clone()],
            key_prefixes: vec![key_prefix.to_owned()],
            holder: self.holder.clone(),
            max_in_flight: i32::try_from(most).unwrap_or(i32::MAX),
        };
        let kind = Some(pull_refreshes_request::Kind::Register(register));
        let mut stub = self.reporter.clone();
        // The other end is still here, so it is taken.
        let _ = says.send(PullRefreshesRequest { kind });
        match stub.pull_refreshes(UnboundedReceiverStream::new(said)).await {
            Ok(answer) => Ok(Pull {
                _says: says,
                events: answer.into_inner(),
            }),
            Err(status) => Err(Trouble::Rpc {
                call: "PullRefreshes",
                status: Box::new(status),
            }),
        }
    }

    /// `ScheduleRefresh` of these keys, all of them due now.
    pub async fn schedule(&self, keys: &[String]) -> Result<ScheduleRefreshResponse, Trouble> {
        let message = ScheduleRefreshRequest {
            namespace: self.namespace.clone(),
            keys: keys.to_vec(),
            ..Default::default()
        };
        repeating("ScheduleRefresh", || {
            let (mut stub, request) = (self.reporter.clone(), timed(&message, SHORT_CALL));
            async move { stub.schedule_refresh(request).await }
        })
        .await
    }
}

/// A stream of refreshes. Dropping it takes the worker away.
#[derive(Debug)]
pub struct Pull {
    /// The server ends the stream when the worker has nothing more to say.
    _says: mpsc::UnboundedSender<PullRefreshesRequest>,
    events: Streaming<PullRefreshesResponse>,
}

impl Pull {
    /// What happens next; `None`: the stream is over.
    pub async fn next(&mut self) -> Result<Option<Event>, Trouble> {
        loop {
            match self.events.message().await {
                Ok(None) => return Ok(None),
                // Something newer than this client is left out.
                Ok(Some(message)) => match message.event {
                    None => {}
                    event => return Ok(event),
                },
                Err(status) => {
                    return Err(Trouble::Rpc {
                        call: "PullRefreshes",
                        status: Box::new(status),
                    });
                }
            }
        }
    }
}

fn timed<M: Clone>(message: &M, deadline: Duration) -> Request<M> {
    let mut request = Request::new(message.clone());
    request.set_timeout(deadline);
    request
}

/// Makes a call, and makes it again while the server is unavailable: every call of the contract may be repeated then.
async fn repeating<A, F>(call: &'static str, attempt: impl Fn() -> F) -> Result<A, Trouble>
where
    F: Future<Output = Result<Response<A>, Status>>,
{
    let mut tries = 1;
    loop {
        match attempt().await {
            Ok(response) => return Ok(response.into_inner()),
            Err(status) if status.code() == Code::Unavailable && tries < ATTEMPTS => {
                sleep(pushback(&status).unwrap_or(Duration::from_millis(50) * tries)).await;
                tries += 1;
            }
            Err(status) => {
                return Err(Trouble::Rpc {
                    call,
                    status: Box::new(status),
                });
            }
        }
    }
}

/// What the server says about when to come again; at most a second.
fn pushback(status: &Status) -> Option<Duration> {
    let millis = status
        .metadata()
        .get("grpc-retry-pushback-ms")?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_millis(millis).min(Duration::from_secs(1)))
}

/// Into the message's form; only lengths beyond any that the lab uses do not fit.
pub fn proto_duration(length: Duration) -> Option<prost_types::Duration> {
    prost_types::Duration::try_from(length).ok()
}
