//! `drover bench`: what a call, a parked waiter, an event and an entry cost, beside a bare tonic server that does the same traffic.
//!
//! *Owns* the command line of the bench, the list of cases and their order. A case lives in one file: `calls` (a, b, g),
//! `herd` (c, d), `fanout` (e), `memory` (f), and on a Redis of the bench's own `shared` (h, i), `trips` (j), `partitions` (k); for these
//! `redis` starts the servers, `monitor` sees what they are sent, `lesson` learns drover's trips and `replay` has the bare service make
//! them too. The rest is what all share: `side` (a server under test and what it uses),
//! `bare` (the service to compare with), `load` (the closed loop) and `lane` (what runs in it), `wire` (drover's requests), `report` (figures and targets).
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
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::ValueEnum;
use tokio::signal::unix::{SignalKind, signal};

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
mod shared;
mod side;
mod stats;
mod trips;
mod unit;
mod usage;
mod wire;

use report::{CaseReport, Report, Settings};
use side::Side;

/// Exit code of `--check` when something was measured and missed its target.
const MISSED: u8 = 3;

/// Measure drover against a bare tonic server that carries the same traffic.
///
/// Both servers run as processes of their own on this machine, from this binary, and take turns under the same closed loop: the
/// same connections, the same calls in flight, messages of the same size. A figure is the median of the interleaved pairs.
/// With --server the calls go to a server that runs already; then there is nothing to compare with and only what a client sees
/// is reported.
#[derive(clap::Args, Debug, Clone)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// What to measure: letters, separated by commas.
    #[arg(long, value_name = "CASES", value_enum, value_delimiter = ',', default_value = "all")]
    case: Vec<Case>,

    /// Measure this server (HOST:PORT) instead of starting one; (f) to (k) are left out.
    #[arg(long, value_name = "ADDR", value_parser = server_address, help_heading = "Server")]
    server: Option<String>,

    /// Namespace that the keys are in; with --server, one that may be written to.
    #[arg(long, value_name = "NAME", default_value = "bench", help_heading = "Server")]
    namespace: String,

    /// Worker threads of each server [default: one a core].
    #[arg(long, value_name = "N", value_parser = positive, help_heading = "Server")]
    workers: Option<usize>,

    /// A further argument for `drover serve`; may be repeated: --serve-arg=--config --serve-arg=FILE.
    #[arg(
        long,
        value_name = "ARG",
        allow_hyphen_values = true,
        conflicts_with = "server",
        help_heading = "Server"
    )]
    serve_arg: Vec<String>,

    /// What is started as Redis in (h) to (k): redis-server or valkey-server.
    #[arg(
        long,
        value_name = "PROGRAM",
        default_value = "redis-server",
        help_heading = "Server"
    )]
    redis_server: PathBuf,

    /// Interleaved pairs of runs (drover, bare, drover, bare …) of each case.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Load")]
    pairs: u32,

    /// Calls a run in (a), (b), (g) and (h).
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..), help_heading = "Load")]
    calls: u64,

    /// A run in (a), (b), (g) and (h) ends after this time, whatever it has reached.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = humantime::parse_duration, help_heading = "Load")]
    max_time: Duration,

    /// Connections in (a), (b), (g) and (h); replicas share them.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = positive, help_heading = "Load")]
    connections: usize,

    /// Calls in flight on each of these connections.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = positive, help_heading = "Load")]
    concurrency: usize,

    /// Bytes of a value, at most 3 MiB. Small values are the hard case: nothing hides the fixed cost of a call.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(0..=3 << 20), help_heading = "Load")]
    value_bytes: u32,

    /// Idle entries in (f), and the large population in (g).
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(10_000..=100_000_000), help_heading = "Load")]
    keys: u64,

    /// Callers parked on one key in (c), (f) and (j).
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive, help_heading = "Load")]
    waiters: usize,

    /// Watchers in (e).
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = positive, help_heading = "Load")]
    watchers: usize,

    /// Connections that the waiters and the watchers share.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive, help_heading = "Load")]
    herd_connections: usize,

    /// Print one JSON document instead of tables.
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Exit with 3 if a target is missed.
    #[arg(long, help_heading = "Output")]
    check: bool,

    /// Be the bare server: print the address, serve until standard input closes.
    #[arg(long, hide = true)]
    bare_server: bool,
}

