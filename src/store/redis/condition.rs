//! What can be the matter with a Redis, by name and counted.
//!
//! *Owns* the names ([`Condition`]), the counts, and the one place where an error of Redis is understood ([`Verdict::of`]).
//!
//! *Invariants.* A verdict says "not applied" only where Redis cannot have run a part of the script. Redis looks at its memory, its
//! replicas, its disk and its role before a script's **first** write and never after it, so these errors mean that nothing was changed, wherever
//! in the script they come from; any other error out of a script may have come after a write, which Redis does not take back.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ::redis::{ErrorKind, RedisError};

use crate::store::StoreError;

/// Something that an operator should know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// A key of ours holds another type: somebody else writes under our prefix.
    WrongType,
    /// An entry of ours can't be read.
    UnreadableEntry,
    /// No memory left, and nothing may be evicted.
    Full,
    /// The server is a replica, or was made one.
    ReadOnly,
    /// The primary has lost its replicas, and is told to refuse writes then.
    CutOff,
    /// The sentinels name another primary, or think that this one is down.
    Doubted,
    /// The server evicts keys as it likes (`allkeys-*`).
    Evicting,
    /// The server reads its data from disk.
    Loading,
    /// Another server, or the same with another history, is the primary now.
    NewPrimary,
    /// The server's clock was behind the header's.
    ClockBack,
    /// A call was not answered in time.
    TimedOut,
    /// A connection broke, or could not be made.
    Broken,
    /// A script was not there and was sent again.
    ScriptReloaded,
    /// The cluster does not serve the slot.
    ClusterDown,
    /// Calls are answered "unavailable" without being sent.
    CircuitOpened,
    /// User or password are refused, or may not do what drover does.
    Forbidden,
    /// The server refuses writes because it can't save its data.
    CannotSave,
    /// The server is held up by somebody's script.
    Busy,
    /// The store came back without its data.
    DataLost,
    /// A value's bytes were gone while its facts were there: evicted.
    ValueLost,
    /// Records of the log were gone before this replica had read them.
    LogGap,
    /// An error that has no name here.
    Other,
}

impl Condition {
    /// All, in the order of their declaration.
    pub const ALL: [Condition; 22] = [
        Condition::WrongType,
        Condition::UnreadableEntry,
        Condition::Full,
        Condition::ReadOnly,
        Condition::CutOff,
        Condition::Doubted,
        Condition::Evicting,
        Condition::Loading,
        Condition::NewPrimary,
        Condition::ClockBack,
        Condition::TimedOut,
        Condition::Broken,
        Condition::ScriptReloaded,
        Condition::ClusterDown,
        Condition::CircuitOpened,
        Condition::Forbidden,
        Condition::CannotSave,
        Condition::Busy,
        Condition::DataLost,
        Condition::ValueLost,
        Condition::LogGap,
        Condition::Other,
    ];

    /// As in logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Condition::WrongType => "wrong_type",
            Condition::UnreadableEntry => "unreadable_entry",
            Condition::Full => "full",
            Condition::ReadOnly => "read_only",
            Condition::CutOff => "cut_off",
            Condition::Doubted => "doubted",
            Condition::Evicting => "evicting",
            Condition::Loading => "loading",
            Condition::NewPrimary => "new_primary",
            Condition::ClockBack => "clock_back",
            Condition::TimedOut => "timed_out",
            Condition::Broken => "broken",
            Condition::ScriptReloaded => "script_reloaded",
            Condition::ClusterDown => "cluster_down",
            Condition::CircuitOpened => "circuit_opened",
            Condition::Forbidden => "forbidden",
            Condition::CannotSave => "cannot_save",
            Condition::Busy => "busy",
            Condition::DataLost => "data_lost",
            Condition::ValueLost => "value_lost",
            Condition::LogGap => "log_gap",
            Condition::Other => "other",
        }
    }
}

/// How often each was met since the start.
#[derive(Debug, Default)]
pub struct Conditions([AtomicU64; Condition::ALL.len()]);

impl Conditions {
    /// Once more.
    pub fn count(&self, condition: Condition) {
        self.0[condition as usize].fetch_add(1, Relaxed);
    }

    /// How often so far.
    pub fn of(&self, condition: Condition) -> u64 {
        self.0[condition as usize].load(Relaxed)
    }

    /// Each with its count.
    pub fn each(&self) -> impl Iterator<Item = (Condition, u64)> + '_ {
        Condition::ALL
            .into_iter()
            .map(|condition| (condition, self.of(condition)))
    }
}

/// What an error means for the call that got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it is.
    pub condition: Condition,
    /// Whether the call has surely changed nothing.
    pub unapplied: bool,
}

/// Codes that Redis puts in front of its errors, up to 6.2 somewhere within where a script met them.
const CODES: [(&str, Condition); 17] = [
    ("OOM", Condition::Full),
    ("WRONGTYPE", Condition::WrongType),
    ("READONLY", Condition::ReadOnly),
    ("MASTERDOWN", Condition::ReadOnly),
    ("UNBLOCKED", Condition::ReadOnly),
    ("NOREPLICAS", Condition::CutOff),
    ("MISCONF", Condition::CannotSave),
    ("LOADING", Condition::Loading),
    ("CLUSTERDOWN", Condition::ClusterDown),
    ("MOVED", Condition::ClusterDown),
    ("ASK", Condition::ClusterDown),
    ("TRYAGAIN", Condition::ClusterDown),
    ("NOAUTH", Condition::Forbidden),
    ("WRONGPASS", Condition::Forbidden),
    ("NOPERM", Condition::Forbidden),
    ("NOSCRIPT", Condition::ScriptReloaded),
    ("BUSY", Condition::Busy),
];

impl Verdict {
    /// Understands an error.
    pub fn of(error: &RedisError) -> Verdict {
        let met = |condition| Verdict {
            condition,
            unapplied: false,
        };
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Verdict::answered(error),
            ErrorKind::AuthenticationFailed => Verdict {
                condition: Condition::Forbidden,
                unapplied: true,
            },
            ErrorKind::Io if error.is_timeout() => met(Condition::TimedOut),
            ErrorKind::Io | ErrorKind::Parse => met(Condition::Broken),
            _ => met(Condition::Other),
        }
    }

    fn answered(error: &RedisError) -> Verdict {
        let detail = error.detail().unwrap_or_default();
        // "…: @user_script: 1: -OOM command not allowed" up to 6.2; "OOM … script: HASH, on @user_script:1." since 7.0.
        let in_script = detail.contains("user_script") || detail.contains("Error running script");
        let named = |word: &str| {
            let found = CODES.iter().find(|(code, _)| *code == word);
            found.map(|(_, condition)| *condition)
        };
        let within = || {
            let words = detail.split_whitespace().map(|word| word.trim_start_matches('-'));
            words.take_while(|_| in_script).find_map(named)
        };
        let code = error.code().unwrap_or_default();
        let condition = named(code).or_else(within).unwrap_or(Condition::Other);
        let before_first_write = matches!(
            condition,
            Condition::Full | Condition::ReadOnly | Condition::CutOff | Condition::CannotSave
        );
        Verdict {
            condition,
            unapplied: before_first_write || !in_script,
        }
    }

    /// What the caller of the store is told. `writes`: whether the call could have changed something at all.
    pub fn told(self, writes: bool, text: String) -> StoreError {
        match self.condition {
            Condition::Full => StoreError::Full(text),
            _ if writes && !self.unapplied => StoreError::Unknown(text),
            _ => StoreError::Unavailable(text),
        }
    }
}

#[cfg(test)]
mod tests;
