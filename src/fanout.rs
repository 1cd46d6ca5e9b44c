//! From commits to whoever waits for them: the log that watchers read, and the rings that wake parked callers.
//!
//! *Owns* the [`Feed`] of a store (its log and its rings), and the [`Hub`] of a replica (its watchers).
//!
//! ```text
//!  commit ─append─▶ Feed ◀─read at their own pace─ Watching (one a watcher, driven by its client's flow control)
//!            └─announce─▶ Hub ─wake those that match─┘
//! ```
//!
//! A shared store commits elsewhere; there a tail fills the feed with what it reads of that store's log, partition by partition.
//!
//! | to follow | read |
//! |---|---|
//! | where a watcher stands, and when it is reset | `position`, `log` (one partition), `logs` (all of them), `stream` |
//! | who an invalidation waits for | `barrier` (this replica), `peers` (the others) |
//! | when watchers are told nothing | [`Feed::advance`] and `Hub::holds_back` |
//!
//! *Invariants.* A watcher is a position in the log and a filter, nothing else: it has no queue, no task and no channel. So a slow
//! one holds up nobody, resuming is the same code as live reading, and a [`Reset`](What::Reset) cannot be lost, because it follows
//! from the position for as long as it has not been yielded.
//!
//! *Why not a broadcast channel*: it has one bound for all, cannot be resumed by position, and loses what was sent between two
//! subscriptions.

mod barrier;
mod cursor;
mod event;
mod feed;
mod filter;
mod hub;
mod log;
mod logs;
mod merge;
mod peers;
mod position;
mod registry;
mod ring;
mod stats;
mod stream;
mod watcher;

#[cfg(test)]
mod tests;

pub use barrier::Barrier;
pub use cursor::{BadCursor, Cursor, MAX_CURSOR};
pub use event::{Invalidation, WatchEvent, What};
pub use feed::{Appended, Feed, Listener, Record, ResetReason};
pub use filter::Subscription;
pub use hub::{Hub, HubLimits, LocalHits, Refused};
pub use log::Bounds;
pub use logs::CURRENT;
pub use peers::{Peers, Question, Respondent, ask_everywhere};
pub use stats::Stats;
pub use stream::{MAX_SILENCE, PROGRESS_INTERVAL, Watching};
