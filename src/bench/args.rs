//! The command line of the bench.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;

/// Measure drover against a bare tonic server that carries the same traffic.
///
/// Both servers run as processes of their own on this machine, from this binary, and take turns under the same closed loop: the
/// same connections, the same calls in flight, messages of the same size. A figure is the median of the interleaved pairs.
/// With --server the calls go to a server that runs already; then there is nothing to compare with and only what a client sees
/// is reported.
#[derive(clap::Args, Debug, Clone)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// What to measure: letters, separated by commas.
    #[arg(long, value_name = "CASES", value_enum, value_delimiter = ',', default_value = "all")]
    pub case: Vec<Case>,

    /// Measure this server (HOST:PORT) instead of starting one; (f) to (m) are left out.
    #[arg(long, value_name = "ADDR", value_parser = server_address, help_heading = "Server")]
    pub server: Option<String>,

    /// Namespace that the keys are in; with --server, one that may be written to.
    #[arg(long, value_name = "NAME", default_value = "bench", help_heading = "Server")]
    pub namespace: String,

    /// Worker threads of each server [default: one a core].
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Server")]
    pub workers: Option<usize>,

    /// A further argument for `drover serve`; may be repeated: --serve-arg=--config --serve-arg=FILE.
    #[arg(
        long,
        value_name = "ARG",
        allow_hyphen_values = true,
        conflicts_with = "server",
        help_heading = "Server"
    )]
    pub serve_arg: Vec<String>,

    /// What is started as Redis in (h) to (k) and (m): redis-server or valkey-server.
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "redis-server",
        help_heading = "Server"
    )]
    pub redis_server: PathBuf,

    /// Interleaved pairs of runs (drover, bare, drover, bare …) of each case.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Load")]
    pub pairs: u32,

    /// Calls a run in (a), (b), (g) and (h); half as many in (l).
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..), help_heading = "Load")]
    pub calls: u64,

    /// A run in (a), (b), (g) and (h) ends after this time, whatever it has reached.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration, help_heading = "Load")]
    pub max_time: Duration,

    /// Connections in (a), (b), (g) and (h); replicas share them.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = positive, help_heading = "Load")]
    pub connections: usize,

    /// Calls in flight on each of these connections.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive, help_heading = "Load")]
    pub concurrency: usize,

    /// Bytes of a value, at most 3 MiB. Small values are the hard case: nothing hides the fixed cost of a call.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(0..=3 << 20), help_heading = "Load")]
    pub value_bytes: u32,

    /// Idle entries in (f), and the large populations in (g) and (l).
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..=100_000_000), help_heading = "Load")]
    pub keys: u64,

    /// Callers parked on one key in (c), (f) and (j).
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive, help_heading = "Load")]
    pub waiters: usize,

    /// Watchers in (e).
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = positive, help_heading = "Load")]
    pub watchers: usize,

    /// Connections that the waiters and the watchers share.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive, help_heading = "Load")]
    pub herd_connections: usize,

    /// Print one JSON document instead of tables.
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// Exit with 3 if a target is missed.
    #[arg(long, help_heading = "Output")]
    pub check: bool,

    /// Be the bare server: print the address, serve until standard input closes.
    #[arg(long, hide = true)]
    pub bare_server: bool,
}

const EXAMPLES: &str = "\
Examples:
  drover bench                                   everything, a few minutes
  drover bench --case a,b --pairs 9              the cost of a call, more closely
  drover bench --case c --waiters 2000           a smaller herd
  drover bench --case redis                      replicas that share a Redis: (h) to (k) and (m)
  drover bench --case l,m                        the schedule of refreshes
  drover bench --server 10.0.0.7:7117 --case a   a server that runs already
  drover bench --json --check > bench.json       for a gate

Exit codes:
  0  measured    1  something failed    2  wrong usage    3  a target was missed (--check)";

/// One measured case.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// AcquireRebuild of a fresh key: server CPU a call
    A,
    /// AcquireRebuild + ReportValue over distinct keys: server CPU a call
    B,
    /// Callers parked on one key: from the report to the last answer
    C,
    /// From a report to one waiter's answer
    D,
    /// One invalidation to all watchers
    E,
    /// Memory of an idle entry and of a parked waiter
    F,
    /// (a) and (b) with 1,000 and with very many keys
    G,
    /// (b) with the store in Redis, at one and at two replicas: calls a second
    H,
    /// From a report at one replica to the answer of a waiter at another
    I,
    /// Trips to Redis for callers parked on one key at three replicas
    J,
    /// Invalidation of a tag with 1 and with 16 partitions
    K,
    /// (b) where each value's refresh is scheduled, and from due to a worker
    #[value(alias = "schedule")]
    L,
    /// From due to a worker at one of two replicas
    M,
    /// Those that need a Redis: h, i, j, k, m
    Redis,
    /// All of them
    All,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// HOST:PORT, also written as a URL; answers what a channel takes.
fn server_address(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let port = bare
        .rsplit_once(':')
        .and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
    match port {
        Some(Ok(port)) if port > 0 => Ok(bare.to_owned()),
        _ => Err("expected HOST:PORT, for instance 127.0.0.1:7117".to_owned()),
    }
}

impl Case {
    /// By which it is asked for.
    pub const fn letter(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
            Self::C => 'c',
            Self::D => 'd',
            Self::E => 'e',
            Self::F => 'f',
            Self::G => 'g',
            Self::H => 'h',
            Self::I => 'i',
            Self::J => 'j',
            Self::K => 'k',
            Self::L => 'l',
            Self::M => 'm',
            Self::Redis | Self::All => '*',
        }
    }

    /// What is measured needs processes that the bench has started.
    pub const fn needs_process(self) -> bool {
        matches!(self, Self::F | Self::G | Self::L) || self.needs_redis()
    }

    /// It is about replicas that share a Redis.
    pub const fn needs_redis(self) -> bool {
        matches!(self, Self::H | Self::I | Self::J | Self::K | Self::M)
    }

    /// It stands for several.
    pub const fn is_group(self) -> bool {
        matches!(self, Self::Redis | Self::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_host_and_port() {
        assert_eq!(
            server_address("http://localhost:7117/"),
            Ok("localhost:7117".to_owned())
        );
        assert_eq!(server_address("[::1]:7117"), Ok("[::1]:7117".to_owned()));
        for wrong in ["localhost", ":7117", "localhost:0", "localhost:70000", ""] {
            assert!(server_address(wrong).is_err(), "{wrong}");
        }
    }
}
