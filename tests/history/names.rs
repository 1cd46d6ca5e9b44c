//! What the clients ask for: namespaces with their policies, keys, tags, and the numbers by which the checker knows them.

use std::collections::HashMap;

use crate::checker::model::Target;

/// Values live a moment and everything happens to them.
pub const SHOP: u16 = 0;
/// Somebody always wants to rebuild: what is measured is how long nobody may.
pub const RELAY: u16 = 1;
/// Values live long and are hardly ever made old: what is watched is that nobody rebuilds them.
pub const STILL: u16 = 2;

/// Workers refresh what callers ask for, and rebuild what nobody asked for yet.
pub const FARM: u16 = 3;
/// The same, and never more than [`PLACES`] at once.
pub const MILL: u16 = 4;

const NAMESPACES: [&str; 5] = ["shop", "relay", "still", "farm", "mill"];
const KEYS: [usize; 5] = [24, 6, 40, 8, 8];
const TAGS: u32 = 6;

/// The file that every replica reads. Leases of a second, so that a fault of some seconds outlasts them.
pub const POLICIES: &str = r#"
[defaults]
lease_ttl = "1s"
max_hold = "3s"
max_wait = "6s"
backoff = { base = "100ms", max = "400ms" }

[namespaces.shop]
fresh_ttl = "1500ms"
stale_while_revalidate = "1s"
stale_if_error = "3s"
negative_ttl = "500ms"

[namespaces.relay]
fresh_ttl = "200ms"
stale_while_revalidate = "0s"
stale_if_error = "0s"
store_down = "refuse"

[namespaces.still]
fresh_ttl = "300s"

[namespaces.farm]
fresh_ttl = "1s"
stale_while_revalidate = "400ms"

[namespaces.mill]
fresh_ttl = "1s"
stale_while_revalidate = "200ms"
max_concurrent_rebuilds = 2
"#;

/// `max_concurrent_rebuilds` above.
pub const PLACES: u32 = 2;

/// No lease is longer than this, in microseconds.
pub const LONGEST_LEASE: u64 = 1_500_000;
/// `max_wait` above.
pub const MAX_WAIT: u64 = 6_000_000;
/// No report in `shop` asks for a longer life in any part.
pub const LONGEST_LIFE: u64 = 4_000_000;

/// Names and their numbers.
pub struct Names {
    keys: Vec<(u16, String)>,
    numbers: HashMap<(u16, String), u32>,
}

impl Names {
    pub fn new() -> Names {
        let mut keys = Vec::new();
        for (namespace, count) in KEYS.iter().enumerate() {
            // Two prefixes, for watchers that want one of them.
            let names = (0..*count).map(|number| format!("{}{number}", if number % 2 == 0 { "a" } else { "b" }));
            keys.extend(names.map(|name| (namespace as u16, name)));
        }
        let numbers = keys.iter().cloned().zip(0..).collect();
        Names { keys, numbers }
    }

    /// The namespace of each key.
    pub fn namespaces(&self) -> Vec<u16> {
        self.keys.iter().map(|(namespace, _)| *namespace).collect()
    }

    /// The numbers of a namespace's keys.
    pub fn of(&self, namespace: u16) -> std::ops::Range<u32> {
        let before: usize = KEYS[..usize::from(namespace)].iter().sum();
        before as u32..(before + KEYS[usize::from(namespace)]) as u32
    }

    pub fn namespace_of(&self, key: u32) -> u16 {
        self.keys[key as usize].0
    }

    /// The namespace and the name of a key.
    pub fn key(&self, number: u32) -> (&'static str, &str) {
        let (namespace, name) = &self.keys[number as usize];
        (NAMESPACES[usize::from(*namespace)], name)
    }

    pub fn namespace(&self, number: u16) -> &'static str {
        NAMESPACES[usize::from(number)]
    }

    pub fn namespace_number(&self, name: &str) -> Option<u16> {
        NAMESPACES.iter().position(|other| *other == name).map(|at| at as u16)
    }

    /// `None`: not of those that count, such as a mark.
    pub fn number(&self, namespace: &str, name: &str) -> Option<u32> {
        let namespace = self.namespace_number(namespace)?;
        self.numbers.get(&(namespace, name.to_owned())).copied()
    }

    /// Those that a key of `shop` may carry.
    pub fn tags_for(&self, key: u32) -> [u32; 2] {
        [key % TAGS, (key + 1) % TAGS]
    }

    pub fn some_tag(&self, draw: u32) -> u32 {
        draw % TAGS
    }

    pub fn tag(&self, number: u32) -> String {
        format!("t{number}")
    }

    pub fn tag_number(&self, name: &str) -> Option<u32> {
        name.strip_prefix('t')?.parse().ok().filter(|number| *number < TAGS)
    }

    /// Keys with this beginning, over all namespaces.
    pub fn with_prefix(&self, prefix: &str) -> Vec<u32> {
        let named = self
            .keys
            .iter()
            .zip(0..)
            .filter(|((_, name), _)| name.starts_with(prefix));
        named.map(|(_, number)| number).collect()
    }

    /// Keys that nobody uses, so many that each partition has some. The last are those that watchers with a prefix hear of: they
    /// acknowledge no place beyond what they are told of before the next sign of life.
    pub fn marks(&self) -> Vec<String> {
        let mark = |number: u32| format!("{}-mark-{number}", if number < 100 { "b" } else { "a" });
        (0..200).map(mark).collect()
    }

    /// The targets of an event, as far as they count.
    pub fn targets(&self, namespace: &str, keys: &[String], tags: &[String], everything: bool) -> Vec<Target> {
        let keys = keys
            .iter()
            .filter_map(|key| self.number(namespace, key))
            .map(Target::Key);
        let tags = tags.iter().filter_map(|tag| self.tag_number(tag)).map(Target::Tag);
        let all = self.namespace_number(namespace).filter(|_| everything);
        keys.chain(tags).chain(all.map(Target::Everything)).collect()
    }
}
