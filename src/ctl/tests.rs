//! Commands against a server that says what each test wants, over real gRPC on a port of the system's choice.

mod calls;
mod failures;
mod fake;
mod following;
mod rendering;
mod requests;
mod warming;

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use clap::Parser as _;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::ambient::Ambient;
use super::exit::Exit;
use super::output::Output;
use super::text::plain;
use super::{Args, run_with};

#[derive(clap::Parser)]
#[command(name = "ctl")]
struct Cli {
    #[command(flatten)]
    args: Args,
}

/// The arguments of a command line, for a server at `url`.
fn parse(url: &str, line: &[&str]) -> Result<Args, clap::Error> {
    let words = ["ctl", "--server", url].into_iter().chain(line.iter().copied());
    Cli::try_parse_from(words).map(|cli| cli.args)
}

/// A stream that keeps what was written and tells how many lines there are.
#[derive(Clone)]
struct Paper {
    text: Arc<Mutex<String>>,
    lines: watch::Sender<usize>,
}

impl Paper {
    fn new() -> Self {
        Self {
            text: Arc::default(),
            lines: watch::Sender::new(0),
        }
    }

    fn text(&self) -> String {
        plain(&self.text.lock())
    }

    async fn has_lines(&self, count: usize) {
        let mut lines = self.lines.subscribe();
        // The sender lives in `self`, so the wait ends only with the lines.
        let _ = lines.wait_for(|lines| *lines >= count).await;
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut text = self.text.lock();
        text.push_str(&String::from_utf8_lossy(bytes));
        self.lines.send_replace(text.lines().count());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// No jitter, and a clock that stands at 2026-11-30T12:00:00Z.
fn still() -> Ambient {
    Ambient {
        now: || SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_040_000),
        draw: || 0.0,
    }
}

/// Runs a command to its end: the exit code, stdout and stderr.
async fn run(url: &str, line: &[&str]) -> (Exit, String, String) {
    let args = parse(url, line).unwrap_or_else(|error| panic!("{error}"));
    let (stdout, stderr) = (Paper::new(), Paper::new());
    let mut output = Output::to(args.json, Box::new(stdout.clone()), Box::new(stderr.clone()));
    let exit = run_with(args, still(), &mut output, std::future::pending())
        .await
        .expect("paper takes everything");
    (exit, stdout.text(), stderr.text())
}
