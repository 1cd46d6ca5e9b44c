//! An entry, layout 2.
//!
//! ```text
//!  version u8 = 2 | revision u64 | header id 8 | tags: length u16, n × (length u16, text)      the prefix, of every layout
//!  parts u8: 1 value, 2 lease, 4 reported, 8 trouble, 16 mark | cost span | refresh u32 | the parts, in this order
//!  value     version seq | since seq | content | stored_at | fresh_until | stale_while_revalidate | stale_if_error | tags | traceparent
//!  content   0 size u32 | 1 whereabouts text | 2 not found
//!  lease     token seq | secret u64 | holder text | request_id text | cause u8 | granted_at | deadline | hold_until | tags | traceparent
//!  reported  token seq | secret u64 | at
//!  trouble   failures u32 | retry_at | remember_until | message text
//!  mark      number seq | settle_until | keep_until
//! ```
//!
//! Numbers are big-endian; seq, instants and spans are u64 (µs); a text has its length u16 in front, and is empty where there is none;
//! tags: count u8, texts. The tags of the prefix are those of value and lease, for the scripts. Refresh: the gap, the 24 bits of a float
//! (µs) after its sign, then a count u8.
//!
//! Layout 1 had no refresh: none is planned.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::Unreadable;
use super::reader::Reader;
use super::template::Template;
use crate::decision::{
    Cause, Content, Draft, Drafted, Entry, Labels, Lease, LeaseId, Mark, Refresh, Reported, Tag, Trouble, Value,
};
use crate::store::Revision;

/// The one that is written.
const LAYOUT: u8 = 2;
/// Those that are read.
const LAYOUTS: std::ops::RangeInclusive<u8> = 1..=LAYOUT;
/// Version, revision, header id.
const PREFIX: usize = 17;

/// An entry as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Its compare-and-set stamp, which can be read in every layout.
    pub revision: Revision,
    /// The facts, if they can be read.
    pub entry: Result<Entry, Unreadable>,
}

/// What a script makes an entry of: the version and all that follows the header's id.
pub fn entry_template(draft: &Draft) -> Template {
    let mut template = Template::default();
    template.byte(LAYOUT);
    template.packed(&all_tags(draft));
    let parts = u8::from(draft.value.is_some())
        | u8::from(draft.lease.is_some()) << 1
        | u8::from(draft.reported.is_some()) << 2
        | u8::from(draft.trouble.is_some()) << 3
        | u8::from(draft.mark.is_some()) << 4;
    template.byte(parts);
    template.span(draft.cost.length().into());
    template.short(draft.refresh.to_bits());
    if let Some(value) = &draft.value {
        write_value(&mut template, value);
    }
    if let Some(lease) = &draft.lease {
        write_lease(&mut template, lease);
    }
    if let Some(reported) = &draft.reported {
        template.long(reported.lease.token.0);
        template.long(reported.lease.secret.get());
        template.when(reported.at);
    }
    if let Some(trouble) = &draft.trouble {
        template.short(trouble.failures);
        template.when(trouble.retry_at);
        template.when(trouble.remember_until);
        template.text(&trouble.message);
    }
    if let Some(mark) = &draft.mark {
        template.number(mark.number);
        template.when(mark.settle_until);
        template.when(mark.keep_until);
    }
    template
}

/// Reads an entry; `None`: not even the prefix is there.
pub fn read_entry(text: &[u8]) -> Option<Written> {
    let mut reader = Reader(text);
    let version = reader.byte().ok()?;
    let revision = Revision(reader.long().ok()?);
    let rest = text.get(PREFIX..)?;
    let entry = match version {
        layout if LAYOUTS.contains(&layout) => read_facts(rest, layout),
        version => Err(Unreadable::Newer(version)),
    };
    Some(Written { revision, entry })
}

