//! The fields of a policy in the file: names, forms, and what is allowed.
//!
//! *Owns* one table, [`FIELDS`]. Reading, writing, `--default`, the list behind "did you mean" and the pairs that have
//! to fit each other all go by it, so a field that is added to [`Policy`] is added here once.
//!
//! *Never does* range checks: those are the policy's own ([`Policy::check`]); here only the form of a value is read.

use std::time::Duration;

use super::given::Given;
use super::units::{Refusal, read_duration, read_size, write_duration, write_size};
use crate::decision::{JitterAmount, JitterMode, Policy, StoreDown};

/// One field.
pub(super) struct Field {
    /// As in the file; a dot stands for a table within, as in `backoff.base`.
    pub name: &'static str,
    /// The field that bounds it.
    pub bound: Option<&'static str>,
    /// What is allowed, with an example.
    pub allowed: &'static str,
    slot: Slot,
}

/// Where its value lives in a [`Policy`], and its form.
enum Slot {
    Length(fn(&mut Policy) -> &mut Duration),
    Count(fn(&mut Policy) -> &mut u32),
    Bytes(fn(&mut Policy) -> &mut u32),
    Number(fn(&mut Policy) -> &mut f64),
    Switch(fn(&mut Policy) -> &mut bool),
    Mode,
    Ratio,
    Spread,
    StoreDown,
}

const fn field(name: &'static str, slot: Slot, bound: Option<&'static str>, allowed: &'static str) -> Field {
    Field {
        name,
        bound,
        allowed,
        slot,
    }
}

const LENGTH: &str = "0s to 30d, such as \"5m\"";
const IN_LIFETIME: &str = "0s to max_lifetime, such as \"5m\"";
const COUNT: &str = "0 to 4294967295";

/// Every field, in the order in which people read them.
pub(super) static FIELDS: [Field; 20] = [
    field(
        "fresh_ttl",
        Slot::Length(|p| &mut p.fresh_ttl),
        Some("max_lifetime"),
        IN_LIFETIME,
    ),
    field(
        "stale_while_revalidate",
        Slot::Length(|p| &mut p.stale_while_revalidate),
        None,
        LENGTH,
    ),
    field("stale_if_error", Slot::Length(|p| &mut p.stale_if_error), None, LENGTH),
    field(
        "negative_ttl",
        Slot::Length(|p| &mut p.negative_ttl),
        Some("max_lifetime"),
        IN_LIFETIME,
    ),
    field(
        "max_lifetime",
        Slot::Length(|p| &mut p.max_lifetime),
        None,
        "more than 0s, at most 30d, such as \"7d\"",
    ),
    field("jitter.mode", Slot::Mode, None, "\"both\" or \"down\""),
    field("jitter.ratio", Slot::Ratio, None, "0 to less than 1, such as 0.1"),
    field("jitter.spread", Slot::Spread, None, "0s to 30d, such as \"2s\""),
    field(
        "jitter.level",
        Slot::Switch(|p| &mut p.jitter.level),
        None,
        "true or false",
    ),
    field("beta", Slot::Number(|p| &mut p.beta), None, "0 to 100, such as 1.0"),
    field(
        "lease_ttl",
        Slot::Length(|p| &mut p.lease_ttl),
        Some("max_hold"),
        "100ms to max_hold, such as \"10s\"",
    ),
    field(
        "max_hold",
        Slot::Length(|p| &mut p.max_hold),
        None,
        "100ms to 30d, such as \"2m\"",
    ),
    field(
        "max_wait",
        Slot::Length(|p| &mut p.max_wait),
        None,
        "0s to 30d, such as \"10s\"",
    ),
    field(
        "backoff.base",
        Slot::Length(|p| &mut p.backoff.base),
        None,
        "more than 0s, at most 30d, such as \"1s\"",
    ),
    field(
        "backoff.max",
        Slot::Length(|p| &mut p.backoff.max),
        Some("backoff.base"),
        "backoff.base to 30d, such as \"1m\"",
    ),
    field(
        "max_waiters_per_key",
        Slot::Count(|p| &mut p.max_waiters_per_key),
        None,
        COUNT,
    ),
    field(
        "max_concurrent_rebuilds",
        Slot::Count(|p| &mut p.max_concurrent_rebuilds),
        None,
        "0 (no limit) to 4294967295",
    ),
    field("idle_refreshes", Slot::Count(|p| &mut p.idle_refreshes), None, COUNT),
    field(
        "max_value_bytes",
        Slot::Bytes(|p| &mut p.max_value_bytes),
        None,
        "1 to 3145728 (3 MiB), such as \"1MiB\"",
    ),
    field("store_down", Slot::StoreDown, None, "\"local\" or \"refuse\""),
];

