//! Where a run takes place: replicas of drover, each behind a cable, over one store, of which each replica has a cable too.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::faults::clocks::Clock;
use crate::names::{Names, POLICIES};
use crate::proxy::{Mode, Proxy};
use crate::recorder::Recorder;
use crate::replica::{Replica, Start, tail};
use crate::support::{Cluster, Sentinels, Server, wait_until};

/// What the replicas share.
pub enum Shared {
    /// Nothing: there is one replica.
    Memory,
    Single(Server),
    /// A primary, and a replica that follows it through a cable.
    Pair(Box<Pair>),
    Sentinels(Box<Sentinels>),
    Cluster(Box<Cluster>),
}

/// Two servers, of which one follows the other.
pub struct Pair {
    pub primary: Server,
    pub follower: Server,
    /// From the follower to the primary.
    pub cable: Proxy,
}

/// How a field is laid out.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    pub kind: Kind,
    /// Lines of configuration for every Redis server.
    pub redis: Vec<String>,
    /// Clients connect to replicas without a cable.
    pub direct: bool,
    /// Its clock can be set.
    pub redis_clock: bool,
    /// By how many seconds the clock of each replica is wrong.
    pub clocks: Option<[i64; 3]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    Memory,
    #[default]
    Single,
    Pair,
    Sentinels,
    Cluster,
}

pub struct Field {
    pub replicas: Vec<Replica>,
    /// From each replica to its store, where there is one server to lead to.
    pub backs: Vec<Proxy>,
    pub shared: Shared,
    pub recorder: Arc<Recorder>,
    pub names: Arc<Names>,
    /// That of Redis, where it can be set.
    pub redis_clock: Option<Clock>,
    folder: TempDir,
}

impl Field {
    pub async fn lay(layout: &Layout) -> Field {
        let folder = TempDir::new().expect("a temporary directory");
        std::fs::write(folder.path().join("drover.toml"), POLICIES).expect("a temporary directory");
        let clock = layout.redis_clock.then(|| Clock::make(folder.path(), "redis"));
        let mut field = Field {
            replicas: Vec::new(),
            backs: Vec::new(),
            shared: share(layout, clock.as_ref()).await,
            recorder: Arc::new(Recorder::new()),
            names: Arc::new(Names::new()),
            redis_clock: clock,
            folder,
        };
        let count = if layout.kind == Kind::Memory { 1 } else { 3 };
        for number in 0..count {
            let store = field.store_url().await;
            let start = Start {
                store,
                direct: layout.direct,
                environment: layout.clocks.map_or_else(Vec::new, |seconds| {
                    let clock = Clock::make(field.folder.path(), &format!("replica-{number}"));
                    clock.set(seconds[number]);
                    clock.environment()
                }),
            };
            let replica = Replica::start(field.folder.path(), &format!("replica-{number}"), start).await;
            field.replicas.push(replica);
        }
        field
    }

    /// What the next replica is told; with a cable of its own where that can be.
    async fn store_url(&mut self) -> String {
        let port = match &self.shared {
            Shared::Memory => return "memory".to_owned(),
            Shared::Sentinels(sentinels) => return sentinels.url(),
            Shared::Cluster(cluster) => return cluster.url(),
            Shared::Single(server) => server.port(),
            Shared::Pair(pair) => pair.primary.port(),
        };
        let back = Proxy::to(local(port)).await;
        let url = format!("redis://{}", back.address);
        self.backs.push(back);
        url
    }

    pub fn fronts(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(Replica::address).collect()
    }

    /// The one server that there is.
    pub fn server(&mut self) -> &mut Server {
        match &mut self.shared {
            Shared::Single(server) => server,
            Shared::Pair(pair) => &mut pair.primary,
            _ => panic!("this fault needs one server"),
        }
    }

    /// Makes every cable whole.
    pub fn mend(&self) {
        let fronts = self.replicas.iter().map(|replica| &replica.front);
        fronts.chain(&self.backs).for_each(|cable| cable.set(Mode::PASS));
    }

    /// Every replica leaves, and leaves well.
    pub async fn clear(mut self) {
        for (number, replica) in self.replicas.iter_mut().enumerate() {
            if replica.is_gone() {
                let said = tail(&replica.said());
                self.recorder.wrong(format!("replica {number} ended by itself: {said}"));
            } else if let Err(how) = replica.leave().await {
                self.recorder.wrong(how);
            }
            let said = replica.said();
            if let Some(line) = said.lines().find(|line| line.contains("panicked")) {
                self.recorder.wrong(format!("replica {number} panicked: {line}"));
            }
        }
    }

    /// What the replicas said, for whoever looks for the reason of something.
    pub fn said(&self) -> String {
        let said = self.replicas.iter().map(|replica| tail(&replica.said()));
        said.collect::<Vec<_>>().join("\n--\n")
    }
}

async fn share(layout: &Layout, clock: Option<&Clock>) -> Shared {
    let lines: Vec<&str> = layout.redis.iter().map(String::as_str).collect();
    match layout.kind {
        Kind::Memory => Shared::Memory,
        Kind::Single => Shared::Single(tokio::task::block_in_place(|| {
            let environment = clock.map(Clock::environment).unwrap_or_default();
            Server::with_environment(&lines, &environment)
        })),
        Kind::Pair => Shared::Pair(Box::new(Pair::start(&lines).await)),
        Kind::Sentinels => {
            let sentinels = tokio::task::block_in_place(|| Sentinels::with(3, &lines, &[]));
            Shared::Sentinels(Box::new(sentinels))
        }
        Kind::Cluster => Shared::Cluster(Box::new(tokio::task::block_in_place(|| Cluster::with(1, &lines)))),
    }
}

impl Pair {
    async fn start(lines: &[&str]) -> Pair {
        let (primary, follower) = tokio::task::block_in_place(|| (Server::with(lines), Server::with(lines)));
        let mut pair = Pair {
            cable: Proxy::to(local(primary.port())).await,
            primary,
            follower,
        };
        pair.follow().await;
        pair
    }

    /// Has the follower follow, and waits until it has all.
    pub async fn follow(&mut self) {
        self.cable.lead_to(local(self.primary.port()));
        self.cable.set(Mode::PASS);
        let port = self.cable.address.port().to_string();
        tokio::task::block_in_place(|| {
            self.follower.ask::<()>(&["REPLICAOF", "127.0.0.1", &port]);
            wait_until("the follower follows", || {
                self.follower.info("master_link_status") == "up"
            });
        });
    }
}

pub fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Lets time pass while everything else goes on.
pub async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
