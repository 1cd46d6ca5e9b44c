//! Text with slots that the store fills as it commits.

use bytes::BufMut as _;

use crate::decision::{Number, Span, StoreTime, Tag, When, micros};

/// Lua's numbers are exact up to here; a length beyond it is none that any policy allows.
const LONGEST: u64 = 1 << 52;

/// What a slot is filled with: eight bytes, big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The number that the commit takes.
    Number,
    /// So many microseconds after the commit, but not later than the bound.
    Time {
        /// µs.
        after: u64,
        /// Not later.
        at_most: StoreTime,
    },
}

/// Text with slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    text: Vec<u8>,
    /// Each before the byte at this place, in order.
    slots: Vec<(usize, Slot)>,
}

impl Template {
    pub(super) fn byte(&mut self, byte: u8) {
        self.text.put_u8(byte);
    }

    pub(super) fn short(&mut self, number: u32) {
        self.text.put_u32(number);
    }

    pub(super) fn long(&mut self, number: u64) {
        self.text.put_u64(number);
    }

    pub(super) fn span(&mut self, span: Span) {
        self.long(micros(span.length()));
    }

    /// A text of at most 64 KiB: nothing that a request may bring is longer. What is, is cut.
    pub(super) fn text(&mut self, text: &str) {
        let end = text.floor_char_boundary(usize::from(u16::MAX));
        self.text.put_u16(end as u16);
        self.text.put_slice(&text.as_bytes()[..end]);
    }

    pub(super) fn tags(&mut self, tags: &[Tag]) {
        self.byte(tags.len().min(255) as u8);
        tags.iter().take(255).for_each(|tag| self.text(tag));
    }

    /// Packed tags with the length of all of them in front, as the scripts read them.
    pub(super) fn packed(&mut self, tags: &[Tag]) {
        let packed = pack(tags);
        self.text.put_u16(packed.len().min(usize::from(u16::MAX)) as u16);
        self.text.put_slice(&packed);
    }

    pub(super) fn number(&mut self, number: Number) {
        match number {
            Number::Is(seq) => self.long(seq.0),
            Number::Next => self.slots.push((self.text.len(), Slot::Number)),
        }
    }

    pub(super) fn when(&mut self, when: When) {
        match when.after {
            None => self.long(when.at_most.0),
            Some(length) => self.slots.push((
                self.text.len(),
                Slot::Time {
                    after: micros(length).min(LONGEST),
                    at_most: when.at_most,
                },
            )),
        }
    }

    /// As `stamped` of the scripts takes it: how many slots, then (literal, after, at most) for each, then the last literal.
    pub fn arguments(&self, into: &mut Vec<Vec<u8>>) {
        into.push(self.slots.len().to_string().into_bytes());
        let mut from = 0;
        for (at, slot) in &self.slots {
            into.push(self.text[from..*at].to_vec());
            from = *at;
            match slot {
                Slot::Number => into.extend([b"N".to_vec(), Vec::new()]),
                Slot::Time { after, at_most } => {
                    into.push(after.to_string().into_bytes());
                    into.push(match *at_most {
                        StoreTime::NEVER => Vec::new(),
                        at => at.0.to_string().into_bytes(),
                    });
                }
            }
        }
        into.push(self.text[from..].to_vec());
    }

    /// The text as it is where there are no slots.
    pub fn literal(self) -> Vec<u8> {
        debug_assert!(self.slots.is_empty(), "only a commit can fill these");
        self.text
    }

    /// As the store fills it.
    #[cfg(test)]
    pub fn filled(&self, stamp: crate::decision::Stamp) -> Vec<u8> {
        let mut filled = Vec::new();
        let mut from = 0;
        for (at, slot) in &self.slots {
            filled.put_slice(&self.text[from..*at]);
            from = *at;
            filled.put_u64(match *slot {
                Slot::Number => stamp.number.0,
                Slot::Time { after, at_most } => (stamp.now.0 + after).min(at_most.0),
            });
        }
        filled.put_slice(&self.text[from..]);
        filled
    }
}

/// Tags as the scripts read them: each with its length, two bytes, in front.
pub fn pack(tags: &[Tag]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(tags.iter().map(|tag| 2 + tag.len()).sum());
    for tag in tags {
        packed.put_u16(tag.len().min(usize::from(u16::MAX)) as u16);
        packed.put_slice(tag.as_bytes());
    }
    packed
}
