//! Calls over gRPC, each written down: what was asked, when, and how it ended.

use std::error::Error as _;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use drover::decision::{Intent, LeaseId, Mode};
use drover::proto;
use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::coordinator_service_client::CoordinatorServiceClient;
use drover::proto::hit::Content;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use crate::checker::model::{
    Accepted, Asked, End, Grant, Hit, Invalidated, Moment, Op, Outcome, Question, Report, Target,
};
use crate::names::Names;
use crate::recorder::Recorder;

/// So much longer than its wait lasts a call's deadline, as the contract tells clients to have it.
const BEYOND_WAIT: Duration = Duration::from_secs(1);
/// A connection that does not come within this is given up.
const CONNECT: Duration = Duration::from_millis(500);
/// A connection on which nothing is heard for twice as long is given up.
const KEEPALIVE: Duration = Duration::from_secs(1);

pub type Service = CoordinatorServiceClient<Channel>;

/// A connection to each replica, made when it is first needed, and made again when it broke.
#[derive(Clone)]
pub struct Lines {
    services: Vec<Service>,
    pub recorder: Arc<Recorder>,
    pub names: Arc<Names>,
}

impl Lines {
    /// `keepalive`: it notices by itself when nothing comes through any more.
    pub fn to(fronts: &[SocketAddr], recorder: &Arc<Recorder>, names: &Arc<Names>, keepalive: bool) -> Lines {
        let service = |front: &SocketAddr| {
            let mut endpoint = Endpoint::from_shared(format!("http://{front}"))
                .expect("an address")
                .connect_timeout(CONNECT);
            if keepalive {
                endpoint = endpoint
                    .http2_keep_alive_interval(KEEPALIVE)
                    .keep_alive_timeout(KEEPALIVE);
            }
            Service::new(endpoint.connect_lazy())
        };
        Lines {
            services: fronts.iter().map(service).collect(),
            recorder: recorder.clone(),
            names: names.clone(),
        }
    }

    pub fn service(&self, replica: u16) -> Service {
        self.services[usize::from(replica)].clone()
    }

    pub fn replicas(&self) -> u16 {
        self.services.len() as u16
    }
}

/// Who calls whom, and when it loses its patience.
#[derive(Clone, Copy)]
pub struct Who {
    pub client: u32,
    pub replica: u16,
    /// It leaves after this.
    pub leaves: Option<Duration>,
}

impl Lines {
    /// `asked` says the same as `request`, but for what does not matter to the checker.
    pub async fn acquire(&self, who: Who, request: proto::AcquireRebuildRequest, asked: Question) -> Op {
        let wait = Duration::from_micros(asked.wait);
        let mut service = self.service(who.replica);
        let calling = |request| async move { service.acquire_rebuild(request).await };
        let asked = Asked::Acquire(asked);
        self.call(who, wait, request, asked, calling, |invoked, ended, answer| {
            self.acquired(invoked, ended, answer)
        })
        .await
    }

    pub async fn report(&self, who: Who, request: proto::ReportValueRequest, asked: Report) -> Op {
        let mut service = self.service(who.replica);
        let outcome = asked.outcome;
        let calling = |request| async move { service.report_value(request).await };
        let asked = Asked::Report(asked);
        self.call(who, Duration::ZERO, request, asked, calling, |_, _, answer| {
            (reported(&answer, outcome), answer.degraded)
        })
        .await
    }

    pub async fn renew(&self, who: Who, request: proto::RenewLeaseRequest, key: u32, lease: LeaseId) -> Op {
        let mut service = self.service(who.replica);
        let calling = |request| async move { service.renew_lease(request).await };
        let asked = Asked::Renew { key, lease };
        self.call(who, Duration::ZERO, request, asked, calling, |_, _, answer| {
            let end = if answer.renewed {
                End::Renewed(micros(&answer.ttl))
            } else {
                End::Lost(lost(answer.lost_reason()))
            };
            (end, false)
        })
        .await
    }

    pub async fn invalidate(&self, who: Who, request: proto::InvalidateRequest, targets: Vec<Target>) -> Op {
        let mut service = self.service(who.replica);
        let wait = Duration::from_micros(micros(&request.wait_for_watchers));
        let mode = match request.mode() {
            proto::Mode::Expire => Mode::Expire,
            _ => Mode::Drop,
        };
        let calling = |request| async move { service.invalidate(request).await };
        let asked = Asked::Invalidate {
            targets: targets.into(),
            mode,
        };
        let op = self
            .call(who, wait, request, asked, calling, |_, _, answer| {
                let numbers = answer.invalidated.iter().map(|target| target.version as u64);
                let end = End::Invalidated(Invalidated {
                    numbers: numbers.collect(),
                    confirmed: answer.confirmed,
                });
                (end, false)
            })
            .await;
        // Several writes: that it failed does not mean that none was done.
        match op.end {
            End::Failed(why) => Op {
                end: End::Unknown(why),
                ..op
            },
            _ => op,
        }
    }

