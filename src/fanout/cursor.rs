//! Cursors: positions in a log, as text that clients keep and send back.
//!
//! *Owns* the text form. *Never does* look at a log: whether a position can still be read is the log's business.
//!
//! *Invariants.* Decoding is total, and exact: a text that decodes is the very text that encoding gives. A cursor names a position,
//! not a filter or a replica, so it works with any filter at any replica of the same store.
//!
//! ```text
//!  base64url( version 1 | log u64 | epoch u64 | n u8, 1..=16 | n × position u64 | checksum u32 )     all big-endian, no padding
//! ```
//!
//! *Why a checksum*: it tells a text that was cut or mixed up on its way from one of another deployment; it is no signature. A
//! forged cursor gets its owner a gap or a reset, and nobody else anything.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// No cursor is longer, in bytes.
pub const MAX_CURSOR: usize = 2_048;

/// The layout that is written and read.
const VERSION: u8 = 1;
/// As many partitions as a store may have.
const MAX_PARTITIONS: usize = 16;

/// A position in every partition of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Which log: random, drawn when a store begins one.
    pub log: u64,
    /// Grows each time the store loses or replaces its log.
    pub epoch: u64,
    /// Everything up to here was seen; one a partition, 1 to 16 of them.
    pub positions: Vec<u64>,
}

/// The text is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor: take it from a message of Watch as it is, or leave it empty")]
pub struct BadCursor;

impl Cursor {
    /// Its text: printable ASCII, at most [`MAX_CURSOR`] bytes.
    pub fn encode(&self) -> Arc<str> {
        debug_assert!((1..=MAX_PARTITIONS).contains(&self.positions.len()));
        let mut bytes = Vec::with_capacity(22 + 8 * self.positions.len());
        bytes.push(VERSION);
        bytes.extend(self.log.to_be_bytes());
        bytes.extend(self.epoch.to_be_bytes());
        bytes.push(self.positions.len() as u8);
        for position in &self.positions {
            bytes.extend(position.to_be_bytes());
        }
        bytes.extend(checksum(&bytes).to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes).into()
    }

    /// Reads a text that anybody may have sent.
    ///
    /// # Errors
    ///
    /// [`BadCursor`] for everything that [`Cursor::encode`] does not write.
    pub fn decode(text: &str) -> Result<Cursor, BadCursor> {
        if text.len() > MAX_CURSOR {
            return Err(BadCursor);
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadCursor)?;
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or(BadCursor)?;
        if checksum(body) != u32::from_be_bytes(*sum) {
            return Err(BadCursor);
        }
        let (&version, rest) = body.split_first().ok_or(BadCursor)?;
        let (log, rest) = rest.split_first_chunk::<8>().ok_or(BadCursor)?;
        let (epoch, rest) = rest.split_first_chunk::<8>().ok_or(BadCursor)?;
        let (&count, rest) = rest.split_first().ok_or(BadCursor)?;
        let (positions, left_over) = rest.as_chunks::<8>();
        let counted = (1..=MAX_PARTITIONS).contains(&positions.len()) && positions.len() == usize::from(count);
        if version != VERSION || !counted || !left_over.is_empty() {
            return Err(BadCursor);
        }
        Ok(Cursor {
            log: u64::from_be_bytes(*log),
            epoch: u64::from_be_bytes(*epoch),
            positions: positions.iter().map(|position| u64::from_be_bytes(*position)).collect(),
        })
    }
}

/// FNV-1a: it is written into cursors that outlive a release, so no hash of a library that may change.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_survives_its_text_form(
            log: u64, epoch: u64, positions in prop::collection::vec(any::<u64>(), 1..=MAX_PARTITIONS),
        ) {
            let cursor = Cursor { log, epoch, positions };
            let text = cursor.encode();
            prop_assert!(text.len() <= MAX_CURSOR && text.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(Cursor::decode(&text), Ok(cursor));
        }

        #[test]
        fn any_text_is_refused_or_is_the_text_of_a_cursor(text in "[A-Za-z0-9_=+/ -]{0,80}|\\PC{0,40}") {
            if let Ok(cursor) = Cursor::decode(&text) {
                prop_assert_eq!(&*cursor.encode(), text);
            }
        }

        #[test]
        fn a_cursor_with_one_character_changed_is_refused(at in 0..40usize, to in "[A-Za-z0-9_-]") {
            let text = Cursor { log: 7, epoch: 1, positions: vec![99] }.encode();
            let changed = format!("{}{to}{}", &text[..at], &text[at + 1..]);
            prop_assert!(*changed == *text || Cursor::decode(&changed) == Err(BadCursor));
        }

        #[test]
        fn a_well_summed_body_of_any_shape_does_not_panic(mut body in prop::collection::vec(any::<u8>(), 0..200)) {
            body.extend(checksum(&body).to_be_bytes());
            let text = URL_SAFE_NO_PAD.encode(&body);
            if let Ok(cursor) = Cursor::decode(&text) {
                prop_assert_eq!(&*cursor.encode(), text);
            }
        }
    }

    #[test]
    fn the_longest_cursor_is_far_below_the_limit() {
        let cursor = Cursor {
            log: u64::MAX,
            epoch: u64::MAX,
            positions: vec![u64::MAX; MAX_PARTITIONS],
        };
        assert_eq!(cursor.encode().len(), 200);
    }
}
