//! How one server is reached: credentials, TLS, database, the time a connection may take to be made.
//!
//! *Invariants.* What is wrong with the settings themselves is told when the link is made ([`BadStore`]); what is wrong with a server is not.
//! Nothing here can be printed that holds a secret.
//!
//! Connections speak RESP3: the library tells then that a connection has broken when it breaks, and not at the next call.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::io::tcp::TcpSettings;
use ::redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError, TlsCertificates,
};
use deadpool_redis::{Manager, Pool, PoolConfig, Runtime, Timeouts};

use crate::config::{Address, RedisSettings, Secret};

/// Why there is no link: something in the settings that no waiting mends. Says what to do, and no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadStore(pub String);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Tcp(Address),
    Socket(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Tcp(address) => address.fmt(f),
            Place::Socket(path) => path.display().fmt(f),
        }
    }
}

/// What every connection of a link has in common.
pub(super) struct Access {
    user: Option<String>,
    password: Option<Secret>,
    database: u32,
    /// Any address by TLS, with the certificates that count for all: the library has no other name for them. `None`: no TLS.
    tls: Option<ConnectionAddr>,
    timeout: Duration,
    pool: usize,
}

impl Access {
    pub fn new(settings: &RedisSettings) -> Result<Access, BadStore> {
        let password = match &settings.password_file {
            Some(path) => Some(password_of(path)?),
            None => settings.password.clone().or_else(|| settings.url.password.clone()),
        };
        Ok(Access {
            user: settings.user.clone().or_else(|| settings.url.user.clone()),
            password,
            database: settings.url.database,
            tls: tls(settings)?,
            timeout: settings.timeout,
            pool: settings.pool,
        })
    }

    /// A connection. `broken` is called once it is lost.
    pub async fn connect(
        &self,
        place: &Place,
        broken: impl Fn() + Send + Sync + 'static,
    ) -> Result<MultiplexedConnection, RedisError> {
        let told = move |push: PushInfo| {
            if push.kind == PushKind::Disconnection {
                broken();
            }
            Ok::<(), ()>(())
        };
        let config = self.config().set_push_sender(told);
        self.client(place, true)?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// A connection to a sentinel, which has users of its own, if any.
    pub async fn sentinel(&self, address: &Address, authenticated: bool) -> Result<MultiplexedConnection, RedisError> {
        let place = Place::Tcp(address.clone());
        let mut info = self.info(&place, authenticated)?;
        let settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP2)
            .set_db(0);
        info = info.set_redis_settings(settings);
        let config = self.config().set_response_timeout(Some(self.timeout));
        Client::open(info)?
            .get_multiplexed_async_connection_with_config(&config)
            .await
    }

