//! The lines that say that it runs, for whoever started it.

use std::fmt;

use super::{Phase, Running};
use crate::config::{PolicySet, StoreKind, grouped, write_size};

/// Namespaces named before the rest is counted.
const NAMED: usize = 8;

/// What is served, where, from which store, to which namespaces.
pub struct Opening<'a>(pub &'a Running);

impl fmt::Display for Opening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Running {
            grpc, http, settings, ..
        } = self.0;
        writeln!(f, "drover {} is serving", env!("CARGO_PKG_VERSION"))?;
        writeln!(f, "  gRPC        {grpc}")?;
        match http {
            Some(http) => writeln!(f, "  HTTP        {http}  /livez /readyz /metrics")?,
            None => writeln!(f, "  HTTP        off")?,
        }
        match &settings.store {
            StoreKind::Memory => writeln!(
                f,
                "  store       memory  up to {} keys and {}",
                grouped(settings.limits.max_entries as u64),
                write_size(settings.limits.max_memory),
            )?,
            StoreKind::Redis(redis) => {
                let waits = match self.0.phase() {
                    Phase::Starting => "  no answer yet: see the log",
                    Phase::Serving | Phase::Draining => "",
                };
                writeln!(f, "  store       {}  prefix {}{waits}", redis.url, redis.prefix)?;
            }
        }
        writeln!(f, "  namespaces  {}", Namespaces(&settings.policies))
    }
}

struct Namespaces<'a>(&'a PolicySet);

impl fmt::Display for Namespaces<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.names();
        let rest = names.len().saturating_sub(NAMED);
        let mut listed = names[..names.len() - rest].join(", ");
        if rest > 0 {
            listed.push_str(&format!(" and {rest} more"));
        }
        match (names.is_empty(), self.0.strict) {
            (true, false) => f.write_str("any, with the defaults"),
            (true, true) => f.write_str("none: strict_namespaces is set, and none is configured"),
            (false, false) => write!(f, "{listed}; any other, with the defaults"),
            (false, true) => write!(f, "{listed}; no other"),
        }
    }
}