const EXAMPLES: &str = "\
Examples:
  drover bench                                   everything, a few minutes
  drover bench --case a,b --pairs 9              the cost of a call, more closely
  drover bench --case c --waiters 2000           a smaller herd
  drover bench --case redis                      replicas that share a Redis: (h) to (k)
  drover bench --server 10.0.0.7:7117 --case a   a server that runs already
  drover bench --json --check > bench.json       for a gate

Exit codes:
  0  measured    1  something failed    2  wrong usage    3  a target was missed (--check)";

/// One measured case.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Case {
    /// AcquireRebuild of a fresh key: server CPU a call
    A,
    /// AcquireRebuild + ReportValue over distinct keys: server CPU a call
    B,
    /// Callers parked on one key: from the report to the last answer
    C,
    /// From a report to one waiter's answer
    D,
    /// One invalidation to all watchers
    E,
    /// Memory of an idle entry and of a parked waiter
    F,
    /// (a) and (b) with 1,000 and with very many keys
    G,
    /// (b) with the store in Redis, at one and at two replicas: calls a second
    H,
    /// From a report at one replica to the answer of a waiter at another
    I,
    /// Trips to Redis for callers parked on one key at three replicas
    J,
    /// Invalidation of a tag with 1 and with 16 partitions
    K,
    /// Those that need a Redis: h, i, j, k
    Redis,
    /// All of them
    All,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// HOST:PORT, also written as a URL; answers what a channel takes.
fn server_address(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
    let port = bare
        .rsplit_once(':')
        .and_then(|(host, port)| (!host.is_empty()).then(|| port.parse::<u16>()));
    match port {
        Some(Ok(port)) if port > 0 => Ok(bare.to_owned()),
        _ => Err("expected HOST:PORT, for instance 127.0.0.1:7117".to_owned()),
    }
}

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

impl Case {
    const fn letter(self) -> char {
        match self {
            Self::A => 'a',
            Self::B => 'b',
            Self::C => 'c',
            Self::D => 'd',
            Self::E => 'e',
            Self::F => 'f',
            Self::G => 'g',
            Self::H => 'h',
            Self::I => 'i',
            Self::J => 'j',
            Self::K => 'k',
            Self::Redis | Self::All => '*',
        }
    }

    /// What is measured needs processes that the bench has started.
    const fn needs_process(self) -> bool {
        matches!(self, Self::F | Self::G) || self.needs_redis()
    }

    const fn needs_redis(self) -> bool {
        matches!(self, Self::H | Self::I | Self::J | Self::K)
    }

    /// It stands for several.
    const fn is_group(self) -> bool {
        matches!(self, Self::Redis | Self::All)
    }
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
            format!("--max-entries={}", self.args.keys + self.args.keys / 4),
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
        assert_eq!(letters("")?, "abcdefghijk");
        assert_eq!(letters("--case d,a --case a")?, "ad");
        assert_eq!(letters("--case all,c")?, "abcdefghijk");
        assert_eq!(letters("--case redis,b")?, "bhijk");
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
    fn an_address_needs_host_and_port() {
        assert_eq!(
            server_address("http://localhost:7117/"),
            Ok("localhost:7117".to_owned())
        );
        assert_eq!(server_address("[::1]:7117"), Ok("[::1]:7117".to_owned()));
        for wrong in ["localhost", ":7117", "localhost:0", "localhost:70000", ""] {
            assert!(server_address(wrong).is_err(), "{wrong}");
        }
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
