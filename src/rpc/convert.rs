//! Requests into domain types, and answers back.
//!
//! *Owns* all validation of input: what has passed here breaks no limit that can be told without the store or the policy.
//!
//! *Never does*: call anything, read a clock, or know a status; it says what is wrong as [`Violations`].
//!
//! *Invariants*: total, for any bytes that decode; nothing of a request's receive buffer is kept alive by a domain type.
//!
//! | messages of | are in |
//! |---|---|
//! | AcquireRebuild | [`acquire()`], [`acquired`] |
//! | RenewLease, ReportValue | [`renew`], [`report()`] and their answers |
//! | Invalidate | [`invalidate()`], [`invalidated`] |
//! | Watch | [`check_subscribe`], [`check_ack`] |
//! | PullRefreshes | [`register`], [`pulled`] |
//! | ScheduleRefresh | [`schedule`], [`scheduled`] |
//! | AdminService | [`describe`], [`leases`], [`namespaces`], [`hot_keys`] and their answers |

mod acquire;
mod admin;
mod answer;
mod check;
#[doc(hidden)]
pub mod fuzz;
mod invalidate;
mod page;
mod refresh;
mod report;
mod stream;

#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use acquire::{acquire, acquired};
pub use admin::{describe, described, hot_keys, hottest, lease_page, leases, namespace_page, namespaces};
pub use answer::{expiry, length, number};
pub use check::{
    MAX_HOLDER, MAX_KEY, MAX_LEASE_ID, MAX_NAMESPACE, MAX_REQUEST_ID, MAX_TAG, MAX_VIOLATIONS, Violation, Violations,
};
pub use invalidate::{MAX_REASON, MAX_TARGETS, invalidate, invalidated};
pub use page::{LeasePage, NamespacePage};
pub use refresh::{MAX_IN_FLIGHT, pulled, register, schedule, scheduled};
pub use report::{MAX_LOCATOR, MAX_MESSAGE, lost_reason, renew, renewed, report, reported};
pub use stream::{
    MAX_NAMESPACES, MAX_PREFIXES, MAX_SCHEDULED, MAX_SCHEDULED_BYTES, check_ack, check_schedule, check_subscribe,
};

pub(in crate::rpc) use check::Check;

/// Text to be shared; empty text costs nothing.
fn text(given: String) -> Arc<str> {
    if given.is_empty() { Arc::default() } else { given.into() }
}
