//! The store on real Redis servers, started by the tests themselves.

#[path = "../support/redis.rs"]
mod servers;

mod link;
