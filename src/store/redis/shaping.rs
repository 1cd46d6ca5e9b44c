//! Budgets and circuits of namespaces: each in its namespace's home partition, at the price of a trip.
//!
//! *Failover.* Places that a new primary does not know are those of leases that it may know: for their time there may be more leases than
//! places. A circuit that is lost begins closed.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use super::commit::RINGS;
use super::shared::{Shared, refs};
use crate::decision::{Key, StoreTime, micros};
use crate::store::{Budgeted, Budgeting, Changed, StoreError};

/// That somebody waits for a place is forgotten unless it is said again; who waits says so once a second.
const WANTED_MS: u64 = 5_000;
/// A circuit that nobody changes is kept for longer than any pause.
const CIRCUIT_MS: u64 = 32 * 24 * 3_600 * 1_000;

fn text(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// As [`Store::budget`](crate::store::Store::budget).
pub async fn budget(shared: &Shared, key: &Key, lease: NonZeroU64, what: Budgeting) -> Result<Budgeted, StoreError> {
    let namespace = key.namespace();
    let partition = shared.partition(namespace);
    let length = |length: Duration| micros(length);
    let mut at_most = StoreTime::NEVER;
    let (verb, limit, length, other, others_wait) = match what {
        Budgeting::Take {
            limit,
            length: lasts,
            others_wait,
        } => ("t", limit, length(lasts), 0, others_wait),
        Budgeting::Hold {
            length: lasts,
            at_most: end,
            instead_of,
        } => {
            at_most = end;
            ("h", 0, length(lasts), instead_of.map_or(0, NonZeroU64::get), false)
        }
        Budgeting::GiveBack { left_for } => ("g", 0, length(left_for), 0, false),
        Budgeting::Leave => ("l", 0, 0, 0, false),
    };
    let args = [
        verb.as_bytes().to_vec(),
        key.text().as_bytes().to_vec(),
        text(lease.get()),
        text(u64::from(limit)),
        text(length),
        text(other),
        text(u64::from(others_wait)),
        text(RINGS as u64),
        Changed::Budget.ring(namespace).text().as_bytes().to_vec(),
        text(WANTED_MS),
        text(at_most.0),
    ];
    let names = partition.budget_names(namespace);
    let reply = shared
        .ask(partition, &shared.scripts.budget, &refs(&names), args, true)
        .await?;
    let mut words = reply.ok()?;
    let now = words.time()?;
    shared.told(partition, now);
    let (has, taken) = (words.number()? == 1, words.number()?);
    let next = words.bytes()?;
    let next = std::str::from_utf8(&next).ok().and_then(|next| next.parse().ok());
    Ok(Budgeted {
        has,
        taken: u32::try_from(taken).unwrap_or(u32::MAX),
        next: next.map(|next: u64| Duration::from_micros(next.saturating_sub(now.0))),
    })
}

/// As [`Store::circuit`](crate::store::Store::circuit).
pub async fn circuit(
    shared: &Shared,
    namespace: &str,
    expected: &str,
    new: Option<&str>,
) -> Result<Arc<str>, StoreError> {
    let partition = shared.partition(namespace);
    let args = [
        if new.is_some() { b"w".to_vec() } else { b"r".to_vec() },
        expected.as_bytes().to_vec(),
        new.unwrap_or_default().as_bytes().to_vec(),
        text(RINGS as u64),
        Changed::Circuit.ring(namespace).text().as_bytes().to_vec(),
        text(CIRCUIT_MS),
    ];
    let names = partition.circuit_names(namespace);
    let reply = shared
        .ask(partition, &shared.scripts.circuit, &refs(&names), args, new.is_some())
        .await?;
    let mut words = reply.ok()?;
    shared.told(partition, words.time()?);
    Ok(String::from_utf8_lossy(&words.bytes()?).into())
}
