//! A record of the log, layout 1.
//!
//! ```text
//!  number u64 | at u64, µs | before u64 | kind u8 | …      before: the position of the record before it in its stream
//!  0 began                                            from here on Refreshed are recorded
//!  1 invalidated    namespace | target u8: 0 key, 1 tag, 2 everything | its text | mode u8: 0 drop, 1 expire
//!  2 refreshed      key | version u64 | fresh_until u64 | stale_while_revalidate u64 | stale_if_error u64
//!  3 lease revoked  key | token u64 | secret u64 | holder | reason u8
//!  4 invalidated again, after a loss: as 1
//! ```
//!
//! A kind that is not known was written by a newer release: whoever follows the log must then be reset, not be told nothing.

use std::num::NonZeroU64;

use super::Unreadable;
use super::reader::Reader;
use super::template::Template;
use crate::decision::{Key, LeaseId, LostReason, Mode, Seq, StoreTime, When};
use crate::store::{Event, Target};

/// The event that tells from where on `Refreshed` are recorded.
pub const BEGAN: &[u8] = &[0];

/// What a script makes a record of: all that follows the stamp.
pub fn event_template(event: &Event) -> Template {
    template_of(event, false)
}

/// The same of an invalidation that is committed again after a loss: the record's number is the repetition's, not the invalidation's own.
pub fn again_template(event: &Event) -> Template {
    template_of(event, true)
}

fn template_of(event: &Event, again: bool) -> Template {
    let mut template = Template::default();
    match event {
        Event::Invalidated {
            namespace,
            target,
            mode,
        } => {
            template.byte(if again { 4 } else { 1 });
            template.text(namespace);
            match target {
                Target::Key(key) => {
                    template.byte(0);
                    template.text(key.text());
                }
                Target::Tag(tag) => {
                    template.byte(1);
                    template.text(tag);
                }
                Target::Everything => {
                    template.byte(2);
                    template.text("");
                }
            }
            template.byte(match mode {
                Mode::Drop => 0,
                Mode::Expire => 1,
            });
        }
        Event::Refreshed {
            key,
            version,
            fresh_until,
            stale_while_revalidate,
            stale_if_error,
        } => {
            template.byte(2);
            template.text(key.text());
            template.long(version.0);
            template.when(*fresh_until);
            template.span((*stale_while_revalidate).into());
            template.span((*stale_if_error).into());
        }
        Event::LeaseRevoked {
            key,
            lease,
            holder,
            reason,
        } => {
            template.byte(3);
            template.text(key.text());
            template.long(lease.token.0);
            template.long(lease.secret.get());
            template.text(holder);
            template.byte(code_of(*reason));
        }
    }
    template
}

/// A record as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenRecord {
    /// Of its commit.
    pub number: Seq,
    /// Of its commit.
    pub at: StoreTime,
    /// The position of the record before it in its stream.
    pub before: u64,
    /// What happened; `None`: from here on `Refreshed` are recorded.
    pub event: Option<Event>,
    /// It happened before, under another number, and was lost.
    pub again: bool,
}

/// Reads a record.
///
/// # Errors
///
/// [`Unreadable`] for what this release can't read.
pub fn read_record(text: &[u8]) -> Result<WrittenRecord, Unreadable> {
    let mut reader = Reader(text);
    let (number, at, before) = (reader.seq()?, reader.time()?, reader.long()?);
    let kind = reader.byte()?;
    let event = match kind {
        0 => None,
        1 | 4 => Some(read_invalidated(&mut reader)?),
        2 => Some(Event::Refreshed {
            key: read_key(&mut reader)?,
            version: reader.seq()?,
            fresh_until: When::at(reader.time()?),
            stale_while_revalidate: reader.span()?.length(),
            stale_if_error: reader.span()?.length(),
        }),
        3 => Some(Event::LeaseRevoked {
            key: read_key(&mut reader)?,
            lease: LeaseId {
                token: reader.seq()?,
                secret: NonZeroU64::new(reader.long()?).ok_or(Unreadable::Damaged)?,
            },
            holder: reader.text()?,
            reason: reason_of(reader.byte()?).ok_or(Unreadable::Damaged)?,
        }),
        _ => return Err(Unreadable::Newer(kind)),
    };
    reader.end()?;
    Ok(WrittenRecord {
        number,
        at,
        before,
        event,
        again: kind == 4,
    })
}

fn read_invalidated(reader: &mut Reader<'_>) -> Result<Event, Unreadable> {
    let namespace = reader.text()?;
    let kind = reader.byte()?;
    let text = reader.text()?;
    let target = match kind {
        0 => Target::Key(Key::from_text(&text)),
        1 => Target::Tag(text),
        2 => Target::Everything,
        _ => return Err(Unreadable::Damaged),
    };
    let mode = match reader.byte()? {
        0 => Mode::Drop,
        1 => Mode::Expire,
        _ => return Err(Unreadable::Damaged),
    };
    Ok(Event::Invalidated {
        namespace,
        target,
        mode,
    })
}

fn read_key(reader: &mut Reader<'_>) -> Result<Key, Unreadable> {
    reader.text().map(|text| Key::from_text(&text))
}

/// Part of the layout: a reason keeps its code.
fn code_of(reason: LostReason) -> u8 {
    match reason {
        LostReason::Superseded => 0,
        LostReason::Invalidated => 1,
        LostReason::Expired => 2,
        LostReason::MaxHold => 3,
        LostReason::Reported => 4,
        LostReason::UnknownLease => 5,
    }
}

fn reason_of(code: u8) -> Option<LostReason> {
    Some(match code {
        0 => LostReason::Superseded,
        1 => LostReason::Invalidated,
        2 => LostReason::Expired,
        3 => LostReason::MaxHold,
        4 => LostReason::Reported,
        5 => LostReason::UnknownLease,
        _ => return None,
    })
}
