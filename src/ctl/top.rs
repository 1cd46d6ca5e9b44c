//! `drover ctl top`: the keys of a namespace that are asked for most.
//!
//! *Invariants*: it refreshes only where a person looks on: at a terminal, without `--json` and `--once`. Elsewhere it prints once and
//! ends. A server that stops answering ends it with the failure, below the last list.

use std::io::IsTerminal as _;
use std::time::Duration;

use super::client::{Call, Server, settled};
use super::exit::Exit;
use super::failure::Failure;
use super::json::{self, Json};
use super::output::{Answer, Output};
use super::table::table;
use super::text::{self, BOLD, DIM, paint};
use crate::proto::{HotKey, ListHotKeysRequest, ListHotKeysResponse};

/// Columns of the bar that stands for the rate.
const BAR: usize = 20;
/// Homes the cursor and clears what is below it.
const ANEW: &str = "\x1b[H\x1b[J";
/// The alternate screen, with the cursor hidden; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl top orders\n",
    "  drover ctl top orders -n 5 --once\n",
    "  drover ctl top orders --json | jq -r '.hot_keys[0].key'\n",
    "\nRates are requests a second of late, at the replica that is asked. They are never too low, and too high by ERROR at most.",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Of which namespace
    namespace: String,
    /// How many keys
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(i32).range(1..=256))]
    count: i32,
    /// Print once and end [default: where the output is no terminal]
    #[arg(long)]
    once: bool,
    /// How long between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = crate::config::read_duration)]
    every: Duration,
}

/// Shows the keys until `stop` ends, or once.
///
/// # Errors
/// When stdout cannot be written.
pub async fn show(
    args: &Args,
    server: &Server,
    output: &mut Output,
    stop: impl Future<Output = ()>,
) -> std::io::Result<Exit> {
    let live = !args.once && !output.is_for_scripts() && std::io::stdout().is_terminal();
    if !live {
        return match args.ask(server).await {
            Ok(response) => output.answer(args.answer(&response)),
            Err(failure) => output.failure(&failure),
        };
    }
    output.print(ENTER)?;
    let ended = tokio::select! {
        () = stop => Ok(Ok(())),
        ended = args.follow(server, output) => ended,
    };
    output.print(LEAVE)?;
    match ended? {
        Ok(()) => Ok(Exit::Yes),
        Err(failure) => output.failure(&failure),
    }
}

impl Args {
    fn request(&self) -> ListHotKeysRequest {
        ListHotKeysRequest {
            namespace: self.namespace.clone(),
            page_size: self.count,
        }
    }

    async fn ask(&self, server: &Server) -> Result<ListHotKeysResponse, Failure> {
        let Call { request, patience } = server.prompt_call(self.request());
        settled(server.admin().await?.list_hot_keys(request).await, patience)
    }

    async fn follow(&self, server: &Server, output: &mut Output) -> std::io::Result<Result<(), Failure>> {
        let mut client = match server.admin().await {
            Ok(client) => client,
            Err(failure) => return Ok(Err(failure)),
        };
        while !output.closed() {
            let Call { request, patience } = server.prompt_call(self.request());
            let response = match settled(client.list_hot_keys(request).await, patience) {
                Ok(response) => response,
                Err(failure) => return Ok(Err(failure)),
            };
            output.print(&format!("{ANEW}{}", self.screen(&server.server, &response)))?;
            tokio::time::sleep(self.every.max(Duration::from_millis(100))).await;
        }
        Ok(Ok(()))
    }

    fn screen(&self, server: &str, response: &ListHotKeysResponse) -> String {
        let title = paint(BOLD, &text::name(&self.namespace));
        let about = paint(DIM, &format!("hot keys at {}, ctrl-c ends", text::safe(server)));
        format!("{title}  {about}\n\n{}", page(response))
    }

    pub fn answer(&self, response: &ListHotKeysResponse) -> Answer {
        Answer {
            page: page(response),
            document: json::document(&Json(response)),
            exit: Exit::Yes,
        }
    }
}

fn page(response: &ListHotKeysResponse) -> String {
    if response.hot_keys.is_empty() {
        return "nobody has asked for anything lately\n".into();
    }
    let most = response.hot_keys.iter().map(|hot| hot.rate).fold(0.0, f64::max);
    let rows = response.hot_keys.iter().map(|hot: &HotKey| {
        [
            text::name(&hot.key),
            rate(hot.rate),
            if hot.error > 0.0 { rate(hot.error) } else { "-".into() },
            bar(hot.rate, most),
        ]
    });
    table(["key", "<a second", "<error", ""], rows)
}

/// Three digits that count, without an exponent.
fn rate(rate: f64) -> String {
    match rate {
        rate if !rate.is_finite() || rate < 0.0 => "?".into(),
        rate if rate >= 99.95 => super::units::count(rate.round() as i64),
        rate if rate >= 9.995 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

fn bar(rate: f64, most: f64) -> String {
    let share = if most > 0.0 { rate / most } else { 0.0 };
    let cells = (share * BAR as f64).round().clamp(0.0, BAR as f64) as usize;
    "▪".repeat(cells.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::text::plain;

    #[test]
    fn the_hottest_key_has_the_longest_bar_and_what_is_certain_has_no_error() {
        let hot = |key: &str, rate, error| HotKey {
            key: key.into(),
            rate,
            error,
        };
        let response = ListHotKeysResponse {
            hot_keys: vec![
                hot("front page", 12_345.6, 0.0),
                hot("user:42", 61.728, 1.5),
                hot("a\u{1b}[2J", 0.125, 0.1),
            ],
        };
        let page = plain(&page(&response));
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[0], "KEY         A SECOND  ERROR");
        assert_eq!(lines[1], format!("front page    12,346      -  {}", "▪".repeat(BAR)));
        assert!(lines[2].starts_with("user:42         61.7   1.50  ▪"), "{page}");
        assert!(!page.contains('\u{1b}'), "{page}");
        assert_eq!(
            plain(&super::page(&ListHotKeysResponse::default())),
            "nobody has asked for anything lately\n"
        );
    }

    #[test]
    fn a_rate_has_three_digits_that_count() {
        let cases = [
            (0.0, "0.00"),
            (1.234, "1.23"),
            (9.999, "10.0"),
            (99.96, "100"),
            (123_456.0, "123,456"),
            (f64::NAN, "?"),
        ];
        for (given, expected) in cases {
            assert_eq!(rate(given), expected);
        }
    }
}
