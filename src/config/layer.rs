//! One table of policy fields, laid over the policy that it inherits from.
//!
//! *Owns* the reading of `[defaults]`, `[namespaces.NAME]` and `--default`, and the report of contradictions: where a
//! rule between two fields is broken, it names the line in this table that broke it, also when the other field is
//! inherited.

use std::collections::{HashMap, HashSet};

use toml::de::{DeTable, DeValue};

use super::fields::{FIELDS, Field, find};
use super::given::Given;
use super::mistake::At;
use super::overrides::Override;
use super::sheet::{Sheet, join, nearest};
use crate::decision::{Policy, PolicyError};

/// A policy, and where its parts were said.
#[derive(Default)]
pub(super) struct Layer {
    pub policy: Policy,
    /// The fields that this layer says.
    said: HashMap<&'static str, At>,
    /// The fields whose value could not be read, here or below.
    broken: HashSet<&'static str>,
}

impl Layer {
    /// A layer that says nothing yet, over this one.
    pub fn over(below: &Layer) -> Layer {
        Layer {
            policy: below.policy.clone(),
            said: HashMap::new(),
            broken: below.broken.clone(),
        }
    }

    /// Reads the table that stands at `path`, such as `namespaces.shop`.
    pub fn read<'t>(&mut self, table: &DeTable<'t>, path: &str, sheet: &mut Sheet<'t>) {
        self.read_group(table, path, "", sheet);
        if let (Some(ratio), Some(spread)) = (self.said.get("jitter.ratio"), self.said.get("jitter.spread")) {
            let at = later(ratio, spread).clone();
            let text = "ratio and spread are both given; allowed: one of them".to_owned();
            self.broken.extend(["jitter.ratio", "jitter.spread"]);
            sheet.add(at, join(path, "jitter"), text);
        }
    }

    /// `group` is `""`, or a table within with its dot, such as `backoff.`.
    fn read_group<'t>(&mut self, table: &DeTable<'t>, path: &str, group: &str, sheet: &mut Sheet<'t>) {
        for (key, value) in table {
            let name = format!("{group}{}", key.get_ref());
            let here = join(path, key.get_ref());
            let within = format!("{name}.");
            if let Some(field) = find(&name) {
                let at = sheet.at(&key.span());
                let given = Given::of(value.get_ref());
                match field.read(&mut self.policy, &given) {
                    Ok(()) => _ = self.broken.remove(field.name),
                    Err(refusal) => {
                        self.broken.insert(field.name);
                        sheet.add(at.clone(), here, format!("{given} is {refusal}"));
                    }
                }
                self.said.insert(field.name, at);
            } else if FIELDS.iter().any(|field| field.name.starts_with(&within)) {
                let allowed = format!("{{ {} }}", names(&within).join(", "));
                if let Some(table) = sheet.table((key, value), &here, &allowed) {
                    self.read_group(table, &here, &within, sheet);
                }
            } else if let Some(space) = path.strip_prefix("namespaces.")
                && group.is_empty()
                && value.get_ref().is_table()
                && nearest(key.get_ref(), &names(group)).is_none()
            {
                let whole = format!("{}.{}", space.trim_matches('"'), key.get_ref());
                let text = format!("unknown table; a name with a dot needs quotes: [namespaces.{whole:?}]");
                sheet.add(sheet.at(&key.span()), here, text);
            } else {
                sheet.unknown(key, path, &names(group));
            }
        }
    }

    /// Lays what `--default` says over this layer. Its form was checked when it was read.
    pub fn lay(&mut self, overrides: &[Override]) {
        for one in overrides {
            if one.apply(&mut self.policy).is_ok() {
                self.broken.remove(one.field());
                self.said.insert(one.field(), At::Option(one.to_string()));
            }
        }
    }

    /// Reports which rules the policy breaks, as far as this layer has a part in it. `below` has been reported already.
    pub fn check(&mut self, path: &str, inherited: &str, sheet: &mut Sheet<'_>) {
        let errors = self.policy.check().err().unwrap_or_default();
        let mut reported = HashSet::new();
        for error in &errors {
            let bound = find(error.field).and_then(|field| field.bound);
            let told = |name| self.broken.contains(name) || reported.contains(name);
            if told(error.field) || bound.is_some_and(told) {
                continue;
            }
            reported.insert(error.field);
            let own = self.said.get(error.field);
            if let Some(at) = own.or_else(|| bound.and_then(|bound| self.said.get(bound))) {
                let origin = if own.is_some() { "" } else { inherited };
                let text = self.contradiction(error, bound, origin);
                sheet.add(at.clone(), format!("{path}.{}", error.field), text);
            }
        }
        // What is wrong here is not told again of those who inherit it.
        self.broken.extend(reported);
    }

    fn contradiction(&self, error: &PolicyError, bound: Option<&'static str>, origin: &str) -> String {
        let value = |name: &str| find(name).and_then(|field| field.write(&self.policy));
        let mut allowed = error.allowed.clone();
        if let Some(bound) = bound
            && let Some(limit) = value(bound)
        {
            allowed = allowed.replacen(bound, &format!("{bound} ({limit})"), 1);
        }
        let given = value(error.field).unwrap_or_default();
        format!("{given}{origin} is out of range; allowed: {allowed}")
    }
}

/// The names in a group, without their prefix; of a table within only its own name.
fn names(group: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = FIELDS
        .iter()
        .filter_map(|field: &'static Field| field.name.strip_prefix(group))
        .map(|rest| rest.split_once('.').map_or(rest, |(table, _)| table))
        .collect();
    names.dedup();
    names
}

fn later<'a>(a: &'a At, b: &'a At) -> &'a At {
    match (a, b) {
        (
            At::Line { line, column },
            At::Line {
                line: other_line,
                column: other,
            },
        ) if (line, column) >= (other_line, other) => a,
        _ => b,
    }
}

/// Text as it may stand behind `--default FIELD=`: a TOML value, or a string without its quotes.
pub(super) fn loosely<R>(text: &str, read: impl FnOnce(&Given<'_>) -> R) -> R {
    match DeValue::parse(text) {
        Ok(value) => read(&Given::of(value.get_ref())),
        Err(_) => read(&Given::Text(text)),
    }
}
