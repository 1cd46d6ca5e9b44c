//! Where a shared store is, and how it is reached.
//!
//! *Owns* the forms of a store's URL:
//!
//! | form | is |
//! |---|---|
//! | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DB]` | one server; port 6379, database 0 |
//! | `redis+unix://[USER[:PASSWORD]@]/PATH[?db=DB]` | one server, by its Unix socket |
//! | `redis+sentinel://[USER[:PASSWORD]@]HOST[:PORT],…/MASTER[/DB]` | the primary that the sentinels (port 26379) call MASTER |
//! | `redis+cluster://[USER[:PASSWORD]@]HOST[:PORT],…` | a Cluster; one node that answers is enough to find the others |
//!
//! `rediss`, `rediss+sentinel` and `rediss+cluster` are the same by TLS, to the sentinels too. An IPv6 address stands in brackets. In user,
//! password, MASTER and PATH what is not plain is written `%XX`. User and password are the servers'; sentinels are asked without, and
//! again with them if they want some.
//!
//! *Invariants.* Neither a refusal nor anything that is printed holds a password, whatever the text was.

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
    /// Several primaries, that any of these nodes tells: at least one.
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

/// What `--store` takes, in short.
pub(super) const ALLOWED: &str = "memory, redis://HOST:PORT, redis+unix:///PATH, redis+sentinel://HOST:PORT,…/MASTER or \
     redis+cluster://HOST:PORT,…; with TLS, rediss instead of redis (see drover serve --help)";

impl StoreUrl {
    /// Reads one. A refusal repeats nothing of it: it may hold a secret.
    pub fn read(text: &str) -> Result<StoreUrl, Refusal> {
        Self::parse(text).map_err(|problem| Refusal::new(problem, ALLOWED))
    }

    fn parse(text: &str) -> Result<StoreUrl, String> {
        let (scheme, rest) = text.split_once("://").ok_or("not a store")?;
        let (tls, kind) = match scheme.strip_prefix("rediss") {
            Some(kind) => (true, kind),
            None => (false, scheme.strip_prefix("redis").ok_or("not a store")?),
        };
        // In a password `/` and `?` may stand as they are: the last `@` ends it.
        let (who, place) = match rest.rsplit_once('@') {
            Some((who, place)) => (Some(who), place),
            None => (None, rest),
        };
        let (user, password) = who.map_or(Ok((None, None)), credentials)?;
        let (topology, database) = match kind {
            "" => single(place)?,
            "+unix" if !tls => socket(place)?,
            "+sentinel" => sentinel(place)?,
            "+cluster" => cluster(place)?,
            _ => return Err("not a kind of Redis that drover knows".to_owned()),
        };
        Ok(StoreUrl {
            topology,
            tls,
            database,
            user,
            password,
        })
    }
}

/// As it was given, the password aside.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.topology {
            Topology::Single(_) => "",
            Topology::Socket(_) => "+unix",
            Topology::Sentinel { .. } => "+sentinel",
            Topology::Cluster(_) => "+cluster",
        };
        write!(f, "redis{}{kind}://", if self.tls { "s" } else { "" })?;
        let user = self.user.as_deref().map(|user| encoded(user, b"")).unwrap_or_default();
        match (&self.user, &self.password) {
            (None, None) => {}
            (_, None) => write!(f, "{user}@")?,
            (_, Some(_)) => write!(f, "{user}:***@")?,
        }
        let list = |addresses: &[Address]| {
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            texts.join(",")
        };
        match &self.topology {
            Topology::Single(address) => write!(f, "{address}")?,
            Topology::Socket(path) => {
                write!(f, "{}", encoded(&path.to_string_lossy(), b"/"))?;
                if self.database != 0 {
                    write!(f, "?db={}", self.database)?;
                }
                return Ok(());
            }
            Topology::Sentinel { sentinels, master } => write!(f, "{}/{}", list(sentinels), encoded(master, b""))?,
            Topology::Cluster(nodes) => f.write_str(&list(nodes))?,
        }
        if self.database != 0 {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

type Found = Result<(Topology, u32), String>;

fn single(place: &str) -> Found {
    let (host, database) = place.split_once('/').unwrap_or((place, ""));
    Ok((Topology::Single(address(host, 6379)?), number(database)?))
}

fn socket(place: &str) -> Found {
    let (path, database) = place.split_once("?db=").unwrap_or((place, ""));
    if !path.starts_with('/') {
        return Err("without the path of a socket, as in redis+unix:///run/redis/redis.sock".to_owned());
    }
    Ok((Topology::Socket(decoded(path)?.into()), number(database)?))
}

fn sentinel(place: &str) -> Found {
    let (hosts, rest) = place.split_once('/').unwrap_or((place, ""));
    let (master, database) = rest.split_once('/').unwrap_or((rest, ""));
    if master.is_empty() {
        return Err(
            "without the name by which the sentinels know the primary, as in redis+sentinel://a,b,c/mymaster".into(),
        );
    }
    let sentinels = addresses(hosts, 26_379)?;
    let master = decoded(master)?;
    Ok((Topology::Sentinel { sentinels, master }, number(database)?))
}

fn cluster(place: &str) -> Found {
    let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
    if !matches!(database, "" | "0") {
        return Err("with a database, of which a Cluster has only number 0".to_owned());
    }
    Ok((Topology::Cluster(addresses(hosts, 6379)?), 0))
}

fn credentials(who: &str) -> Result<(Option<String>, Option<Secret>), String> {
    let (user, password) = match who.split_once(':') {
        Some((user, password)) => (user, Some(Secret::new(decoded(password)?))),
        None => (who, None),
    };
    let user = Some(decoded(user)?).filter(|user| !user.is_empty());
    Ok((user, password))
}

fn addresses(hosts: &str, port: u16) -> Result<Vec<Address>, String> {
    hosts.split(',').map(|host| address(host.trim(), port)).collect()
}

fn address(text: &str, usual: u16) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || !host.chars().all(plain) || (host.contains(':') && !text.starts_with('[')) {
        return Err("without a good host name or IP address (IPv6 in brackets)".to_owned());
    }
    let port = match port {
        None => usual,
        Some(port) => port
            .parse()
            .ok()
            .filter(|port| *port > 0)
            .ok_or("with a port that is not 1 to 65535")?,
    };
    Ok(Address {
        host: host.to_owned(),
        port,
    })
}

fn number(database: &str) -> Result<u32, String> {
    match database {
        "" => Ok(0),
        text => text
            .parse()
            .map_err(|_| "with a database that is not a number".to_owned()),
    }
}

/// `%XX` → the byte.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits = rest.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.filter(|two| two.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let byte = byte.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.ok_or("with a % that two hexadecimal digits should follow (% itself is %25)")?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned())
}

/// As it may stand in a URL; `kept` stay as they are besides letters, digits and `-._~`.
fn encoded(text: &str, kept: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
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
    pub fn new(url: StoreUrl) -> RedisSettings {
        RedisSettings {
            url,
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
        }
    }

    /// The same from a URL's text.
    pub fn at(url: &str) -> Result<RedisSettings, Refusal> {
        StoreUrl::read(url).map(RedisSettings::new)
    }
}
