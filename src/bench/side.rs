//! A server under test, or several replicas of one: where they listen and, if they are ours, their processes.
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
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::usage::{self, Cpu};

/// A child has this long to say where it listens and to answer.
const START_LIMIT: Duration = Duration::from_secs(10);
/// So long a process is watched at rest.
const REST: Duration = Duration::from_secs(3);
/// Lines of a child's output that are kept to explain why it failed.
const TAIL_LINES: usize = 20;

/// A server or its replicas and, if this bench started them, their processes.
pub struct Side {
    /// One at least.
    addresses: Vec<String>,
    processes: Vec<Process>,
}

impl Side {
    /// A server that runs already.
    pub fn running(address: String) -> Self {
        Self {
            addresses: vec![address],
            processes: Vec::new(),
        }
    }

    /// A fresh `drover serve` on the embedded store.
    pub async fn drover(workers: usize, further: &[String]) -> anyhow::Result<Self> {
        Self::serving("memory", workers, further).await
    }

    /// So many fresh replicas of `drover serve` that share the store at `url`.
    pub async fn replicas(count: usize, url: &str, workers: usize, further: &[String]) -> anyhow::Result<Self> {
        let mut all = Self::serving(url, workers, further).await?;
        for _ in 1..count {
            all.join(Self::serving(url, workers, further).await?);
        }
        all.ready().await?;
        Ok(all)
    }

    async fn serving(store: &str, workers: usize, further: &[String]) -> anyhow::Result<Self> {
        let fixed = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--store",
            store,
        ];
        let arguments = fixed.into_iter().chain(further.iter().map(String::as_str));
        Self::start("drover serve", arguments, workers).await
    }

    /// A fresh bare server.
    pub async fn bare(workers: usize) -> anyhow::Result<Self> {
        Self::start("the bare server", ["bench", "--bare-server"].into_iter(), workers).await
    }

    /// So many fresh bare servers.
    pub async fn bares(count: usize, workers: usize) -> anyhow::Result<Self> {
        let mut all = Self::bare(workers).await?;
        for _ in 1..count {
            all.join(Self::bare(workers).await?);
        }
        Ok(all)
    }

    fn join(&mut self, other: Self) {
        self.addresses.extend(other.addresses);
        self.processes.extend(other.processes);
    }

    async fn start(name: &str, arguments: impl Iterator<Item = &str>, workers: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // What is measured shall not depend on whose shell it is measured in.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"DROVER_")) {
            command.env_remove(name);
        }
        command.args(arguments).env("TOKIO_WORKER_THREADS", workers.to_string());
        let (process, mut addresses) = Process::start(&mut command).with_context(|| format!("cannot start {name}"))?;
        let listening = tokio::time::timeout(START_LIMIT, addresses.recv()).await.ok().flatten();
        let Some(address) = listening else {
            bail!(
                "{name} did not say where it listens; it printed:\n{}",
                process.printed()
            );
        };
        let side = Self {
            addresses: vec![address],
            processes: vec![process],
        };
        side.connect(1)
            .await
            .with_context(|| format!("{name} does not answer on {}", side.addresses[0]))?;
        Ok(side)
    }

    /// How many replicas there are.
    pub const fn replicas_count(&self) -> usize {
        self.addresses.len()
    }

    /// Opens connections of their own, each established when this returns; replicas get them in turn.
    pub async fn connect(&self, connections: usize) -> anyhow::Result<Vec<Channel>> {
        let mut channels = Vec::with_capacity(connections);
        for address in self.addresses.iter().cycle().take(connections) {
            let channel = Endpoint::from_shared(format!("http://{address}"))
                .with_context(|| format!("{address} is no address"))?
                .tcp_nodelay(true)
                .connect_timeout(START_LIMIT)
                .connect()
                .await
                .with_context(|| format!("cannot connect to {address}"))?;
            channels.push(channel);
        }
        Ok(channels)
    }

    /// Waits until every replica says that it serves: its store has answered.
    async fn ready(&self) -> anyhow::Result<()> {
        let started = Instant::now();
        for channel in self.connect(self.addresses.len()).await? {
            let mut health = HealthClient::new(channel);
            loop {
                let answer = health.check(HealthCheckRequest::default()).await;
                if answer.is_ok_and(|answer| answer.into_inner().status() == ServingStatus::Serving) {
                    break;
                }
                if started.elapsed() > START_LIMIT {
                    let printed: Vec<_> = self.processes.iter().map(Process::printed).collect();
                    bail!(
                        "drover serve is not ready after {START_LIMIT:?}; it printed:\n{}",
                        printed.join("\n")
                    );
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// CPU time used so far, by all; none of a server that is not ours.
    pub fn cpu(&self) -> anyhow::Result<Option<Cpu>> {
        let mut sum: Option<Cpu> = None;
        for process in &self.processes {
            let one = Cpu::read(process.id())?;
            sum = Some(match sum {
                Some(sum) => sum.and(one),
                None => one,
            });
        }
        Ok(sum)
    }

    /// Resident memory in bytes once it has come to rest: two readings a moment apart that differ by less than 1 in 1,000.
    pub async fn resident_at_rest(&self) -> anyhow::Result<u64> {
        let process = self
            .processes
            .first()
            .context("the memory of a server elsewhere cannot be read")?;
        let mut before = usage::resident(process.id())?;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            let now = usage::resident(process.id())?;
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
pub struct Process {
    child: Child,
    tail: Arc<Mutex<VecDeque<String>>>,
}

impl Process {
    /// Starts it; the receiver gets every address of this machine that it prints.
    pub fn start(command: &mut Command) -> std::io::Result<(Self, mpsc::Receiver<String>)> {
        let mut child = command
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

    /// By which the system knows it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// What it printed last.
    pub fn printed(&self) -> String {
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
