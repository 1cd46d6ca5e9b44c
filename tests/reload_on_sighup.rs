//! SIGHUP makes drover read its policy file at once. In a process of its own: the signal reaches every test of a process.

#![allow(clippy::disallowed_methods, reason = "tests end with what they start")]
#![cfg(unix)]

use drover::config::{Policies, ServeArgs, Settings, reload};
use tokio_util::sync::CancellationToken;

/// Time stands still: the task that yields keeps the paused clock from going on, so only the signal can bring the new policies.
#[tokio::test(start_paused = true)]
async fn a_signal_brings_the_new_policies_without_any_time_passing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("drover.toml");
    std::fs::write(&path, "[defaults]\nbeta = 2\n").expect("written");
    let settings = Settings::resolve(ServeArgs {
        config: Some(path.clone()),
        ..ServeArgs::default()
    })
    .expect("a good file");
    let policies = Policies::new(settings.policies.clone());
    let shutdown = CancellationToken::new();
    let watching = tokio::spawn(reload::watch(&settings, policies.clone(), shutdown.clone()));
    tokio::task::yield_now().await;

    std::fs::write(&path, "[defaults]\nbeta = 3\n").expect("written");
    let kill = format!("kill -HUP {}", std::process::id());
    let sent = std::process::Command::new("sh")
        .args(["-c", &kill])
        .status()
        .expect("sh runs");
    assert!(sent.success());
    let start = tokio::time::Instant::now();
    while policies.load().defaults.beta != 3.0 {
        tokio::task::yield_now().await;
    }
    assert!(
        start.elapsed().is_zero(),
        "time passed, so the timer may have brought them"
    );
    shutdown.cancel();
    watching.await.expect("ends with the shutdown");
}
