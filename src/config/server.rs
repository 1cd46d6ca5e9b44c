//! The `[server]` table: the options of `drover serve`, by the same names and rules.

use toml::de::DeTable;

use super::args::{self, ServeArgs, StoreChoice};
use super::given::Given;
use super::sheet::{Sheet, join};
use super::units::Refusal;

/// What a `[server]` table says.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Server {
    /// The values, as options.
    pub options: ServeArgs,
    /// Names and values as they were written, in the order of [`OPTIONS`]: for showing, and for telling what a reload
    /// can't take over.
    pub written: Vec<(&'static str, String)>,
}

const STORE: &str = "store";

type Read = fn(&mut ServeArgs, &str) -> Result<(), Refusal>;

/// Every option that may stand in the file: all but the file's own name.
static OPTIONS: [(&str, Read); 23] = [
    ("listen", |a, t| args::address(t).map(|v| a.listen = Some(v))),
    ("http", |a, t| args::address_or_off(t).map(|v| a.http = Some(v))),
    ("max_connection_age", |a, t| {
        args::age(t).map(|v| a.max_connection_age = Some(v))
    }),
    ("drain_delay", |a, t| args::drain(t).map(|v| a.drain_delay = Some(v))),
    ("drain_timeout", |a, t| {
        args::drain(t).map(|v| a.drain_timeout = Some(v))
    }),
    (STORE, |a, t| args::store(t).map(|v| a.store = Some(v))),
    ("store_prefix", |a, t| args::prefix(t).map(|v| a.store_prefix = Some(v))),
    ("store_user", |a, t| args::something(t).map(|v| a.store_user = Some(v))),
    ("store_password_file", |a, t| {
        args::something(t).map(|v| a.store_password_file = Some(v.into()))
    }),
    ("store_ca_file", |a, t| {
        args::something(t).map(|v| a.store_ca_file = Some(v.into()))
    }),
    ("store_cert_file", |a, t| {
        args::something(t).map(|v| a.store_cert_file = Some(v.into()))
    }),
    ("store_key_file", |a, t| {
        args::something(t).map(|v| a.store_key_file = Some(v.into()))
    }),
    ("store_timeout", |a, t| {
        args::store_timeout(t).map(|v| a.store_timeout = Some(v))
    }),
    ("store_connections", |a, t| {
        args::connections(t).map(|v| a.store_connections = Some(v))
    }),
    ("store_pool", |a, t| {
        args::connections(t).map(|v| a.store_pool = Some(v))
    }),
    ("max_entries", |a, t| args::entries(t).map(|v| a.max_entries = Some(v))),
    ("max_memory", |a, t| args::memory(t).map(|v| a.max_memory = Some(v))),
    ("max_waiters", |a, t| args::many(t).map(|v| a.max_waiters = Some(v))),
    ("max_watchers", |a, t| args::many(t).map(|v| a.max_watchers = Some(v))),
    ("max_workers", |a, t| args::many(t).map(|v| a.max_workers = Some(v))),
    ("log", |a, t| args::filter(t).map(|v| a.log = Some(v))),
    ("log_format", |a, t| args::log_format(t).map(|v| a.log_format = Some(v))),
    ("otlp", |a, t| args::otlp(t).map(|v| a.otlp = Some(v))),
];

impl Server {
    pub fn read<'t>(&mut self, table: &DeTable<'t>, sheet: &mut Sheet<'t>) {
        for (key, value) in table {
            let Some((name, read)) = OPTIONS.iter().find(|(name, _)| *name == key.get_ref().as_ref()) else {
                sheet.unknown(key, "server", &names());
                continue;
            };
            let given = Given::of(value.get_ref());
            match read(&mut self.options, &given.plain()) {
                Ok(()) => self.written.push((name, self.shown(name, &given))),
                Err(refusal) => {
                    let at = sheet.at(&key.span());
                    // A store's URL may hold a password.
                    let given = if *name == STORE {
                        "what is given".to_owned()
                    } else {
                        given.to_string()
                    };
                    sheet.add(at, join("server", name), format!("{given} is {refusal}"));
                }
            }
        }
        self.written
            .sort_by_key(|(name, _)| OPTIONS.iter().position(|(other, _)| other == name));
    }

    /// A value as it may be printed.
    fn shown(&self, name: &str, given: &Given<'_>) -> String {
        match &self.options.store {
            Some(StoreChoice::Redis(url)) if name == STORE => Given::Text(&url.to_string()).to_string(),
            _ => given.to_string(),
        }
    }

    /// The options that two tables say differently.
    pub fn differences(&self, other: &Server) -> Vec<&'static str> {
        let said = |server: &Server, name| server.written.iter().find(|(said, _)| *said == name).cloned();
        let mut names = names();
        names.retain(|&name| {
            // What is printed of a store does not tell passwords apart.
            said(self, name) != said(other, name) || (name == STORE && self.options.store != other.options.store)
        });
        names
    }
}

fn names() -> Vec<&'static str> {
    OPTIONS.iter().map(|(name, _)| *name).collect()
}