    async fn call<Req, Res, F>(
        &self,
        who: Who,
        wait: Duration,
        request: Req,
        asked: Asked,
        calling: impl FnOnce(Request<Req>) -> F,
        read: impl FnOnce(Moment, Moment, Res) -> (End, bool),
    ) -> Op
    where
        F: Future<Output = Result<tonic::Response<Res>, Status>>,
    {
        let mut request = Request::new(request);
        let deadline = wait + BEYOND_WAIT;
        request.set_timeout(deadline);
        let invoked = self.recorder.moment();
        let patience = who.leaves.unwrap_or(deadline + Duration::from_millis(50));
        let answer = tokio::time::timeout(patience, calling(request)).await;
        let ended = self.recorder.moment();
        let (end, degraded) = match answer {
            Ok(Ok(answer)) => read(invoked, ended, answer.into_inner()),
            Ok(Err(status)) => (self.failed(&status), false),
            Err(_) if who.leaves.is_some() => (End::Unknown("left"), false),
            Err(_) => (End::Unknown("deadline"), false),
        };
        self.recorder.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Op {
            client: who.client,
            replica: who.replica,
            asked,
            invoked,
            ended,
            end,
            degraded,
            until: ended,
        }
    }

    /// What a status says about what was done.
    fn failed(&self, status: &Status) -> End {
        let reason = status.metadata().get("drover-reason");
        let reason = reason.and_then(|reason| reason.to_str().ok()).unwrap_or_default();
        match (reason, status.code()) {
            ("STORE_UNAVAILABLE", Code::Unavailable) => End::Failed("store_unavailable"),
            ("DRAINING", Code::Unavailable) => End::Failed("draining"),
            ("OVERLOADED", Code::ResourceExhausted) => End::Failed("overloaded"),
            ("OUTCOME_UNKNOWN", Code::Unavailable) => End::Unknown("outcome_unknown"),
            // The connection broke, or could not be made.
            // The client's own library ends a call at its deadline by the second.
            ("", Code::DeadlineExceeded) => End::Unknown("deadline"),
            ("", Code::Cancelled) if status.message().contains("Timeout expired") => End::Unknown("deadline"),
            ("", Code::Unavailable) if status.source().is_some() => End::Unknown("connection"),
            ("", _) if status.source().is_some() => End::Unknown(broken(status)),
            ("", Code::Unavailable) => End::Unknown("unavailable"),
            _ => {
                self.recorder.wrong(format!("a client was told {status:?}"));
                End::Unknown("wrong")
            }
        }
    }

    fn acquired(&self, invoked: Moment, ended: Moment, answer: proto::AcquireRebuildResponse) -> (End, bool) {
        let degraded = answer.degraded;
        let end = match &answer.decision {
            Some(Decision::Rebuild(rebuild)) => {
                let lease = rebuild.lease.clone().unwrap_or_default();
                let token = lease.fencing_token as u64;
                let Ok(id) = lease.lease_id.parse::<LeaseId>() else {
                    self.recorder.wrong(format!("not a lease: {answer:?}"));
                    return (End::Unknown("wrong"), degraded);
                };
                if token != id.fencing_token().0 || (token == 0) != degraded {
                    self.recorder.wrong(format!("not the token of the lease: {answer:?}"));
                }
                // What is left is counted from before the trip to the store; the lease from within it.
                let ttl = micros(&lease.ttl);
                let trip = (ended.at - invoked.at).saturating_sub(micros(&answer.waited));
                End::Granted(Grant {
                    lease: id,
                    sure_until: invoked.at + micros(&answer.waited) + ttl,
                    over_by: ended.at + ttl + trip,
                    fallback: rebuild.fallback.as_ref().map(|hit| self.hit(hit, degraded)),
                })
            }
            Some(Decision::Hit(hit)) => End::Hit(self.hit(hit, degraded)),
            Some(Decision::Busy(_)) => End::Busy,
            Some(Decision::Backoff(_)) => End::Backoff,
            Some(Decision::Miss(_)) => End::Miss,
            None => {
                self.recorder.wrong(format!("no decision: {answer:?}"));
                End::Unknown("wrong")
            }
        };
        (end, degraded)
    }

