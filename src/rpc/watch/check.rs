//! The limits of what a watcher sends.

use super::refusal::Refusal;
use crate::proto::{Ack, Subscribe};

/// Namespaces of one subscription.
pub const MAX_NAMESPACES: usize = 64;
/// Prefixes of one subscription.
pub const MAX_PREFIXES: usize = 100;
const MAX_KEY: usize = 1_024;
const MAX_HOLDER: usize = 256;
/// Violations told at once.
const MAX_VIOLATIONS: usize = 10;

/// Checks a subscription. A cursor is not looked at: one that cannot be read is answered by a Reset.
pub fn subscribe(subscribe: &Subscribe) -> Result<(), Refusal> {
    let mut found = Found::default();
    let (namespaces, prefixes) = (&subscribe.namespaces, &subscribe.key_prefixes);
    found.unless(
        !namespaces.is_empty(),
        "subscribe.namespaces",
        "is empty; name at least one namespace",
    );
    let few = namespaces.len() <= MAX_NAMESPACES;
    found.unless(
        few,
        "subscribe.namespaces",
        "has more than 64 namespaces; use several streams",
    );
    for (at, namespace) in namespaces.iter().enumerate() {
        found.unless(
            is_namespace(namespace),
            format!("subscribe.namespaces[{at}]"),
            NAMESPACE,
        );
    }
    let few = prefixes.len() <= MAX_PREFIXES;
    found.unless(
        few,
        "subscribe.key_prefixes",
        "has more than 100 prefixes; use shorter ones, or none",
    );
    for (at, prefix) in prefixes.iter().enumerate() {
        let fits = prefix.len() <= MAX_KEY;
        found.unless(
            fits,
            format!("subscribe.key_prefixes[{at}]"),
            "has more than 1,024 bytes",
        );
    }
    found.unless(
        subscribe.holder.len() <= MAX_HOLDER,
        "subscribe.holder",
        "has more than 256 bytes",
    );
    found.done()
}

/// Checks an acknowledgement, without its cursor.
pub fn ack(ack: &Ack) -> Result<(), Refusal> {
    let mut found = Found::default();
    for (at, read) in ack.hits.iter().enumerate() {
        // An Ack may have thousands of hits: the name of a field is only made when there is something wrong with it.
        let mut unless = |holds: bool, part: &str, problem: &str| {
            if !holds {
                found.unless(false, format!("ack.hits[{at}].{part}"), problem);
            }
        };
        unless(is_namespace(&read.namespace), "namespace", NAMESPACE);
        unless(
            (1..=MAX_KEY).contains(&read.key.len()),
            "key",
            "has to have 1 to 1,024 bytes",
        );
        unless(read.hits >= 0, "hits", "is negative; allowed is 0 or more");
    }
    found.done()
}

const NAMESPACE: &str = "has to be 1 to 64 lower-case letters, digits, full stops, underscores or hyphens, the first one a letter or \
                         a digit";

fn is_namespace(text: &str) -> bool {
    let plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = text.len() <= 64 && text.as_bytes().first().is_some_and(plain);
    fits && text
        .bytes()
        .all(|byte| plain(&byte) || matches!(byte, b'.' | b'_' | b'-'))
}

#[derive(Default)]
struct Found(Vec<(String, String)>);

impl Found {
    fn unless(&mut self, holds: bool, field: impl ToString, problem: &str) {
        if !holds && self.0.len() < MAX_VIOLATIONS {
            self.0.push((field.to_string(), problem.to_owned()));
        }
    }

    fn done(self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Refusal::Fields(self.0))
        }
    }
}
