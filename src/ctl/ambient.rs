//! *Owns* what a command takes from the world around it: the clock, chance, and the signals that end it. Tests bring
//! their own, so that nothing they check depends on time or luck.

use std::time::SystemTime;

#[derive(Clone, Copy)]
pub struct Ambient {
    /// The wall clock, for the time in front of an event.
    pub now: fn() -> SystemTime,
    /// A draw from [0, 1), for the jitter of reconnects.
    pub draw: fn() -> f64,
}

impl Ambient {
    #[allow(clippy::disallowed_methods, reason = "people are told the wall's time")]
    pub fn real() -> Self {
        Self {
            now: SystemTime::now,
            draw: || rand::random::<f64>(),
        }
    }
}

/// A holder of this process alone: revocations are addressed to it.
pub fn holder() -> String {
    format!("ctl-{}-{:08x}", std::process::id(), rand::random::<u32>())
}

/// A question that nobody has asked before.
pub fn request_id() -> String {
    format!("ctl-{:016x}", rand::random::<u64>())
}

/// Ends when the process is asked to stop: ctrl-c, or SIGTERM where there is one.
pub async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // Without a handler (too many, or none allowed) the signal ends the process as it always would.
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}
