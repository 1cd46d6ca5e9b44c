//! Everything that `drover serve` is told, each from the strongest source that says it: flag, environment, file,
//! default.

use std::fmt;
use std::io::Read as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args::{LogFormat, ServeArgs, StoreChoice, StoreKind, Switch};
use super::file;
use super::server::Server;
use super::store::{RedisSettings, Secret};
use super::{ConfigError, Overrides, PolicySet};

/// What a replica runs with.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where gRPC is served; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where liveness, readiness and metrics are served; `None`: nowhere.
    pub http: Option<SocketAddr>,
    /// Where the state lives.
    pub store: StoreKind,
    /// The file that the policies came from and are reloaded from.
    pub config: Option<PathBuf>,
    /// Where traces are sent; `None`: nowhere.
    pub otlp: Option<String>,
    /// The log filter, in the syntax of `tracing_subscriber::EnvFilter`; already found valid.
    pub log: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Bounds on what the replica takes upon itself.
    pub limits: Limits,
    /// After about this long a connection is told to reconnect; the server draws each one's age around it. `None`:
    /// never.
    pub max_connection_age: Option<Duration>,
    /// How long to go on as before after the health says NOT_SERVING: until those who route have heard of it.
    pub drain_delay: Duration,
    /// How long a drain may take, after the delay.
    pub drain_timeout: Duration,
    /// The policies at the start.
    pub policies: PolicySet,
    /// What a reload goes by; `None` without a file.
    pub source: Option<Source>,
}

/// The file as it was at the start, and what lies over it whatever it becomes.
#[derive(Clone, PartialEq)]
pub struct Source {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) overrides: Overrides,
    pub(super) server: Server,
}

/// Without the text: it may hold a password.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// A file larger than this is not a configuration, and is not read into memory: 4 MiB.
const LARGEST: u64 = 4 << 20;

/// The file's text, or why there is none.
pub(super) fn read_file(path: &Path) -> Result<String, ConfigError> {
    let read = || -> std::io::Result<String> {
        let mut text = String::new();
        std::fs::File::open(path)?.take(LARGEST + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    let unreadable = |reason: String| ConfigError::Unreadable {
        path: path.to_owned(),
        reason,
    };
    match read() {
        Ok(text) if text.len() as u64 > LARGEST => Err(unreadable("larger than 4 MiB".to_owned())),
        Ok(text) => Ok(text),
        Err(error) => Err(unreadable(error.to_string())),
    }
}

/// Bounds on what a replica takes upon itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Keys that the embedded store knows at once.
    pub max_entries: usize,
    /// Bytes for values and entries of the embedded store.
    pub max_memory: u64,
    /// Callers parked at once, over all keys.
    pub max_waiters: usize,
    /// Watch streams at once.
    pub max_watchers: usize,
    /// Worker streams at once.
    pub max_workers: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_entries: 2_000_000,
            max_memory: 1 << 30,
            max_waiters: 100_000,
            max_watchers: 10_000,
            max_workers: 1_000,
        }
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7117)),
            http: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 7118))),
            store: StoreKind::Memory,
            config: None,
            otlp: None,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            limits: Limits::default(),
            max_connection_age: Some(Duration::from_secs(30 * 60)),
            drain_delay: Duration::ZERO,
            drain_timeout: Duration::from_secs(20),
            policies: PolicySet::default(),
            source: None,
        }
    }
}

impl Settings {
    /// For tests and the lab: the embedded store, and free ports of the loopback interface.
    pub fn ephemeral() -> Settings {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Settings {
            listen: free,
            http: Some(free),
            ..Settings::default()
        }
    }

