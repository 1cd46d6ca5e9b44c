//! Where a shared store is, and how it is reached.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::units::Refusal;

/// A secret: never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// For the one who sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    /// 1 to 65535.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// How the primaries are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single(Address),
    /// One server, by a Unix socket.
    Socket(PathBuf),
    /// One primary, that the sentinels know by a name.
    Sentinel {
        /// At least one.
        sentinels: Vec<Address>,
        /// As in `sentinel monitor NAME …`.
        master: String,
    },
    /// Several primaries, that any node tells.
    Cluster(Vec<Address>),
}

/// A store's URL, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreUrl {
    /// Where.
    pub topology: Topology,
    /// By TLS.
    pub tls: bool,
    /// Which database; 0 on Cluster.
    pub database: u32,
    /// Who asks; Redis calls it `default` where nobody says.
    pub user: Option<String>,
    /// With what password.
    pub password: Option<Secret>,
}

impl StoreUrl {
    /// Reads one. A refusal repeats nothing of it: it may hold a secret.
    pub fn read(_text: &str) -> Result<StoreUrl, Refusal> {
        Err(Refusal::new("not a store", "memory"))
    }
}

/// How a Redis is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisSettings {
    /// Where it is.
    pub url: StoreUrl,
    /// What all keys begin with.
    pub prefix: String,
    /// Instead of the URL's user.
    pub user: Option<String>,
    /// Instead of the URL's password.
    pub password: Option<Secret>,
    /// A file with the password; it wins over both.
    pub password_file: Option<PathBuf>,
    /// Certificates of the authorities that are trusted, instead of the public ones.
    pub ca_file: Option<PathBuf>,
    /// The client's certificate.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// The longest that a call may take.
    pub timeout: Duration,
    /// Shared connections to each primary, for what callers wait for.
    pub connections: usize,
    /// Connections to each primary for what nobody waits for.
    pub pool: usize,
}

impl RedisSettings {
    /// With the defaults for everything but the place.
    pub fn at(url: &str) -> Result<RedisSettings, Refusal> {
        Ok(RedisSettings {
            url: StoreUrl::read(url)?,
            prefix: "drover".to_owned(),
            user: None,
            password: None,
            password_file: None,
            ca_file: None,
            cert_file: None,
            key_file: None,
            timeout: Duration::from_millis(500),
            connections: 2,
            pool: 4,
        })
    }
}
