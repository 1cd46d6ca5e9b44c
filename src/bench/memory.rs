//! Case (f): what an idle entry and a parked waiter weigh, as resident memory of the server's process.
//!
//! *Invariants:* the connections, and a first taste of the traffic, are in the reading before; both readings wait until the memory
//! has come to rest.

use super::Bench;
use super::herd::Herd;
use super::lane::populate;
use super::report::{CaseReport, Figure, Target};
use super::side::Side;
use super::stats::Pair;
use super::unit::Unit;
use super::wire::Coordinator;

/// Bytes of an idle entry beside its key and value.
const ENTRY: Target = Target::AtMost(300.0);
/// Bytes of a parked waiter, all told.
const WAITER: Target = Target::AtMost(8192.0);
/// Entries that are stored before the first reading.
const TASTE: u64 = 5_000;

/// A server that holds `--keys` entries of the kind `k`.
pub struct Filled {
    /// The server.
    pub side: Side,
    /// Share of a core that it uses at rest.
    pub share_at_rest: f64,
    /// What an entry takes, its key and value included.
    bytes_per_entry: f64,
}

/// Fills a server, once for all cases that want it.
pub async fn filled<'a>(bench: &Bench, slot: &'a mut Option<Filled>) -> anyhow::Result<&'a Filled> {
    let filled = match slot.take() {
        Some(filled) => filled,
        None => fill(bench).await?,
    };
    Ok(slot.insert(filled))
}

async fn fill(bench: &Bench) -> anyhow::Result<Filled> {
    let (side, keys) = (bench.roomy_drover().await?, bench.args.keys);
    populate(bench, &side, 't', TASTE, &indicatif::ProgressBar::hidden()).await?;
    let before = side.resident_at_rest().await?;
    populate(bench, &side, 'k', keys, &bench.progress("filling", keys)).await?;
    let after = side.resident_at_rest().await?;
    let share_at_rest = side.share_at_rest().await?;
    Ok(Filled {
        side,
        share_at_rest,
        bytes_per_entry: (after as f64 - before as f64) / keys as f64,
    })
}

/// Case (f).
pub async fn resident(bench: &Bench, slot: &mut Option<Filled>) -> anyhow::Result<CaseReport> {
    let (keys, waiters) = (bench.args.keys, bench.args.waiters);
    let (key_bytes, value_bytes) = (bench.caller.key_bytes(), bench.caller.value_bytes());
    let filled = filled(bench, slot).await?;
    let (entry, at_rest) = (filled.bytes_per_entry, filled.share_at_rest * 1e9);
    let beside = entry - (key_bytes + value_bytes) as f64;
    let waiter = parked(bench).await?;
    let (keys, waiters) = (Unit::Count.shown(keys as f64), Unit::Count.shown(waiters as f64));
    let title = format!("memory of {keys} idle entries and of {waiters} parked waiters");
    let mut report = CaseReport::new('f', &title);
    for (name, unit, number, target) in [
        ("an entry beside its key and value", Unit::Bytes, beside, Some(ENTRY)),
        ("a parked waiter", Unit::Bytes, waiter, Some(WAITER)),
        ("CPU a second of the entries at rest", Unit::Nanoseconds, at_rest, None),
    ] {
        report
            .figures
            .push(Figure::new(name, unit, vec![Pair::alone(number)], target)?);
    }
    report.note(&format!(
        "an entry is {} with its key of {key_bytes} and its value of {value_bytes} bytes; resident memory after, less before",
        Unit::Bytes.shown(entry)
    ));
    Ok(report)
}

/// Bytes that one of many parked callers takes, in a process that never parked one before.
async fn parked(bench: &Bench) -> anyhow::Result<f64> {
    let side = bench.drover().await?;
    let connections = side.connect(bench.args.herd_connections).await?;
    let control = side.connect(1).await?.remove(0);
    for (number, channel) in (0..).zip(&connections) {
        bench
            .caller
            .store(&mut Coordinator::new(channel.clone()), bench.caller.key('w', number))
            .await?;
    }
    let before = side.resident_at_rest().await?;
    let herd = Herd::park(bench, &connections, &control, bench.caller.key('f', 0)).await?;
    let after = side.resident_at_rest().await?;
    herd.release(bench, &control).await?;
    Ok((after as f64 - before as f64) / bench.args.waiters as f64)
}
