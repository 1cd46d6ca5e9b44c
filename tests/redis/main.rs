//! The store in Redis, against real servers.

mod acts;
mod conformance;
mod fleet;
mod losses;
#[path = "../support/redis.rs"]
mod support;
mod trips;
mod world;
