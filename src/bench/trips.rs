//! Case (j): what a herd at several replicas costs Redis.
//!
//! *Invariants:* every command of every client counts, also those that would have been sent in any case; what a script calls inside does
//! not. *Why by MONITOR*: Redis' own statistics count the insides of scripts as well.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::Bench;
use super::herd::Herd;
use super::monitor::Sent;
use super::report::{CaseReport, Figure, Target};
use super::stats::Pair;
use super::unit::Unit;

/// Of all commands, from the first caller to the last answer.
const TRIPS: Target = Target::AtMost(30.0);
const REPLICAS: usize = 3;
/// From the first caller to the report.
const HELD: Duration = Duration::from_secs(2);

/// Case (j).
pub async fn herd(bench: &Bench) -> anyhow::Result<CaseReport> {
    let redis = bench.redis().await?;
    let drover = bench.replicas(REPLICAS, &redis).await?;
    let connections = drover.connect(bench.args.herd_connections.max(REPLICAS)).await?;
    let control = drover.connect(1).await?.remove(0);
    let mut monitor = redis.monitor().await?;
    let (mut trips, mut resting, mut rates, mut rebuilds) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut kinds = String::new();
    let progress = bench.progress("(j) trips for a herd", u64::from(bench.args.pairs) + 1);
    for round in 0..=u64::from(bench.args.pairs) {
        monitor.sent().await?;
        let started = Instant::now();
        let herd = Herd::call(bench, &connections, &control, bench.caller.key('j', round)).await?;
        tokio::time::sleep_until(started + HELD).await;
        let released = herd.release(bench, &control).await?;
        let took = started.elapsed();
        let sent = monitor.sent().await?;
        tokio::time::sleep(took).await;
        let rest = monitor.sent().await?;
        progress.inc(1);
        // In the first round connections are opened and scripts loaded.
        if round > 0 {
            trips.push(Pair::alone(sent.len() as f64));
            resting.push(Pair::alone(rest.len() as f64));
            rates.push(Pair::alone(sent.len() as f64 / took.as_secs_f64()));
            rebuilds.push(Pair::alone(released.rebuilds as f64));
            kinds = by_name(&sent);
        }
    }
    progress.finish_and_clear();
    let callers = Unit::Count.shown(bench.args.waiters as f64);
    let title = format!("{callers} callers of one key at {REPLICAS} replicas, reported after {HELD:?}: trips to Redis");
    let mut report = CaseReport::new('j', &title);
    report
        .figures
        .push(Figure::new("trips altogether", Unit::Count, trips, Some(TRIPS))?);
    report
        .figures
        .push(Figure::new("a second", Unit::PerSecond, rates, None)?);
    report
        .figures
        .push(Figure::new("at rest, in the same time", Unit::Count, resting, None)?);
    report.figures.push(Figure::new(
        "rebuilds",
        Unit::Count,
        rebuilds,
        Some(Target::Exactly(1.0)),
    )?);
    report.note(&format!("the last herd's: {kinds}"));
    Ok(report)
}

/// How many of each, most first.
fn by_name(sent: &[Sent]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for one in sent {
        *counts.entry(one.name()).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
        .iter()
        .map(|(name, count)| format!("{count} {name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trips_are_told_by_name_most_first() {
        let sent = ["xread", "evalsha", "EVALSHA"].map(|name| Sent {
            words: vec![name.into()],
        });
        assert_eq!(by_name(&sent), "2 EVALSHA, 1 XREAD");
        assert_eq!(by_name(&[]), "");
    }
}
