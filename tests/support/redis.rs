//! Redis servers of a test's own: child processes on free ports, in directories that go with them.
//!
//! | what | is |
//! |---|---|
//! | [`Server`] | one server, also with passwords, TLS, or any line of configuration |
//! | [`Cluster`] | primaries, with or without replicas |
//! | [`Sentinels`] | a primary, its replica, and who watches them |
//!
//! A test that needs one fails where `redis-server` is absent: it says what to install. Commands of the tests themselves go over a Unix
//! socket, so that they work whatever is done to the port.

// Several crates of tests use it, each a part of it.
#![allow(dead_code)]
// Child processes are waited for where they are started, also in a test without a runtime.
#![allow(clippy::disallowed_methods)]

#[path = "redis/certificates.rs"]
mod certificates;
#[path = "redis/cluster.rs"]
mod cluster;
#[path = "redis/sentinels.rs"]
mod sentinels;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ::redis::{Client, Connection, FromRedisValue, RedisResult};
use tempfile::TempDir;

pub use certificates::Certificates;
pub use cluster::Cluster;
pub use sentinels::Sentinels;

/// Nothing that a test waits for takes longer on a machine that has other things to do as well.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A server of one's own. It ends with the value.
pub struct Server {
    child: Option<Child>,
    port: u16,
    lines: Vec<String>,
    environment: Vec<(String, String)>,
    dir: TempDir,
    sentinel: bool,
}

impl Server {
    /// Without anything on disk and without a password.
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// With more lines of configuration, such as `requirepass secret`. `{dir}` in them is the server's directory.
    pub fn with(lines: &[&str]) -> Server {
        Server::with_environment(lines, &[])
    }

    /// The same in an environment, such as one that changes its clock.
    pub fn with_environment(lines: &[&str], environment: &[(String, String)]) -> Server {
        let lines = |_| lines.iter().map(|line| (*line).to_owned()).collect();
        Server::in_environment(lines, environment, false)
    }

    /// With TLS only, by a certificate for 127.0.0.1 and localhost; it wants one of the client, too, where `mutual`.
    pub fn tls(certificates: &Certificates, mutual: bool) -> Server {
        let file = |name: &str| certificates.file(name).display().to_string();
        Server::on_free_port(
            |port| {
                vec![
                    "port 0".to_owned(),
                    format!("tls-port {port}"),
                    format!("tls-cert-file {}", file("server.pem")),
                    format!("tls-key-file {}", file("server.key")),
                    format!("tls-ca-cert-file {}", file("ca.pem")),
                    format!("tls-auth-clients {}", if mutual { "yes" } else { "no" }),
                ]
            },
            false,
        )
    }

    fn on_free_port(lines: impl Fn(u16) -> Vec<String>, sentinel: bool) -> Server {
        Server::in_environment(lines, &[], sentinel)
    }

    fn in_environment(lines: impl Fn(u16) -> Vec<String>, environment: &[(String, String)], sentinel: bool) -> Server {
        // Between the look for a free port and its use, somebody else may take it.
        for _ in 0..20 {
            let port = free_port();
            let mut server = Server {
                child: None,
                port,
                lines: lines(port),
                environment: environment.to_vec(),
                dir: TempDir::new().expect("a temporary directory"),
                sentinel,
            };
            if server.run() {
                return server;
            }
        }
        panic!("no free port was found in 20 attempts");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:PORT`
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// `redis://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// The Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Runs a command and waits for its answer, at most some seconds.
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut command = ::redis::Cmd::new();
        words.iter().for_each(|word| _ = command.arg(*word));
        command.query(&mut self.connection()?)
    }

    /// The same where an error is a bug of the test.
    pub fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.command(words).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// A connection for commands that belong together, over the Unix socket.
    pub fn connection(&self) -> RedisResult<Connection> {
        let password = self.lines.iter().find_map(|line| line.strip_prefix("requirepass "));
        let path = self.socket();
        let url = match password {
            Some(password) => format!("redis+unix://{}?pass={password}", path.display()),
            None => format!("redis+unix://{}", path.display()),
        };
        let connection = Client::open(url)?.get_connection_with_timeout(Duration::from_secs(2))?;
        connection.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(connection)
    }

