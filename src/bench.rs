//! `drover bench`: what a call, a parked waiter, an event and an entry cost, beside a bare tonic server that does the same traffic.
//!
//! *Owns* the list of cases and their order; `args` has the command line. A case lives in one file: `calls` (a, b, g), `herd` (c, d),
//! `fanout` (e), `memory` (f), and on a Redis of the bench's own `shared` (h, i), `trips` (j), `partitions` (k). `schedule` has (l) and, on such a Redis, (m). For these `redis` starts
//! the servers, `monitor` sees what they are sent, `lesson` learns drover's trips and `replay` has the bare service make them too. The
//! rest is what all share: `side` (a server under test and what it uses), `bare` (the service to compare with), `load` (the closed loop)
//! and `lane` (what runs in it), `wire` (drover's requests), `report` (figures and targets).
//!
//! *Why two processes:* a server's cost a call can only be read where nobody else works, so both servers are children of the
//! bench, started from the same binary: same allocator, same runtime, same transport. In-process benches were rejected: they
//! would count the load generator. Pairs are interleaved because a shared machine drifts more between minutes than the difference
//! that is looked for.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures real time, and its tasks end with the case that started them"
)]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};

mod args;
mod bare;
mod calls;
mod fanout;
mod herd;
mod lane;
mod lesson;
mod load;
mod memory;
mod monitor;
mod partitions;
mod redis;
mod replay;
mod report;
mod schedule;
mod shared;
mod side;
mod stats;
mod trips;
mod unit;
mod usage;
mod wire;

pub use args::Args;
use args::Case;
use report::{CaseReport, Report, Settings};
use side::Side;

/// Entries that a server has room for beside a quarter more than `--keys`.
const ROOM: u64 = 100_000;
/// Exit code of `--check` when something was measured and missed its target.
const MISSED: u8 = 3;

/// Measures, prints to standard output, and answers the exit code.
///
/// # Errors
/// A server that does not start or answer, a call that fails, or an answer that is not what the case is about.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.bare_server {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        bare::serve_until_input_closes(loopback).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = tokio::select! {
        report = measure(&args) => report?,
        stopped = told_to_stop() => stopped?,
    };
    if args.json {
        anstream::println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        anstream::print!("{}", report.summary());
    }
    let missed = args.check && report.missed() > 0;
    Ok(if missed {
        ExitCode::from(MISSED)
    } else {
        ExitCode::SUCCESS
    })
}

/// Ends, with an error, on SIGINT and SIGTERM: so the servers that were started are ended too.
async fn told_to_stop<T>() -> anyhow::Result<T> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    bail!("stopped before the end")
}

async fn measure(args: &Args) -> anyhow::Result<Report> {
    let bench = Bench::new(args.clone());
    let (mut report, cases) = (Report::new(bench.settings()), bench.cases()?);
    if cases.iter().any(|case| case.needs_redis()) {
        // Now, and not after the minutes that the others take.
        redis::look_for(&args.redis_server)?;
    }
    if !args.json {
        anstream::print!("{}", report.heading());
    }
    // (f) fills a server that (g) then uses: the filling takes longer than both.
    let mut filled = None;
    for case in cases {
        let measured = match case {
            Case::A => calls::fresh(&bench).await,
            Case::B => calls::rebuilds(&bench).await,
            Case::C => herd::released(&bench).await,
            Case::D => herd::handed_over(&bench).await,
            Case::E => fanout::invalidation(&bench).await,
            Case::F => memory::resident(&bench, &mut filled).await,
            Case::G => calls::populations(&bench, &mut filled).await,
            Case::H => shared::throughput(&bench).await,
            Case::I => shared::wake_up(&bench).await,
            Case::J => trips::herd(&bench).await,
            Case::K => partitions::invalidation(&bench).await,
            Case::L => schedule::cost(&bench).await,
            Case::M => schedule::shared(&bench).await,
            Case::Redis | Case::All => continue,
        };
        let measured: CaseReport =
            measured.with_context(|| format!("case ({}) could not be measured", case.letter()))?;
        if !args.json {
            anstream::print!("{}", measured.text());
        }
        report.cases.push(measured);
    }
    Ok(report)
}

/// What every case gets: the command line and the words of this run.
struct Bench {
    args: Args,
    caller: Arc<wire::Caller>,
    workers: usize,
}

