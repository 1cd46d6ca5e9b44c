//! What operators choose: settings of the process, and policies of the namespaces.
//!
//! *Owns* the file's format, the flags of `drover serve`, which source wins, and the swap of policies at a reload.
//!
//! *Never does*: acts on a setting. It hands out plain values.
//!
//! *Invariants.* A configuration is taken whole or not at all; every mistake in it is named with file, line, field and what is
//! allowed, all of them together.
//!
//! | to learn | read |
//! |---|---|
//! | what `drover serve` can be told | [`ServeArgs`], [`Settings`] |
//! | the policy of a namespace, at run time | [`Policies`], [`PolicySet`] |

mod args;
mod mistake;
mod policies;
mod settings;
mod units;

pub use args::{LogFormat, ServeArgs, StoreKind, Switch};
pub use mistake::{ConfigError, Mistake};
pub use policies::{Policies, PolicySet};
pub use settings::{Limits, Settings};
pub use units::{Refusal, grouped, read_duration, read_size, write_duration, write_size};
