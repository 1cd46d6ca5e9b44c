//! The store on real Redis servers, started by the tests themselves.

// Every task ends with the runtime of its test, and real servers take real time.
#![allow(clippy::disallowed_methods)]

#[path = "../support/redis.rs"]
mod servers;

mod link;
