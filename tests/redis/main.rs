//! The store in Redis, against real servers.

// Every task ends with the runtime of its test, and real servers take real time.
#![allow(clippy::disallowed_methods)]

mod acts;
mod bench;
mod conformance;
mod degraded;
mod fleet;
mod link;
mod losses;
mod process;
mod schedule;
#[path = "../support/redis.rs"]
mod support;
mod trips;
mod watching;
mod world;
