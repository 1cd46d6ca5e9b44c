//! The file: `strict_namespaces`, `[server]`, `[defaults]`, `[namespaces.NAME]`.
//!
//! *Invariants.* A file is read to its end whatever is wrong with it, so that all mistakes are told at once; and it is
//! used only if there are none.
//!
//! *Why not* serde: it stops at the first mistake, and a contradiction between two good values has no place there.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable};

use super::given::Given;
use super::layer::Layer;
use super::server::Server;
use super::sheet::{Pair, Sheet, join};
use super::{ConfigError, Overrides, PolicySet};

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct File {
    pub server: Server,
    pub policies: PolicySet,
}

const TOP: [&str; 4] = ["strict_namespaces", "server", "defaults", "namespaces"];
const NAMESPACE: &str = "a lower-case letter or digit, then up to 63 of a-z, 0-9, \".\", \"_\" and \"-\"";

/// Reads a file's text, with what flags and the environment say about policies laid over it. `path` is for the messages
/// only.
pub(super) fn parse(path: &Path, text: &str, overrides: &Overrides) -> Result<File, ConfigError> {
    let mut sheet = Sheet::new(text);
    let mut file = File::default();
    if let Some(document) = sheet.parse() {
        read_document(&document, overrides, &mut file, &mut sheet);
    }
    let mistakes = sheet.finish();
    if mistakes.is_empty() {
        Ok(file)
    } else {
        Err(ConfigError::Invalid {
            path: path.to_owned(),
            mistakes,
        })
    }
}

fn read_document<'t>(document: &DeTable<'t>, overrides: &Overrides, file: &mut File, sheet: &mut Sheet<'t>) {
    let mut defaults = Layer::default();
    let mut namespaces = None;
    for (key, value) in document {
        match key.get_ref().as_ref() {
            "strict_namespaces" => match Given::of(value.get_ref()) {
                Given::Bool(strict) => file.policies.strict = strict,
                given => {
                    let text = format!("{given} is neither true nor false; allowed: true or false");
                    sheet.add(sheet.at(&key.span()), "strict_namespaces".to_owned(), text);
                }
            },
            "server" => {
                if let Some(table) = sheet.table((key, value), "server", "a table [server]") {
                    file.server.read(table, sheet);
                }
            }
            "defaults" => {
                if let Some(table) = sheet.table((key, value), "defaults", "a table [defaults]") {
                    defaults.read(table, "defaults", sheet);
                }
            }
            "namespaces" => namespaces = sheet.table((key, value), "namespaces", "tables [namespaces.NAME]"),
            _ => sheet.unknown(key, "", &TOP),
        }
    }
    defaults.lay(&overrides.defaults);
    defaults.check("defaults", " (built in)", sheet);
    for pair in namespaces.into_iter().flatten() {
        read_namespace(pair, &defaults, &mut file.policies.namespaces, sheet);
    }
    file.policies.defaults = Arc::new(defaults.policy);
    file.policies.strict = overrides.strict_namespaces.unwrap_or(file.policies.strict);
}

fn read_namespace<'d, 't>(
    pair: Pair<'d, 't>,
    defaults: &Layer,
    namespaces: &mut HashMap<String, Arc<crate::decision::Policy>>,
    sheet: &mut Sheet<'t>,
) {
    let key: &Spanned<DeString<'_>> = pair.0;
    let name = key.get_ref();
    let path = join("namespaces", name);
    if !is_namespace(name) {
        let given = Given::Text(name);
        let text = format!("{given} is not a name of a namespace; allowed: {NAMESPACE}");
        sheet.add(sheet.at(&key.span()), "namespaces".to_owned(), text);
    }
    let Some(table) = sheet.table(pair, &path, "a table [namespaces.NAME]") else {
        return;
    };
    let mut layer = Layer::over(defaults);
    layer.read(table, &path, sheet);
    layer.check(&path, " (inherited)", sheet);
    namespaces.insert(name.to_string(), Arc::new(layer.policy));
}

/// `[a-z0-9][a-z0-9._-]{0,63}`
fn is_namespace(name: &str) -> bool {
    let first = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let rest = |c: u8| first(c) || matches!(c, b'.' | b'_' | b'-');
    name.len() <= 64 && name.bytes().next().is_some_and(first) && name.bytes().all(rest)
}
