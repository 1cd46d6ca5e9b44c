//! The command line: what there is, and which part does it.

use std::io;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::ServeArgs;
use crate::server;

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
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
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
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "drover", &mut io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
