//! The options of `drover serve`.
//!
//! *Owns* their names, help and the form of their values. Every option is an `Option`: what is absent here comes from
//! the file, then from [`Settings::default`](super::Settings). The `[server]` table of the file is read into the same
//! struct, so that a name and a rule exist once.
//!
//! *Why not* clap's own default values: they hide whether somebody chose a value, and the file stands between the two.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Args, ValueEnum};

use super::Overrides;
use super::store::{ALLOWED, RedisSettings, StoreUrl};
use super::units::{Refusal, read_address, read_count, read_duration, read_size};
use crate::decision::LONGEST;

/// Where the state lives, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// In this process.
    Memory,
    /// In a Redis.
    Redis(StoreUrl),
}

/// Where the state lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreKind {
    /// In this process: one replica, gone when it ends.
    #[default]
    Memory,
    /// In a Redis or Valkey, for any number of replicas.
    Redis(Box<RedisSettings>),
}

impl StoreKind {
    /// As in the logs.
    pub fn as_str(&self) -> &'static str {
        match self {
            StoreKind::Memory => "memory",
            StoreKind::Redis(_) => "redis",
        }
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for machines.
    Json,
}

/// Something that may be switched `off`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Switch<T> {
    /// Off.
    Off,
    /// On, with this.
    On(T),
}

impl<T> Switch<T> {
    /// `None` when it is off.
    pub fn on(self) -> Option<T> {
        match self {
            Switch::Off => None,
            Switch::On(value) => Some(value),
        }
    }
}

