//! The scripts: each file in `scripts/` says what it takes and what it answers.
//!
//! *Why one script a kind of call*: it is the only way to check, stamp and write in one trip. *Why so little in them*: every rule is in
//! `decision`; a script compares, stamps, and writes what it is given.

use super::link::Script;

macro_rules! script {
    ($name:literal) => {
        Script::new(
            $name,
            concat!(
                include_str!("scripts/common.lua"),
                include_str!(concat!("scripts/", $name, ".lua"))
            ),
        )
    };
}

/// All of them.
#[derive(Debug)]
pub struct Scripts {
    /// The entry of a key.
    pub load: Script,
    /// Writes an entry and its events.
    pub commit: Script,
    /// Makes everything with a tag, or a namespace, old.
    pub invalidate: Script,
    /// A page of the leases.
    pub leases: Script,
    /// Looks after a partition.
    pub tend: Script,
    /// Gives a partition its header.
    pub found: Script,
    /// Accepts a new primary.
    pub adopt: Script,
    /// Writes and reads the registrations of replicas.
    pub register: Script,
    /// Plans refreshes.
    pub schedule: Script,
    /// Takes tasks that are due.
    pub claim: Script,
    /// Says what becomes of claimed tasks.
    pub settle: Script,
    /// Says for which namespaces there are workers.
    pub staff: Script,
    /// Says that refreshes are planned in a namespace.
    pub plans: Script,
    /// Says which keys were asked for.
    pub asked: Script,
    /// A place in a rebuild budget.
    pub budget: Script,
    /// The circuit of a namespace.
    pub circuit: Script,
}

impl Scripts {
    /// As this release has them.
    pub fn new() -> Scripts {
        Scripts {
            load: script!("load"),
            commit: script!("commit"),
            invalidate: script!("invalidate"),
            leases: script!("leases"),
            tend: script!("tend"),
            found: script!("found"),
            adopt: script!("adopt"),
            register: script!("register"),
            schedule: script!("schedule"),
            claim: script!("claim"),
            settle: script!("settle"),
            staff: script!("staff"),
            plans: script!("plans"),
            asked: script!("asked"),
            budget: script!("budget"),
            circuit: script!("circuit"),
        }
    }
}
