//! `drover ctl acquire`: asks what to do about a key.

use std::time::Duration;

use super::exit::Exit;
use super::json::{self, Json};
use super::output::Answer;
use super::text::{self, BAD, CARE, GOOD, Page};
use super::{ambient, duration, units, words};
use crate::proto::{
    AcquireRebuildRequest, AcquireRebuildResponse, Backoff, Busy, Hit, Intent, Rebuild,
    acquire_rebuild_response::Decision,
};

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  Use a value, rebuild it, or wait 5 seconds for whoever does:\n",
    "    drover ctl acquire orders user:42 --wait 5s\n",
    "  Only look, never take a lease:\n",
    "    drover ctl acquire orders user:42 --intent read --wait 0\n",
    "  In a script:\n",
    "    lease=$(drover ctl acquire orders user:42 --json | jq -r .rebuild.lease.lease_id)\n",
    "\n\x1b[1m\x1b[4mExit codes:\x1b[0m\n",
    "  0 hit or rebuild, 3 busy, 4 backoff, 5 miss; all of them: drover ctl --help",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where: 1 to 64 of a-z, 0-9, '.', '_' and '-'
    namespace: String,
    /// Which: 1 to 1,024 bytes
    key: String,
    /// How long to wait for somebody else's rebuild; 0: not at all [default: as long as the policy allows]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    wait: Option<Duration>,
    /// Why you ask
    #[arg(long, value_enum, default_value_t = Why::Miss)]
    intent: Why,
    /// A stale value will not do
    #[arg(long)]
    no_stale: bool,
    /// Facts only, leave the bytes out
    #[arg(long)]
    omit_value: bool,
    /// You have this version: the bytes come only if there is another
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = token())]
    known_version: i64,
    /// A version up to this one is not enough: your own store has lost it
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = token())]
    newer_than: i64,
    /// The highest token that your own store has seen
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = token())]
    min_fencing_token: i64,
    /// How long a lease you want [default: what the policy says]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    lease_ttl: Option<Duration>,
    /// A tag of the value, if known beforehand; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Who asks [default: one of this process alone]
    #[arg(long, value_name = "NAME")]
    holder: Option<String>,
    /// The question, to repeat it: the same id gets the same live lease [default: a new one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Why {
    /// Rebuild on a miss
    Miss,
    /// Only read: never take a lease
    Read,
    /// Your early-expiry draw fired
    Early,
    /// Rebuild although it is fresh
    Force,
}

/// Tokens and versions are at least 1; 0 means none.
fn token() -> clap::builder::RangedI64ValueParser {
    clap::value_parser!(i64).range(0..)
}

impl Args {
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    pub fn request(&self) -> AcquireRebuildRequest {
        let intent = match self.intent {
            Why::Miss => Intent::Unspecified,
            Why::Read => Intent::Read,
            Why::Early => Intent::Early,
            Why::Force => Intent::Force,
        };
        AcquireRebuildRequest {
            namespace: self.namespace.clone(),
            key: self.key.clone(),
            holder: self.holder.clone().unwrap_or_else(ambient::holder),
            request_id: self.request_id.clone().unwrap_or_else(ambient::request_id),
            wait: self.wait.map(duration),
            intent: intent.into(),
            accept_stale: self.no_stale.then_some(false),
            known_version: self.known_version,
            omit_value: self.omit_value,
            lease_ttl: self.lease_ttl.map(duration),
            min_fencing_token: self.min_fencing_token,
            tags: self.tags.clone(),
            newer_than: self.newer_than,
            hits: 0,
        }
    }

