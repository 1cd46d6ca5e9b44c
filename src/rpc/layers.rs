//! What the server puts around all services: [`Calls`], the span of each call and the count of its errors.
//!
//! It stands outside of [`catch_panics`](super::catch_panics), so that what a panic became is still seen and counted.
//!
//! *Why no* limit on concurrency, no load shedding and no timeout here: a limit that parked acquires share with everybody would
//! starve the reports that free them, and a timeout would cut the answers that come just before a deadline. Each has its own bound
//! where it is parked.

mod calls;
mod trace;

pub use calls::{Call, Calls, Traced};
