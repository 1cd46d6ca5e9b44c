//! The store in Redis, against real servers.

mod conformance;
#[path = "../support/redis.rs"]
mod support;
mod world;