    fn hit(&self, hit: &proto::Hit, degraded: bool) -> Hit {
        if (hit.version == 0) != degraded {
            self.recorder
                .wrong(format!("version {} although degraded is {degraded}", hit.version));
        }
        let named = match &hit.content {
            Some(Content::Value(bytes)) => Some(named(bytes)),
            None => {
                self.recorder.wrong(format!("a hit without content: {hit:?}"));
                None
            }
            Some(_) => None,
        };
        Hit {
            version: hit.version as u64,
            fresh: hit.freshness() == proto::Freshness::Fresh,
            fresh_for: hit.expiry.as_ref().map_or(0, |expiry| micros(&expiry.fresh_for)),
            named,
            tags: hit.tags.iter().filter_map(|tag| self.names.tag_number(tag)).collect(),
        }
    }
}

/// How a call over a connection that broke ended, where it is not UNAVAILABLE.
fn broken(status: &Status) -> &'static str {
    // A call that came when the server had said goodbye was not sent, or not looked at. Other libraries send it again by themselves. A
    // connection that came when it closed its door is reset; others call that UNAVAILABLE, this one UNKNOWN.
    let source = format!("{:?}", status.source());
    let goodbye = ["GoAway(b\"\", NO_ERROR, Remote)", "Canceled", "ConnectionReset"]
        .iter()
        .any(|word| source.contains(word));
    if !goodbye {
        eprintln!("a connection broke: {status:?}");
    }
    match status.code() {
        _ if goodbye => "connection",
        Code::Internal => "connection, INTERNAL",
        _ => "connection, UNKNOWN",
    }
}

/// The token of the lease that bytes name; 0: they name none.
fn named(bytes: &[u8]) -> u64 {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let lease = text.split(' ').next().and_then(|word| word.parse::<LeaseId>().ok());
    lease.map_or(0, |lease| lease.token.0)
}

/// Bytes that name a lease, of about this length.
pub fn bytes_of(lease: LeaseId, length: usize) -> Vec<u8> {
    let mut text = lease.to_string() + " ";
    let missing = length.saturating_sub(text.len());
    text.extend(std::iter::repeat_n('.', missing));
    text.into_bytes()
}

fn reported(answer: &proto::ReportValueResponse, outcome: Outcome) -> End {
    if !answer.accepted {
        return End::Refused(match answer.rejection() {
            proto::Rejection::Superseded => "superseded",
            proto::Rejection::Invalidated => "invalidated",
            proto::Rejection::UnknownLease => "unknown_lease",
            proto::Rejection::NoValue => "no_value",
            proto::Rejection::Unspecified => "unspecified",
        });
    }
    let kept = answer.expiry.as_ref().filter(|_| outcome != Outcome::NotStored);
    let fresh_for = kept
        .map(|expiry| micros(&expiry.fresh_for))
        .filter(|length| *length > 0);
    let refresh_in = kept
        .and_then(|expiry| expiry.refresh_in)
        .map(|length| micros(&Some(length)));
    End::Accepted(Accepted {
        version: answer.version as u64,
        fresh_for,
        left_alone_for: refresh_in.or(fresh_for),
        stale_for: kept.map_or(0, |expiry| {
            micros(&expiry.stale_for).max(micros(&expiry.stale_if_error_for))
        }),
    })
}

fn lost(reason: proto::LostReason) -> &'static str {
    match reason {
        proto::LostReason::Superseded => "superseded",
        proto::LostReason::Invalidated => "invalidated",
        proto::LostReason::Expired => "expired",
        proto::LostReason::MaxHold => "max_hold",
        proto::LostReason::Reported => "reported",
        proto::LostReason::UnknownLease => "unknown_lease",
        proto::LostReason::Unspecified => "unspecified",
    }
}

pub fn intent_of(intent: Intent) -> proto::Intent {
    match intent {
        Intent::Use => proto::Intent::Unspecified,
        Intent::Early => proto::Intent::Early,
        Intent::Force => proto::Intent::Force,
        Intent::Read => proto::Intent::Read,
    }
}

/// Microseconds; 0 where nothing is said.
pub fn micros(length: &Option<prost_types::Duration>) -> u64 {
    length.map_or(0, |length| {
        length.seconds.max(0) as u64 * 1_000_000 + length.nanos.max(0) as u64 / 1_000
    })
}

pub fn span(micros: u64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration {
        seconds: (micros / 1_000_000) as i64,
        nanos: (micros % 1_000_000) as i32 * 1_000,
    })
}
