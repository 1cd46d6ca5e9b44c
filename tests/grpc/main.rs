//! The contract, asked of a real server over real connections: one behaviour a file.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests end with what they start, and may fail where they stand"
)]

mod admin;
mod backing;
mod backoff;
mod barrier;
mod budget;
mod child;
mod crowd;
mod discovery;
mod endings;
mod fields;
mod herd;
mod hot;
mod idle;
mod intents;
mod invalidation;
mod lateness;
mod names;
mod refreshing;
mod renewals;
mod retries;
mod rough;
mod statuses;
mod strict;
mod support;
mod tags;
mod takeover;
mod unread;
mod versions;
mod waiting;
mod watching;
mod wire;
