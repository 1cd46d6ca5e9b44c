//! *Owns* the sentences behind enum values, and the facts that several answers share.
//!
//! *Invariants*: a value that this client does not know reads as the contract says it must be treated (freshness as
//! stale, mode as drop, a rejection as rejected).

use anstyle::Style;

use super::text::{self, CARE, GOOD, Page};
use super::units;
use crate::proto::{
    Backoff, BusyCause, Cause, Expiry, Freshness, Hit, LostReason, Mode, Rejection, ResetReason, hit::Content,
};

/// One or two words, for a table.
pub fn cause(number: i32) -> &'static str {
    match Cause::try_from(number) {
        Ok(Cause::Miss) => "miss",
        Ok(Cause::Expired) => "expired",
        Ok(Cause::Stale) => "stale",
        Ok(Cause::Invalidated) => "invalidated",
        Ok(Cause::Early) => "early",
        Ok(Cause::Forced) => "forced",
        Ok(Cause::Takeover) => "takeover",
        Ok(Cause::Scheduled) => "scheduled",
        Ok(Cause::Lost) => "lost",
        Ok(Cause::Unspecified) | Err(_) => "unknown",
    }
}

/// Why a rebuild was granted, as a sentence.
pub fn cause_sentence(number: i32) -> &'static str {
    match Cause::try_from(number) {
        Ok(Cause::Miss) => "nothing was known",
        Ok(Cause::Expired) => "the value is past every window",
        Ok(Cause::Stale) => "the value is stale",
        Ok(Cause::Invalidated) => "the value was invalidated",
        Ok(Cause::Early) => "its early refresh is due",
        Ok(Cause::Forced) => "you forced it",
        Ok(Cause::Takeover) => "an earlier holder lost it",
        Ok(Cause::Scheduled) => "its refresh was scheduled",
        Ok(Cause::Lost) => "your own store lacks it",
        Ok(Cause::Unspecified) | Err(_) => "for a reason this client does not know",
    }
}

pub fn busy(number: i32) -> &'static str {
    match BusyCause::try_from(number) {
        Ok(BusyCause::TooManyWaiters) => "too many callers wait already",
        Ok(BusyCause::RebuildBudget) => "the namespace's rebuild budget is used up",
        Ok(BusyCause::WaitElapsed | BusyCause::Unspecified) | Err(_) => "the wait is over, somebody else rebuilds",
    }
}

pub fn rejection(number: i32) -> &'static str {
    match Rejection::try_from(number) {
        Ok(Rejection::Superseded) => "superseded: a newer grant exists",
        Ok(Rejection::Invalidated) => "invalidated: what you built is old",
        Ok(Rejection::UnknownLease) => {
            "unknown lease: mistyped, forgotten, reported before with another outcome, or granted by another replica in degraded mode"
        }
        Ok(Rejection::NoValue) => "no value: there is none left to confirm",
        Ok(Rejection::Unspecified) | Err(_) => "for a reason this client does not know",
    }
}

pub fn lost(number: i32) -> &'static str {
    match LostReason::try_from(number) {
        Ok(LostReason::Superseded) => "superseded: somebody else holds it",
        Ok(LostReason::Invalidated) => "invalidated: the work is futile",
        Ok(LostReason::Expired) => "expired: its time ran out and nobody holds it, a report may still be accepted",
        Ok(LostReason::MaxHold) => "longest hold used up: the lease goes on until its time is over",
        Ok(LostReason::Reported) => "reported already",
        Ok(LostReason::UnknownLease) => {
            "unknown lease: mistyped, forgotten, or granted by another replica in degraded mode"
        }
        Ok(LostReason::Unspecified) | Err(_) => "for a reason this client does not know",
    }
}

pub fn mode(number: i32) -> &'static str {
    match Mode::try_from(number) {
        Ok(Mode::Expire) => "expire",
        Ok(Mode::Drop | Mode::Unspecified) | Err(_) => "drop",
    }
}

pub fn reset(number: i32) -> &'static str {
    match ResetReason::try_from(number) {
        Ok(ResetReason::UnknownCursor) => "the cursor is malformed or of another deployment",
        Ok(ResetReason::CursorTooOld) => "the cursor is older than the log",
        Ok(ResetReason::SlowConsumer) => "this watcher did not keep up",
        Ok(ResetReason::LogLost) => "the store lost or replaced its log",
        Ok(ResetReason::DegradedEnded) => "the store is back after degraded decisions",
        Ok(ResetReason::Unspecified) | Err(_) => "for a reason this client does not know",
    }
}

pub fn freshness(number: i32) -> (Style, &'static str) {
    match Freshness::try_from(number) {
        Ok(Freshness::Fresh) => (GOOD, "fresh"),
        Ok(Freshness::Stale | Freshness::Unspecified) | Err(_) => (CARE, "stale"),
    }
}