    /// Flags and environment (which clap has merged into `args`) over the file that they name, over the defaults.
    ///
    /// Fails when the file can't be read or something is said that is not allowed; then every mistake is named.
    pub fn resolve(args: ServeArgs) -> Result<Settings, ConfigError> {
        let (path, text) = match &args.config {
            Some(path) => (path.as_path(), read_file(path)?),
            None => (Path::new(""), String::new()),
        };
        let file = file::parse(path, &text, &args.policies)?;
        let source = args.config.as_ref().map(|path| Source {
            path: path.clone(),
            text,
            overrides: args.policies.clone(),
            server: file.server.clone(),
        });
        Ok(Settings {
            source,
            ..Settings::merge(args, file.server.options, file.policies)
        })
    }

    fn merge(args: ServeArgs, file: ServeArgs, policies: PolicySet) -> Settings {
        let default = Settings::default();
        let store = merge_store(&args, &file);
        Settings {
            listen: args.listen.or(file.listen).unwrap_or(default.listen),
            http: args.http.or(file.http).map_or(default.http, Switch::on),
            store,
            config: args.config,
            otlp: args.otlp.or(file.otlp).map_or(default.otlp, Switch::on),
            log: args.log.or(file.log).unwrap_or(default.log),
            log_format: args.log_format.or(file.log_format).unwrap_or(default.log_format),
            limits: Limits {
                max_entries: args
                    .max_entries
                    .or(file.max_entries)
                    .unwrap_or(default.limits.max_entries),
                max_memory: args.max_memory.or(file.max_memory).unwrap_or(default.limits.max_memory),
                max_waiters: args
                    .max_waiters
                    .or(file.max_waiters)
                    .unwrap_or(default.limits.max_waiters),
                max_watchers: args
                    .max_watchers
                    .or(file.max_watchers)
                    .unwrap_or(default.limits.max_watchers),
                max_workers: args
                    .max_workers
                    .or(file.max_workers)
                    .unwrap_or(default.limits.max_workers),
            },
            max_connection_age: args
                .max_connection_age
                .or(file.max_connection_age)
                .map_or(default.max_connection_age, Switch::on),
            drain_delay: args.drain_delay.or(file.drain_delay).unwrap_or(default.drain_delay),
            drain_timeout: args
                .drain_timeout
                .or(file.drain_timeout)
                .unwrap_or(default.drain_timeout),
            policies,
            source: None,
        }
    }
}

fn merge_store(args: &ServeArgs, file: &ServeArgs) -> StoreKind {
    let Some(StoreChoice::Redis(url)) = args.store.clone().or_else(|| file.store.clone()) else {
        return StoreKind::Memory;
    };
    let default = RedisSettings::new(url);
    let either = |pick: fn(&ServeArgs) -> &Option<PathBuf>| pick(args).clone().or_else(|| pick(file).clone());
    // A variable is above the file: what the file says of a password counts only where there is none.
    let password = password_of_environment();
    let password_file = match &password {
        Some(_) => args.store_password_file.clone(),
        None => either(|said| &said.store_password_file),
    };
    StoreKind::Redis(Box::new(RedisSettings {
        prefix: args
            .store_prefix
            .clone()
            .or_else(|| file.store_prefix.clone())
            .unwrap_or(default.prefix),
        user: args.store_user.clone().or_else(|| file.store_user.clone()),
        password,
        password_file,
        ca_file: either(|said| &said.store_ca_file),
        cert_file: either(|said| &said.store_cert_file),
        key_file: either(|said| &said.store_key_file),
        timeout: args.store_timeout.or(file.store_timeout).unwrap_or(default.timeout),
        connections: args
            .store_connections
            .or(file.store_connections)
            .unwrap_or(default.connections),
        pool: args.store_pool.or(file.store_pool).unwrap_or(default.pool),
        url: default.url,
    }))
}

/// Not one of the options, which could be given as flags: others can read a command line.
#[allow(clippy::disallowed_methods, reason = "settings come in here")]
fn password_of_environment() -> Option<Secret> {
    let password = std::env::var("DROVER_STORE_PASSWORD").ok()?;
    (!password.is_empty()).then(|| Secret::new(password))
}
