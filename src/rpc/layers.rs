//! What every call passes before its handler, from the outside in:
//!
//! 1. [`Calls`]: the server span, whose parent is the caller's, and the count of errors;
//! 2. catch-panic: a bug in a handler is INTERNAL to one caller and a line in the log, and nothing to the others;
//! 3. the services.
//!
//! *Why* in this order: what the panic became is still seen by the span and counted.
//!
//! *Why no* limit on concurrency, no load shedding and no timeout here: a limit that parked acquires share with everybody would
//! starve the reports that free them, and a timeout would cut the answers that come just before a deadline. Each has its own bound
//! where it is parked.

mod calls;
mod panics;
mod trace;

pub use calls::{Call, Calls, Traced};
pub use panics::{Answer as PanicAnswer, catch as catch_panics};
pub use trace::{TRACEPARENT, traceparent};
