//! `drover ctl report`: tells how a rebuild ended.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::exit::Exit;
use super::failure::Failure;
use super::json::{self, Json};
use super::output::Answer;
use super::text::{self, BAD, GOOD, Page};
use super::{duration, units, words};
use crate::proto::{
    Abandon, External, Failure as RebuildFailure, Lifetimes, NotFound, NotModified, Rejection, ReportValueRequest,
    ReportValueResponse, report_value_request::Outcome,
};

/// No policy allows a larger value. Refused here because at the server it would end the lease.
const LARGEST_VALUE: usize = 3 << 20;

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl report orders user:42 LEASE_ID --value '{\"id\": 42}' --tag customer:7\n",
    "  render-page | drover ctl report pages /home LEASE_ID --value-file - --fresh-ttl 30s\n",
    "  drover ctl report orders user:42 LEASE_ID --failed 'database down' --retry-after 10s\n",
    "\n\x1b[1m\x1b[4mExit codes:\x1b[0m\n",
    "  0 accepted, 6 refused; all of them: drover ctl --help",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "drover ctl report NAMESPACE KEY LEASE_ID OUTCOME [OPTIONS]")]
#[command(group = clap::ArgGroup::new("outcome").required(true))]
pub struct Args {
    /// As in the grant
    namespace: String,
    /// As in the grant
    key: String,
    /// As in the grant
    lease_id: String,
    /// The value, as text
    #[arg(long, group = "outcome", help_heading = "Outcome (exactly one)", value_name = "TEXT")]
    value: Option<String>,
    /// The value, from a file; '-' reads standard input
    #[arg(long, group = "outcome", help_heading = "Outcome (exactly one)", value_name = "FILE")]
    value_file: Option<PathBuf>,
    /// It is in your own store already, and where if you want to say so
    #[arg(
        long,
        group = "outcome",
        help_heading = "Outcome (exactly one)",
        value_name = "LOCATOR",
        num_args = 0..=1,
        default_missing_value = ""
    )]
    external: Option<String>,
    /// The origin has no such thing
    #[arg(long, group = "outcome", help_heading = "Outcome (exactly one)")]
    not_found: bool,
    /// What was there is still right
    #[arg(long, group = "outcome", help_heading = "Outcome (exactly one)")]
    not_modified: bool,
    /// The rebuild failed; the message is shown to every caller of the key
    #[arg(
        long,
        group = "outcome",
        help_heading = "Outcome (exactly one)",
        value_name = "MESSAGE"
    )]
    failed: Option<String>,
    /// Give the lease up: exactly one waiter takes over
    #[arg(long, group = "outcome", help_heading = "Outcome (exactly one)")]
    abandon: bool,
    /// With --failed: keep off the origin at least this long
    #[arg(
        long,
        requires = "failed",
        // `requires` alone lets it pass beside an outcome that excludes --failed.
        conflicts_with_all = ["value", "value_file", "external", "not_found", "not_modified", "abandon"],
        value_name = "DURATION", value_parser = crate::config::read_duration)]
    retry_after: Option<Duration>,
    /// How long it is fresh; 0: do not store [default: what the policy says]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    fresh_ttl: Option<Duration>,
    /// From the end of freshness: served while one holder refreshes [default: what the policy says]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    stale_while_revalidate: Option<Duration>,
    /// From the end of freshness: served when the origin fails [default: what the policy says]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    stale_if_error: Option<Duration>,
    /// A tag of the value; may be repeated, replaces those it had
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// What the rebuild cost [default: from the grant to this report]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    cost: Option<Duration>,
    /// Only for those who wait now
    #[arg(long, conflicts_with = "external")]
    do_not_store: bool,
}

impl Args {
    /// # Errors
    /// When the value cannot be read, or is larger than any policy allows.
    pub fn request(&self) -> Result<ReportValueRequest, Failure> {
        let lifetimes = Lifetimes {
            fresh_ttl: self.fresh_ttl.map(duration),
            stale_while_revalidate: self.stale_while_revalidate.map(duration),
            stale_if_error: self.stale_if_error.map(duration),
        };
        Ok(ReportValueRequest {
            namespace: self.namespace.clone(),
            key: self.key.clone(),
            lease_id: self.lease_id.clone(),
            outcome: Some(self.outcome()?),
            rebuild_cost: self.cost.map(duration),
            tags: self.tags.clone(),
            ttl: (lifetimes != Lifetimes::default()).then_some(lifetimes),
            do_not_store: self.do_not_store,
        })
    }

    fn outcome(&self) -> Result<Outcome, Failure> {
        if let Some(file) = &self.value_file {
            return Ok(Outcome::Value(fits(read(file)?)?.into()));
        }
        if let Some(value) = &self.value {
            return Ok(Outcome::Value(fits(value.clone().into_bytes())?.into()));
        }
        if let Some(locator) = &self.external {
            return Ok(Outcome::External(External {
                locator: locator.clone(),
            }));
        }
        if let Some(message) = &self.failed {
            let retry_after = self.retry_after.map(duration);
            return Ok(Outcome::Failure(RebuildFailure {
                message: message.clone(),
                retry_after,
            }));
        }
        // The argument group lets exactly one through.
        Ok(match (self.not_found, self.not_modified) {
            (true, _) => Outcome::NotFound(NotFound {}),
            (_, true) => Outcome::NotModified(NotModified {}),
            _ => Outcome::Abandon(Abandon {}),
        })
    }

    pub fn answer(&self, response: &ReportValueResponse) -> Answer {
        let subject = text::subject(&self.namespace, &self.key);
        let (mut page, exit) = if response.accepted {
            (Page::new(GOOD, "accepted", &subject), Exit::Yes)
        } else {
            let sentence = format!("{subject}: {}", words::rejection(response.rejection));
            let mut page = Page::new(BAD, "refused", &sentence);
            if response.rejection == i32::from(Rejection::NoValue) {
                page.hint("The lease goes on: report again with the value.");
            }
            (page, Exit::Refused)
        };
        page.fact_if("version", (response.version != 0).then(|| response.version.to_string()));
        if let Some(expiry) = &response.expiry {
            words::expiry_facts(&mut page, expiry);
        }
        words::degraded_fact(&mut page, response.degraded);
        Answer {
            page: page.render(),
            document: json::document(&Json(response)),
            exit,
        }
    }
}

/// Blocks: nothing else goes on in this process yet, and a terminal's ctrl-c still ends it.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut value = Vec::new();
    // One byte more than fits tells a value that is too large, even from an endless file.
    let limit = LARGEST_VALUE as u64 + 1;
    let result = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut value)
    } else {
        std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut value))
    };
    match result {
        Ok(_) => Ok(value),
        Err(error) => Err(Failure::usage(format!(
            "cannot read the value from {}: {error}",
            file.display()
        ))),
    }
}

fn fits(value: Vec<u8>) -> Result<Vec<u8>, Failure> {
    if value.len() <= LARGEST_VALUE {
        return Ok(value);
    }
    Err(Failure::usage(format!(
        "the value is larger than {}, the most that any policy allows; keep it in your own store and report --external \
         (the lease is still yours)",
        units::size(LARGEST_VALUE)
    )))
}
