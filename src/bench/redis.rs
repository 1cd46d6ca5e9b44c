//! Redis servers of the bench's own: children on free ports, one or three as a Cluster, with nothing on disk.
//!
//! *Owns* the processes; they end with their [`Redis`]. *Why not a server that runs already*: what others do there would be in the
//! figures, and what the bench does there would be in their way.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, Cmd, Value};
use anyhow::{Context, bail};
use tokio::time::Instant;

use super::monitor::Monitor;
use super::side::Process;
use super::usage::Cpu;

/// A server has this long to answer, and a Cluster to find itself.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Ports that are tried: between the look for a free one and its use somebody else may take it.
const ATTEMPTS: usize = 10;
/// Nodes of a Cluster.
const NODES: u16 = 3;
/// Slots of a Cluster.
const SLOTS: u16 = 16_384;

/// Fails if the program is not there; says what to install.
pub fn look_for(program: &Path) -> anyhow::Result<()> {
    let found = Command::new(program).arg("--version").output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    bail!(
        "cases (h) to (k) start a Redis of their own, and {} is not to be found.\nInstall it (Debian: apt-get install \
         redis-server), name another with --redis-server, or choose cases without it: --case a,b,c,d,e,f,g",
        program.display()
    )
}

/// A connection whose calls may take as long as they like.
pub async fn connect(url: &str) -> anyhow::Result<MultiplexedConnection> {
    let patient = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(Some(START_LIMIT));
    let client = Client::open(url)?;
    Ok(client.get_multiplexed_async_connection_with_config(&patient).await?)
}

/// One server, or the nodes of a Cluster.
pub struct Redis {
    nodes: Vec<Node>,
    cluster: bool,
}

struct Node {
    process: Process,
    url: String,
    asking: MultiplexedConnection,
    _folder: Folder,
}

impl Redis {
    /// One server.
    pub async fn single(program: &Path) -> anyhow::Result<Self> {
        let nodes = vec![Node::start(program, false).await?];
        Ok(Self { nodes, cluster: false })
    }

