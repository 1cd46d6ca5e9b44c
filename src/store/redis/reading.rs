//! What is read of entries, and what is made of it where it is not what drover wrote.

use std::sync::Arc;

use super::codec::{Unreadable, read_entry};
use super::condition::Condition;
use super::reply::{Words, shared};
use super::shared::Shared;
use crate::decision::{Content, Entry, Key, Seq};
use crate::store::{Bytes, Loaded, Snapshot, StoreError};

impl Shared {
    /// Reads an answer of `current`, from its second word on.
    pub fn read_loaded(&self, key: &Key, mut words: Words, wants_bytes: bool) -> Result<Loaded, StoreError> {
        let now = words.time()?;
        let floor = Seq(words.number()?);
        let wrong_type = words.bytes()? == b"w";
        let written = words.maybe()?;
        let bytes = words.maybe()?.map(shared);
        let generations = words.generations(floor)?;
        if wrong_type {
            self.link.conditions().count(Condition::WrongType);
            tracing::warn!(
                ?key,
                "a key of drover's holds another type; it counts as missing and will be overwritten"
            );
        }
        let snapshot = match written {
            None => Snapshot::absent(key),
            Some(text) => self.read_snapshot(key, &text, bytes, wants_bytes)?,
        };
        Ok(Loaded {
            snapshot: Arc::new(snapshot),
            generations,
            now,
        })
    }

    /// An entry that can't be read counts as an empty one, which the next commit replaces; one of a newer release does not, since that
    /// release may still be running.
    pub fn read_snapshot(
        &self,
        key: &Key,
        text: &[u8],
        bytes: Option<Bytes>,
        wants_bytes: bool,
    ) -> Result<Snapshot, StoreError> {
        let conditions = self.link.conditions();
        let Some(written) = read_entry(text) else {
            conditions.count(Condition::UnreadableEntry);
            return Ok(Snapshot::absent(key));
        };
        let mut entry = match written.entry {
            Ok(entry) => entry,
            Err(Unreadable::Damaged) => {
                conditions.count(Condition::UnreadableEntry);
                tracing::warn!(
                    ?key,
                    "an entry can't be read; it counts as empty and will be overwritten"
                );
                Entry::default()
            }
            Err(error @ Unreadable::Newer(_)) => {
                conditions.count(Condition::UnreadableEntry);
                return Err(StoreError::Unavailable(format!(
                    "the entry of {key:?} can't be read: {error}"
                )));
            }
        };
        let mut bytes = bytes;
        if wants_bytes {
            let size = entry.value.as_ref().and_then(|value| match value.content {
                Content::Bytes(size) => Some(size as usize),
                Content::External(_) | Content::NotFound => None,
            });
            if size.is_some() && bytes.as_ref().map(|bytes| bytes.len()) != size {
                // Evicted by a server that is told to evict what it likes.
                conditions.count(Condition::ValueLost);
                entry.value = None;
                bytes = None;
            }
        }
        Ok(Snapshot {
            key: key.clone(),
            entry,
            bytes,
            revision: written.revision,
        })
    }
}
