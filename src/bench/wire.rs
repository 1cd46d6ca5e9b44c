//! drover's requests as a typical caller sends them, and what an answer must be for a case to mean anything.
//!
//! *Invariants:* a key belongs to one run of the bench (20 bytes, with the run's own number), so a server that is measured twice
//! is not measured on what the first run left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use prost::Message;
use tonic::transport::Channel;

use super::load::explained;
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::admin_service_client::AdminServiceClient;
use crate::proto::coordinator_service_client::CoordinatorServiceClient;
use crate::proto::report_value_request::Outcome;
use crate::proto::{
    AcquireRebuildRequest, AcquireRebuildResponse, DescribeKeyRequest, Freshness, Hit, Intent, InvalidateRequest,
    Lease, Lifetimes, ReportValueRequest, ReportValueResponse, Subscribe, WatchRequest, watch_request,
};

/// The generated client over one connection.
pub type Coordinator = CoordinatorServiceClient<Channel>;

/// Long enough that nothing expires while a run uses it.
const LASTING: Duration = Duration::from_hours(24);
/// How long a parked caller is willing to wait; the policy may cut it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Encoded sizes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Exchange {
    /// Of the request, in bytes.
    pub request: usize,
    /// Of the answer, in bytes.
    pub answer: usize,
}

impl Exchange {
    /// Of these two.
    pub fn of(request: &impl Message, answer: &impl Message) -> Self {
        Self {
            request: request.encoded_len(),
            answer: answer.encoded_len(),
        }
    }

    /// The mean: what a field holds (nanoseconds, say) makes answers differ by some bytes.
    pub fn mean(exchanges: &[Self]) -> Self {
        let count = exchanges.len().max(1);
        let mean = |size: fn(&Self) -> usize| (exchanges.iter().map(size).sum::<usize>() + count / 2) / count;
        Self {
            request: mean(|exchange| exchange.request),
            answer: mean(|exchange| exchange.answer),
        }
    }
}

/// Words of this run.
#[derive(Debug)]
pub struct Caller {
    namespace: String,
    holder: String,
    value: Bytes,
    run: u32,
    asked: AtomicU64,
}

impl Caller {
    /// Callers in `namespace` whose values are `value_bytes` long.
    pub fn new(namespace: String, value_bytes: usize) -> Self {
        let run = rand::random();
        let holder = format!("bench-{run:08x}");
        Self {
            namespace,
            holder,
            value: Bytes::from(vec![b'v'; value_bytes]),
            run,
            asked: AtomicU64::new(0),
        }
    }

    /// The `number`-th key of the kind `kind`: 20 bytes.
    pub fn key(&self, kind: char, number: u64) -> String {
        format!("{kind}{:08x}-{number:010}", self.run)
    }

    /// Length of every key.
    pub fn key_bytes(&self) -> usize {
        self.key('k', 0).len()
    }

    /// Length of every value.
    pub fn value_bytes(&self) -> usize {
        self.value.len()
    }

    /// A question that nobody asked before.
    pub fn acquire(&self, key: String) -> AcquireRebuildRequest {
        let question = self.asked.fetch_add(1, Ordering::Relaxed);
        AcquireRebuildRequest {
            namespace: self.namespace.clone(),
            key,
            holder: self.holder.clone(),
            request_id: format!("{:08x}{question:08x}", self.run),
            ..AcquireRebuildRequest::default()
        }
    }

    /// A rebuild although the value is fresh.
    pub fn force(&self, key: String) -> AcquireRebuildRequest {
        AcquireRebuildRequest {
            intent: Intent::Force.into(),
            ..self.acquire(key)
        }
    }

    /// A caller that is willing to be parked.
    pub fn wait(&self, key: String) -> AcquireRebuildRequest {
        AcquireRebuildRequest {
            wait: duration(PATIENCE),
            ..self.acquire(key)
        }
    }

    /// The value, with the policy's lifetimes.
    pub fn report(&self, key: String, lease: &Lease) -> ReportValueRequest {
        ReportValueRequest {
            namespace: self.namespace.clone(),
            key,
            lease_id: lease.lease_id.clone(),
            outcome: Some(Outcome::Value(self.value.clone())),
            ..ReportValueRequest::default()
        }
    }

    /// The value, to stay for a day.
    pub fn report_lasting(&self, key: String, lease: &Lease) -> ReportValueRequest {
        let ttl = Lifetimes {
            fresh_ttl: duration(LASTING),
            ..Lifetimes::default()
        };
        ReportValueRequest {
            ttl: Some(ttl),
            ..self.report(key, lease)
        }
    }

    /// Makes one key old.
    pub fn invalidate(&self, key: String) -> InvalidateRequest {
        InvalidateRequest {
            namespace: self.namespace.clone(),
            keys: vec![key],
            wait_for_watchers: duration(Duration::ZERO),
            ..InvalidateRequest::default()
        }
    }

    /// Makes a tag old.
    pub fn invalidate_tag(&self, tag: String) -> InvalidateRequest {
        InvalidateRequest {
            namespace: self.namespace.clone(),
            tags: vec![tag],
            wait_for_watchers: duration(Duration::ZERO),
            ..InvalidateRequest::default()
        }
    }

    /// A watcher of the whole namespace that also wants to hear of reports.
    pub fn watch_refreshed(&self) -> WatchRequest {
        let mut request = self.watch();
        if let Some(watch_request::Kind::Subscribe(subscribe)) = &mut request.kind {
            subscribe.include_refreshed = true;
        }
        request
    }

