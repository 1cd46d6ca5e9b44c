//! What operators choose: settings of the process, and policies of the namespaces.
//!
//! *Owns* the file's format, the flags of `drover serve`, which source wins, and the swap of policies at a reload.
//!
//! *Never does*: acts on a setting. It hands out plain values.
//!
//! *Invariants.* A configuration is taken whole or not at all; every mistake in it is named with file, line, field and
//! what is allowed, all of them together.
//!
//! | to learn | read |
//! |---|---|
//! | what `drover serve` can be told | [`ServeArgs`], [`Settings`] |
//! | the policy of a namespace, at run time | [`Policies`], [`PolicySet`] |
//! | what the file may say | the tables in `fields` and `server` |
//! | how a file is read, and what it is told | `file`, `layer`, `sheet` |
//! | `drover config check` | [`check()`] |
//! | the forms of a store's URL | `store` |
//! | how policies follow their file | [`reload`] |

mod args;
mod check;
mod fields;
mod file;
mod given;
mod layer;
mod mistake;
mod overrides;
mod policies;
pub mod reload;
mod server;
mod settings;
mod sheet;
mod store;
mod text;
mod units;

pub use args::{LogFormat, ServeArgs, StoreChoice, StoreKind, Switch};
pub use check::{CheckArgs, check};
pub use mistake::{At, ConfigError, Mistake};
pub use overrides::{Override, Overrides};
pub use policies::{Policies, PolicySet};
pub use settings::{Limits, Settings, Source};
pub use store::{Address, RedisSettings, Secret, StoreUrl, Topology};
pub use text::{policy_fields, policy_toml};
pub use units::{Refusal, grouped, read_duration, read_size, write_duration, write_size};

#[cfg(test)]
mod tests;
