//! Names and numbers: keys, tags, sequence numbers and lease ids, each a type of its own so that they cannot be mixed up.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::sync::Arc;

/// A tag, 1 to 256 bytes.
pub type Tag = Arc<str>;

/// A namespace and a key in it, in one shared allocation: it is cloned into flights, events and tables all the time.
///
/// The namespace's alphabet has no `/`, so the first one parts the two.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// A key of a namespace. The caller has checked both (`rpc::convert` does); a namespace is at most 64 bytes.
    pub fn new(namespace: &str, key: &str) -> Key {
        debug_assert!(
            namespace.len() <= 64 && !namespace.contains('/'),
            "not a namespace: {namespace}"
        );
        let mut text = String::with_capacity(namespace.len() + 1 + key.len());
        text.push_str(namespace);
        text.push('/');
        text.push_str(key);
        Key(text.into())
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        self.parts().0
    }

    /// The key within its namespace.
    pub fn name(&self) -> &str {
        self.parts().1
    }

    /// `namespace/key`, the form in which it is kept and compared.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// From [`Key::text`].
    pub fn from_text(text: &str) -> Key {
        Key(text.into())
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or((&self.0, ""))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A number of a partition's growing sequence: a grant's fencing token, a value's version, an invalidation's generation.
/// They are one type because they are compared with each other. 0 means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

impl Seq {
    /// No number.
    pub const NONE: Seq = Seq(0);

    /// Whether it is a number at all.
    pub fn is_some(self) -> bool {
        self != Seq::NONE
    }

    /// The number that follows in a sequence whose last one was `last`: it keeps growing over a restart without data because the
    /// store's time in microseconds is a lower bound, and over a store's loss because the callers' own highest token (`seen`) is.
    pub fn next(last: Seq, now: super::StoreTime, seen: Seq) -> Seq {
        Seq(last.0.saturating_add(1).max(now.0).max(seen.0.saturating_add(1)))
    }
}

/// Proves a grant: its fencing token and a random part that nobody can guess.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The fencing token.
    pub token: Seq,
    /// The random part. Its highest bit tells who granted it: see [`LeaseId::is_degraded`].
    pub secret: NonZeroU64,
}

/// The bit of a secret that only leases have which a replica granted alone.
const DEGRADED: u64 = 1 << 63;

impl LeaseId {
    /// Whether a replica granted it alone, while its store did not answer: nobody else knows of it.
    pub fn is_degraded(&self) -> bool {
        self.secret.get() & DEGRADED != 0
    }

    /// What the holder may fence its own writes with; none where the number is that of one replica alone.
    pub fn fencing_token(&self) -> Seq {
        if self.is_degraded() { Seq::NONE } else { self.token }
    }

    /// A random number as the secret of a lease of the store, or of one that a replica grants alone.
    pub fn secret_of(random: u64, degraded: bool) -> u64 {
        if degraded {
            random | DEGRADED
        } else {
            random & !DEGRADED
        }
    }
}

/// `l…` of the store, `d…` of a replica alone.
impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_degraded() { 'd' } else { 'l' };
        write!(f, "{kind}{:x}-{:016x}", self.token.0, self.secret)
    }
}

/// The text is not a lease id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotALeaseId;

impl FromStr for LeaseId {
    type Err = NotALeaseId;

    fn from_str(text: &str) -> Result<LeaseId, NotALeaseId> {
        let (kind, rest) = text.split_at_checked(1).ok_or(NotALeaseId)?;
        let (token, secret) = rest.split_once('-').ok_or(NotALeaseId)?;
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            plain
                .then(|| u64::from_str_radix(digits, 16).ok())
                .flatten()
                .ok_or(NotALeaseId)
        };
        let id = LeaseId {
            token: Seq(number(token)?),
            secret: NonZeroU64::new(number(secret)?).ok_or(NotALeaseId)?,
        };
        let expected = if id.is_degraded() { "d" } else { "l" };
        if kind == expected { Ok(id) } else { Err(NotALeaseId) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::StoreTime;
    use super::*;

    #[test]
    fn a_key_keeps_its_two_parts_apart_whatever_the_key_contains() {
        let key = Key::new("shop", "a/b/c");
        assert_eq!((key.namespace(), key.name()), ("shop", "a/b/c"));
        assert_ne!(Key::new("shop", "a"), Key::new("shopa", ""));
    }

    #[test]
    fn a_lease_id_survives_its_text_form() {
        for degraded in [false, true] {
            let id = LeaseId {
                token: Seq(1_764_500_000_000_000),
                secret: NonZeroU64::new(LeaseId::secret_of(u64::MAX, degraded)).expect("not zero"),
            };
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(id.is_degraded(), degraded);
            assert_eq!(id.fencing_token().is_some(), !degraded);
        }
    }

    #[test]
    fn text_that_is_no_lease_id_is_refused() {
        for text in [
            "",
            "l",
            "l-",
            "l1",
            "l1-",
            "1-2",
            "l+1-2",
            "l1-2-3",
            "lx-1",
            "l1-0",
            "l1-ffffffffffffffffff",
            "l1-ffffffffffffffff",
            "d1-7fffffffffffffff",
            "é1-1",
        ] {
            assert_eq!(text.parse::<LeaseId>(), Err(NotALeaseId), "{text}");
        }
    }

    #[test]
    fn the_sequence_grows_past_time_past_itself_and_past_what_callers_have_seen() {
        assert_eq!(Seq::next(Seq(10), StoreTime(500), Seq::NONE), Seq(500));
        assert_eq!(Seq::next(Seq(900), StoreTime(500), Seq::NONE), Seq(901));
        assert_eq!(Seq::next(Seq(900), StoreTime(500), Seq(2_000)), Seq(2_001));
    }
}
