//! The lab's own drover, when no other is named.
//!
//! Its namespaces have policies that scenarios compare: what their names are made of follows the lab's namespace.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use crate::config::{PolicySet, Settings};
use crate::decision::Policy;
use crate::server::{self, Running};

/// Callers may wait for long.
pub const PATIENT: &str = "patient";
/// The same, and no more rebuilds run at once than the origin has connections.
pub const BUDGET: &str = "budget";
/// As the lab's own namespace, and apart from it.
pub const APART: &str = "apart";
/// The same, and workers refresh what is in it.
pub const WORKERS: &str = "workers";
/// Lifetimes are not levelled.
pub const PLAIN: &str = "plain";
/// As the lab's own namespace, after a restart.
pub const RESTARTED: &str = "restarted";

/// Nobody's wait ends before the slowest strategy has served everybody.
pub const LONG: Duration = Duration::from_secs(120);

/// The name of a namespace beside the lab's.
pub fn beside(namespace: &str, which: &str) -> String {
    format!("{namespace}-{which}")
}

/// Starts one in this process, on a free loopback port, with an empty store; answers its URL and what to stop at the end. `connections` are
/// those of the origin.
pub async fn start(namespace: &str, connections: u32) -> anyhow::Result<(String, Running)> {
    let patient = Policy {
        max_wait: LONG,
        ..Policy::default()
    };
    let budget = Policy {
        max_concurrent_rebuilds: connections,
        ..patient.clone()
    };
    let mut plain = Policy::default();
    plain.jitter.level = false;
    let named = [(PATIENT, patient), (BUDGET, budget), (PLAIN, plain)];
    let named = named.map(|(which, policy)| (beside(namespace, which), Arc::new(policy)));
    let settings = Settings {
        http: None,
        policies: PolicySet {
            namespaces: named.into_iter().collect(),
            ..PolicySet::default()
        },
        ..Settings::ephemeral()
    };
    let running = server::start(settings)
        .await
        .context("the lab's own server does not start")?;
    Ok((format!("http://{}", running.grpc), running))
}
