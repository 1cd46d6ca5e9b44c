//! `drover ctl warm`: plans rebuilds of many keys, and shows how they come about.
//!
//! *Owns* the list of keys, how it is split into calls, and what counts as progress: the reports that a watch of the namespace sees.
//!
//! *Invariant*: the watch is live before the first key is planned, so no report goes by uncounted.
//!
//! *Why* a watch and not a question a key: reports come as they are accepted, and cost the server nothing while there are none. A key that fails
//! is reported by nobody; so it also ends when nothing has come for a while.

use std::collections::{BTreeSet, HashSet};
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_stream::StreamExt as _;
use tonic::Streaming;

use super::client::{Call, Server, settled};
use super::duration;
use super::exit::Exit;
use super::failure::Failure;
use super::output::{Answer, Output};
use super::text::{self, CARE, GOOD, Page};
use super::units;
use crate::ctl::json;
use crate::proto::watch_request::Kind;
use crate::proto::watch_response::Event;
use crate::proto::{ScheduleRefreshRequest, ScheduleRefreshResponse, Subscribe, WatchRequest, WatchResponse};
use crate::rpc::convert::{MAX_SCHEDULED, MAX_SCHEDULED_BYTES};

/// A server that has all it can plan is asked again, so often.
const TRIES: usize = 720;

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  Two keys, now:\n",
    "    drover ctl warm orders user:42 user:43\n",
    "  Those of a file, a line each, over ten minutes:\n",
    "    drover ctl warm orders --file keys.txt --over 10m\n",
    "  Those of another command, fresh ones too:\n",
    "    popular-keys | drover ctl warm orders --file - --all\n",
    "\nWorkers (PullRefreshes) rebuild them; without workers the next caller of each key does.\n",
    "\n\x1b[1m\x1b[4mExit codes:\x1b[0m\n",
    "  0 all are rebuilt, or left to their callers; 7 not all were rebuilt in time; all of them: drover ctl --help",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "drover ctl warm NAMESPACE [KEY]... [OPTIONS]")]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["keys", "file"]))]
pub struct Args {
    /// Where
    namespace: String,
    /// Which keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// A file with further keys, one a line; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Spread them evenly over so long, counted from now [default: all now]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    over: Option<Duration>,
    /// Rebuild those too that are fresh
    #[arg(long)]
    all: bool,
    /// How long to wait for the next one to be rebuilt, once all are due; `0s` does not wait at all
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = crate::config::read_duration)]
    wait: Duration,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Warmed {
    scheduled: i64,
    skipped: i64,
    workers: i64,
    rebuilt: i64,
    elapsed: String,
}

/// What is known of the keys meanwhile.
struct Progress {
    waited_for: HashSet<String>,
    rebuilt: i64,
    bar: ProgressBar,
}

/// Plans, and waits for the reports.
///
/// # Errors
/// When the list can't be read, the server can't be reached, or it refuses.
pub async fn warm(args: &Args, server: &Server, output: &mut Output) -> Result<Answer, Failure> {
    let began = Instant::now();
    let keys = args.all_keys()?;
    let mut progress = Progress::of(&keys, &args.namespace);
    let mut events = match args.wait.is_zero() {
        true => None,
        false => Some(watch(args, server).await?),
    };
    let mut warmed = Warmed::default();
    let mut client = server.coordinator().await?;
    for part in parts(&keys) {
        let planned = plan(args, server, &mut client, part, output).await?;
        warmed.scheduled += i64::from(planned.scheduled);
        warmed.skipped += i64::from(planned.skipped);
        warmed.workers = i64::from(planned.workers);
        progress
            .bar
            .set_length(u64::try_from(warmed.scheduled).unwrap_or_default());
        if let Some(events) = &mut events {
            // What is there already; the rest is waited for below.
            while let Ok(Some(Ok(message))) = timeout(Duration::ZERO, events.next()).await {
                progress.see(&message);
            }
        }
    }
    if let Some(events) = events.filter(|_| warmed.workers > 0) {
        let due = began + args.over.unwrap_or_default();
        progress.follow(events, warmed.scheduled, due, args.wait).await;
    }
    progress.bar.finish_and_clear();
    warmed.rebuilt = progress.rebuilt.min(warmed.scheduled);
    warmed.elapsed = units::exact(&duration(began.elapsed()));
    Ok(args.answer(&warmed, began.elapsed()))
}

