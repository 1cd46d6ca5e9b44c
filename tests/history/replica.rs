//! One replica: a `drover serve` of one's own behind a cable, whose errors go to a file. It ends with the value.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::proxy::Proxy;

/// No replica takes longer to start, or to leave.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a replica is started.
#[derive(Clone, Debug)]
pub struct Start {
    pub store: String,
    /// Clients connect to it without a cable, and find it at the same port when it comes again.
    pub direct: bool,
    pub environment: Vec<(String, String)>,
}

pub struct Replica {
    /// Where clients find it, whatever becomes of the process, unless they connect directly.
    pub front: Proxy,
    /// Its own ports.
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    start: Start,
    child: Option<Child>,
    folder: PathBuf,
    name: String,
}

impl Replica {
    /// It is serving when this returns.
    pub async fn start(folder: &Path, name: &str, start: Start) -> Replica {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let mut replica = Replica {
            front: Proxy::to(nowhere).await,
            grpc: nowhere,
            http: nowhere,
            start,
            child: None,
            folder: folder.to_owned(),
            name: name.to_owned(),
        };
        replica.run().await;
        replica
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        if self.start.direct {
            self.grpc
        } else {
            self.front.address
        }
    }

    /// Starts the process anew.
    pub async fn run(&mut self) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["serve", "--http", "127.0.0.1:0", "--listen"])
            .arg(self.listen().to_string())
            .args(["--store", &self.start.store])
            .arg("--config")
            .arg(self.folder.join("drover.toml"))
            .envs(self.start.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("it is built");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut ports = Vec::new();
        let opening = async {
            while let Ok(Some(line)) = lines.next_line().await {
                let words: Vec<&str> = line.split_whitespace().collect();
                match words[..] {
                    ["gRPC" | "HTTP", address, ..] => ports.push(address.parse().expect("an address")),
                    ["namespaces", ..] => break,
                    _ => {}
                }
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, opening).await;
        let [grpc, http] = ports[..] else {
            panic!("{} does not start ({in_time:?}): {}", self.name, self.said());
        };
        (self.grpc, self.http) = (grpc, http);
        self.front.lead_to(grpc);
        self.child = Some(child);
    }

    /// A free port at first.
    fn listen(&self) -> SocketAddr {
        let again = self.start.direct && self.grpc.port() > 1;
        if again {
            self.grpc
        } else {
            SocketAddr::from(([127, 0, 0, 1], 0))
        }
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    /// What it has written to its errors.
    pub fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// SIGKILL: it is gone when this returns.
    pub async fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().await.expect("it is ours");
        }
    }

    /// Sends a signal, such as `STOP`.
    pub async fn signal(&self, name: &str) {
        let id = self.child.as_ref().and_then(Child::id).expect("it runs").to_string();
        signal(name, &id).await;
    }

    /// SIGTERM, and waits until it has left; `Err`: how it ended instead of well.
    pub async fn leave(&mut self) -> Result<(), String> {
        self.signal("TERM").await;
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        match tokio::time::timeout(PATIENCE, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(ended) => Err(format!("{} ended with {ended:?}: {}", self.name, tail(&self.said()))),
            Err(_) => Err(format!("{} does not leave: {}", self.name, tail(&self.said()))),
        }
    }

    /// Whether the process has ended by itself.
    pub fn is_gone(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
    }
}

/// The last lines.
pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("drover::audit")).collect();
    lines[lines.len().saturating_sub(24)..].join("\n")
}

/// Sends a signal to a process that is ours.
pub async fn signal(name: &str, id: &str) {
    let sent = Command::new("kill").args(["-s", name, id]).status().await;
    assert!(sent.expect("kill runs").success());
}
