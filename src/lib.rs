//! drover: who may rebuild a cache key, how long a value may live, and who must forget it.
//!
//! ```text
//!  rpc ──▶ coordinator ──▶ decision   (pure: what should happen)
//!             │   ▲
//!             ▼   │ rings
//!           store ──▶ fanout ──▶ watchers, parked callers
//! ```
//!
//! A newcomer follows one request from left to right.
//!
//! | part | what it is |
//! |---|---|
//! | `rpc` | gRPC to domain types and back. Checks everything, decides nothing. |
//! | `coordinator` | The only place where the others meet: load, decide, commit, then answer or park. One queue a key. |
//! | [`decision`] | The rules: who rebuilds, which report counts, how long a value lives. `std` only, no I/O, no clock, no randomness. |
//! | `store` | The truth: a register a key with compare-and-set, a clock that stamps, a feed. Embedded, or in a Redis that replicas share; one conformance suite for both. |
//! | `fanout` | The feed's log, from which watchers read at their own pace, and the rings that wake parked callers. |
//!
//! Around them: `config` (settings and policies, reloaded), `server` (ports, start, drain), `telemetry` and `metrics`, and the commands
//! `ctl`, `lab` and `bench` behind `cli`. All but [`decision`] need the feature `service`, which is on unless it is turned off.

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests end with what they start"))]

#[cfg(feature = "service")]
pub mod bench;
#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod config;
#[cfg(feature = "service")]
pub mod coordinator;
#[cfg(feature = "service")]
pub mod ctl;
pub mod decision;
#[cfg(feature = "service")]
pub mod fanout;
#[cfg(feature = "service")]
pub mod lab;
#[cfg(feature = "service")]
pub mod metrics;
#[cfg(feature = "service")]
pub mod rpc;
#[cfg(feature = "service")]
pub mod server;
#[cfg(feature = "service")]
pub mod shutdown;
#[cfg(feature = "service")]
pub mod store;
#[cfg(feature = "service")]
pub mod telemetry;

/// The gRPC messages and services, generated from `proto/drover/v1`.
#[cfg(feature = "service")]
#[allow(missing_docs, clippy::large_enum_variant, clippy::doc_lazy_continuation)]
pub mod proto {
    tonic::include_proto!("drover.v1");

    /// What reflection serves.
    pub const DESCRIPTOR: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/drover_descriptor.bin"));
}