/// "fresh 4m 48s, then stale 1m, or 1h if the origin fails". An answer counts everything from now; people think of the
/// stale windows as beginning when freshness ends, as in the policy.
pub fn lifetimes(expiry: &Expiry) -> String {
    let stale = units::beyond(&expiry.stale_for, &expiry.fresh_for).map(|length| units::people(&length));
    let on_error = units::beyond(&expiry.stale_if_error_for, &expiry.fresh_for).map(|length| units::people(&length));
    let stale = match (stale, on_error) {
        (Some(stale), Some(on_error)) => Some(format!("stale {stale}, or {on_error} if the origin fails")),
        (Some(stale), None) => Some(format!("stale {stale}")),
        (None, Some(on_error)) => Some(format!("stale {on_error} if the origin fails")),
        (None, None) => None,
    };
    let fresh = units::some(&expiry.fresh_for).map(|length| format!("fresh {}", units::people(length)));
    match (fresh, stale) {
        (Some(fresh), Some(stale)) => format!("{fresh}, then {stale}"),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => "none, it is not stored".into(),
    }
}

/// What a hit is, without its facts. Unset content is something newer and not usable.
pub fn content(content: &Option<Content>) -> String {
    match content {
        Some(Content::Value(value)) => text::bytes(value),
        Some(Content::External(external)) if external.locator.is_empty() => "in the callers' own store".into(),
        Some(Content::External(external)) => format!("in the callers' own store, at {}", text::safe(&external.locator)),
        Some(Content::NotFound(_)) => "not found at the origin".into(),
        Some(Content::Unchanged(_)) => "unchanged, the version you have is current".into(),
        Some(Content::Omitted(_)) => "present, not sent".into(),
        None => "something this client does not know: not usable".into(),
    }
}

/// The facts of a hit below its headline.
pub fn hit_facts(page: &mut Page, hit: &Hit) {
    page.fact("value", content(&hit.content));
    page.fact_if("version", (hit.version != 0).then(|| hit.version.to_string()));
    page.fact_if("age", hit.age.as_ref().map(units::people));
    if let Some(expiry) = &hit.expiry {
        expiry_facts(page, expiry);
    }
    page.fact_if("rebuilding", hit.rebuilding.then_some("yes, somebody refreshes it now"));
    page.fact_if("tags", (!hit.tags.is_empty()).then(|| text::names(&hit.tags)));
    page.fact_if(
        "trace",
        (!hit.rebuild_traceparent.is_empty()).then(|| text::safe(&hit.rebuild_traceparent)),
    );
}

pub fn expiry_facts(page: &mut Page, expiry: &Expiry) {
    page.fact("lifetimes", lifetimes(expiry));
    page.fact_if("refresh in", units::some(&expiry.refresh_in).map(units::people));
    page.fact_if(
        "rebuild cost",
        units::some(&expiry.rebuild_cost).map(|cost| format!("{}, beta {}", units::people(cost), expiry.beta)),
    );
}

pub fn backoff_facts(page: &mut Page, backoff: &Backoff) {
    page.fact_if("ask again in", backoff.retry_after.as_ref().map(units::people));
    page.fact_if(
        "failures",
        (backoff.failures > 0).then(|| format!("{} in a row", units::count(backoff.failures.into()))),
    );
    page.fact_if(
        "last error",
        (!backoff.message.is_empty()).then(|| text::safe(&backoff.message)),
    );
    page.fact_if(
        "circuit",
        backoff.circuit_open.then_some("open for the whole namespace"),
    );
}

/// The warning under an answer that one replica gave alone.
pub fn degraded_fact(page: &mut Page, degraded: bool) {
    let warning = "yes, this replica decided alone: keep it out of local caches and fenced stores";
    page.fact_if("degraded", degraded.then(|| text::paint(CARE, warning)));
}

#[cfg(test)]
mod tests {
    use prost_types::Duration;

    use super::*;

    fn seconds(seconds: i64) -> Option<Duration> {
        Some(Duration { seconds, nanos: 0 })
    }

    #[test]
    fn lifetimes_read_in_the_order_in_which_they_pass() {
        let table = [
            (
                seconds(288),
                seconds(348),
                seconds(3_888),
                "fresh 4m 48s, then stale 1m, or 1h if the origin fails",
            ),
            (seconds(5), seconds(5), None, "fresh 5s"),
            (
                seconds(5),
                seconds(0),
                seconds(65),
                "fresh 5s, then stale 1m if the origin fails",
            ),
            (
                seconds(0),
                seconds(60),
                seconds(3_600),
                "stale 1m, or 1h if the origin fails",
            ),
            (None, None, seconds(3_600), "stale 1h if the origin fails"),
            (seconds(-1), seconds(60), seconds(0), "fresh -1s, then stale 1m"),
            (seconds(0), seconds(0), seconds(0), "none, it is not stored"),
        ];
        for (fresh_for, stale_for, stale_if_error_for, text) in table {
            assert_eq!(
                lifetimes(&Expiry {
                    fresh_for,
                    stale_for,
                    stale_if_error_for,
                    ..Expiry::default()
                }),
                text
            );
        }
    }

    #[test]
    fn values_of_a_newer_server_read_as_the_contract_treats_them() {
        assert_eq!(freshness(99).1, "stale");
        assert_eq!(mode(99), "drop");
        assert_eq!(busy(99), busy(BusyCause::WaitElapsed as i32));
        assert_eq!(content(&None), "something this client does not know: not usable");
        for sentence in [cause_sentence(99), rejection(99), lost(99), reset(99)] {
            assert_eq!(sentence, "for a reason this client does not know");
        }
    }
}
