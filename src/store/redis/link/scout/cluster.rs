//! The map of a Cluster, as its nodes know it.
//!
//! *Invariants.* Of several answers the one of the highest epoch counts, from a node that finds the cluster in order before any other: a
//! minority that was cut off knows an old map. While something is down, or a node has sent a call elsewhere, the nodes are asked again at once.

use std::collections::HashMap;
use std::time::Duration;

use ::redis::cluster_routing::Slot;
use ::redis::{Value, cmd, from_redis_value};
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};

use super::super::Link;
use super::super::access::Place;
use super::super::trouble::Trouble;
use super::super::wire::{Miss, Wire};
use crate::config::Address;
use crate::store::redis::condition::Condition;
use crate::store::redis::keys::Keys;

/// Time between two looks while all is well.
const LOOK: Duration = Duration::from_secs(10);
/// And while something is down.
const SOON: Duration = Duration::from_millis(250);
/// A server that was on so few maps is let go.
const MISSED: u32 = 3;
/// So many slots has every cluster.
const SLOTS: u16 = 16_384;

/// Whom to ask first, and the slots that are ours.
#[derive(Debug)]
pub(in super::super) struct Cluster {
    seeds: Vec<Address>,
    /// By partition.
    slots: Box<[u16]>,
}

/// What a node says.
#[derive(Debug)]
struct Map {
    in_order: bool,
    epoch: u64,
    /// First and last slot, and who has them.
    ranges: Vec<(u16, u16, Address)>,
}

impl Cluster {
    pub fn new(seeds: Vec<Address>, prefix: &str, partitions: u16) -> Cluster {
        let slot = |partition| {
            let wanted = Slot::for_key(Keys::new(prefix, partition).header);
            (0..SLOTS)
                .find(|slot| Slot::new(*slot) == Some(wanted))
                .unwrap_or_default()
        };
        Cluster {
            seeds,
            slots: (0..partitions).map(slot).collect(),
        }
    }

    pub async fn go(&self, link: &Link) {
        loop {
            match self.look(link).await {
                Ok(map) => self.follow(link, &map),
                Err(trouble) => link.is_nowhere(&trouble),
            }
            let all_well = link.seats.states().borrow().down() == 0;
            link.rest(if all_well { LOOK } else { SOON }).await;
        }
    }

    fn follow(&self, link: &Link, map: &Map) {
        for (partition, slot) in (0..).zip(&self.slots) {
            match map.owner(*slot) {
                Some(address) => {
                    if link.seat(partition, address.clone()) {
                        tracing::debug!("Redis: partition {partition} is at {address}");
                    }
                }
                None => {
                    let text = format!("the cluster serves no slot {slot}; see CLUSTER INFO and CLUSTER NODES");
                    link.unseat(partition, &Trouble::new(Condition::ClusterDown, text));
                }
            }
        }
        link.let_go(MISSED);
    }

    /// Asks the nodes that answer, or if none does all that are known.
    async fn look(&self, link: &Link) -> Result<Map, Trouble> {
        let primaries = link.primaries.lock().clone();
        let good = primaries.iter().filter(|primary| primary.gate.is_up());
        let good = good.filter_map(|primary| Some((primary.place.clone()?, primary.wire()?)));
        let asked = good.map(|(place, wire)| async move { ask(link, &place, &wire).await });
        if let Ok(map) = best(join_all(asked).await) {
            return Ok(map);
        }
        let mut places: Vec<Place> = primaries.iter().filter_map(|primary| primary.place.clone()).collect();
        let seeds = self.seeds.iter().cloned().map(Place::Tcp);
        places.extend(seeds.filter(|seed| primaries.iter().all(|known| known.place.as_ref() != Some(seed))));
        best(join_all(places.iter().map(|place| anew(link, place))).await)
    }
}

impl Map {
    fn owner(&self, slot: u16) -> Option<&Address> {
        let range = self
            .ranges
            .iter()
            .find(|(first, last, _)| (*first..=*last).contains(&slot));
        range.map(|(_, _, address)| address)
    }
}

fn best(answers: Vec<Result<Map, Trouble>>) -> Result<Map, Trouble> {
    let mut best: Result<Map, _> = Err(Trouble::new(Condition::Broken, "no node of the cluster is known"));
    for answer in answers {
        let better = match (&best, &answer) {
            (Err(_), _) => true,
            (Ok(_), Err(_)) => false,
            (Ok(best), Ok(other)) => (other.in_order, other.epoch) > (best.in_order, best.epoch),
        };
        if better {
            best = answer;
        }
    }
    best
}

/// Over a connection for this once.
async fn anew(link: &Link, place: &Place) -> Result<Map, Trouble> {
    let connecting = link.access.connect(place, || ());
    let connection = match timeout(link.timeout, connecting).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err(Trouble::of(place, &error, link.access.is_secured())),
        Err(_) => return Err(late(link, place)),
    };
    ask(link, place, &Wire::new(connection, Default::default())).await
}

async fn ask(link: &Link, place: &Place, wire: &Wire) -> Result<Map, Trouble> {
    let until = Instant::now() + link.timeout;
    let mut answers = Vec::with_capacity(2);
    for what in ["INFO", "SLOTS"] {
        let asked = cmd("CLUSTER").arg(what).take();
        answers.push(wire.ask(&asked, until).await.map_err(|miss| match miss {
            Miss::Error(error) => Trouble::of(place, &error, link.access.is_secured()),
            Miss::Lost => Trouble::new(Condition::Broken, format!("{place}: the connection is lost")),
            Miss::Late => late(link, place),
        })?);
    }
    let strange = || {
        Trouble::new(
            Condition::Other,
            format!("{place}: its map of the cluster can't be understood"),
        )
    };
    let slots = answers.pop().ok_or_else(strange)?;
    let info: String = answers
        .pop()
        .and_then(|info| from_redis_value(info).ok())
        .ok_or_else(strange)?;
    let ranges = ranges(place, slots).ok_or_else(strange)?;
    let figures: HashMap<&str, &str> = info.lines().filter_map(|line| line.split_once(':')).collect();
    Ok(Map {
        in_order: figures.get("cluster_state") == Some(&"ok"),
        epoch: figures
            .get("cluster_current_epoch")
            .and_then(|text| text.parse().ok())
            .unwrap_or(0),
        ranges,
    })
}

fn late(link: &Link, place: &Place) -> Trouble {
    Trouble::new(
        Condition::TimedOut,
        format!("{place}: no answer for {} ms", link.timeout.as_millis()),
    )
}

/// `[[first, last, [host, port, …], …], …]`; a host that is missing is the one that was asked.
fn ranges(place: &Place, value: Value) -> Option<Vec<(u16, u16, Address)>> {
    let rows: Vec<Vec<Value>> = from_redis_value(value).ok()?;
    let row = |row: Vec<Value>| {
        let mut row = row.into_iter();
        let mut number = || from_redis_value::<u16>(row.next()?).ok();
        let (first, last) = (number()?, number()?);
        let node: Vec<Value> = from_redis_value(row.next()?).ok()?;
        let mut node = node.into_iter();
        let host: Option<String> = from_redis_value(node.next()?).ok()?;
        let port = from_redis_value(node.next()?).ok()?;
        let host = match (host.filter(|host| !host.is_empty() && host != "?"), place) {
            (Some(host), _) => host,
            (None, Place::Tcp(asked)) => asked.host.clone(),
            (None, Place::Socket(_)) => return None,
        };
        Some((first, last, Address { host, port }))
    };
    rows.into_iter().map(row).collect()
}
