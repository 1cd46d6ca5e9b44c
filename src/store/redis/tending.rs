//! What is done on the side: partitions are looked after, losses are told, entries counted, and replicas know of each other.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ::redis::{Value, cmd};

use super::codec::BEGAN;
use super::commit::REFRESHED;
use super::partition::Partition;
use super::shared::Shared;
use super::{Redis, StoreError};
use crate::decision::micros;

/// A partition is looked after so often by each replica, give or take a fifth.
const EVERY: Duration = Duration::from_secs(10);
/// `Refreshed` are recorded for so long after a watcher that reads them was last there.
const RECORDED: Duration = Duration::from_secs(300);
/// The log is kept so long.
const KEPT: Duration = Duration::from_secs(300);
/// Keys looked at to count a server's entries; beyond, the rest is estimated.
const COUNTED: usize = 100_000;
/// Keys of one call.
const SCAN: usize = 1_000;

/// How the log of a partition is.
pub struct State {
    /// Which log: drawn with the partition's header.
    pub log: u64,
    /// Its incarnation.
    pub epoch: u64,
    /// The last position.
    pub position: u64,
    /// The last record for watchers.
    pub main: u64,
    /// The last `Refreshed`.
    pub refreshed: u64,
}

/// Looks after a partition once, and says how its log is.
pub async fn look(store: &Redis, partition: &Partition) -> Result<State, StoreError> {
    let shared = &store.shared;
    let keys = &partition.keys;
    let names = [
        &*keys.header,
        &keys.generations,
        &keys.ages,
        &keys.log,
        &keys.refreshed,
        &keys.rings,
        &keys.leases,
        &keys.replicas,
    ];
    let text = |number: u64| number.to_string().into_bytes();
    let wanted = store.feed.wants_refreshed();
    let args = [
        if wanted { b"w".to_vec() } else { Vec::new() },
        text(micros(RECORDED)),
        text(micros(KEPT)),
        shared
            .link
            .min_replicas(partition.number)
            .map(|count| text(u64::from(count)))
            .unwrap_or_default(),
        BEGAN.to_vec(),
        text(REFRESHED as u64),
    ];
    let reply = shared.ask(partition, &shared.scripts.tend, &names, args, true).await?;
    let mut words = reply.ok()?;
    let id = words.bytes()?;
    let epoch = words.number()?;
    let now = words.time()?;
    shared.told(partition, now);
    store.feed.tell_time(now);
    partition.enter(epoch);
    let log = <[u8; 8]>::try_from(&id[..]).map(u64::from_be_bytes).unwrap_or_default();
    let position = words.number()?;
    if wanted {
        store.feed.records(partition.number, position);
    }
    let state = State {
        log,
        epoch,
        position,
        main: words.number()?,
        refreshed: words.number()?,
    };
    let (set_up, here) = (words.number()?, shared.partitions.len() as u64);
    if set_up != here {
        return Err(StoreError::Unavailable(format!(
            "what is under this prefix was set up with {set_up} partition(s), and this kind of store has {here}: take another \
             --store-prefix, or empty it"
        )));
    }
    Ok(state)
}

/// Looks after all partitions again and again; at once where watchers begin to read `Refreshed`.
pub async fn tend(store: Arc<Redis>) {
    let mut wanted = store.feed.wants();
    loop {
        for partition in &store.shared.partitions {
            if let Err(error) = look(&store, partition).await {
                tracing::debug!(partition = partition.number, %error, "a partition could not be looked after");
            }
        }
        let pause = EVERY.mul_f64(rand::random_range(0.8..1.2));
        let _ = tokio::time::timeout(pause, wanted.changed()).await;
    }
}

/// Tells the feed when partitions are lost and when they are there again.
pub async fn watch_link(store: Arc<Redis>) {
    let mut states = store.shared.link.watch();
    let mut known: Vec<(bool, u64)> = vec![(true, 0); store.shared.partitions.len()];
    loop {
        let now = states.borrow_and_update().clone();
        for (number, (up, outages)) in (0..).zip(&mut known) {
            // An outage that began and ended between two looks is one too: calls were refused meanwhile.
            let fell = now.outages(number) != *outages;
            if fell && *up {
                store.feed.lost(number);
            }
            *outages = now.outages(number);
            if now.is_up(number) && (fell || !*up) {
                // What was seen before may have been decided on since by others.
                store.shared.seen.forget();
                store.feed.regained(number);
            }
            *up = now.is_up(number);
        }
        if states.changed().await.is_err() {
            return;
        }
    }
}

/// How many entries each namespace has: exactly, or from a sample where there are very many.
pub async fn count_entries(shared: &Shared) -> Result<HashMap<String, u64>, StoreError> {
    let mut counts = HashMap::new();
    for partition in &shared.partitions {
        count_in(shared, partition, &mut counts).await?;
    }
    Ok(counts)
}

async fn count_in(shared: &Shared, partition: &Partition, counts: &mut HashMap<String, u64>) -> Result<(), StoreError> {
    let entries = partition.keys.entries();
    let most = COUNTED / shared.partitions.len();
    let mut found: HashMap<String, u64> = HashMap::new();
    let (mut cursor, mut looked_at) = ("0".to_owned(), 0);
    loop {
        let mut scan = cmd("SCAN");
        scan.arg(&cursor)
            .arg("MATCH")
            .arg(format!("{}*", glob(&entries)))
            .arg("COUNT")
            .arg(SCAN);
        let (next, names) = scanned(shared.link.cold(partition.number, scan).await?)?;
        looked_at += SCAN;
        for name in names {
            let namespace = name
                .strip_prefix(&entries)
                .and_then(|name| name.split_once('/'))
                .map(|(namespace, _)| namespace);
            *found.entry(namespace.unwrap_or_default().to_owned()).or_default() += 1;
        }
        cursor = next;
        if cursor == "0" || looked_at >= most {
            break;
        }
    }
    let mut scale = 1.0;
    if cursor != "0" {
        let size = match shared.link.cold(partition.number, cmd("DBSIZE")).await? {
            Value::Int(size) => size.max(0) as f64,
            _ => 0.0,
        };
        scale = (size / looked_at as f64).max(1.0);
    }
    for (namespace, count) in found {
        *counts.entry(namespace).or_default() += (count as f64 * scale).round() as u64;
    }
    Ok(())
}

/// A text that a pattern of SCAN takes literally.
fn glob(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '\\' | '^') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

fn scanned(reply: Value) -> Result<(String, Vec<String>), StoreError> {
    let odd = || StoreError::Unavailable("SCAN answered what it never should".to_owned());
    let text = |value: Value| match value {
        Value::BulkString(text) => Some(String::from_utf8_lossy(&text).into_owned()),
        _ => None,
    };
    let Value::Array(parts) = reply else {
        return Err(odd());
    };
    match <[Value; 2]>::try_from(parts) {
        Ok([cursor, Value::Array(names)]) => Ok((
            text(cursor).ok_or_else(odd)?,
            names.into_iter().filter_map(text).collect(),
        )),
        _ => Err(odd()),
    }
}