impl Bench {
    fn new(args: Args) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let caller = Arc::new(wire::Caller::new(args.namespace.clone(), args.value_bytes as usize));
        Self {
            workers: args.workers.unwrap_or(cores),
            caller,
            args,
        }
    }

    /// The cases asked for, each once, in order.
    fn cases(&self) -> anyhow::Result<Vec<Case>> {
        let named = |case| self.args.case.contains(&case);
        let remote = self.args.server.is_some();
        let mut cases = Vec::new();
        for &case in Case::value_variants().iter().filter(|case| !case.is_group()) {
            let asked = named(case) || named(Case::Redis) && case.needs_redis();
            if remote && asked && case.needs_process() {
                bail!(
                    "case ({}) is about servers that the bench has started: leave out --server",
                    case.letter()
                );
            }
            if asked || named(Case::All) && !(remote && case.needs_process()) {
                cases.push(case);
            }
        }
        Ok(cases)
    }

    fn settings(&self) -> Settings {
        Settings {
            server: self.args.server.clone(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            workers: self.workers,
            connections: self.args.connections,
            concurrency: self.args.concurrency,
            calls: self.args.calls,
            pairs: self.args.pairs,
            value_bytes: self.args.value_bytes,
        }
    }

    /// The server that is measured: a fresh process, or the one that was named.
    async fn drover(&self) -> anyhow::Result<Side> {
        match &self.args.server {
            Some(address) => Ok(Side::running(address.clone())),
            None => Side::drover(self.workers, &self.args.serve_arg).await,
        }
    }

    /// A fresh process with room for `--keys` entries, whatever their size.
    async fn roomy_drover(&self) -> anyhow::Result<Side> {
        let entry = (self.caller.key_bytes() + self.caller.value_bytes() + 1024) as u64;
        let memory = (self.args.keys * entry).div_ceil(1 << 20) + 256;
        let mut arguments = vec![
            format!("--max-entries={}", self.args.keys + self.args.keys / 4 + ROOM),
            format!("--max-memory={memory}MiB"),
        ];
        arguments.extend_from_slice(&self.args.serve_arg);
        Side::drover(self.workers, &arguments).await
    }

    /// What it is compared with; nothing beside a server that runs elsewhere.
    async fn bare(&self) -> anyhow::Result<Option<Side>> {
        match self.args.server {
            Some(_) => Ok(None),
            None => Side::bare(self.workers).await.map(Some),
        }
    }

    /// A fresh Redis.
    async fn redis(&self) -> anyhow::Result<redis::Redis> {
        redis::Redis::single(&self.args.redis_server).await
    }

    /// So many fresh replicas that share a Redis.
    async fn replicas(&self, count: usize, redis: &redis::Redis) -> anyhow::Result<Side> {
        Side::replicas(count, &redis.url(), self.workers, &self.args.serve_arg).await
    }

    fn shape(&self) -> load::Shape {
        load::Shape {
            concurrency: self.args.concurrency,
            calls: self.args.calls,
            max_time: self.args.max_time,
        }
    }

    /// A progress bar on a terminal, nothing elsewhere.
    fn progress(&self, title: &str, steps: u64) -> indicatif::ProgressBar {
        let bar = indicatif::ProgressBar::new(steps);
        if let Ok(style) =
            indicatif::ProgressStyle::with_template("{prefix} {bar:30} {human_pos} of {human_len}  {eta}")
        {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(title.to_owned());
        bar
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn bench(line: &str) -> Result<Bench, clap::Error> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| Bench::new(line.args))
    }

    fn letters(line: &str) -> anyhow::Result<String> {
        Ok(bench(line)?.cases()?.into_iter().map(Case::letter).collect())
    }

    #[test]
    fn cases_run_once_each_and_in_order() -> anyhow::Result<()> {
        assert_eq!(letters("")?, "abcdefghijklm");
        assert_eq!(letters("--case d,a --case a")?, "ad");
        assert_eq!(letters("--case all,c")?, "abcdefghijklm");
        assert_eq!(letters("--case redis,b")?, "bhijkm");
        Ok(())
    }

    #[test]
    fn a_server_elsewhere_is_not_asked_for_its_memory() -> anyhow::Result<()> {
        assert_eq!(letters("--server 10.0.0.7:7117")?, "abcde");
        let refused = letters("--server 10.0.0.7:7117 --case g").map_err(|error| error.to_string());
        assert_eq!(
            refused,
            Err("case (g) is about servers that the bench has started: leave out --server".to_owned())
        );
        Ok(())
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for wrong in [
            "--pairs 0",
            "--calls 99",
            "--connections 0",
            "--value-bytes 3145729",
            "--keys 5",
            "--waiters x",
        ] {
            assert!(bench(wrong).is_err(), "{wrong}");
        }
        assert!(bench("--pairs 1 --calls 100 --value-bytes 3145728 --keys 10000").is_ok());
    }
}
