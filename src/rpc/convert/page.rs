//! Pages of long answers.
//!
//! A page token names the last item of a page. The next page begins with what follows it in an order that does not change while
//! items come and go, so nothing is told twice and nothing that stays is left out.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{MAX_KEY, MAX_NAMESPACE, Violations};
use crate::coordinator::LeaseInfo;
use crate::decision::{Key, Seq};

/// Of items that a page has unless it is asked for another number.
pub const PAGE: usize = 100;
/// No page token is longer, in bytes.
const MAX_TOKEN: usize = (9 + MAX_NAMESPACE + 1 + MAX_KEY).div_ceil(3) * 4;
/// The first byte of each page token, to tell its kind and its version.
const LEASES: u8 = b'l';
/// As [`LEASES`].
const NAMESPACES: u8 = b'n';

/// A page of leases. They are ordered by their numbers, which grow with the time of the grant and never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeasePage {
    pub(super) size: usize,
    pub(super) after: Option<(Seq, Key)>,
}

/// A page of namespaces, ordered by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespacePage {
    pub(super) size: usize,
    pub(super) after: Option<String>,
}

impl LeasePage {
    /// The page after the one whose token this is; an empty token is that of no page.
    pub(super) fn read(size: usize, token: &str) -> Result<LeasePage, Violations> {
        let after = match read(LEASES, token)? {
            Some(bytes) => {
                let (number, key) = bytes.split_first_chunk().ok_or_else(foreign)?;
                Some((Seq(u64::from_be_bytes(*number)), key_of(&utf8(key)?)?))
            }
            None => None,
        };
        Ok(LeasePage { size, after })
    }

    /// The leases of the page, and the token of the next one; empty: there is none.
    pub(super) fn cut(self, mut leases: Vec<LeaseInfo>) -> (Vec<LeaseInfo>, String) {
        leases.sort_unstable_by(|a, b| a.token.cmp(&b.token).then_with(|| a.key.cmp(&b.key)));
        cut(
            leases,
            self.size,
            |lease| match &self.after {
                Some((number, key)) => (lease.token, &lease.key) > (*number, key),
                None => true,
            },
            |lease| {
                let number = lease.token.0.to_be_bytes();
                let (namespace, key) = (lease.key.namespace(), lease.key.name());
                write(LEASES, &[&number, namespace.as_bytes(), b"/", key.as_bytes()])
            },
        )
    }
}

impl NamespacePage {
    /// As [`LeasePage::read`].
    pub(super) fn read(size: usize, token: &str) -> Result<NamespacePage, Violations> {
        let after = read(NAMESPACES, token)?.map(|name| utf8(&name)).transpose()?;
        Ok(NamespacePage { size, after })
    }

    /// As [`LeasePage::cut`], for whatever has a namespace's name.
    pub(super) fn cut<T>(self, mut items: Vec<T>, name: impl Fn(&T) -> &str) -> (Vec<T>, String) {
        items.sort_unstable_by(|a, b| name(a).cmp(name(b)));
        cut(
            items,
            self.size,
            |item| self.after.as_deref().is_none_or(|after| name(item) > after),
            |item| write(NAMESPACES, &[name(item).as_bytes()]),
        )
    }
}

fn cut<T>(
    mut sorted: Vec<T>,
    size: usize,
    follows: impl Fn(&T) -> bool,
    token: impl Fn(&T) -> String,
) -> (Vec<T>, String) {
    let start = sorted.partition_point(|item| !follows(item));
    let rest = sorted.len() - start;
    sorted.drain(..start);
    sorted.truncate(size);
    let next = match sorted.last() {
        Some(last) if rest > size => token(last),
        _ => String::new(),
    };
    (sorted, next)
}

fn write(kind: u8, parts: &[&[u8]]) -> String {
    let mut bytes = vec![kind];
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    URL_SAFE_NO_PAD.encode(bytes)
}

fn read(kind: u8, token: &str) -> Result<Option<Vec<u8>>, Violations> {
    if token.is_empty() {
        return Ok(None);
    }
    if token.len() > MAX_TOKEN {
        return Err(foreign());
    }
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| foreign())?;
    match bytes.split_first() {
        Some((first, rest)) if *first == kind => Ok(Some(rest.to_vec())),
        _ => Err(foreign()),
    }
}

/// The namespace of a key has no `/`.
fn key_of(text: &str) -> Result<Key, Violations> {
    match text.split_once('/') {
        Some((namespace, key)) if namespace.len() <= MAX_NAMESPACE => Ok(Key::new(namespace, key)),
        _ => Err(foreign()),
    }
}

fn utf8(bytes: &[u8]) -> Result<String, Violations> {
    String::from_utf8(bytes.to_vec()).map_err(|_| foreign())
}

fn foreign() -> Violations {
    Violations::one(
        "page_token",
        "is not one of this call; pass on unchanged what the last answer had as next_page_token",
    )
}
