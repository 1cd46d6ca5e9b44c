//! `drover ctl leases`: who rebuilds what, longest held first.

use super::exit::Exit;
use super::json::{self, Json};
use super::output::Answer;
use super::table::{Pages, table};
use super::{text, units, words};
use crate::proto::{ListLeasesRequest, ListLeasesResponse};

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl leases\n",
    "  drover ctl leases orders --all --json | jq -r '.leases[].holder' | sort | uniq -c",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Of which namespace [default: of all that you may see]
    namespace: Option<String>,
    #[command(flatten)]
    pub pages: Pages,
}

impl Args {
    pub fn request(&self, page_token: String) -> ListLeasesRequest {
        let namespace = self.namespace.clone().unwrap_or_default();
        ListLeasesRequest {
            namespace,
            page_size: self.pages.size(),
            page_token,
        }
    }

    pub fn answer(&self, response: &ListLeasesResponse) -> Answer {
        let rows = response.leases.iter().map(|lease| {
            [
                text::name(&lease.namespace),
                text::name(&lease.key),
                text::name(&lease.holder),
                lease.fencing_token.to_string(),
                words::cause(lease.cause).into(),
                units::people(&lease.held.unwrap_or_default()),
                units::people(&lease.ttl.unwrap_or_default()),
                units::count(lease.waiters.into()),
            ]
        });
        let header = [
            "namespace",
            "key",
            "holder",
            "<token",
            "cause",
            "<held",
            "<left",
            "<waiters",
        ];
        let mut page = if response.leases.is_empty() {
            "no live leases\n".into()
        } else {
            table(header, rows)
        };
        page.push_str(&self.pages.more(&response.next_page_token));
        Answer {
            page,
            document: json::document(&Json(response)),
            exit: Exit::Yes,
        }
    }
}
