//! The lab's own drover, when no other is named.

/// A server of the lab's own.
#[derive(Debug)]
pub struct Running;

impl Running {
    /// Stops it.
    pub async fn stop(self) {}
}

/// Starts one in this process, on a free loopback port, with an empty store; answers its URL and what to stop at the end.
pub async fn start() -> anyhow::Result<(String, Running)> {
    anyhow::bail!("this build has no server; name one with --server")
}
