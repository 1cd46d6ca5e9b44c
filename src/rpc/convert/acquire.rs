//! The question about a key, and its answer.

use std::sync::Arc;

use tokio::time::Instant;

use super::answer::{self, length, number, small, some_length};
use super::{Check, MAX_HOLDER, Violations, text};
use crate::coordinator::{Acquire, Acquired};
use crate::decision::{Answer, Ask, Busy, BusyCause, Intent, Key, Rebuild};
use crate::proto;
use crate::proto::acquire_rebuild_response::Decision;
use crate::store::Bytes;

/// Checks a question. `answer_by` comes from the call's deadline and `traceparent` from its metadata.
pub fn acquire(
    request: proto::AcquireRebuildRequest,
    answer_by: Option<Instant>,
    traceparent: Option<Arc<str>>,
) -> Result<Acquire, Violations> {
    let mut check = Check::default();
    check.namespace("namespace", &request.namespace);
    check.key("key", &request.key);
    check.at_most("holder", &request.holder, MAX_HOLDER);
    check.request_id(&request.request_id);
    let wait = check.duration("wait", request.wait);
    let intent = intent(check.known("intent", request.intent));
    let known_version = check.number("known_version", request.known_version);
    let lease_ttl = check.duration("lease_ttl", request.lease_ttl);
    let min_token = check.number("min_fencing_token", request.min_fencing_token);
    let tags = check.tags(request.tags);
    let newer_than = check.number("newer_than", request.newer_than);
    let hits = check.count("hits", request.hits);
    check.done()?;
    Ok(Acquire {
        key: Key::new(&request.namespace, &request.key),
        ask: Ask {
            holder: text(request.holder),
            request_id: text(request.request_id),
            intent,
            accept_stale: request.accept_stale.unwrap_or(true),
            known_version,
            omit_value: request.omit_value,
            lease_ttl,
            min_token,
            tags: tags.map(Arc::from),
            newer_than,
            traceparent,
            parked_on: None,
            workers: false,
        },
        wait,
        answer_by,
        hits,
    })
}

/// The answer, in the words of the proto.
pub fn acquired(acquired: Acquired) -> proto::AcquireRebuildResponse {
    let bytes = acquired.bytes;
    proto::AcquireRebuildResponse {
        decision: Some(match acquired.answer {
            Answer::Rebuild(granted) => Decision::Rebuild(rebuild(*granted, bytes)),
            Answer::Hit(hit) => Decision::Hit(answer::hit(hit, bytes)),
            Answer::Busy(state) => Decision::Busy(busy(state)),
            Answer::KeepOff(pause) => Decision::Backoff(answer::backoff(pause)),
            Answer::Miss => Decision::Miss(proto::Miss {}),
        }),
        degraded: acquired.degraded,
        hints: acquired.hint.map(|hint| proto::Hints {
            hot: hint.hot,
            replicas: small(hint.copies),
        }),
        waited: some_length(acquired.waited),
    }
}

fn rebuild(granted: Rebuild, bytes: Option<Bytes>) -> proto::Rebuild {
    proto::Rebuild {
        lease: Some(proto::Lease {
            lease_id: granted.lease.to_string(),
            fencing_token: number(granted.lease.fencing_token()),
            ttl: Some(length(granted.ttl)),
            max_hold: Some(length(granted.max_hold)),
        }),
        cause: answer::cause(granted.cause).into(),
        fallback: granted.fallback.map(|hit| answer::hit(hit, bytes)),
        fallback_on_failure_only: granted.fallback_on_failure_only,
        planned_expiry: Some(answer::expiry(granted.planned)),
        max_value_bytes: small(granted.max_value_bytes),
    }
}

fn busy(state: Busy) -> proto::Busy {
    let cause = match state.cause {
        BusyCause::WaitElapsed => proto::BusyCause::WaitElapsed,
        BusyCause::TooManyWaiters => proto::BusyCause::TooManyWaiters,
        BusyCause::RebuildBudget => proto::BusyCause::RebuildBudget,
    };
    proto::Busy {
        retry_after: Some(length(state.retry_after)),
        lease_remaining: some_length(state.lease_remaining),
        cause: cause.into(),
    }
}

fn intent(given: proto::Intent) -> Intent {
    match given {
        proto::Intent::Unspecified => Intent::Use,
        proto::Intent::Early => Intent::Early,
        proto::Intent::Force => Intent::Force,
        proto::Intent::Read => Intent::Read,
    }
}