/// Options of `drover serve`, as given by flags or the environment.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct ServeArgs {
    /// Where gRPC is served [default: 127.0.0.1:7117]
    ///
    /// Port 0 takes a free one; the start-up line says which.
    #[arg(
        long, env = "DROVER_LISTEN", hide_env_values = true,
        value_name = "ADDR", value_parser = address, help_heading = "Listening"
    )]
    pub listen: Option<SocketAddr>,

    /// Where /livez, /readyz and /metrics are served, or `off` [default: 127.0.0.1:7118]
    #[arg(
        long, env = "DROVER_HTTP", hide_env_values = true,
        value_name = "ADDR", value_parser = address_or_off, help_heading = "Listening"
    )]
    pub http: Option<Switch<SocketAddr>>,

    /// Connections are told to reconnect after about this long, or `off` [default: 30m]
    ///
    /// So that callers spread over replicas that came later. Each connection's age is drawn around it; running calls
    /// finish.
    #[arg(
        long, env = "DROVER_MAX_CONNECTION_AGE", hide_env_values = true,
        value_name = "DURATION", value_parser = age, help_heading = "Listening"
    )]
    pub max_connection_age: Option<Switch<Duration>>,

    /// How long to go on as before once the health says NOT_SERVING at a shutdown [default: 0s]
    ///
    /// Set it where whoever routes to drover hears of that with a delay: 5s suits most Kubernetes clusters.
    #[arg(
        long, env = "DROVER_DRAIN_DELAY", hide_env_values = true,
        value_name = "DURATION", value_parser = drain, help_heading = "Listening"
    )]
    pub drain_delay: Option<Duration>,

    /// How long a shutdown may take before what is left is cut [default: 20s]
    ///
    /// It begins after the delay. Keep both together below the grace period of whatever sends SIGTERM.
    #[arg(
        long, env = "DROVER_DRAIN_TIMEOUT", hide_env_values = true,
        value_name = "DURATION", value_parser = drain, help_heading = "Listening"
    )]
    pub drain_timeout: Option<Duration>,

    /// Where the state lives: `memory`, or the URL of a Redis or Valkey [default: memory]
    #[arg(
        long, env = "DROVER_STORE", hide_env_values = true, long_help = STORE_HELP,
        value_name = "STORE", value_parser = StoreParser, help_heading = "State"
    )]
    pub store: Option<StoreChoice>,

    /// Policies and settings, a TOML file; policies are reloaded when it changes
    ///
    /// `drover config check FILE` says what is wrong with one. Flags win over the environment, the environment over the
    /// file.
    #[arg(
        long,
        env = "DROVER_CONFIG",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "State"
    )]
    pub config: Option<PathBuf>,

    /// What all keys in Redis begin with [default: drover]
    ///
    /// Deployments that share a server need one each. All replicas of a deployment have the same.
    #[arg(
        long, env = "DROVER_STORE_PREFIX", hide_env_values = true,
        value_name = "PREFIX", value_parser = prefix, help_heading = "Redis"
    )]
    pub store_prefix: Option<String>,

    /// Who drover is to Redis; wins over the URL's user
    #[arg(
        long,
        env = "DROVER_STORE_USER",
        hide_env_values = true,
        value_name = "USER",
        help_heading = "Redis"
    )]
    pub store_user: Option<String>,

    /// A file with the password for Redis, such as a mounted secret
    ///
    /// It wins over the variable DROVER_STORE_PASSWORD, and that over the password in the URL. There is no flag for the password
    /// itself: others can read a command line.
    #[arg(
        long,
        env = "DROVER_STORE_PASSWORD_FILE",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Redis"
    )]
    pub store_password_file: Option<PathBuf>,

    /// Certificates (PEM) of the authorities that are trusted instead of the public ones, with rediss://
    #[arg(
        long,
        env = "DROVER_STORE_CA_FILE",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Redis"
    )]
    pub store_ca_file: Option<PathBuf>,

    /// drover's own certificate (PEM), where Redis wants one of its clients
    #[arg(
        long,
        env = "DROVER_STORE_CERT_FILE",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Redis"
    )]
    pub store_cert_file: Option<PathBuf>,

    /// The key (PEM) that belongs to it
    #[arg(
        long,
        env = "DROVER_STORE_KEY_FILE",
        hide_env_values = true,
        value_name = "FILE",
        help_heading = "Redis"
    )]
    pub store_key_file: Option<PathBuf>,

    /// How long Redis may take to answer a call [default: 500ms]
    ///
    /// A Redis that answers nothing for so long counts as down.
    #[arg(
        long, env = "DROVER_STORE_TIMEOUT", hide_env_values = true,
        value_name = "DURATION", value_parser = store_timeout, help_heading = "Redis"
    )]
    pub store_timeout: Option<Duration>,

    /// Connections to each primary that all calls share [default: 2]
    ///
    /// Calls do not wait for each other on a connection, so this is no limit on them: one connection keeps a core of Redis half
    /// busy, two nearly whole; more help only where Redis reads by several threads (io-threads).
    #[arg(
        long, env = "DROVER_STORE_CONNECTIONS", hide_env_values = true,
        value_name = "COUNT", value_parser = connections, help_heading = "Redis"
    )]
    pub store_connections: Option<usize>,

    /// Connections to each primary for chores such as listing keys, made when needed [default: 4]
    ///
    /// So many chores go on at once; no caller's decision waits for one.
    #[arg(
        long, env = "DROVER_STORE_POOL", hide_env_values = true,
        value_name = "COUNT", value_parser = connections, help_heading = "Redis"
    )]
    pub store_pool: Option<usize>,

    /// Keys known at once; beyond it the least useful are forgotten [default: 2000000]
    #[arg(
        long, env = "DROVER_MAX_ENTRIES", hide_env_values = true,
        value_name = "COUNT", value_parser = entries, help_heading = "Limits"
    )]
    pub max_entries: Option<usize>,

    /// Memory for values and entries, such as 64MiB [default: 1GiB]
    #[arg(
        long, env = "DROVER_MAX_MEMORY", hide_env_values = true,
        value_name = "SIZE", value_parser = memory, help_heading = "Limits"
    )]
    pub max_memory: Option<u64>,

    /// Callers parked at once, over all keys; more are answered "overloaded" [default: 100000]
    #[arg(
        long, env = "DROVER_MAX_WAITERS", hide_env_values = true,
        value_name = "COUNT", value_parser = many, help_heading = "Limits"
    )]
    pub max_waiters: Option<usize>,

    /// Watch streams at once; more are answered "overloaded" [default: 10000]
    #[arg(
        long, env = "DROVER_MAX_WATCHERS", hide_env_values = true,
        value_name = "COUNT", value_parser = many, help_heading = "Limits"
    )]
    pub max_watchers: Option<usize>,

    /// Worker streams (PullRefreshes) at once; more are answered "overloaded" [default: 1000]
    #[arg(
        long, env = "DROVER_MAX_WORKERS", hide_env_values = true,
        value_name = "COUNT", value_parser = many, help_heading = "Limits"
    )]
    pub max_workers: Option<usize>,

    /// What is logged, such as `warn` or `info,drover=debug` [default: info]
    #[arg(
        long, env = "DROVER_LOG", hide_env_values = true,
        value_name = "FILTER", value_parser = filter, help_heading = "Telemetry"
    )]
    pub log: Option<String>,

    /// How log lines look: `text` for people, `json` for machines [default: text]
    #[arg(
        long, env = "DROVER_LOG_FORMAT", hide_env_values = true,
        value_name = "FORMAT", value_parser = log_format, help_heading = "Telemetry"
    )]
    pub log_format: Option<LogFormat>,

    /// Where traces and metrics are sent by OTLP over gRPC, such as http://localhost:4317, or `off` [default: off]
    #[arg(
        long, env = "DROVER_OTLP", hide_env_values = true,
        value_name = "URL", value_parser = otlp, help_heading = "Telemetry"
    )]
    pub otlp: Option<Switch<String>>,

    /// What is said about policies.
    #[command(flatten)]
    pub policies: Overrides,
}

