//! `drover ctl namespaces`: the namespaces, with counts and policy.

use std::fmt::Write as _;

use super::exit::Exit;
use super::json::{self, Json};
use super::output::Answer;
use super::table::{Pages, table};
use super::text::{self, BOLD, paint};
use super::units;
use crate::proto::{ListNamespacesRequest, ListNamespacesResponse};

const EXAMPLES: &str = concat!(
    "\x1b[1m\x1b[4mExamples:\x1b[0m\n",
    "  drover ctl namespaces\n",
    "  drover ctl namespaces --policy",
);

#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Show each one's policy, as TOML
    #[arg(long)]
    policy: bool,
    #[command(flatten)]
    pub pages: Pages,
}

impl Args {
    pub fn request(&self, page_token: String) -> ListNamespacesRequest {
        ListNamespacesRequest {
            page_size: self.pages.size(),
            page_token,
        }
    }

    pub fn answer(&self, response: &ListNamespacesResponse) -> Answer {
        let rows = response.namespaces.iter().map(|namespace| {
            [
                text::name(&namespace.namespace),
                units::count(namespace.entries),
                units::count(namespace.leases),
                units::count(namespace.waiters),
                units::count(namespace.watchers),
                units::count(namespace.workers),
                if namespace.circuit_open {
                    "open".into()
                } else {
                    "closed".into()
                },
            ]
        });
        let header = [
            "namespace",
            "<entries",
            "<leases",
            "<waiters",
            "<watchers",
            "<workers",
            "circuit",
        ];
        let mut page = if response.namespaces.is_empty() {
            "no namespaces\n".into()
        } else {
            table(header, rows)
        };
        if self.policy {
            for namespace in &response.namespaces {
                let _ = writeln!(page, "\n{}", paint(BOLD, &text::name(&namespace.namespace)));
                for line in namespace.policy.lines() {
                    let _ = writeln!(page, "  {}", text::safe(line));
                }
            }
        }
        page.push_str(&self.pages.more(&response.next_page_token));
        Answer {
            page,
            document: json::document(&Json(response)),
            exit: Exit::Yes,
        }
    }
}