/// Asks again where there is no room, until there is.
async fn plan(
    args: &Args,
    server: &Server,
    client: &mut crate::proto::coordinator_service_client::CoordinatorServiceClient<tonic::transport::Channel>,
    keys: &[String],
    output: &mut Output,
) -> Result<ScheduleRefreshResponse, Failure> {
    let mut tries = 0;
    loop {
        let Call { request, patience } = server.call(args.request(keys), Some(server.timeout));
        let failure = match settled(client.schedule_refresh(request).await, patience) {
            Ok(planned) => return Ok(planned),
            Err(failure) => failure,
        };
        let Some(pause) = failure.retry_after().filter(|_| failure.passes() && tries < TRIES) else {
            return Err(failure);
        };
        if tries == 0 {
            output.remark(&format!("{}; trying again", failure.sentence()));
        }
        tries += 1;
        sleep(pause).await;
    }
}

/// A watch of accepted reports that is live.
async fn watch(args: &Args, server: &Server) -> Result<Streaming<WatchResponse>, Failure> {
    let subscribe = Subscribe {
        namespaces: vec![args.namespace.clone()],
        include_refreshed: true,
        observe_only: true,
        ..Subscribe::default()
    };
    let kind = Some(Kind::Subscribe(subscribe));
    let mut client = server.coordinator().await?;
    let opening = client.watch(tokio_stream::once(WatchRequest { kind }));
    let Ok(opened) = timeout(server.timeout, opening).await else {
        return Err(Failure::unanswered(server.timeout));
    };
    let mut events = settled(opened, server.timeout)?;
    let live = async {
        loop {
            let message = events.next().await.ok_or_else(Failure::ended)?;
            let message = message.map_err(|status| Failure::refused(&status, server.timeout))?;
            if matches!(message.event, Some(Event::Started(_))) {
                return Ok(());
            }
        }
    };
    // It may take a while until a replica that has just started is live.
    let patience = server.timeout + Duration::from_secs(10);
    timeout(patience, live)
        .await
        .map_err(|_| Failure::unanswered(patience))??;
    Ok(events)
}

impl Progress {
    fn of(keys: &[String], namespace: &str) -> Progress {
        let bar = ProgressBar::new(keys.len() as u64);
        if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:30} {human_pos} of {human_len}  {eta}") {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(format!("warming {}", text::safe(namespace)));
        Progress {
            waited_for: keys.iter().cloned().collect(),
            rebuilt: 0,
            bar,
        }
    }

    fn see(&mut self, message: &WatchResponse) {
        if let Some(Event::Refreshed(refreshed)) = &message.event
            && self.waited_for.remove(&refreshed.key)
        {
            self.rebuilt += 1;
            self.bar.inc(1);
        }
    }

    /// Until all are rebuilt, or none has been for so long although all are due.
    async fn follow(&mut self, mut events: Streaming<WatchResponse>, all: i64, due: Instant, wait: Duration) {
        let mut last = Instant::now();
        while self.rebuilt < all {
            let Ok(message) = timeout_at(last.max(due) + wait, events.next()).await else {
                return;
            };
            let Some(Ok(message)) = message else {
                return;
            };
            let before = self.rebuilt;
            self.see(&message);
            if self.rebuilt > before {
                last = Instant::now();
            }
        }
    }
}