const STORE_HELP: &str = "\
Where the state lives: `memory`, or the URL of a Redis or Valkey [default: memory]

`memory` is this process: for one replica. Replicas that share a Redis (6.2 or later) act as one:

  redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]    one server
  redis+unix:///PATH[?db=DB]                    one server, by its Unix socket
  redis+sentinel://HOST[:PORT],…/MASTER[/DB]    what these sentinels call MASTER
  redis+cluster://HOST[:PORT],…                 a Cluster, by some of its nodes

With rediss, rediss+sentinel or rediss+cluster it is by TLS. USER and PASSWORD may stand in all of them, with %XX for \
what is not plain. Better keep the password out of the URL: see --store-password-file.";

const ADDRESS: &str = "IP:PORT, such as 127.0.0.1:7117 or [::]:7117";

pub(super) fn address(text: &str) -> Result<SocketAddr, Refusal> {
    read_address(text).map_err(|problem| Refusal::new(problem, ADDRESS))
}

pub(super) fn address_or_off(text: &str) -> Result<Switch<SocketAddr>, Refusal> {
    or_off(text, read_address, &format!("off or {ADDRESS}"))
}

pub(super) fn age(text: &str) -> Result<Switch<Duration>, Refusal> {
    let allowed = "off or 1s to 30d, such as 30m";
    let read = |text: &str| within(read_duration(text)?, Duration::from_secs(1), LONGEST);
    or_off(text, read, allowed)
}

pub(super) fn drain(text: &str) -> Result<Duration, Refusal> {
    read_duration(text)
        .and_then(|length| within(length, Duration::ZERO, Duration::from_secs(3600)))
        .map_err(|problem| Refusal::new(problem, "0s to 1h, such as 20s"))
}

pub(super) fn store(text: &str) -> Result<StoreChoice, Refusal> {
    match text {
        "memory" => Ok(StoreChoice::Memory),
        _ => StoreUrl::read(text).map(StoreChoice::Redis),
    }
}

pub(super) fn prefix(text: &str) -> Result<String, Refusal> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    let good = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    // Braces would move keys to other slots of a Cluster.
    good.then(|| text.to_owned()).ok_or_else(|| {
        Refusal::new(
            "not a prefix of keys",
            "1 to 64 of A-Z, a-z, 0-9, \".\", \"_\", \":\" and \"-\"",
        )
    })
}

