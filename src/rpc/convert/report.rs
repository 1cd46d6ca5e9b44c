//! What a holder says about its lease: that it needs longer, or how it ended.

use std::sync::Arc;

use super::answer::{expiry, length, number, some_length};
use super::{Check, Violations};
use crate::coordinator::{Renew, Renewed, ReportValue, Reported};
use crate::decision::{Content, Key, Lifetimes, LostReason, Outcome, Rejection, Report, ReportAnswer};
use crate::proto;
use crate::proto::report_value_request::Outcome as Given;
use crate::store::Bytes;

/// Bytes of an external value's locator.
pub const MAX_LOCATOR: usize = 1_024;
/// Bytes of a failure's message; longer ones are cut.
pub const MAX_MESSAGE: usize = 1_024;

/// Checks a renewal.
pub fn renew(request: proto::RenewLeaseRequest) -> Result<Renew, Violations> {
    let mut check = Check::default();
    check.namespace("namespace", &request.namespace);
    check.key("key", &request.key);
    let lease = check.lease_id(&request.lease_id);
    let ttl = check.duration("ttl", request.ttl);
    check.done()?;
    Ok(Renew {
        key: Key::new(&request.namespace, &request.key),
        lease,
        ttl,
    })
}

/// The answer to a renewal.
pub fn renewed(renewed: Renewed) -> proto::RenewLeaseResponse {
    proto::RenewLeaseResponse {
        renewed: renewed.lost.is_none(),
        ttl: some_length(renewed.ttl),
        lost_reason: renewed.lost.map_or(proto::LostReason::Unspecified, lost_reason).into(),
        max_hold: Some(length(renewed.max_hold)),
    }
}

/// Checks a report.
///
/// How large a value may be is the policy's business, so its size is not looked at here.
pub fn report(request: proto::ReportValueRequest) -> Result<ReportValue, Violations> {
    let mut check = Check::default();
    check.namespace("namespace", &request.namespace);
    check.key("key", &request.key);
    let lease = check.lease_id(&request.lease_id);
    let external = matches!(request.outcome, Some(Given::External(_)));
    let ended = outcome(&mut check, request.outcome);
    let cost = check.duration("rebuild_cost", request.rebuild_cost);
    let tags = check.tags(request.tags).unwrap_or_default();
    let lifetimes = lifetimes(&mut check, request.ttl.unwrap_or_default());
    check.rule(
        !(request.do_not_store && external),
        "do_not_store",
        "is not allowed with external: that value is stored already, in a store of your own",
    );
    check.done()?;
    // Without an outcome the check has not passed.
    let (outcome, bytes) = ended.ok_or_else(|| Violations::one("outcome", NO_OUTCOME))?;
    Ok(ReportValue {
        key: Key::new(&request.namespace, &request.key),
        report: Report {
            lease,
            outcome,
            cost,
            tags,
            lifetimes,
            do_not_store: request.do_not_store,
        },
        // A copy, so that a small value does not keep a whole buffer of the network alive.
        bytes: bytes.map(|bytes| Bytes::from(&bytes[..])),
    })
}

/// The answer to a report.
pub fn reported(reported: Reported) -> proto::ReportValueResponse {
    let (accepted, rejection, version, life) = match reported.answer {
        ReportAnswer::Accepted { version, expiry } => (true, proto::Rejection::Unspecified, number(version), expiry),
        ReportAnswer::Rejected(why) => (false, rejection(why), 0, None),
    };
    proto::ReportValueResponse {
        accepted,
        rejection: rejection.into(),
        version,
        expiry: life.map(expiry),
        degraded: reported.degraded,
    }
}

/// How a lease was lost.
pub fn lost_reason(reason: LostReason) -> proto::LostReason {
    match reason {
        LostReason::Superseded => proto::LostReason::Superseded,
        LostReason::Invalidated => proto::LostReason::Invalidated,
        LostReason::Expired => proto::LostReason::Expired,
        LostReason::MaxHold => proto::LostReason::MaxHold,
        LostReason::Reported => proto::LostReason::Reported,
        LostReason::UnknownLease => proto::LostReason::UnknownLease,
    }
}

fn rejection(why: Rejection) -> proto::Rejection {
    match why {
        Rejection::Superseded => proto::Rejection::Superseded,
        Rejection::Invalidated => proto::Rejection::Invalidated,
        Rejection::UnknownLease => proto::Rejection::UnknownLease,
        Rejection::NoValue => proto::Rejection::NoValue,
    }
}

const NO_OUTCOME: &str = "is not set, or is one that this server does not know; set exactly one of value, external, not_found, \
                          not_modified, failure and abandon";

/// How it ended, and the bytes of a value. `None`: it is not said, and the request is refused.
fn outcome(check: &mut Check, given: Option<Given>) -> Option<(Outcome, Option<bytes::Bytes>)> {
    let Some(given) = given else {
        check.refuse("outcome", NO_OUTCOME);
        return None;
    };
    Some(match given {
        Given::Value(bytes) => {
            // A message, and so a value, is far below 4 GiB.
            let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            (Outcome::Built(Content::Bytes(size)), Some(bytes))
        }
        Given::External(external) => {
            check.at_most("external.locator", &external.locator, MAX_LOCATOR);
            (Outcome::Built(Content::External(external.locator.into())), None)
        }
        Given::NotFound(_) => (Outcome::Built(Content::NotFound), None),
        Given::NotModified(_) => (Outcome::NotModified, None),
        Given::Failure(failure) => {
            let retry_after = check.duration("failure.retry_after", failure.retry_after);
            (
                Outcome::Failed {
                    message: cut(&failure.message),
                    retry_after,
                },
                None,
            )
        }
        Given::Abandon(_) => (Outcome::Abandoned, None),
    })
}

fn lifetimes(check: &mut Check, given: proto::Lifetimes) -> Lifetimes {
    Lifetimes {
        fresh_ttl: check.duration("ttl.fresh_ttl", given.fresh_ttl),
        stale_while_revalidate: check.duration("ttl.stale_while_revalidate", given.stale_while_revalidate),
        stale_if_error: check.duration("ttl.stale_if_error", given.stale_if_error),
    }
}

/// The beginning of a message, cut between characters.
fn cut(message: &str) -> Arc<str> {
    message[..message.floor_char_boundary(MAX_MESSAGE)].into()
}
