//! `drover ctl describe`: everything known about one key.

use super::exit::Exit;
use super::json::{self, Json};
use super::output::Answer;
use super::text::{self, BAD, CARE, Page};
use super::{units, words};
use crate::proto::{DescribeKeyRequest, DescribeKeyResponse, LeaseInfo};

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl describe orders user:42\n",
    "  drover ctl describe orders user:42 --json | jq .lease.holder\n",
    "\n\x1b[1m\x1b[4mExit codes:\x1b[0m\n",
    "  0 something is known, 5 nothing is; all of them: drover ctl --help",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where
    namespace: String,
    /// Which
    key: String,
}

impl Args {
    pub fn request(&self) -> DescribeKeyRequest {
        DescribeKeyRequest {
            namespace: self.namespace.clone(),
            key: self.key.clone(),
        }
    }

    pub fn answer(&self, response: &DescribeKeyResponse) -> Answer {
        let subject = text::subject(&self.namespace, &self.key);
        let being_rebuilt = response.lease.is_some();
        let (mut page, exit) = match (&response.current, &response.backoff) {
            (Some(hit), _) => {
                let (style, freshness) = words::freshness(hit.freshness);
                let also = if being_rebuilt { ", being rebuilt" } else { "" };
                (Page::new(style, freshness, &format!("{subject}{also}")), Exit::Yes)
            }
            (None, Some(_)) => (
                Page::new(BAD, "backoff", &format!("{subject}: the origin is failing")),
                Exit::Yes,
            ),
            (None, None) if being_rebuilt => (
                Page::new(CARE, "absent", &format!("{subject}, being rebuilt")),
                Exit::Yes,
            ),
            (None, None) => (
                Page::new(CARE, "absent", &format!("nothing is known of {subject}")),
                Exit::Miss,
            ),
        };
        if let Some(hit) = &response.current {
            words::hit_facts(&mut page, hit);
        }
        if let Some(lease) = &response.lease {
            lease_facts(&mut page, lease);
        }
        page.fact_if(
            "waiters",
            (response.waiters > 0).then(|| units::count(response.waiters.into())),
        );
        if let Some(backoff) = &response.backoff {
            words::backoff_facts(&mut page, backoff);
        }
        Answer {
            page: page.render(),
            document: json::document(&Json(response)),
            exit,
        }
    }
}

fn lease_facts(page: &mut Page, lease: &LeaseInfo) {
    page.fact("holder", text::name(&lease.holder));
    page.fact("fencing token", lease.fencing_token.to_string());
    page.fact("granted for", words::cause(lease.cause));
    page.fact_if("held", lease.held.as_ref().map(units::people));
    page.fact_if("lease left", lease.ttl.as_ref().map(units::people));
    page.fact_if(
        "holder's trace",
        (!lease.traceparent.is_empty()).then(|| text::safe(&lease.traceparent)),
    );
}
