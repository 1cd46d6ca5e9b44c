//! Replicas whose Redis is killed, and started again.

use std::time::Duration;

use drover::proto::AcquireRebuildRequest;
use drover::proto::acquire_rebuild_response::Decision;
use tokio::time::{Instant, sleep};
use tonic::Status;

use crate::fleet::{Calls, Fleet, Granted as _, acquire, report};
use crate::support::Server;

fn reason(status: &Status) -> Option<&str> {
    status.metadata().get("drover-reason")?.to_str().ok()
}

/// Asks about keys of its own until the answer is, or is not, that of a replica alone. How long that took.
async fn until_degraded(calls: &Calls, degraded: bool) -> Duration {
    let started = Instant::now();
    for number in 0.. {
        assert!(started.elapsed() < Duration::from_secs(20), "still not {degraded}");
        let question = AcquireRebuildRequest {
            namespace: "shop".to_owned(),
            key: format!("probe {degraded} {number}"),
            ..Default::default()
        };
        let answer = match calls.clone().acquire_rebuild(question).await {
            Ok(answer) => answer.into_inner(),
            // It was under way when Redis died: nobody knows what became of it.
            Err(status) if degraded && reason(&status) == Some("OUTCOME_UNKNOWN") => continue,
            Err(status) => panic!("an answer: {status:?}"),
        };
        // Just after a loss there may be neither a lease nor a value, but a wait that has come to its end.
        if answer.degraded == degraded && matches!(answer.decision, Some(Decision::Rebuild(_))) {
            break;
        }
        sleep(Duration::from_millis(5)).await;
    }
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_redis_is_made_up_for_at_once_and_grants_are_back_soon_after_it_is() {
    let mut fleet = Fleet::over(Server::with(&["appendonly yes", "appendfsync always"]), 2).await;
    let (here, there) = (fleet.calls(0).await, fleet.calls(1).await);
    let shared = acquire(&here, "shared").await.granted();

    fleet.server.kill();
    until_degraded(&here, true).await;
    until_degraded(&there, true).await;
    // Each decides alone, and it costs no timeout.
    let started = Instant::now();
    for calls in [&here, &there] {
        let alone = acquire(calls, "alone").await;
        assert!(alone.degraded);
        assert!(report(calls, "alone", &alone.granted(), "value").await);
        let hit = acquire(calls, "alone").await;
        assert!(
            hit.degraded && matches!(hit.decision, Some(Decision::Hit(_))),
            "{hit:?}"
        );
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "six calls took {took:?}");

    fleet.server.start_again();
    let here_after = until_degraded(&here, false).await;
    let there_after = until_degraded(&there, false).await;
    println!("grants are back after {here_after:?} and {there_after:?} more");
    assert!(here_after + there_after < Duration::from_secs(5));
    // Nothing of the loss is left, and what was before it holds.
    let missing = acquire(&here, "alone").await;
    assert!(!missing.degraded);
    assert!(report(&here, "alone", &missing.granted(), "built later").await);
    let found = acquire(&there, "alone").await;
    assert!(
        !found.degraded && matches!(found.decision, Some(Decision::Hit(_))),
        "{found:?}"
    );
    assert!(report(&there, "shared", &shared, "value").await);
}