/// Those of the value and of the lease, each once.
fn all_tags(draft: &Draft) -> Vec<Tag> {
    let labels = draft.value.as_ref().and_then(|value| value.labels.as_ref());
    let stored = labels.and_then(|labels| labels.tags.as_deref()).unwrap_or_default();
    let leased = draft
        .lease
        .as_ref()
        .and_then(|lease| lease.tags.as_deref())
        .unwrap_or_default();
    let mut tags: Vec<Tag> = Vec::new();
    for tag in stored.iter().chain(leased) {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    tags
}

fn write_value(template: &mut Template, value: &Value<Drafted>) {
    template.long(value.version.0);
    template.long(value.since.0);
    match &value.content {
        Content::Bytes(size) => {
            template.byte(0);
            template.short(*size);
        }
        Content::External(whereabouts) => {
            template.byte(1);
            template.text(whereabouts);
        }
        Content::NotFound => template.byte(2),
    }
    template.when(value.stored_at);
    template.when(value.fresh_until);
    template.span(value.stale_while_revalidate);
    template.span(value.stale_if_error);
    let labels = value.labels.as_deref();
    template.tags(labels.and_then(|labels| labels.tags.as_deref()).unwrap_or_default());
    template.text(
        labels
            .and_then(|labels| labels.traceparent.as_deref())
            .unwrap_or_default(),
    );
}

fn write_lease(template: &mut Template, lease: &Lease<Drafted>) {
    template.number(lease.token);
    template.long(lease.secret.get());
    template.text(&lease.holder);
    template.text(&lease.request_id);
    template.byte(code_of(lease.cause));
    template.when(lease.granted_at);
    template.when(lease.deadline);
    template.when(lease.hold_until);
    template.tags(lease.tags.as_deref().unwrap_or_default());
    template.text(lease.traceparent.as_deref().unwrap_or_default());
}

fn read_facts(text: &[u8], layout: u8) -> Result<Entry, Unreadable> {
    let mut reader = Reader(text);
    // The tags of the prefix: for the scripts; they are in value and lease once more.
    reader.text_bytes()?;
    let parts = reader.byte()?;
    if parts >= 1 << 5 {
        return Err(Unreadable::Damaged);
    }
    let mut entry = Entry {
        cost: reader.span()?.length().into(),
        refresh: match layout {
            1 => Refresh::NONE,
            _ => Refresh::from_bits(reader.short()?),
        },
        ..Entry::default()
    };
    if parts & 1 != 0 {
        entry.value = Some(read_value(&mut reader)?);
    }
    if parts & 2 != 0 {
        entry.lease = Some(Box::new(read_lease(&mut reader)?));
    }
    if parts & 4 != 0 {
        entry.reported = Some(Reported {
            lease: read_lease_id(&mut reader)?,
            at: reader.time()?,
        });
    }
    if parts & 8 != 0 {
        entry.trouble = Some(Box::new(Trouble {
            failures: reader.short()?,
            retry_at: reader.time()?,
            remember_until: reader.time()?,
            message: reader.text()?,
        }));
    }
    if parts & 16 != 0 {
        entry.mark = Some(Box::new(Mark {
            number: reader.seq()?,
            settle_until: reader.time()?,
            keep_until: reader.time()?,
        }));
    }
    reader.end()?;
    Ok(entry)
}

fn read_value(reader: &mut Reader<'_>) -> Result<Value, Unreadable> {
    Ok(Value {
        version: reader.seq()?,
        since: reader.seq()?,
        content: match reader.byte()? {
            0 => Content::Bytes(reader.short()?),
            1 => Content::External(reader.text()?),
            2 => Content::NotFound,
            _ => return Err(Unreadable::Damaged),
        },
        stored_at: reader.time()?,
        fresh_until: reader.time()?,
        stale_while_revalidate: reader.span()?,
        stale_if_error: reader.span()?,
        labels: Labels::of(reader.tags()?, optional(reader.text()?)),
    })
}

fn read_lease(reader: &mut Reader<'_>) -> Result<Lease, Unreadable> {
    let id = read_lease_id(reader)?;
    Ok(Lease {
        token: id.token,
        secret: id.secret,
        holder: reader.text()?,
        request_id: reader.text()?,
        cause: cause_of(reader.byte()?).ok_or(Unreadable::Damaged)?,
        granted_at: reader.time()?,
        deadline: reader.time()?,
        hold_until: reader.time()?,
        tags: reader.tags()?,
        traceparent: optional(reader.text()?),
    })
}

fn read_lease_id(reader: &mut Reader<'_>) -> Result<LeaseId, Unreadable> {
    Ok(LeaseId {
        token: reader.seq()?,
        secret: NonZeroU64::new(reader.long()?).ok_or(Unreadable::Damaged)?,
    })
}

fn optional(text: Arc<str>) -> Option<Arc<str>> {
    (!text.is_empty()).then_some(text)
}

/// Part of the layout: a cause keeps its code.
fn code_of(cause: Cause) -> u8 {
    match cause {
        Cause::Miss => 0,
        Cause::Expired => 1,
        Cause::Stale => 2,
        Cause::Invalidated => 3,
        Cause::Early => 4,
        Cause::Forced => 5,
        Cause::Takeover => 6,
        Cause::Scheduled => 7,
        Cause::Lost => 8,
    }
}

fn cause_of(code: u8) -> Option<Cause> {
    Some(match code {
        0 => Cause::Miss,
        1 => Cause::Expired,
        2 => Cause::Stale,
        3 => Cause::Invalidated,
        4 => Cause::Early,
        5 => Cause::Forced,
        6 => Cause::Takeover,
        7 => Cause::Scheduled,
        8 => Cause::Lost,
        _ => return None,
    })
}
