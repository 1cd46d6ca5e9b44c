//! The rules for fields, and what was found against them.
//!
//! *Owns* every limit of a request. *Invariants*: all fields of a request are looked at before it is refused, so that a caller learns
//! of all mistakes at once; no text of a violation repeats what the caller sent, so an error is never larger than a header may be.
//! *Why by hand*: this runs for each call, and no check here allocates unless it finds something.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::coordinator::MAX_TAGS;
use crate::decision::{LONGEST, LeaseId, Seq, Tag};

/// Bytes of a namespace.
pub const MAX_NAMESPACE: usize = 64;
/// Bytes of a key.
pub const MAX_KEY: usize = 1_024;
/// Bytes of a tag.
pub const MAX_TAG: usize = 256;
/// Bytes of a holder's name.
pub const MAX_HOLDER: usize = 256;
/// Bytes of a request id.
pub const MAX_REQUEST_ID: usize = 64;
/// Bytes of a lease id.
pub const MAX_LEASE_ID: usize = 128;
/// At most so many violations are told at once.
pub const MAX_VIOLATIONS: usize = 10;

/// One rule that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// As in the proto, such as `ttl.fresh_ttl` or `tags[3]`.
    pub field: String,
    /// What is wrong and what is allowed; completes "the field …".
    pub problem: Cow<'static, str>,
}