impl Args {
    /// Each key once, in their order.
    fn all_keys(&self) -> Result<Vec<String>, Failure> {
        let mut all = self.keys.clone();
        if let Some(file) = &self.file {
            let unreadable = |error| Failure::usage(format!("{}: can't be read: {error}", file.display()));
            let text = if file.as_os_str() == "-" {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map_err(unreadable)?;
                text
            } else {
                std::fs::read_to_string(file).map_err(unreadable)?
            };
            let lines = text.lines().map(|line| line.trim_end_matches('\r'));
            all.extend(lines.filter(|line| !line.is_empty()).map(str::to_owned));
        }
        let mut known = BTreeSet::new();
        all.retain(|key| known.insert(key.clone()));
        if all.is_empty() {
            return Err(Failure::usage(
                "there is no key to warm: the file has no line".to_owned(),
            ));
        }
        Ok(all)
    }

    pub fn request(&self, keys: &[String]) -> ScheduleRefreshRequest {
        ScheduleRefreshRequest {
            namespace: self.namespace.clone(),
            keys: keys.to_vec(),
            spread_over: self.over.map(duration),
            only_if_missing: !self.all,
        }
    }

    pub fn answer(&self, warmed: &Warmed, took: Duration) -> Answer {
        let namespace = text::safe(&self.namespace);
        let scheduled = units::counted(warmed.scheduled, "key");
        let waited = !self.wait.is_zero() && warmed.workers > 0;
        let (style, word, sentence, exit) = if warmed.scheduled == 0 {
            let sentence = format!("nothing to do, all of {namespace} is fresh or scheduled already");
            (GOOD, "warm", sentence, Exit::Yes)
        } else if !waited {
            (GOOD, "scheduled", format!("{scheduled} of {namespace}"), Exit::Yes)
        } else if warmed.rebuilt >= warmed.scheduled {
            let took = units::people(&duration(took));
            (
                GOOD,
                "warm",
                format!("{scheduled} of {namespace} rebuilt in {took}"),
                Exit::Yes,
            )
        } else {
            let rebuilt = units::count(warmed.rebuilt);
            let sentence = format!("{rebuilt} of {scheduled} of {namespace} rebuilt; the others fail, or take longer");
            (CARE, "not yet", sentence, Exit::Unconfirmed)
        };
        let mut page = Page::new(style, word, &sentence);
        let skipped = units::counted(warmed.skipped, "key");
        page.fact_if(
            "skipped",
            (warmed.skipped > 0).then(|| format!("{skipped}, fresh or scheduled already")),
        );
        page.fact(
            "workers",
            match warmed.workers {
                0 => text::paint(CARE, "none: the next caller of each key rebuilds it"),
                workers => units::count(workers),
            },
        );
        Answer {
            page: page.render(),
            document: json::document(warmed),
            exit,
        }
    }
}

/// As many keys as a call takes, again and again.
fn parts(keys: &[String]) -> impl Iterator<Item = &[String]> {
    let mut rest = keys;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let mut fits = |key: &String| {
            bytes += key.len();
            bytes <= MAX_SCHEDULED_BYTES
        };
        let count = rest.iter().take(MAX_SCHEDULED).take_while(|key| fits(key)).count();
        // A key that is too long for any call is refused by the server, with the reason.
        let count = count.max(usize::from(!rest.is_empty()));
        let (part, left) = rest.split_at(count);
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_split_into_calls_that_the_server_takes() {
        let keys: Vec<String> = (0..25_000).map(|number| format!("k{number}")).collect();
        let sizes: Vec<usize> = parts(&keys).map(<[String]>::len).collect();
        assert_eq!(sizes, [10_000, 10_000, 5_000]);
        let long = vec!["x".repeat(1_024); 5_000];
        let sizes: Vec<usize> = parts(&long).map(<[String]>::len).collect();
        assert_eq!(sizes, [2_048, 2_048, 904]);
        assert_eq!(parts(&[]).count(), 0);
    }
}
