//! Finds out which server has which partition, and looks again and again.

mod cluster;
mod sentinel;

use std::future::pending;
use std::time::Duration;

use ::redis::RedisError;
use tokio::time::{sleep, timeout};

use super::Link;
use super::access::Place;
use super::trouble::Trouble;
use crate::config::Address;
use cluster::Cluster;
use sentinel::Sentinels;

/// Two looks are at least so far apart, however many ask for one.
const LEAST: Duration = Duration::from_millis(20);

/// Who is asked.
#[derive(Debug)]
pub(super) enum Scout {
    /// Nobody: the URL says it.
    Fixed,
    /// The sentinels.
    Sentinels(Sentinels),
    /// The nodes.
    Cluster(Cluster),
}

impl Scout {
    pub fn sentinels(addresses: Vec<Address>, master: String) -> Scout {
        Scout::Sentinels(Sentinels::new(addresses, master))
    }

    pub fn cluster(seeds: Vec<Address>, prefix: &str, partitions: u16) -> Scout {
        Scout::Cluster(Cluster::new(seeds, prefix, partitions))
    }

    pub async fn go(&self, link: &Link) {
        match self {
            Scout::Fixed => pending().await,
            Scout::Sentinels(sentinels) => sentinels.go(link).await,
            Scout::Cluster(cluster) => cluster.go(link).await,
        }
    }
}

impl Link {
    /// Whether a server that was away, and answers, is the primary as far as somebody knows better than itself.
    pub(super) async fn vouch(&self, place: &Place) -> Result<(), Trouble> {
        match &self.scout {
            Scout::Sentinels(sentinels) => sentinels.vouch(self, place).await,
            // Who else there is, the nodes of a Cluster tell each other before they answer.
            Scout::Fixed | Scout::Cluster(_) => Ok(()),
        }
    }

    /// Until it is time for the next look, or somebody asks for one.
    async fn rest(&self, longest: Duration) {
        sleep(LEAST).await;
        let _ = timeout(longest, self.search.notified()).await;
    }

    /// Nobody says where the partitions are that nobody has.
    fn is_nowhere(&self, why: &Trouble) {
        let primary = self.seats.of(0);
        if primary.place.is_none() {
            self.conditions.count(why.condition);
            self.open(&primary, why);
        }
    }
}

/// `MOVED 3999 HOST:PORT`, `ASK 3999 HOST:PORT`. The host is missing where the node does not know its own.
pub(super) fn redirection(error: &RedisError) -> Option<Address> {
    let (node, _) = error.redirect_node()?;
    let (host, port) = node.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some(Address {
        host: host.to_owned(),
        port: port.parse().ok()?,
    })
}
