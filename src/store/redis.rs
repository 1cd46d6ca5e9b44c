//! The store that replicas share, in Redis or Valkey.

pub mod condition;
pub mod link;