/// The field of that name.
pub(super) fn find(name: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.name == name)
}

impl Field {
    /// Reads what is given into the policy. A value that is refused leaves it as it was.
    pub fn read(&self, policy: &mut Policy, given: &Given<'_>) -> Result<(), Refusal> {
        let read = match self.slot {
            Slot::Length(slot) => length(given).map(|length| *slot(policy) = length),
            Slot::Count(slot) => count(given).map(|count| *slot(policy) = count),
            Slot::Bytes(slot) => bytes(given).map(|bytes| *slot(policy) = bytes),
            Slot::Number(slot) => number(given).map(|number| *slot(policy) = number),
            Slot::Switch(slot) => switch(given).map(|switch| *slot(policy) = switch),
            Slot::Mode => mode(given).map(|mode| policy.jitter.mode = mode),
            Slot::Ratio => number(given).map(|ratio| policy.jitter.amount = JitterAmount::Ratio(ratio)),
            Slot::Spread => length(given).map(|spread| policy.jitter.amount = JitterAmount::Spread(spread)),
            Slot::StoreDown => store_down(given).map(|choice| policy.store_down = choice),
        };
        read.map_err(|problem| Refusal::new(problem, self.allowed))
    }

    /// The value as TOML; `None` for the one of `jitter.ratio` and `jitter.spread` that the policy does not use.
    pub fn write(&self, policy: &Policy) -> Option<String> {
        let mut policy = policy.clone();
        let quoted = |text: String| format!("\"{text}\"");
        Some(match self.slot {
            Slot::Length(slot) => quoted(write_duration(*slot(&mut policy))),
            Slot::Count(slot) => slot(&mut policy).to_string(),
            Slot::Bytes(slot) => quoted(write_size(u64::from(*slot(&mut policy)))),
            Slot::Number(slot) => real(*slot(&mut policy)),
            Slot::Switch(slot) => slot(&mut policy).to_string(),
            Slot::Mode => match policy.jitter.mode {
                JitterMode::Both => "\"both\"".to_owned(),
                JitterMode::Down => "\"down\"".to_owned(),
            },
            Slot::Ratio => match policy.jitter.amount {
                JitterAmount::Ratio(ratio) => real(ratio),
                JitterAmount::Spread(_) => return None,
            },
            Slot::Spread => match policy.jitter.amount {
                JitterAmount::Spread(spread) => quoted(write_duration(spread)),
                JitterAmount::Ratio(_) => return None,
            },
            Slot::StoreDown => match policy.store_down {
                StoreDown::Local => "\"local\"".to_owned(),
                StoreDown::Refuse => "\"refuse\"".to_owned(),
            },
        })
    }
}

/// As TOML writes it; Rust writes `NaN`.
fn real(number: f64) -> String {
    format!("{number:?}").to_ascii_lowercase()
}

fn length(given: &Given<'_>) -> Result<Duration, String> {
    match given {
        Given::Text(text) => read_duration(text),
        Given::Whole(_) | Given::Real(_) => Err("a number without a unit".to_owned()),
        _ => Err("not a duration".to_owned()),
    }
}

fn count(given: &Given<'_>) -> Result<u32, String> {
    match given {
        Given::Whole(number) if *number < 0 => Err("negative".to_owned()),
        Given::Whole(number) => u32::try_from(*number).map_err(|_| "too large".to_owned()),
        _ => Err("not a whole number".to_owned()),
    }
}

fn bytes(given: &Given<'_>) -> Result<u32, String> {
    match given {
        Given::Text(text) => read_size(text).and_then(|size| u32::try_from(size).map_err(|_| "too large".to_owned())),
        Given::Whole(_) => count(given),
        _ => Err("not a size".to_owned()),
    }
}

fn number(given: &Given<'_>) -> Result<f64, String> {
    match given {
        Given::Real(number) => Ok(*number),
        Given::Whole(number) => Ok(*number as f64),
        _ => Err("not a number".to_owned()),
    }
}

fn switch(given: &Given<'_>) -> Result<bool, String> {
    match given {
        Given::Bool(switch) => Ok(*switch),
        _ => Err("neither true nor false".to_owned()),
    }
}

fn mode(given: &Given<'_>) -> Result<JitterMode, String> {
    match given {
        Given::Text("both") => Ok(JitterMode::Both),
        Given::Text("down") => Ok(JitterMode::Down),
        _ => Err("not a mode of jitter".to_owned()),
    }
}

fn store_down(given: &Given<'_>) -> Result<StoreDown, String> {
    match given {
        Given::Text("local") => Ok(StoreDown::Local),
        Given::Text("refuse") => Ok(StoreDown::Refuse),
        _ => Err("not a choice".to_owned()),
    }
}
