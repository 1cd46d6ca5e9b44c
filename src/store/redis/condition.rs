//! What can be the matter with a Redis, by name and counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
    pub const ALL: [Condition; 21] = [
        Condition::WrongType,
        Condition::UnreadableEntry,
        Condition::Full,
        Condition::ReadOnly,
        Condition::CutOff,
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