    /// Three primaries.
    pub async fn cluster(program: &Path) -> anyhow::Result<Self> {
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            nodes.push(Node::start(program, true).await?);
        }
        let redis = Self { nodes, cluster: true };
        let slots: Vec<u16> = (0..SLOTS).collect();
        let share = slots.len().div_ceil(usize::from(NODES));
        let first = redis.nodes[0].port()?;
        for (node, slots) in redis.nodes.iter().zip(slots.chunks(share)) {
            node.ask(::redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots)).await?;
            node.ask(::redis::cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(first))
                .await?;
        }
        redis.whole().await?;
        Ok(redis)
    }

    /// Waits until every node knows all slots and the others.
    async fn whole(&self) -> anyhow::Result<()> {
        let (started, known) = (Instant::now(), format!("cluster_known_nodes:{NODES}"));
        for node in &self.nodes {
            loop {
                let info = text(&node.ask(::redis::cmd("CLUSTER").arg("INFO")).await?);
                if info.contains("cluster_state:ok") && info.contains(&known) {
                    break;
                }
                if started.elapsed() > START_LIMIT {
                    bail!("the Cluster is not whole after {START_LIMIT:?}:\n{info}");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// As `--store` takes it.
    pub fn url(&self) -> String {
        match self.nodes.first() {
            Some(node) if self.cluster => node.url.replacen("redis://", "redis+cluster://", 1),
            Some(node) => node.url.clone(),
            None => String::new(),
        }
    }

    /// One command to the first node.
    pub async fn ask(&self, command: &Cmd) -> anyhow::Result<Value> {
        self.nodes.first().context("there is no node")?.ask(command).await
    }

    /// Scripts that were called so far.
    pub async fn script_calls(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for node in &self.nodes {
            let stats = text(&node.ask(::redis::cmd("INFO").arg("commandstats")).await?);
            sum += calls(&stats, "evalsha") + calls(&stats, "eval");
        }
        Ok(sum)
    }

    /// CPU time used so far, by all nodes.
    pub fn cpu(&self) -> anyhow::Result<Cpu> {
        let mut nodes = self.nodes.iter().map(|node| Cpu::read(node.process.id()));
        let first = nodes.next().context("there is no node")??;
        nodes.try_fold(first, |sum, node| Ok(sum.and(node?)))
    }

    /// Sees every command from now on. It slows the servers down: not for timings.
    pub async fn monitor(&self) -> anyhow::Result<Monitor> {
        Monitor::start(self.nodes.iter().map(|node| (node.url.as_str(), node.asking.clone()))).await
    }
}

impl Node {
    async fn start(program: &Path, cluster: bool) -> anyhow::Result<Self> {
        let mut printed = String::new();
        for _ in 0..ATTEMPTS {
            let (port, folder) = (free_port()?, Folder::new()?);
            let mut command = Command::new(program);
            command
                .current_dir(&folder.0)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
            command.args(["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", ""]);
            if cluster {
                command.args(["--cluster-enabled", "yes"]);
            }
            let (mut process, _) =
                Process::start(&mut command).with_context(|| format!("cannot start {}", program.display()))?;
            let url = format!("redis://127.0.0.1:{port}");
            match answering(&mut process, &url).await? {
                Some(asking) => {
                    return Ok(Self {
                        process,
                        url,
                        asking,
                        _folder: folder,
                    });
                }
                None => printed = process.printed(),
            }
        }
        bail!("{} did not start; it printed:\n{printed}", program.display())
    }

    fn port(&self) -> anyhow::Result<u16> {
        let port = self.url.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        port.context("a URL without a port")
    }

    async fn ask(&self, command: &Cmd) -> anyhow::Result<Value> {
        Ok(command.query_async(&mut self.asking.clone()).await?)
    }
}

/// A connection, once the server answers; `None` if it has ended.
async fn answering(process: &mut Process, url: &str) -> anyhow::Result<Option<MultiplexedConnection>> {
    let started = Instant::now();
    loop {
        let error = match connect(url).await {
            Ok(connection) => return Ok(Some(connection)),
            Err(error) => error,
        };
        if process.has_ended() {
            return Ok(None);
        }
        if started.elapsed() > START_LIMIT {
            return Err(error.context(format!("Redis does not answer after {START_LIMIT:?}")));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Also the port that a node of a Cluster takes beside it, 10,000 higher, must be one.
fn free_port() -> anyhow::Result<u16> {
    for _ in 0..100 {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        if let Some(beside) = port.checked_add(10_000)
            && TcpListener::bind((Ipv4Addr::LOCALHOST, beside)).is_ok()
        {
            return Ok(port);
        }
    }
    bail!("no free port below 55,536 was found")
}

/// A folder that goes with this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("drover-bench-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is small and lies where things are cleared away.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a Redis answered with text.
fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    }
}

/// How often `INFO commandstats` says that a command was called.
fn calls(stats: &str, command: &str) -> u64 {
    let start = format!("cmdstat_{command}:calls=");
    let found = stats
        .lines()
        .find_map(|line| line.strip_prefix(&start)?.split(',').next()?.parse().ok());
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_the_whole_name() {
        let stats = "# Commandstats\r\ncmdstat_evalsha_ro:calls=7,usec=1\r\ncmdstat_evalsha:calls=42,usec=900,usec_per_call=1\r\n";
        assert_eq!(calls(stats, "evalsha"), 42);
        assert_eq!(calls(stats, "eval"), 0);
    }

    #[test]
    fn a_program_that_is_not_there_is_said_with_what_to_install() {
        let error = look_for(Path::new("no-such-redis")).map_err(|error| error.to_string());
        assert!(
            error.is_err_and(|text| text.contains("no-such-redis") && text.contains("apt-get install redis-server"))
        );
    }
}
