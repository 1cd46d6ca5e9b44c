//! Reading, with nothing taken for granted.

use std::sync::Arc;

use bytes::Buf as _;

use super::Unreadable;
use crate::decision::{Seq, Span, StoreTime, Tag};

/// What is left to be read.
pub(super) struct Reader<'a>(pub &'a [u8]);

type Read<T> = Result<T, Unreadable>;

impl<'a> Reader<'a> {
    pub fn byte(&mut self) -> Read<u8> {
        self.0.try_get_u8().map_err(|_| Unreadable::Damaged)
    }

    pub fn short(&mut self) -> Read<u32> {
        self.0.try_get_u32().map_err(|_| Unreadable::Damaged)
    }

    pub fn long(&mut self) -> Read<u64> {
        self.0.try_get_u64().map_err(|_| Unreadable::Damaged)
    }

    pub fn seq(&mut self) -> Read<Seq> {
        self.long().map(Seq)
    }

    pub fn time(&mut self) -> Read<StoreTime> {
        self.long().map(StoreTime)
    }

    pub fn span(&mut self) -> Read<Span> {
        self.long()
            .map(|micros| Span::from(std::time::Duration::from_micros(micros)))
    }

    pub fn bytes(&mut self, count: usize) -> Read<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Unreadable::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    /// A length, two bytes, and so much.
    pub fn text_bytes(&mut self) -> Read<&'a [u8]> {
        let length = self.0.try_get_u16().map_err(|_| Unreadable::Damaged)?;
        self.bytes(usize::from(length))
    }

    /// What [`Template::text`](super::Template::text) wrote.
    pub fn text(&mut self) -> Read<Arc<str>> {
        std::str::from_utf8(self.text_bytes()?)
            .map(Arc::from)
            .map_err(|_| Unreadable::Damaged)
    }

    /// `None` where there are none.
    pub fn tags(&mut self) -> Read<Option<Arc<[Tag]>>> {
        let count = self.byte()?;
        let tags = (0..count).map(|_| self.text()).collect::<Read<Vec<Tag>>>()?;
        Ok((!tags.is_empty()).then(|| tags.into()))
    }

    pub fn end(self) -> Read<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Unreadable::Damaged)
        }
    }
}