    /// A figure of INFO, such as `connected_slaves`.
    pub fn info(&self, name: &str) -> String {
        let text: String = self.ask(&["INFO", "everything"]);
        let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        figure.unwrap_or_else(|| panic!("INFO has no {name}")).trim().to_owned()
    }

    /// How often a command was run, such as `evalsha`.
    pub fn calls(&self, command: &str) -> u64 {
        let text: String = self.ask(&["INFO", "commandstats"]);
        let start = format!("cmdstat_{command}:calls=");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }

    /// SIGKILL: it is gone when this returns.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("it is ours");
            child.wait().expect("it is ours");
        }
    }

    /// SIGSTOP: its port still takes connections, and nothing answers.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    /// SIGCONT.
    pub fn cont(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    /// Ends it if it runs, and starts it on the same port with what it knew.
    pub fn restart(&mut self) {
        if self.child.is_some() && !self.sentinel {
            self.ask::<()>(&["SAVE"]);
        }
        self.kill();
        assert!(self.run(), "its port is taken");
    }

    /// Starts it again on the same port with what it has on disk, after [`Server::kill`].
    pub fn start_again(&mut self) {
        assert!(self.run(), "its port is taken");
    }

    /// Ends it if it runs, and starts it on the same port without what it knew.
    pub fn restart_empty(&mut self) {
        self.kill();
        let _ = fs::remove_file(self.dir.path().join("dump.rdb"));
        let _ = fs::remove_dir_all(self.dir.path().join("appendonlydir"));
        assert!(self.run(), "its port is taken");
    }

    /// False if the port is taken.
    fn run(&mut self) -> bool {
        let dir = self.dir.path();
        let config = dir.join("redis.conf");
        // A sentinel and a node of a cluster write what they learn into their files.
        if !(self.sentinel && config.exists()) {
            fs::write(&config, self.config()).expect("a temporary directory");
        }
        let log = dir.join("log");
        let mut command = Command::new("redis-server");
        command.arg(&config).args(self.sentinel.then_some("--sentinel"));
        command
            .current_dir(dir)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(File::create(&log).expect("a temporary directory"));
        let mut child = match command.stderr(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => panic!(
                "redis-server can't be started ({error}); these tests need it: apt-get install redis-server \
                 (Debian, Ubuntu), or the package of that name elsewhere"
            ),
        };
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().expect("it is ours") {
                let told = fs::read_to_string(&log).unwrap_or_default();
                assert!(
                    told.contains("Address already in use"),
                    "redis-server: {status}\n{told}"
                );
                return false;
            }
            if self.is_ready() {
                self.child = Some(child);
                return true;
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                panic!(
                    "redis-server is not ready: {}",
                    fs::read_to_string(&log).unwrap_or_default()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_ready(&self) -> bool {
        match self.command::<String>(&["PING"]) {
            Ok(_) => true,
            // It answers: what it says of itself is what the test wants.
            Err(error) => error.code().is_some_and(|code| code != "LOADING"),
        }
    }

    fn config(&self) -> String {
        let dir = self.dir.path().display().to_string();
        let mut lines = vec![
            "bind 127.0.0.1".to_owned(),
            format!("port {}", self.port),
            format!("unixsocket {}", self.socket().display()),
            format!("dir {dir}"),
        ];
        if !self.sentinel {
            let usual = ["save \"\"", "appendonly no", "repl-diskless-sync-delay 0"];
            lines.extend(usual.map(str::to_owned));
        }
        lines.extend(self.lines.iter().map(|line| line.replace("{dir}", &dir)));
        lines.join("\n") + "\n"
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port that nobody listened on a moment ago.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("bound").port()
}

/// Waits until it is so; `what` names it where it does not come.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < until, "in {PATIENCE:?} it did not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The same while everything else of the runtime goes on.
pub async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < until, "in {PATIENCE:?} it did not come: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
