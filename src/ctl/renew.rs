//! `drover ctl renew`: keeps a lease during a long rebuild.

use std::time::Duration;

use super::exit::Exit;
use super::json::{self, Json};
use super::output::Answer;
use super::text::{self, BAD, GOOD, Page};
use super::{duration, units, words};
use crate::proto::{LostReason, RenewLeaseRequest, RenewLeaseResponse};

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl renew orders user:42 LEASE_ID\n",
    "  drover ctl renew orders user:42 LEASE_ID --ttl 30s\n",
    "\n\x1b[1m\x1b[4mExit codes:\x1b[0m\n",
    "  0 renewed, 6 lost; all of them: drover ctl --help",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// As in the grant
    namespace: String,
    /// As in the grant
    key: String,
    /// As in the grant
    lease_id: String,
    /// How long from now; cut to the policy and the longest hold [default: what the policy says]
    #[arg(long, value_name = "DURATION", value_parser = crate::config::read_duration)]
    ttl: Option<Duration>,
}

impl Args {
    pub fn request(&self) -> RenewLeaseRequest {
        RenewLeaseRequest {
            namespace: self.namespace.clone(),
            key: self.key.clone(),
            lease_id: self.lease_id.clone(),
            ttl: self.ttl.map(duration),
        }
    }

    pub fn answer(&self, response: &RenewLeaseResponse) -> Answer {
        let subject = text::subject(&self.namespace, &self.key);
        let (mut page, exit) = if response.renewed {
            (Page::new(GOOD, "renewed", &subject), Exit::Yes)
        } else {
            let goes_on = response.lost_reason == i32::from(LostReason::MaxHold);
            (
                Page::new(
                    BAD,
                    if goes_on { "not prolonged" } else { "lost" },
                    &format!("{subject}: {}", words::lost(response.lost_reason)),
                ),
                Exit::Refused,
            )
        };
        page.fact_if("lease time", units::some(&response.ttl).map(units::people));
        page.fact_if("at most", units::some(&response.max_hold).map(units::people));
        Answer {
            page: page.render(),
            document: json::document(&Json(response)),
            exit,
        }
    }
}
