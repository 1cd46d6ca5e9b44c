//! The command line: what there is, and which part does it.

use std::future::Future;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{CheckArgs, ServeArgs, check};
use crate::{bench, ctl, lab, server};

/// One rebuild a cache key, and everybody else is handed the result.
///
/// drover is a service that others ask over gRPC: may I rebuild this key, or is someone on it? It grants one lease a key, parks the
/// rest, hands them what was built, and refuses what an invalidation has made old.
#[derive(Debug, Parser)]
#[command(name = "drover", version, max_term_width = 100, after_help = AFTER)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
First steps:
  drover serve                        run it on 127.0.0.1:7117; there is nothing to set up
  drover ctl acquire shop item        in another terminal: may I rebuild this key?
  drover lab burst                    see 200 callers become one query
  drover config check drover.toml     say what a policy file comes to, or what is wrong with it

`drover <COMMAND> --help` tells all about a command. Exit codes: 0 done, 1 failed, 2 a wrong command
line; `ctl` has more, see its help.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
    ///
    /// It serves until SIGTERM or SIGINT, then drains: parked callers are answered, what runs may finish. A second signal ends it at
    /// once. Each option can also be set in the environment or in the `[server]` table of the file.
    Serve(Box<ServeArgs>),
    /// Ask a service: acquire, report, invalidate, watch, describe …
    Ctl(Box<ctl::Args>),
    /// See what drover does to a herd, next to what is usually done
    Lab(Box<lab::Args>),
    /// Measure a service against a bare gRPC server
    Bench(Box<bench::Args>),
    /// Check a policy file
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Say whether a file is right, and what it comes to
    Check(CheckArgs),
}

/// Reads the command line, does what it says, and tells how it went. Mistakes on the command line end the process with 2.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Serve(args) => on_runtime(server::serve(*args)),
        Command::Ctl(args) => on_runtime(ctl::run(*args)),
        Command::Lab(args) => on_runtime(lab::run(*args)),
        Command::Bench(args) => on_runtime(bench::run(*args)),
        Command::Config(ConfigCommand::Check(args)) => Ok(check(&args)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "drover", &mut script);
            // Who closes the pipe early has seen enough.
            _ = io::stdout().write_all(&script);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn on_runtime(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(work);
    // What still blocks, such as an export to a collector that hangs, must not hold up the end.
    runtime.shutdown_background();
    code
}