/// The name of a field: plain, of an item of a list, or of a part of such an item. It becomes text only when it is refused.
#[derive(Clone, Copy, Debug)]
pub(in crate::rpc) enum Field {
    Plain(&'static str),
    Item(&'static str, usize),
    Part(&'static str, usize, &'static str),
}

/// Why a request is refused: 1 to [`MAX_VIOLATIONS`] rules that it breaks, in the order of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(pub(in crate::rpc) Vec<Violation>);

/// Looks at the fields of one request, one after the other.
#[derive(Debug, Default)]
pub(in crate::rpc) struct Check {
    found: Vec<Violation>,
}

impl Violations {
    /// What was found.
    pub fn list(&self) -> &[Violation] {
        &self.0
    }

    /// Of a single field.
    pub(in crate::rpc) fn one(field: &'static str, problem: impl Into<Cow<'static, str>>) -> Violations {
        let mut check = Check::default();
        check.refuse(field, problem);
        Violations(check.found)
    }
}

impl Check {
    /// The end: was anything found?
    pub(in crate::rpc) fn done(self) -> Result<(), Violations> {
        if self.found.is_empty() {
            Ok(())
        } else {
            Err(Violations(self.found))
        }
    }

    /// The end of a check that has `made` something.
    pub(in crate::rpc) fn done_with<T>(mut self, made: Result<T, Violations>) -> Result<T, Violations> {
        match made {
            Ok(made) => self.done().map(|()| made),
            Err(Violations(more)) => {
                self.found.extend(more);
                self.found.truncate(MAX_VIOLATIONS);
                Err(Violations(self.found))
            }
        }
    }

    /// Whether there is no point in looking further.
    pub(in crate::rpc) fn is_full(&self) -> bool {
        self.found.len() >= MAX_VIOLATIONS
    }

    /// A rule is broken.
    pub(in crate::rpc) fn refuse(&mut self, field: impl Into<Field>, problem: impl Into<Cow<'static, str>>) {
        if !self.is_full() {
            self.found.push(Violation {
                field: field.into().to_string(),
                problem: problem.into(),
            });
        }
    }

    /// A rule that holds or is broken.
    pub(in crate::rpc) fn rule(&mut self, holds: bool, field: &'static str, problem: &'static str) {
        if !holds {
            self.refuse(field, problem);
        }
    }

    /// A namespace: `[a-z0-9][a-z0-9._-]{0,63}`.
    pub(in crate::rpc) fn namespace(&mut self, field: impl Into<Field>, text: &str) {
        if !is_namespace(text) {
            self.refuse(field, NAMESPACE);
        }
    }

    /// A key: 1 to 1,024 bytes.
    pub(in crate::rpc) fn key(&mut self, field: impl Into<Field>, text: &str) {
        if text.is_empty() || text.len() > MAX_KEY {
            self.refuse(field, sized(text.len(), "1 to 1,024"));
        }
    }

    /// A list of keys.
    pub(in crate::rpc) fn keys(&mut self, field: &'static str, keys: &[String]) {
        for (at, key) in keys.iter().enumerate() {
            self.key((field, at), key);
            if self.is_full() {
                break;
            }
        }
    }

    /// Text that may be empty.
    pub(in crate::rpc) fn at_most(&mut self, field: impl Into<Field>, text: &str, max: usize) {
        if text.len() > max {
            self.refuse(field, sized(text.len(), &format!("at most {}", grouped(max))));
        }
    }

    /// A request id: nothing, or up to 64 bytes of printable ASCII.
    pub(in crate::rpc) fn request_id(&mut self, text: &str) {
        self.at_most("request_id", text, MAX_REQUEST_ID);
        self.rule(is_printable(text), "request_id", "has to be printable ASCII");
    }

    /// Tags, each only once, in the order of their first mention. `None`: there are none, or they are refused.
    pub(in crate::rpc) fn tags(&mut self, tags: Vec<String>) -> Option<Vec<Tag>> {
        if tags.is_empty() {
            return None;
        }
        let mut kept: Vec<Tag> = Vec::with_capacity(tags.len().min(MAX_TAGS));
        for (at, tag) in tags.into_iter().enumerate() {
            self.tag(at, &tag);
            if self.is_full() {
                return None;
            }
            if kept.iter().any(|known| **known == *tag) {
                continue;
            }
            if kept.len() == MAX_TAGS {
                self.refuse("tags", "has more than 16 different tags; an entry may have 16");
                return None;
            }
            kept.push(tag.into());
        }
        Some(kept)
    }

    /// A tag of a list: 1 to 256 bytes.
    pub(in crate::rpc) fn tag(&mut self, at: usize, text: &str) {
        if text.is_empty() || text.len() > MAX_TAG {
            self.refuse(("tags", at), sized(text.len(), "1 to 256"));
        }
    }

    /// A length of time. `None`: absent, or refused.
    pub(in crate::rpc) fn duration(
        &mut self,
        field: &'static str,
        given: Option<prost_types::Duration>,
    ) -> Option<Duration> {
        match length(given?) {
            Ok(length) => Some(length),
            Err(problem) => {
                self.refuse(field, problem);
                None
            }
        }
    }

    /// A token or a version: not negative.
    pub(in crate::rpc) fn number(&mut self, field: &'static str, given: i64) -> Seq {
        Seq(self.count(field, given))
    }

    /// A count: not negative.
    pub(in crate::rpc) fn count(&mut self, field: impl Into<Field>, given: i64) -> u64 {
        u64::try_from(given).unwrap_or_else(|_| {
            self.refuse(field, "is negative; allowed is 0 or more");
            0
        })
    }

    /// The value of an enum, or a refusal of a number that this server does not know.
    pub(in crate::rpc) fn known<E: TryFrom<i32> + Default>(&mut self, field: &'static str, given: i32) -> E {
        E::try_from(given).unwrap_or_else(|_| {
            self.refuse(
                field,
                format!("is {given}, which this server does not know; it may be newer than the server"),
            );
            E::default()
        })
    }

    /// A lease id: opaque printable ASCII of 1 to 128 bytes. Text of that kind which drover never issues is no mistake of the
    /// request: it becomes an id that no grant has, and is answered like any lease that is not known.
    pub(in crate::rpc) fn lease_id(&mut self, text: &str) -> LeaseId {
        if text.is_empty() || text.len() > MAX_LEASE_ID || !is_printable(text) {
            self.refuse(
                "lease_id",
                "is no lease id; pass on unchanged what the grant had as lease.lease_id, 1 to 128 bytes of ASCII",
            );
        }
        text.parse().unwrap_or(NO_GRANT)
    }

    /// The size of a page: 0 stands for `default`.
    pub(in crate::rpc) fn page_size(&mut self, given: i32, default: usize) -> usize {
        match usize::try_from(given) {
            Ok(0) => default,
            Ok(size) if size <= MAX_PAGE => size,
            _ => {
                self.refuse(
                    "page_size",
                    format!("is {given}; allowed is 0, for {default}, or 1 to 1,000"),
                );
                default
            }
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Field::Plain(name) => f.write_str(name),
            Field::Item(list, at) => write!(f, "{list}[{at}]"),
            Field::Part(list, at, part) => write!(f, "{list}[{at}].{part}"),
        }
    }
}

impl From<&'static str> for Field {
    fn from(name: &'static str) -> Field {
        Field::Plain(name)
    }
}

impl From<(&'static str, usize)> for Field {
    fn from((list, at): (&'static str, usize)) -> Field {
        Field::Item(list, at)
    }
}

impl From<(&'static str, usize, &'static str)> for Field {
    fn from((list, at, part): (&'static str, usize, &'static str)) -> Field {
        Field::Part(list, at, part)
    }
}

/// What every namespace looks like.
const NAMESPACE: &str = "has to be 1 to 64 lower-case letters, digits, full stops, underscores or hyphens, the first one a letter or \
                         a digit";
/// No grant has it: the number lies after all others.
const NO_GRANT: LeaseId = LeaseId {
    token: Seq(u64::MAX),
    secret: std::num::NonZeroU64::MIN,
};
/// Items of a page.
const MAX_PAGE: usize = 1_000;

/// Whether text is a namespace's name.
fn is_namespace(text: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.len() <= MAX_NAMESPACE
        && bytes.first().is_some_and(plain)
        && bytes
            .iter()
            .all(|byte| plain(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// A Duration as a length: parts of one sign, not negative, at most 30 days.
fn length(given: prost_types::Duration) -> Result<Duration, &'static str> {
    let (seconds, nanos) = (given.seconds, given.nanos);
    if !(-999_999_999..=999_999_999).contains(&nanos) {
        return Err("has nanos outside of -999,999,999 to 999,999,999");
    }
    if (seconds < 0 && nanos > 0) || (seconds > 0 && nanos < 0) {
        return Err("has seconds and nanos of different signs");
    }
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(seconds), u32::try_from(nanos)) else {
        return Err("is negative; allowed is 0 s to 30 days");
    };
    let length = Duration::new(seconds, nanos);
    if length > LONGEST {
        return Err("is longer than 30 days");
    }
    Ok(length)
}

/// "is empty" or "has so many bytes", and what is allowed.
pub(in crate::rpc) fn sized(bytes: usize, allowed: &str) -> String {
    if bytes == 0 {
        format!("is empty; allowed are {allowed} bytes")
    } else {
        format!("has {} bytes; allowed are {allowed}", grouped(bytes))
    }
}

/// A number with a comma before each three digits.
pub(in crate::rpc) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
