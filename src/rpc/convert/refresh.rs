//! What workers send and are sent, and what is to be refreshed later.

use std::sync::Arc;

use super::answer::{cause, length, number, small, some_length};
use super::stream::{MAX_NAMESPACES, MAX_PREFIXES, check_schedule};
use super::{Check, MAX_HOLDER, MAX_KEY, Violations, text};
use crate::coordinator::{Pulled, RefreshScheduled, RefreshTask, Registration, ScheduleRefresh};
use crate::decision::Key;
use crate::proto;
use crate::proto::pull_refreshes_response::Event;

/// Tasks that one worker may have at once.
pub const MAX_IN_FLIGHT: i32 = 10_000;

/// Checks what a worker takes.
pub fn register(register: proto::Register) -> Result<Registration, Violations> {
    let mut check = Check::default();
    check.rule(
        !register.namespaces.is_empty(),
        "register.namespaces",
        "is empty; name at least one namespace",
    );
    check.rule(
        register.namespaces.len() <= MAX_NAMESPACES,
        "register.namespaces",
        "has more than 64 namespaces; use several streams",
    );
    for (at, namespace) in register.namespaces.iter().enumerate() {
        check.namespace(("register.namespaces", at), namespace);
        if check.is_full() {
            break;
        }
    }
    check.rule(
        register.key_prefixes.len() <= MAX_PREFIXES,
        "register.key_prefixes",
        "has more than 100 prefixes; use shorter ones, or none",
    );
    for (at, prefix) in register.key_prefixes.iter().enumerate() {
        check.at_most(("register.key_prefixes", at), prefix, MAX_KEY);
        if check.is_full() {
            break;
        }
    }
    check.at_most("register.holder", &register.holder, MAX_HOLDER);
    check.rule(
        (0..=MAX_IN_FLIGHT).contains(&register.max_in_flight),
        "register.max_in_flight",
        "must be 0 (pauses) to 10,000",
    );
    check.done()?;
    // A prefix that is empty is that of every key.
    let all = register.key_prefixes.iter().any(String::is_empty);
    Ok(Registration {
        namespaces: register.namespaces.into_iter().map(Arc::from).collect(),
        key_prefixes: if all { Vec::new() } else { register.key_prefixes },
        holder: text(register.holder),
        max_in_flight: usize::try_from(register.max_in_flight).unwrap_or_default(),
    })
}

/// A message to a worker.
pub fn pulled(pulled: Pulled) -> proto::PullRefreshesResponse {
    let event = match pulled {
        Pulled::Started {
            progress_interval,
            max_silence,
        } => Event::Started(proto::Started {
            progress_interval: Some(length(progress_interval)),
            max_silence: Some(length(max_silence)),
        }),
        Pulled::Task(given) => Event::Task(task(given)),
        Pulled::Progress { draining } => Event::Progress(proto::Progress { draining }),
    };
    proto::PullRefreshesResponse { event: Some(event) }
}

fn task(task: RefreshTask) -> proto::RefreshTask {
    proto::RefreshTask {
        namespace: task.key.namespace().to_owned(),
        key: task.key.name().to_owned(),
        lease: Some(proto::Lease {
            lease_id: task.lease.to_string(),
            fencing_token: number(task.lease.fencing_token()),
            ttl: Some(length(task.ttl)),
            max_hold: Some(length(task.max_hold)),
        }),
        cause: cause(task.cause).into(),
        current_version: number(task.version),
        rebuild_cost: some_length(task.cost),
        traceparent: task
            .traceparent
            .map_or_else(String::new, |parent| parent.as_ref().to_owned()),
    }
}

/// Checks which keys are to be rebuilt later. `traceparent` comes from the call's metadata.
pub fn schedule(
    request: proto::ScheduleRefreshRequest,
    traceparent: Option<Arc<str>>,
) -> Result<ScheduleRefresh, Violations> {
    let spread_over = check_schedule(&request)?.unwrap_or_default();
    let key = |name: &String| Key::new(&request.namespace, name);
    Ok(ScheduleRefresh {
        keys: request.keys.iter().map(key).collect(),
        namespace: request.namespace.into(),
        spread_over,
        only_if_missing: request.only_if_missing,
        traceparent,
    })
}

/// What was planned, in the words of the proto.
pub fn scheduled(scheduled: RefreshScheduled) -> proto::ScheduleRefreshResponse {
    proto::ScheduleRefreshResponse {
        scheduled: small(scheduled.scheduled),
        skipped: small(scheduled.skipped),
        workers: small(scheduled.workers),
    }
}
