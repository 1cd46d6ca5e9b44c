//! The written form of entries and events: what outlives a release, so every layout that was ever written can be read.
//!
//! *Owns* the layouts and their version. *Never* decides, and never trusts: what is read may have been written by anybody.
//!
//! A draft becomes a [`Template`]: text with slots for what only the commit knows (instants counted from it, and its number). A script
//! fills the slots with eight bytes each and writes the text as it is, so it needs to know nothing of entries.
//!
//! *Why not a serialization library*: the slots must lie at known places, and the script reads the prefix.

mod entry;
mod event;
mod reader;
mod template;

#[cfg(test)]
mod tests;

pub use entry::{entry_template, read_entry};
pub use event::{BEGAN, WrittenRecord, again_template, event_template, read_record};
pub use template::pack;

/// The text can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It ends too early, goes on too long, or says what nothing may say.
    #[error("it is damaged, or was not written by drover")]
    Damaged,
    /// A later release wrote it.
    #[error("it has layout {0}, which this release does not know; a newer one wrote it")]
    Newer(u8),
}