    pub fn answer(&self, response: &AcquireRebuildResponse) -> Answer {
        let (mut page, exit) = match &response.decision {
            Some(Decision::Hit(hit)) => (self.hit(hit), Exit::Yes),
            Some(Decision::Rebuild(rebuild)) => (self.rebuild(rebuild), Exit::Yes),
            Some(Decision::Busy(busy)) => (self.busy(busy), Exit::Busy),
            Some(Decision::Backoff(backoff)) => (self.backoff(backoff), Exit::Backoff),
            Some(Decision::Miss(_)) => (
                Page::new(CARE, "miss", &format!("{} has nothing usable", self.subject())),
                Exit::Miss,
            ),
            None => {
                let sentence = format!(
                    "{}: a decision that this client does not know, take it as busy",
                    self.subject()
                );
                (Page::new(CARE, "busy", &sentence), Exit::Busy)
            }
        };
        page.fact_if("waited", units::some(&response.waited).map(units::people));
        if let Some(hints) = &response.hints {
            page.fact_if("hot", hints.hot.then_some("yes, among the namespace's most asked for"));
            page.fact_if(
                "spread",
                (hints.replicas > 1).then(|| format!("over {} own keys", hints.replicas)),
            );
        }
        words::degraded_fact(&mut page, response.degraded);
        Answer {
            page: page.render(),
            document: json::document(&Json(response)),
            exit,
        }
    }

    fn subject(&self) -> String {
        text::subject(&self.namespace, &self.key)
    }

    fn hit(&self, hit: &Hit) -> Page {
        let (style, freshness) = words::freshness(hit.freshness);
        let mut page = Page::new(style, "hit", &format!("{} is {freshness}", self.subject()));
        words::hit_facts(&mut page, hit);
        page
    }

    fn rebuild(&self, rebuild: &Rebuild) -> Page {
        let sentence = format!("{} is yours: {}", self.subject(), words::cause_sentence(rebuild.cause));
        let mut page = Page::new(GOOD, "rebuild", &sentence);
        if let Some(lease) = &rebuild.lease {
            page.fact("lease id", text::name(&lease.lease_id));
            page.fact_if(
                "fencing token",
                (lease.fencing_token != 0).then(|| lease.fencing_token.to_string()),
            );
            let left = units::people(&lease.ttl.unwrap_or_default());
            let longest = units::some(&lease.max_hold)
                .map(|longest| format!(", {} at most with renewals", units::people(longest)))
                .unwrap_or_default();
            page.fact("lease time", format!("{left}{longest}"));
            let words = [&self.namespace, &self.key, &lease.lease_id].map(|word| text::shell_word(word));
            if let [Some(namespace), Some(key), Some(lease_id)] = words {
                page.hint(format!(
                    "Report it: drover ctl report {namespace} {key} {lease_id} --value TEXT"
                ));
            }
        }
        let size = usize::try_from(rebuild.max_value_bytes).ok().filter(|size| *size > 0);
        page.fact_if("value at most", size.map(units::size));
        if let Some(expiry) = &rebuild.planned_expiry {
            page.fact("lifetimes", words::lifetimes(expiry));
        }
        if let Some(fallback) = &rebuild.fallback {
            let age = fallback
                .age
                .as_ref()
                .map(|age| format!(", {} old", units::people(age)))
                .unwrap_or_default();
            let freshness = words::freshness(fallback.freshness).1;
            page.fact(
                "meanwhile",
                format!("{freshness}{age}: {}", words::content(&fallback.content)),
            );
            let only = rebuild
                .fallback_on_failure_only
                .then(|| text::paint(CARE, "only if your rebuild fails"));
            page.fact_if("serve it", only);
        }
        page
    }

    fn busy(&self, busy: &Busy) -> Page {
        let mut page = Page::new(
            CARE,
            "busy",
            &format!("{}: {}", self.subject(), words::busy(busy.cause)),
        );
        page.fact_if("ask again in", busy.retry_after.as_ref().map(units::people));
        page.fact_if("lease left", units::some(&busy.lease_remaining).map(units::people));
        page
    }

    fn backoff(&self, backoff: &Backoff) -> Page {
        let mut page = Page::new(BAD, "backoff", &format!("{}: the origin is failing", self.subject()));
        words::backoff_facts(&mut page, backoff);
        page
    }
}
