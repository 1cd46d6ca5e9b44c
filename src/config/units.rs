//! Words for quantities: how lengths of time, sizes and addresses are read from a file, a flag or the environment, and
//! written back.
//!
//! *Invariants.* What a `write_…` function returns, the `read_…` function beside it reads back to the same quantity. A
//! refusal says what the text is not and what is allowed, so that a flag and a file complain in the same words.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Why a text is not the quantity that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Completes "the value is …", such as "not a duration".
    pub problem: String,
    /// What is allowed, with an example.
    pub allowed: String,
}

impl Refusal {
    pub(super) fn new(problem: impl Into<String>, allowed: impl Into<String>) -> Refusal {
        Refusal {
            problem: problem.into(),
            allowed: allowed.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; allowed: {}", self.problem, self.allowed)
    }
}

impl std::error::Error for Refusal {}

/// A length of time: `250ms`, `10s`, `5m`, `1h 30m`, `7d`. `Err` completes "the value is …".
pub fn read_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match error {
        humantime::DurationError::Empty => "empty".to_owned(),
        humantime::DurationError::UnknownUnit { unit, .. } if unit.is_empty() => "a number without a unit".to_owned(),
        humantime::DurationError::NumberOverflow => "too large or too fine for a duration".to_owned(),
        _ => "not a duration".to_owned(),
    })
}

/// The shortest usual form, such as `5m`, `1h 30m`, `0s`.
pub fn write_duration(length: Duration) -> String {
    let units: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let fractions: [(u32, &str); 3] = [(1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let mut parts = Vec::new();
    let mut seconds = length.as_secs();
    for (size, unit) in units {
        if seconds >= size {
            parts.push(format!("{}{unit}", seconds / size));
            seconds %= size;
        }
    }
    let mut nanos = length.subsec_nanos();
    for (size, unit) in fractions {
        if nanos >= size {
            parts.push(format!("{}{unit}", nanos / size));
            nanos %= size;
        }
    }
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.join(" ")
    }
}

/// Units of size by their lower-case names. `Mi` is what Kubernetes writes; a bare `M` is refused because people read
/// it both ways.
const SIZES: [(&str, u64); 13] = [
    ("", 1),
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("ki", 1 << 10),
    ("mi", 1 << 20),
    ("gi", 1 << 30),
    ("ti", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
];

/// A size in bytes: `1048576`, `64KiB`, `1GiB`, `500MB`. `Err` completes "the value is …".
pub fn read_size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_lowercase();
    let number = number.replace('_', "");
    if number.is_empty() {
        return Err("not a size".to_owned());
    }
    let Some((_, bytes)) = SIZES.iter().find(|(name, _)| *name == unit) else {
        return Err("not a size".to_owned());
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*bytes))
        .ok_or_else(|| "too large".to_owned())
}

/// In the largest binary unit that divides it, such as `1MiB`; else plain bytes.
pub fn write_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

/// An address to listen on. Names are not resolved, `localhost` aside: an address that depends on a resolver is a
/// surprise at start.
pub fn read_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(port) = text.strip_prefix("localhost:")
        && let Ok(port) = port.parse()
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| "not an address".to_owned())
}

/// A count such as `100000` or `100_000`. `Err` completes "the value is …".
pub fn read_count(text: &str) -> Result<u64, String> {
    let digits = text.trim().replace('_', "");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("not a whole number".to_owned());
    }
    digits.parse().map_err(|_| "too large".to_owned())
}

/// With separators of thousands, as people read it: `2,000,000`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
