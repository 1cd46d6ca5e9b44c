//! *Owns* the exit codes and the table of them that `--help` prints.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The answer was yes, or the question was one without a no.
    Yes = 0,
    /// Something broke.
    Broken = 1,
    /// The call itself was wrong.
    Usage = 2,
    /// Somebody else is on it.
    Busy = 3,
    /// The origin is failing.
    Backoff = 4,
    /// Nothing there.
    Miss = 5,
    /// A report or a renewal came too late.
    Refused = 6,
    /// Begun, but not known to be complete: invalidated without every watcher's word, warmed without every key's.
    Unconfirmed = 7,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// For the end of `drover ctl --help`.
pub const TABLE: &str = concat!(
    "\x1b[1m\x1b[4mExit codes:\x1b[0m\n",
    "  0  yes: a hit (fresh or stale), a rebuild granted, accepted, renewed, invalidated, listed\n",
    "  1  something broke: no server there, it cannot answer now, or its answer makes no sense\n",
    "  2  the call was wrong: an argument, a field that the server refused, an unknown namespace\n",
    "  3  busy: nothing usable, somebody else rebuilds it (or a decision newer than this program)\n",
    "  4  backoff: the origin is failing, ask again later\n",
    "  5  nothing there: a miss, or nothing is known of the key\n",
    "  6  refused: the report was not accepted, or the lease is lost\n",
    "  7  invalidated or scheduled, but not every watcher acknowledged it, or not every key was rebuilt, within --wait",
);