pub(super) fn store_timeout(text: &str) -> Result<Duration, Refusal> {
    read_duration(text)
        .and_then(|length| within(length, Duration::from_millis(10), Duration::from_secs(30)))
        .map_err(|problem| Refusal::new(problem, "10ms to 30s, such as 500ms"))
}

pub(super) fn connections(text: &str) -> Result<usize, Refusal> {
    count(text, 1, 64, "1 to 64")
}

/// A word for a user, or the name of a file: any text but an empty one.
pub(super) fn something(text: &str) -> Result<String, Refusal> {
    match text {
        "" => Err(Refusal::new("empty", "a text that is not empty")),
        text => Ok(text.to_owned()),
    }
}

/// Reads `--store` without repeating it where it is refused: it may hold a password.
#[derive(Clone, Debug)]
struct StoreParser;

impl TypedValueParser for StoreParser {
    type Value = StoreChoice;

    fn parse_ref(&self, cmd: &clap::Command, arg: Option<&Arg>, value: &OsStr) -> Result<StoreChoice, clap::Error> {
        let read = value.to_str().ok_or_else(|| Refusal::new("not UTF-8", ALLOWED));
        read.and_then(store).map_err(|refusal| {
            let option = arg.map(ToString::to_string).unwrap_or_default();
            let text = format!("what is given for '{option}' is {refusal}\n");
            clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(cmd)
        })
    }
}

pub(super) fn entries(text: &str) -> Result<usize, Refusal> {
    count(text, 1_000, 1_000_000_000, "1000 to 1000000000")
}

pub(super) fn many(text: &str) -> Result<usize, Refusal> {
    count(text, 1, 10_000_000, "1 to 10000000")
}

pub(super) fn memory(text: &str) -> Result<u64, Refusal> {
    read_size(text)
        .and_then(|size| within(size, 16 << 20, u64::MAX))
        .map_err(|problem| Refusal::new(problem, "16MiB or more, such as 1GiB"))
}

pub(super) fn filter(text: &str) -> Result<String, Refusal> {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    // The library takes a word that is no level for the name of a part, so that a slip of the pen would silence the
    // log.
    let slip = |word: &str| !word.contains(['=', '[']) && !levels.contains(&word.trim().to_ascii_lowercase().as_str());
    let parsed = tracing_subscriber::EnvFilter::builder().parse(text);
    if parsed.is_ok() && !text.split(',').any(slip) {
        return Ok(text.to_owned());
    }
    Err(Refusal::new(
        "not a log filter",
        "off, error, warn, info, debug or trace, also for parts, such as info,drover::store=debug",
    ))
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, Refusal> {
    LogFormat::from_str(text, false).map_err(|_| Refusal::new("not a log format", "text, json"))
}

pub(super) fn otlp(text: &str) -> Result<Switch<String>, Refusal> {
    let read = |text: &str| {
        let good = text.parse::<http::Uri>().is_ok_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|h| !h.is_empty())
        });
        good.then(|| text.to_owned())
            .ok_or_else(|| "not an OTLP address".to_owned())
    };
    or_off(text, read, "off or http(s)://HOST:PORT, such as http://localhost:4317")
}

fn or_off<T>(text: &str, read: impl Fn(&str) -> Result<T, String>, allowed: &str) -> Result<Switch<T>, Refusal> {
    if text == "off" {
        return Ok(Switch::Off);
    }
    read(text)
        .map(Switch::On)
        .map_err(|problem| Refusal::new(problem, allowed))
}

fn count(text: &str, least: u64, most: u64, allowed: &str) -> Result<usize, Refusal> {
    read_count(text)
        .and_then(|number| within(number, least, most))
        .and_then(|number| usize::try_from(number).map_err(|_| "too large".to_owned()))
        .map_err(|problem| Refusal::new(problem, allowed))
}

fn within<T: PartialOrd>(value: T, least: T, most: T) -> Result<T, String> {
    if value < least {
        Err("too small".to_owned())
    } else if value > most {
        Err("too large".to_owned())
    } else {
        Ok(value)
    }
}
