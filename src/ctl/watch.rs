//! `drover ctl watch`: events as they commit, over as many connections as it takes.
//!
//! *Owns* the cursor and the reconnects.
//!
//! *Invariants*: an event is acknowledged only after it was printed. The first connection must succeed, so that a
//! mistyped address ends at once; a later loss never ends the watch, it resumes by the cursor of the last event.
//!
//! *Why* it only observes unless asked to acknowledge: somebody who looks on must not hold up `invalidate --wait`.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::Status;

use super::ambient::{self, Ambient};
use super::client::{Server, settled};
use super::event;
use super::exit::Exit;
use super::failure::Failure;
use super::output::Output;
use crate::proto::{Ack, Progress, Subscribe, WatchRequest, WatchResponse, watch_request::Kind, watch_response::Event};

/// Until `Started` says how long silence may last: replay may take a while.
const SILENCE_BEFORE_STARTED: Duration = Duration::from_secs(30);
const FIRST_BACKOFF: Duration = Duration::from_millis(250);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A replica that drains wants its watchers gone within a few seconds, not all at once.
const DRAIN_WITHIN: Duration = Duration::from_secs(3);

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl watch orders prices\n",
    "  drover ctl watch orders --prefix user: --refreshed\n",
    "  drover ctl watch orders --json | jq -c 'select(.invalidated).invalidated'\n",
    "\nIt goes on until ctrl-c. When the connection is lost, or the store behind drover is, it tries again and\n",
    "resumes where it was. Only a server that is not there at first, or a request that is refused, ends it.",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// What to watch
    #[arg(required = true, value_name = "NAMESPACE")]
    namespaces: Vec<String>,
    /// Only keys that begin with this; may be repeated. Tags and whole namespaces come regardless
    #[arg(long = "prefix", value_name = "PREFIX")]
    prefixes: Vec<String>,
    /// Go on after this cursor [default: from now]
    #[arg(long, value_name = "CURSOR")]
    resume_from: Option<String>,
    /// Tell of accepted reports too
    #[arg(long)]
    refreshed: bool,
    /// Tell of signs of life too
    #[arg(long)]
    progress: bool,
    /// Acknowledge each event: `invalidate --wait` then waits for this watcher as well
    #[arg(long)]
    ack: bool,
    /// Tell of this holder's revoked leases too
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
}

/// Why a watch ended before it was told to.
pub enum Broken {
    Refused(Failure),
    Output(std::io::Error),
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        Self::Refused(failure)
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

/// Follows events until `stop` ends or nobody reads them any more.
///
/// # Errors
/// When the first connection fails, the server refuses for good, or stdout cannot be written.
pub async fn follow(
    args: &Args,
    server: &Server,
    ambient: Ambient,
    output: &mut Output,
    stop: impl Future<Output = ()>,
) -> Result<Exit, Broken> {
    let mut watcher = Watcher::new(args, server, ambient);
    let result = tokio::select! {
        () = stop => Ok(()),
        result = watcher.run(output) => result,
    };
    if let Some(cursor) = super::text::shell_word(&watcher.cursor).filter(|_| !watcher.cursor.is_empty()) {
        output.remark_to_people(&format!("to go on from here: --resume-from {cursor}"));
    }
    result.map(|()| Exit::Yes)
}

pub struct Watcher<'a> {
    args: &'a Args,
    server: &'a Server,
    ambient: Ambient,
    holder: String,
    /// Of the last event that was printed.
    cursor: String,
    /// A server has accepted the subscription once.
    connected: bool,
    /// In a row, since the stream was last live.
    losses: u32,
}

/// How a connection ended that nothing is wrong with.
pub enum End {
    /// Ask another replica.
    Moved,
    /// Nobody reads the output.
    Unread,
}

impl<'a> Watcher<'a> {
    pub fn new(args: &'a Args, server: &'a Server, ambient: Ambient) -> Self {
        Self {
            args,
            server,
            ambient,
            holder: args.holder.clone().unwrap_or_else(ambient::holder),
            cursor: args.resume_from.clone().unwrap_or_default(),
            connected: false,
            losses: 0,
        }
    }

    async fn run(&mut self, output: &mut Output) -> Result<(), Broken> {
        loop {
            let failure = match self.connection(output).await {
                Ok(End::Unread) => return Ok(()),
                Ok(End::Moved) => continue,
                Err(Broken::Refused(failure)) if self.connected && failure.passes() => failure,
                Err(broken) => return Err(broken),
            };
            let delay = backoff(self.losses, (self.ambient.draw)(), failure.retry_after());
            self.losses = self.losses.saturating_add(1);
            let seconds = delay.as_secs_f64();
            output.remark(&format!(
                "connection lost ({}), resuming in {seconds:.1}s",
                failure.sentence()
            ));
            sleep(delay).await;
        }
    }

