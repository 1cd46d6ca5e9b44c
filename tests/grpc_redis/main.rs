//! The contract once more: two replicas that share a Redis, asked in turn.
//!
//! The tests themselves are those of `tests/grpc`, but for those that start `drover serve` as a process to measure it: these
//! are about what a replica does with its callers, whatever its store.

#![allow(
    dead_code,
    unused_imports,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests end with what they start, and may fail where they stand; not each needs all of their words"
)]

mod backing;
#[path = "../support/redis.rs"]
mod redis;
#[path = "../support/shared.rs"]
mod shared;

#[path = "../grpc/admin.rs"]
mod admin;
#[path = "../grpc/backoff.rs"]
mod backoff;
#[path = "../grpc/barrier.rs"]
mod barrier;
#[path = "../grpc/budget.rs"]
mod budget;
#[path = "../grpc/crowd.rs"]
mod crowd;
#[path = "../grpc/discovery.rs"]
mod discovery;
#[path = "../grpc/endings.rs"]
mod endings;
#[path = "../grpc/fields.rs"]
mod fields;
#[path = "../grpc/herd.rs"]
mod herd;
#[path = "../grpc/hot.rs"]
mod hot;
#[path = "../grpc/intents.rs"]
mod intents;
#[path = "../grpc/invalidation.rs"]
mod invalidation;
#[path = "../grpc/lateness.rs"]
mod lateness;
#[path = "../grpc/names.rs"]
mod names;
#[path = "../grpc/refreshing.rs"]
mod refreshing;
#[path = "../grpc/renewals.rs"]
mod renewals;
#[path = "../grpc/retries.rs"]
mod retries;
#[path = "../grpc/rough.rs"]
mod rough;
#[path = "../grpc/statuses.rs"]
mod statuses;
#[path = "../grpc/strict.rs"]
mod strict;
#[path = "../grpc/support.rs"]
mod support;
#[path = "../grpc/tags.rs"]
mod tags;
#[path = "../grpc/takeover.rs"]
mod takeover;
#[path = "../grpc/versions.rs"]
mod versions;
#[path = "../grpc/waiting.rs"]
mod waiting;
#[path = "../grpc/watching.rs"]
mod watching;
#[path = "../grpc/wire.rs"]
mod wire;
