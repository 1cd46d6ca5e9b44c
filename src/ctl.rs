//! `drover ctl`: the service from a shell, for people and for scripts.
//!
//! *Owns* the commands. Each has a file that holds its arguments, the request they make, and how the answer reads; what
//! they share: `client` (connection, deadline), `failure` (what went wrong and what to do), `text` and `words` (for
//! people), `json` and `messages` (for scripts), `exit` (the codes).
//!
//! *Never does*: decide or retry; it asks once and shows what came. Only `watch` reconnects, only `top` asks again, and `warm` comes back where
//! there is no room.
//!
//! *Invariants*: rendering is pure, from a response to a page, a document and an exit code.

mod acquire;
mod ambient;
mod client;
mod describe;
mod event;
mod exit;
mod failure;
mod invalidate;
mod json;
mod leases;
mod messages;
mod namespaces;
mod output;
mod renew;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod top;
mod units;
mod warm;
mod watch;
mod words;

use std::process::ExitCode;
use std::time::Duration;

use crate::proto::{ListLeasesResponse, ListNamespacesResponse};
use ambient::Ambient;
use client::{Call, Server, settled};
use exit::Exit;
use failure::Failure;
use output::{Answer, Output};

/// Ask a drover server from the shell: acquire, report, invalidate, watch and look around.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}\n{}", exit::TABLE))]
pub struct Args {
    #[command(flatten)]
    server: Server,
    /// Print JSON: one document a call, one a line for `watch`
    ///
    /// The fields are those of the proto, under its names: scalars and lists are always there, absent messages are left
    /// out. int64 are numbers, durations are strings such as "1.5s", enum values are their names (or a number that this
    /// program does not know). Bytes are text when they are valid UTF-8, else base64; `value_encoding` beside `value`
    /// says which. `watch` adds `received_at`. A call that fails prints {"error": {"code", "reason", "message",
    /// "field_violations", "retry_after"}}.
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, clap::Subcommand)]
enum Command {
    /// Ask what to do about a key: use its value, rebuild it, or keep off
    Acquire(acquire::Args),
    /// Tell how a rebuild ended
    Report(report::Args),
    /// Keep a lease during a long rebuild
    Renew(renew::Args),
    /// Make values old: keys, tags, or a whole namespace
    Invalidate(invalidate::Args),
    /// Rebuild keys ahead of their callers: after a deploy, a restart, a bulk change
    Warm(warm::Args),
    /// Follow invalidations as they commit
    Watch(watch::Args),
    /// Show everything known about one key
    Describe(describe::Args),
    /// List live leases, longest held first
    Leases(leases::Args),
    /// List namespaces with their counts and policy
    Namespaces(namespaces::Args),
    /// Show the keys that are asked for most, live
    Top(top::Args),
}

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl acquire orders user:42\n",
    "  drover ctl invalidate orders user:42 --wait 2s\n",
    "  drover ctl leases --server http://drover.internal:7117 --json\n",
    "\nDurations are written 250ms, 5s, 1h 30m. A key that begins with '-' goes behind '--'.\n",
);

/// Runs one command, prints its answer, and gives the exit code that `drover ctl --help` documents.
///
/// # Errors
/// When the answer cannot be written to stdout. A call that fails is no error here: it is told, and has an exit code.
pub async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut output = Output::standard(args.json);
    let exit = run_with(args, Ambient::real(), &mut output, ambient::stopped()).await?;
    Ok(exit.into())
}

async fn run_with(
    args: Args,
    ambient: Ambient,
    output: &mut Output,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<Exit> {
    let Args {
        server,
        command,
        json: _,
    } = args;
    let result = match &command {
        Command::Watch(args) => match watch::follow(args, &server, ambient, output, stop).await {
            Ok(exit) => return Ok(exit),
            Err(watch::Broken::Output(error)) => return Err(error.into()),
            Err(watch::Broken::Refused(failure)) => Err(failure),
        },
        Command::Warm(args) => warm::warm(args, &server, output).await,
        Command::Top(args) => return Ok(top::show(args, &server, output, stop).await?),
        command => ask(command, &server).await,
    };
    Ok(match result {
        Ok(answer) => output.answer(answer)?,
        Err(failure) => output.failure(&failure)?,
    })
}

/// Every command but `watch` and `warm`: one question, one answer.
async fn ask(command: &Command, server: &Server) -> Result<Answer, Failure> {
    match command {
        Command::Acquire(args) => {
            let Call { request, patience } = server.call(args.request(), args.wait());
            let response = server.coordinator().await?.acquire_rebuild(request).await;
            Ok(args.answer(&settled(response, patience)?))
        }
        Command::Report(args) => {
            let Call { request, patience } = server.prompt_call(args.request()?);
            let response = server.coordinator().await?.report_value(request).await;
            Ok(args.answer(&settled(response, patience)?))
        }
        Command::Renew(args) => {
            let Call { request, patience } = server.prompt_call(args.request());
            let response = server.coordinator().await?.renew_lease(request).await;
            Ok(args.answer(&settled(response, patience)?))
        }
        Command::Invalidate(args) => {
            let Call { request, patience } = server.call(args.request(), Some(args.wait()));
            let response = server.coordinator().await?.invalidate(request).await;
            Ok(args.answer(&settled(response, patience)?))
        }
        Command::Describe(args) => {
            let Call { request, patience } = server.prompt_call(args.request());
            let response = server.admin().await?.describe_key(request).await;
            Ok(args.answer(&settled(response, patience)?))
        }
        Command::Leases(args) => leases(args, server).await,
        Command::Namespaces(args) => namespaces(args, server).await,
        Command::Watch(_) | Command::Top(_) | Command::Warm(_) => {
            Err(Failure::nonsense("what is followed is not asked"))
        }
    }
}

async fn leases(args: &leases::Args, server: &Server) -> Result<Answer, Failure> {
    let mut client = server.admin().await?;
    let mut all = ListLeasesResponse::default();
    let page = async |token: String| {
        let Call { request, patience } = server.prompt_call(args.request(token));
        let response = settled(client.list_leases(request).await, patience)?;
        all.leases.extend(response.leases);
        all.next_page_token.clone_from(&response.next_page_token);
        Ok(response.next_page_token)
    };
    args.pages.walk(page).await?;
    Ok(args.answer(&all))
}

async fn namespaces(args: &namespaces::Args, server: &Server) -> Result<Answer, Failure> {
    let mut client = server.admin().await?;
    let mut all = ListNamespacesResponse::default();
    let page = async |token: String| {
        let Call { request, patience } = server.prompt_call(args.request(token));
        let response = settled(client.list_namespaces(request).await, patience)?;
        all.namespaces.extend(response.namespaces);
        all.next_page_token.clone_from(&response.next_page_token);
        Ok(response.next_page_token)
    };
    args.pages.walk(page).await?;
    Ok(args.answer(&all))
}

/// Any length that the command line takes fits the message; a longer one would be refused by the server anyway.
fn duration(length: Duration) -> prost_types::Duration {
    let nanos = i32::try_from(length.subsec_nanos()).unwrap_or_default();
    prost_types::Duration {
        seconds: i64::try_from(length.as_secs()).unwrap_or(i64::MAX),
        nanos,
    }
}
