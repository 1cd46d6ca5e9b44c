//! From commits to whoever waits for them: the log that watchers read, and the rings that wake parked callers.
//!
//! *Owns* the [`Feed`] of a store.

mod feed;

pub use feed::{Appended, Feed, Listener, Record, ResetReason};
