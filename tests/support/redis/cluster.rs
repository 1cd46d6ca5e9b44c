//! A cluster, put together by hand: `redis-cli` is not needed.

use super::{Server, free_port, wait_until};

/// So many slots has every cluster.
const SLOTS: usize = 16_384;

/// Primaries that share the slots evenly, in order, each with its replicas.
pub struct Cluster {
    pub primaries: Vec<Server>,
    /// `replicas[i]` follow `primaries[i]`.
    pub replicas: Vec<Vec<Server>>,
}

impl Cluster {
    /// Three primaries, each with so many replicas. A node that does not answer for a second is failing.
    pub fn start(replicas: usize) -> Cluster {
        Cluster::with(replicas, &[])
    }

    /// With more lines in every node's configuration.
    pub fn with(replicas: usize, lines: &[&str]) -> Cluster {
        let cluster = Cluster {
            primaries: (0..3).map(|_| node(lines)).collect(),
            replicas: (0..3).map(|_| (0..replicas).map(|_| node(lines)).collect()).collect(),
        };
        for (at, primary) in cluster.primaries.iter().enumerate() {
            let (first, beyond) = (SLOTS * at / 3, SLOTS * (at + 1) / 3);
            let range = [first, beyond - 1].map(|slot| slot.to_string());
            primary.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]]);
            primary.ask::<()>(&["CLUSTER", "SET-CONFIG-EPOCH", &(at + 1).to_string()]);
        }
        let first = &cluster.primaries[0];
        for other in cluster.nodes().skip(1) {
            let (port, bus) = (other.port().to_string(), bus_port(other));
            first.ask::<()>(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let count = cluster.nodes().count();
        wait_until("all nodes know all", || {
            cluster.nodes().all(|node| known(node) == count)
        });
        for (primary, replicas) in cluster.primaries.iter().zip(&cluster.replicas) {
            let id: String = primary.ask(&["CLUSTER", "MYID"]);
            for replica in replicas {
                replica.ask::<()>(&["CLUSTER", "REPLICATE", &id]);
            }
        }
        wait_until("the cluster is ok", || {
            let ok = |node: &Server| cluster_info(node, "cluster_state") == "ok";
            let follows = |replica: &Server| replica.info("master_link_status") == "up";
            cluster.nodes().all(ok) && cluster.replicas.iter().flatten().all(follows)
        });
        // Each node knows which slots which other has.
        wait_until("all nodes know where the slots are", || {
            let ranges = |node: &Server| node.ask::<Vec<::redis::Value>>(&["CLUSTER", "SLOTS"]).len();
            cluster.nodes().all(|node| ranges(node) == 3)
        });
        cluster
    }

    /// The primaries as they were at the start, then the replicas.
    pub fn nodes(&self) -> impl Iterator<Item = &Server> {
        self.primaries.iter().chain(self.replicas.iter().flatten())
    }

    /// `redis+cluster://HOST:PORT,…` with the primaries.
    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.primaries.iter().map(Server::address).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }
}

fn node(lines: &[&str]) -> Server {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let own = |_| {
        let mut own = vec![
            "cluster-enabled yes".to_owned(),
            "cluster-node-timeout 1000".to_owned(),
            "cluster-replica-validity-factor 0".to_owned(),
            format!("cluster-port {}", free_port()),
        ];
        own.extend(lines.iter().cloned());
        own
    };
    Server::on_free_port(own, false)
}

fn bus_port(node: &Server) -> String {
    let port = node.lines.iter().find_map(|line| line.strip_prefix("cluster-port "));
    port.expect("a node of a cluster").to_owned()
}

fn known(node: &Server) -> usize {
    let text: String = node.ask(&["CLUSTER", "NODES"]);
    let settled = |line: &&str| !line.contains("handshake") && !line.contains("noaddr");
    text.lines().filter(settled).count()
}

/// A figure of CLUSTER INFO.
pub fn cluster_info(node: &Server, name: &str) -> String {
    let text: String = node.ask(&["CLUSTER", "INFO"]);
    let figure = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    figure.unwrap_or_default().trim().to_owned()
}
