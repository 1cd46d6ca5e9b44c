//! drover: who may rebuild a cache key, how long a value may live, and who must forget it.
//!
//! ```text
//!  rpc ──▶ coordinator ──▶ decision   (pure: what should happen)
//!             │   ▲
//!             ▼   │ rings
//!           store ──▶ fanout ──▶ watchers, parked callers
//! ```

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
