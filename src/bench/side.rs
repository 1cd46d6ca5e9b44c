//! A server under test: where it listens and, if it is ours, its process.
//!
//! *Owns* the child processes: they are started from this very binary, read from, and killed by their id when a [`Side`] goes.
//! *Never does:* wait for a child without a limit.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};

use super::usage::{self, Cpu};

/// A child has this long to say where it listens and to answer.
const START_LIMIT: Duration = Duration::from_secs(10);
/// So long a process is watched at rest.
const REST: Duration = Duration::from_secs(3);
/// Lines of a child's output that are kept to explain why it failed.
const TAIL_LINES: usize = 20;

/// A server and, if this bench started it, its process.
pub struct Side {
    address: String,
    process: Option<Process>,
}

impl Side {
    /// A server that runs already.
    pub const fn running(address: String) -> Self {
        Self { address, process: None }
    }

    /// A fresh `drover serve` on the embedded store.
    pub async fn drover(workers: usize, further: &[String]) -> anyhow::Result<Self> {
        let fixed = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--store",
            "memory",
        ];
        let arguments = fixed.into_iter().chain(further.iter().map(String::as_str));
        Self::start("drover serve", arguments, workers).await
    }

    /// A fresh bare server.
    pub async fn bare(workers: usize) -> anyhow::Result<Self> {
        Self::start("the bare server", ["bench", "--bare-server"].into_iter(), workers).await
    }

    async fn start(name: &str, arguments: impl Iterator<Item = &str>, workers: usize) -> anyhow::Result<Self> {
        let (process, mut addresses) =
            Process::start(arguments, workers).with_context(|| format!("cannot start {name}"))?;
        let listening = tokio::time::timeout(START_LIMIT, addresses.recv()).await.ok().flatten();
        let Some(address) = listening else {
            bail!(
                "{name} did not say where it listens; it printed:\n{}",
                process.printed()
            );
        };
        let side = Self {
            address,
            process: Some(process),
        };
        side.connect(1)
            .await
            .with_context(|| format!("{name} does not answer on {}", side.address))?;
        Ok(side)
    }

    /// Opens connections of their own, each established when this returns.
    pub async fn connect(&self, connections: usize) -> anyhow::Result<Vec<Channel>> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address))
            .with_context(|| format!("{} is no address", self.address))?
            .tcp_nodelay(true)
            .connect_timeout(START_LIMIT);
        let mut channels = Vec::with_capacity(connections);
        for _ in 0..connections {
            let channel = endpoint
                .connect()
                .await
                .with_context(|| format!("cannot connect to {}", self.address))?;
            channels.push(channel);
        }
        Ok(channels)
    }

    /// CPU time used so far; none of a server that is not ours.
    pub fn cpu(&self) -> anyhow::Result<Option<Cpu>> {
        self.process
            .as_ref()
            .map(|process| Cpu::read(process.child.id()))
            .transpose()
    }

    /// Resident memory in bytes once it has come to rest: two readings a moment apart that differ by less than 1 in 1,000.
    pub async fn resident_at_rest(&self) -> anyhow::Result<u64> {
        let process = self
            .process
            .as_ref()
            .context("the memory of a server elsewhere cannot be read")?;
        let mut before = usage::resident(process.child.id())?;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = usage::resident(process.child.id())?;
            if now.abs_diff(before) <= before / 1000 {
                return Ok(now);
            }
            before = now;
        }
        Ok(before)
    }

    /// Share of a core that our process uses while nobody asks it anything; 0 of a server that is not ours.
    pub async fn share_at_rest(&self) -> anyhow::Result<f64> {
        let (before, started) = (self.cpu()?, Instant::now());
        tokio::time::sleep(REST).await;
        let used = before
            .zip(self.cpu()?)
            .map_or(Duration::ZERO, |(before, after)| after.since(&before));
        Ok(used.as_secs_f64() / started.elapsed().as_secs_f64())
    }
}

/// A child that is killed when this goes.
struct Process {
    child: Child,
    tail: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts this binary with `arguments`; the receiver gets every address that it prints.
    fn start<'a>(
        arguments: impl Iterator<Item = &'a str>,
        workers: usize,
    ) -> anyhow::Result<(Self, mpsc::Receiver<String>)> {
        let mut command = Command::new(std::env::current_exe()?);
        // What is measured shall not depend on whose shell it is measured in.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"DROVER_")) {
            command.env_remove(name);
        }
        let mut child = command
            .args(arguments)
            .env("TOKIO_WORKER_THREADS", workers.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let (found, addresses) = mpsc::channel(8);
        if let Some(output) = child.stdout.take() {
            listen(output, Arc::clone(&tail), found.clone());
        }
        if let Some(output) = child.stderr.take() {
            listen(output, Arc::clone(&tail), found);
        }
        Ok((Self { child, tail }, addresses))
    }

    fn printed(&self) -> String {
        let tail = self.tail.lock();
        if tail.is_empty() {
            "(nothing)".to_owned()
        } else {
            tail.iter().cloned().collect::<Vec<_>>().join("\n")
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads a child's output to its end, so that a full pipe never blocks it.
fn listen(output: impl Read + Send + 'static, tail: Arc<Mutex<VecDeque<String>>>, found: mpsc::Sender<String>) {
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            let Ok(line) = line else { break };
            if let Some(address) = loopback_address(&line) {
                // A full queue has an address already.
                let _ = found.try_send(address);
            }
            let mut tail = tail.lock();
            if tail.len() == TAIL_LINES {
                tail.pop_front();
            }
            tail.push_back(line);
        }
    });
}

/// The first `127.0.0.1:PORT` of a line.
fn loopback_address(line: &str) -> Option<String> {
    const HOST: &str = "127.0.0.1:";
    let (_, rest) = line.split_once(HOST)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let port: u16 = digits.parse().ok()?;
    (port > 0).then(|| format!("{HOST}{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_address_of_a_line_is_where_a_child_listens() {
        let line = "drover listens on http://127.0.0.1:7117 (gRPC) and 127.0.0.1:7118 (HTTP)";
        assert_eq!(loopback_address(line).as_deref(), Some("127.0.0.1:7117"));
        assert_eq!(
            loopback_address("on 127.0.0.1:0"),
            None,
            "0 is what was asked for, not where it listens"
        );
        assert_eq!(loopback_address("on 127.0.0.1:99999"), None);
        assert_eq!(loopback_address("starting"), None);
    }
}
