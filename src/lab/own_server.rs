//! The lab's own drover, when no other is named.

use anyhow::Context as _;

use crate::config::Settings;
use crate::server::{self, Running};

/// Starts one in this process, on a free loopback port, with an empty store; answers its URL and what to stop at the end.
pub async fn start() -> anyhow::Result<(String, Running)> {
    let settings = Settings {
        http: None,
        ..Settings::ephemeral()
    };
    let running = server::start(settings)
        .await
        .context("the lab's own server does not start")?;
    Ok((format!("http://{}", running.grpc), running))
}