    async fn connection(&mut self, output: &mut Output) -> Result<End, Broken> {
        let mut client = self.server.coordinator().await?;
        let (acknowledge, acknowledged) = watch::channel(String::new());
        let opening = client.watch(self.requests(acknowledged));
        // The response headers come at once, so the timeout of a call fits; the stream itself has no end.
        let Ok(opened) = timeout(self.server.timeout, opening).await else {
            return Err(Failure::unanswered(self.server.timeout).into());
        };
        let stream = settled(opened, self.server.timeout)?;
        self.connected = true;
        self.read(stream, &acknowledge, output).await
    }

    /// Reads one connection until it is lost, or better left.
    pub async fn read(
        &mut self,
        mut stream: impl Stream<Item = Result<WatchResponse, Status>> + Unpin,
        acknowledge: &watch::Sender<String>,
        output: &mut Output,
    ) -> Result<End, Broken> {
        let mut silence = SILENCE_BEFORE_STARTED;
        let mut leave_at = None;
        loop {
            let message = tokio::select! {
                () = leave(leave_at) => return Ok(End::Moved),
                message = timeout(silence, stream.next()) => message,
            };
            let Ok(message) = message else {
                return Err(Failure::silent(silence).into());
            };
            let message = message.ok_or_else(Failure::ended)?;
            let message = message.map_err(|status| Failure::refused(&status, silence))?;
            if let Some(Event::Started(started)) = &message.event {
                self.losses = 0;
                let told = started.max_silence.and_then(|length| Duration::try_from(length).ok());
                silence = told.filter(|length| !length.is_zero()).unwrap_or(silence);
            }
            if matches!(message.event, Some(Event::Progress(Progress { draining: true }))) && leave_at.is_none() {
                leave_at = Some(Instant::now() + DRAIN_WITHIN.mul_f64((self.ambient.draw)()));
            }
            self.print(&message, output)?;
            if output.closed() {
                return Ok(End::Unread);
            }
            if !message.cursor.is_empty() {
                self.cursor = message.cursor;
                // Only the latest counts: one that is overtaken before it is sent need not be sent.
                acknowledge.send_replace(self.cursor.clone());
            }
        }
    }

    fn print(&self, message: &WatchResponse, output: &mut Output) -> std::io::Result<()> {
        let idle = matches!(message.event, Some(Event::Progress(Progress { draining: false })));
        if idle && !self.args.progress {
            return Ok(());
        }
        output.answer(event::answer(message, (self.ambient.now)())).map(|_| ())
    }

    /// What this side says: the subscription, then acknowledgements if it was told to give them.
    pub fn requests(&self, acknowledged: watch::Receiver<String>) -> impl Stream<Item = WatchRequest> + use<> {
        let subscribe = Subscribe {
            namespaces: self.args.namespaces.clone(),
            key_prefixes: self.args.prefixes.clone(),
            holder: self.holder.clone(),
            resume_from: self.cursor.clone(),
            include_refreshed: self.args.refreshed,
            observe_only: !self.args.ack,
        };
        let first = WatchRequest {
            kind: Some(Kind::Subscribe(subscribe)),
        };
        let ack = self.args.ack;
        let acks = WatchStream::from_changes(acknowledged)
            .filter(move |_| ack)
            .map(|cursor| WatchRequest {
                kind: Some(Kind::Ack(Ack {
                    cursor,
                    hits: Vec::new(),
                })),
            });
        tokio_stream::once(first).chain(acks)
    }
}

async fn leave(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Anywhere below a bound that doubles with each loss in a row; but not before the server wants it. `draw` is in [0,
/// 1).
fn backoff(losses: u32, draw: f64, at_least: Option<Duration>) -> Duration {
    let bound = FIRST_BACKOFF
        .saturating_mul(2_u32.saturating_pow(losses))
        .min(LONGEST_BACKOFF);
    let jittered = bound.mul_f64(draw);
    match at_least {
        // Those who were sent away together must not come back together.
        Some(floor) => floor.saturating_add(jittered),
        None => jittered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reconnects_spread_over_a_bound_that_doubles_up_to_ten_seconds() {
        let ms = Duration::from_millis;
        let table = [
            (0, 0.0, None, ms(0)),
            (0, 1.0, None, ms(250)),
            (1, 0.5, None, ms(250)),
            (3, 1.0, None, ms(2_000)),
            (6, 1.0, None, ms(10_000)),
            (u32::MAX, 0.5, None, ms(5_000)),
            (0, 0.0, Some(ms(700)), ms(700)),
            (0, 1.0, Some(ms(700)), ms(950)),
        ];
        for (losses, draw, at_least, expected) in table {
            assert_eq!(
                backoff(losses, draw, at_least),
                expected,
                "{losses} {draw} {at_least:?}"
            );
        }
    }
}