    /// A pool of connections, made when needed.
    pub fn pool(&self, place: &Place) -> Result<Pool, BadStore> {
        let info = self.info(place, true).map_err(|error| BadStore(error.to_string()))?;
        let config = self.config().set_response_timeout(Some(self.timeout));
        let manager = Manager::new_with_config(info, config).map_err(|error| BadStore(error.to_string()))?;
        let limit = Some(self.timeout);
        let config = PoolConfig {
            max_size: self.pool,
            timeouts: Timeouts {
                wait: limit,
                create: limit,
                recycle: limit,
            },
            ..PoolConfig::default()
        };
        Pool::builder(manager)
            .config(config)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| BadStore(error.to_string()))
    }

    /// Whether there is something to show to who asks for it.
    pub fn has_credentials(&self) -> bool {
        self.password.is_some()
    }

    /// Whether by TLS.
    pub fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    fn config(&self) -> AsyncConnectionConfig {
        // Answers have a time limit of our own: the library's would not tell a silent server from a slow one.
        AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(None)
    }

    fn client(&self, place: &Place, authenticated: bool) -> Result<Client, RedisError> {
        Client::open(self.info(place, authenticated)?)
    }

    fn info(&self, place: &Place, authenticated: bool) -> Result<ConnectionInfo, RedisError> {
        let addr = match (place, &self.tls) {
            (Place::Socket(path), _) => ConnectionAddr::Unix(path.clone()),
            (Place::Tcp(Address { host, port }), Some(ConnectionAddr::TcpTls { tls_params, .. })) => {
                ConnectionAddr::TcpTls {
                    host: host.clone(),
                    port: *port,
                    insecure: false,
                    tls_params: tls_params.clone(),
                }
            }
            (Place::Tcp(Address { host, port }), _) => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let mut redis = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(i64::from(self.database))
            .set_lib_name("drover", env!("CARGO_PKG_VERSION"));
        if let (Some(password), true) = (&self.password, authenticated) {
            redis = redis.set_password(password.reveal());
            if let Some(user) = &self.user {
                redis = redis.set_username(user);
            }
        }
        let tcp = TcpSettings::default().set_nodelay(true);
        Ok(addr
            .into_connection_info()?
            .set_tcp_settings(tcp)
            .set_redis_settings(redis))
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("user", &self.user)
            .field("password", &self.password)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

fn password_of(path: &Path) -> Result<Secret, BadStore> {
    let text = String::from_utf8(read(path, "--store-password-file")?)
        .map_err(|_| BadStore(format!("--store-password-file {}: it is not UTF-8", path.display())))?;
    // Editors and `echo` end a file with a new line.
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(BadStore(format!(
            "--store-password-file {}: it is empty; write the password into it, on one line",
            path.display()
        ))),
        password => Ok(Secret::new(password)),
    }
}

fn read(path: &Path, option: &str) -> Result<Vec<u8>, BadStore> {
    std::fs::read(path).map_err(|error| BadStore(format!("{option} {}: {error}", path.display())))
}

fn tls(settings: &RedisSettings) -> Result<Option<ConnectionAddr>, BadStore> {
    let files = [
        ("--store-ca-file", &settings.ca_file),
        ("--store-cert-file", &settings.cert_file),
        ("--store-key-file", &settings.key_file),
    ];
    if !settings.url.tls {
        return match files.iter().find(|(_, file)| file.is_some()) {
            Some((option, _)) => Err(BadStore(format!(
                "{option} is for TLS, and --store {} is without it; write rediss instead of redis there",
                settings.url
            ))),
            None => Ok(None),
        };
    }
    // The library takes the provider of the whole process, and panics where it has to choose.
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| _ = rustls::crypto::ring::default_provider().install_default());
    let pem = |option: &str, path: &Option<PathBuf>| path.as_ref().map(|path| read_pem(path, option)).transpose();
    let [ca, cert, key] = files;
    let root_cert = pem(ca.0, ca.1)?;
    let client_tls = match (pem(cert.0, cert.1)?, pem(key.0, key.1)?) {
        (Some(client_cert), Some(client_key)) => Some(ClientTlsConfig {
            client_cert,
            client_key,
        }),
        (None, None) => None,
        (given, _) => {
            let (given, lacking) = if given.is_some() {
                (cert.0, key.0)
            } else {
                (key.0, cert.0)
            };
            return Err(BadStore(format!(
                "{given} is given without {lacking}; give both or none"
            )));
        }
    };
    let any = ConnectionAddr::TcpTls {
        host: "localhost".to_owned(),
        port: 6379,
        insecure: false,
        tls_params: None,
    };
    if root_cert.is_none() && client_tls.is_none() {
        return Ok(Some(any));
    }
    let certificates = TlsCertificates { client_tls, root_cert };
    let client = Client::build_with_tls(any, certificates).map_err(|error| {
        BadStore(format!(
            "--store-ca-file, --store-cert-file or --store-key-file: {error}"
        ))
    })?;
    Ok(Some(client.get_connection_info().addr().clone()))
}

fn read_pem(path: &Path, option: &str) -> Result<Vec<u8>, BadStore> {
    let bytes = read(path, option)?;
    let wanted = if option == "--store-key-file" {
        "PRIVATE KEY-----"
    } else {
        "-----BEGIN CERTIFICATE-----"
    };
    match bytes.windows(wanted.len()).any(|part| part == wanted.as_bytes()) {
        true => Ok(bytes),
        false => Err(BadStore(format!(
            "{option} {}: there is no {} in it; it has to be in PEM form",
            path.display(),
            if option == "--store-key-file" {
                "private key"
            } else {
                "certificate"
            },
        ))),
    }
}
