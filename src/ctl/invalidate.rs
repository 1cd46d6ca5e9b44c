//! `drover ctl invalidate`: makes values old.

use std::time::Duration;

use super::exit::Exit;
use super::json::{self, Json};
use super::output::Answer;
use super::text::{self, CARE, GOOD, Page};
use super::{duration, units};
use crate::proto::{InvalidateRequest, InvalidateResponse, InvalidatedTarget, Mode, invalidated_target::Target};

/// How many targets a page names; `--json` names all.
const SHOWN_TARGETS: usize = 20;

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  One key, and not before every local cache has forgotten it:\n",
    "    drover ctl invalidate orders user:42 --wait 2s\n",
    "  Whatever carries a tag, but let it be served stale meanwhile:\n",
    "    drover ctl invalidate orders --tag customer:7 --mode expire\n",
    "  A whole namespace:\n",
    "    drover ctl invalidate orders --everything --reason 'price list imported'\n",
    "\n\x1b[1m\x1b[4mExit codes:\x1b[0m\n",
    "  0 invalidated, 7 not every watcher acknowledged it within --wait; all of them: drover ctl --help",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(override_usage = "drover ctl invalidate NAMESPACE [KEY]... [OPTIONS]")]
#[command(group = clap::ArgGroup::new("targets").required(true).multiple(true).args(["keys", "tags", "everything"]))]
pub struct Args {
    /// Where
    namespace: String,
    /// Which keys; a key, a tag or --everything must be there, keys and tags together at most 1,000
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Whatever carries this tag; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The whole namespace
    #[arg(long, conflicts_with_all = ["keys", "tags"])]
    everything: bool,
    /// How hard
    #[arg(long, value_enum, default_value_t = How::Drop)]
    mode: How,
    /// Why, for the audit log; at most 256 bytes
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// How long to wait until every watcher has acknowledged it [default: do not wait]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    wait: Option<Duration>,
    /// How long the origin's replicas may lag: what is built meanwhile stays fresh no longer than that
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    settle: Option<Duration>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum How {
    /// Nobody gets the old value again
    Drop,
    /// It may be served stale until its stale window ends
    Expire,
}

impl Args {
    pub fn wait(&self) -> Duration {
        self.wait.unwrap_or_default()
    }

    pub fn request(&self) -> InvalidateRequest {
        let mode = match self.mode {
            How::Drop => Mode::Drop,
            How::Expire => Mode::Expire,
        };
        InvalidateRequest {
            namespace: self.namespace.clone(),
            keys: self.keys.clone(),
            tags: self.tags.clone(),
            everything: self.everything,
            mode: mode.into(),
            reason: self.reason.clone().unwrap_or_default(),
            wait_for_watchers: self.wait.map(duration),
            settle: self.settle.map(duration),
        }
    }

    pub fn answer(&self, response: &InvalidateResponse) -> Answer {
        let waited = !self.wait().is_zero();
        let (style, exit) = match waited && !response.confirmed {
            true => (CARE, Exit::Unconfirmed),
            false => (GOOD, Exit::Yes),
        };
        let what = match self.everything {
            true => format!("all of {}", text::safe(&self.namespace)),
            false => format!("{} of {}", counted(&response.invalidated), text::safe(&self.namespace)),
        };
        let how = match self.mode {
            How::Drop => "dropped, nobody gets the old value again",
            How::Expire => "expired, may be served stale meanwhile",
        };
        let mut page = Page::new(style, "invalidated", &format!("{what}: {how}"));
        for target in response.invalidated.iter().take(SHOWN_TARGETS) {
            let (label, name) = described(target);
            page.fact(
                label,
                format!(
                    "{name}  {}",
                    text::paint(text::DIM, &format!("version {}", target.version))
                ),
            );
        }
        if let Some(more) = response
            .invalidated
            .len()
            .checked_sub(SHOWN_TARGETS)
            .filter(|more| *more > 0)
        {
            page.fact("and", format!("{} more (--json lists them)", units::count(more as i64)));
        }
        let revoked = units::counted(response.leases_revoked.into(), "holder");
        page.fact_if(
            "revoked",
            (response.leases_revoked > 0).then(|| format!("{revoked} worked in vain")),
        );
        page.fact("watchers", watchers(response, waited));
        page.fact_if(
            "not yet",
            (waited && !response.laggards.is_empty()).then(|| text::names(&response.laggards)),
        );
        Answer {
            page: page.render(),
            document: json::document(&Json(response)),
            exit,
        }
    }
}

/// "2 keys and 1 tag"; a target that this client does not know counts with the keys.
fn counted(targets: &[InvalidatedTarget]) -> String {
    let tags = targets
        .iter()
        .filter(|target| matches!(target.target, Some(Target::Tag(_))))
        .count();
    match (targets.len() - tags, tags) {
        (keys, 0) => units::counted(keys as i64, "key"),
        (0, tags) => units::counted(tags as i64, "tag"),
        (keys, tags) => format!(
            "{} and {}",
            units::counted(keys as i64, "key"),
            units::counted(tags as i64, "tag")
        ),
    }
}

fn described(target: &InvalidatedTarget) -> (&'static str, String) {
    match &target.target {
        Some(Target::Key(key)) => ("key", text::name(key)),
        Some(Target::Tag(tag)) => ("tag", text::name(tag)),
        Some(Target::Everything(_)) => ("namespace", "all of it".into()),
        None => ("target", "of a kind this client does not know".into()),
    }
}

fn watchers(response: &InvalidateResponse, waited: bool) -> String {
    let all = units::counted(response.watchers.into(), "watcher");
    match (waited, response.confirmed) {
        (true, true) if response.watchers == 0 => "confirmed, nobody keeps local copies".into(),
        (true, true) => format!("confirmed by {all}"),
        (true, false) => {
            let (all, some) = (response.watchers.into(), response.watchers_acknowledged.into());
            let text = format!("{} of {} have acknowledged", units::count(some), units::count(all));
            text::paint(CARE, &format!("not confirmed: {text}"))
        }
        (false, _) => format!("{all}, not waited for"),
    }
}