    /// A watcher of the whole namespace.
    pub fn watch(&self) -> WatchRequest {
        let subscribe = Subscribe {
            namespaces: vec![self.namespace.clone()],
            holder: self.holder.clone(),
            observe_only: true,
            ..Subscribe::default()
        };
        WatchRequest {
            kind: Some(watch_request::Kind::Subscribe(subscribe)),
        }
    }

    /// Puts a value where there is none, or on top of the one that is there.
    pub async fn store(&self, client: &mut Coordinator, key: String) -> anyhow::Result<()> {
        let answer = client
            .acquire_rebuild(self.force(key.clone()))
            .await
            .map_err(explained)?;
        let lease = granted(answer.into_inner())?;
        let answer = client
            .report_value(self.report_lasting(key, &lease))
            .await
            .map_err(explained)?;
        accepted(&answer.into_inner())
    }

    /// How many are parked on `key`. None: this server does not tell.
    pub async fn parked(&self, admin: &mut AdminServiceClient<Channel>, key: &str) -> anyhow::Result<Option<usize>> {
        let request = DescribeKeyRequest {
            namespace: self.namespace.clone(),
            key: key.to_owned(),
        };
        match admin.describe_key(request).await {
            Ok(answer) => Ok(Some(usize::try_from(answer.into_inner().waiters).unwrap_or(0))),
            Err(status)
                if matches!(
                    status.code(),
                    tonic::Code::Unimplemented | tonic::Code::PermissionDenied
                ) =>
            {
                Ok(None)
            }
            Err(status) => Err(explained(status)),
        }
    }
}

/// The lease, where one must have been granted.
pub fn granted(answer: AcquireRebuildResponse) -> anyhow::Result<Lease> {
    match answer.decision {
        Some(Decision::Rebuild(rebuild)) => rebuild.lease.context("a rebuild was granted without a lease"),
        other => Err(unexpected("a rebuild", other.as_ref())),
    }
}

/// The hit, where the key must have been fresh.
pub fn fresh(answer: AcquireRebuildResponse) -> anyhow::Result<Hit> {
    match answer.decision {
        Some(Decision::Hit(hit)) if hit.freshness() == Freshness::Fresh => Ok(hit),
        other => Err(unexpected("a fresh hit", other.as_ref())),
    }
}

/// A report must have been stored.
pub fn accepted(answer: &ReportValueResponse) -> anyhow::Result<()> {
    if !answer.accepted {
        bail!("a report was refused: {}", answer.rejection().as_str_name());
    }
    Ok(())
}

fn unexpected(wanted: &str, decision: Option<&Decision>) -> anyhow::Error {
    let found = match decision {
        Some(Decision::Rebuild(_)) => "rebuild".to_owned(),
        Some(Decision::Hit(hit)) => format!("hit {}", hit.freshness().as_str_name()),
        Some(Decision::Busy(busy)) => format!("busy {}", busy.cause().as_str_name()),
        Some(Decision::Backoff(backoff)) => format!("backoff ({})", backoff.message),
        Some(Decision::Miss(_)) => "miss".to_owned(),
        None => "no decision".to_owned(),
    };
    anyhow!("expected {wanted}, got {found}")
}

fn duration(length: Duration) -> Option<prost_types::Duration> {
    // Every length here is a constant far inside the range.
    prost_types::Duration::try_from(length).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Busy;

    #[test]
    fn keys_of_all_numbers_have_the_same_length_and_differ() {
        let caller = Caller::new("bench".to_owned(), 32);
        assert_eq!(caller.key('k', 0).len(), caller.key_bytes());
        assert_eq!(caller.key('k', 9_999_999_999).len(), 20);
        assert_ne!(caller.key('k', 1), caller.key('k', 2));
        assert_ne!(caller.key('k', 1), caller.key('b', 1));
    }

    #[test]
    fn every_question_is_a_new_one() {
        let caller = Caller::new("bench".to_owned(), 32);
        let first = caller.acquire("k".to_owned()).request_id;
        assert_ne!(first, caller.acquire("k".to_owned()).request_id);
        assert_eq!(first.len(), 16);
    }

    #[test]
    fn an_answer_of_another_kind_is_named_in_the_error() {
        let busy = AcquireRebuildResponse {
            decision: Some(Decision::Busy(Busy::default())),
            ..Default::default()
        };
        let error = granted(busy.clone()).map(drop).unwrap_err().to_string();
        assert_eq!(error, "expected a rebuild, got busy BUSY_CAUSE_UNSPECIFIED");
        assert!(fresh(busy).is_err());
        assert!(
            fresh(AcquireRebuildResponse::default()).is_err(),
            "an unset decision is no hit"
        );
    }

    #[test]
    fn a_stale_hit_is_not_a_fresh_one() {
        let hit = Hit {
            freshness: Freshness::Stale.into(),
            ..Hit::default()
        };
        let answer = AcquireRebuildResponse {
            decision: Some(Decision::Hit(hit)),
            ..Default::default()
        };
        assert_eq!(
            fresh(answer).map(drop).unwrap_err().to_string(),
            "expected a fresh hit, got hit FRESHNESS_STALE"
        );
    }

    #[test]
    fn mean_sizes_are_rounded() {
        let sizes = [
            Exchange {
                request: 60,
                answer: 90,
            },
            Exchange {
                request: 60,
                answer: 93,
            },
        ];
        assert_eq!(
            Exchange::mean(&sizes),
            Exchange {
                request: 60,
                answer: 92
            }
        );
        assert_eq!(Exchange::mean(&[]), Exchange { request: 0, answer: 0 });
    }
}
