//! The command line: what there is, and which part does it.

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{CheckArgs, ServeArgs, check};
use crate::{bench, ctl, lab, server};

/// One rebuild a cache key, and everybody else is handed the result.
#[derive(Debug, Parser)]
#[command(name = "drover", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the service
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
        Command::Serve(args) => runtime()?.block_on(server::serve(*args)),
        Command::Ctl(args) => runtime()?.block_on(ctl::run(*args)),
        Command::Lab(args) => runtime()?.block_on(lab::run(*args)),
        Command::Bench(args) => runtime()?.block_on(bench::run(*args)),
        Command::Config(ConfigCommand::Check(args)) => Ok(check(&args)),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "drover", &mut io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
