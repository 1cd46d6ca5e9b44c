//! Policies as text: what `ListNamespaces` serves, `drover config check` prints, and a reload logs.

use super::PolicySet;
use super::fields::FIELDS;
use crate::decision::Policy;

/// The widest name at the top of a table: `max_concurrent_rebuilds`.
const WIDTH: usize = 23;

/// The policy as TOML, every field on its line, the values aligned. Reads back to the same policy.
pub fn policy_toml(policy: &Policy) -> String {
    lines(policy, |_| true)
}

/// Every field with its value, in the file's names and order: `("backoff.max", "\"1m\"")`.
pub fn policy_fields(policy: &Policy) -> Vec<(&'static str, String)> {
    FIELDS
        .iter()
        .filter_map(|field| Some((field.name, field.write(policy)?)))
        .collect()
}

/// Only the fields that are not as in `base`.
pub(super) fn differing_toml(policy: &Policy, base: &Policy) -> String {
    let base = policy_fields(base);
    lines(policy, |pair| !base.contains(pair))
}

fn lines(policy: &Policy, wanted: impl Fn(&(&'static str, String)) -> bool) -> String {
    let mut text = String::new();
    let fields: Vec<_> = policy_fields(policy).into_iter().filter(wanted).collect();
    let table = |name: &'static str| name.split_once('.');
    for group in fields.chunk_by(|a, b| table(a.0).is_some() && table(a.0).map(|t| t.0) == table(b.0).map(|t| t.0)) {
        let (name, value) = match group {
            [(name, value)] if table(name).is_none() => (*name, value.clone()),
            _ => {
                let parts: Vec<String> = group
                    .iter()
                    .filter_map(|(name, value)| Some(format!("{} = {value}", table(name)?.1)))
                    .collect();
                let name = group.first().and_then(|(name, _)| table(name)).map_or("", |t| t.0);
                (name, format!("{{ {} }}", parts.join(", ")))
            }
        };
        text.push_str(&format!("{name:<WIDTH$} = {value}\n"));
    }
    text
}

/// What is different between two sets, a phrase each, in the order of the names.
pub(super) fn changes(old: &PolicySet, new: &PolicySet) -> Vec<String> {
    let mut changes = Vec::new();
    if old.strict != new.strict {
        changes.push(format!("strict_namespaces {} → {}", old.strict, new.strict));
    }
    field_changes("defaults", &old.defaults, &new.defaults, &mut changes);
    let mut names = [old.names(), new.names()].concat();
    names.sort_unstable();
    names.dedup();
    for name in names {
        match (old.namespaces.get(name), new.namespaces.get(name)) {
            (Some(old), Some(new)) => field_changes(name, old, new, &mut changes),
            (None, _) => changes.push(format!("{name} added")),
            (_, None) => changes.push(format!("{name} removed")),
        }
    }
    changes
}

fn field_changes(name: &str, old: &Policy, new: &Policy, changes: &mut Vec<String>) {
    for field in &FIELDS {
        let (old, new) = (field.write(old), field.write(new));
        if old != new {
            let show = |value: Option<String>| value.unwrap_or_else(|| "unset".to_owned());
            changes.push(format!("{name}.{} {} → {}", field.name, show(old), show(new)));
        }
    }
}
