//! Why a caller asks.

use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::{AcquireRebuildRequest, Cause, Freshness, Intent};

use crate::invalidation::soft;
use crate::support::{Drover, ask, busy, drop_keys, got, hit, report, text, until, wait};

fn with(intent: Intent, request: AcquireRebuildRequest) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        intent: intent.into(),
        ..request
    }
}

#[tokio::test]
async fn early_is_one_rebuild_and_the_others_stay_fresh() {
    let drover = Drover::start().await;
    drover.fill("item", "value").await;
    let early = drover.granted(with(Intent::Early, ask("item"))).await;
    assert_eq!(early.cause(), Cause::Early);
    let fallback = early.fallback.as_ref().expect("a fallback");
    assert_eq!((text(fallback), fallback.freshness()), ("value", Freshness::Fresh));
    for intent in [Intent::Early, Intent::Unspecified, Intent::Read] {
        let hit = drover.hit(with(intent, wait("item"))).await;
        assert!(
            hit.rebuilding && hit.freshness() == Freshness::Fresh,
            "{intent:?}: {hit:?}"
        );
    }
    drover.accept(report("item", &early, "refreshed")).await;
    assert_eq!(text(&drover.hit(ask("item")).await), "refreshed");
    drover.end().await;
}

#[tokio::test]
async fn a_herd_that_forces_is_one_rebuild() {
    let drover = Drover::start().await;
    drover.fill("item", "old").await;
    let forced = drover.granted(with(Intent::Force, ask("item"))).await;
    assert_eq!(forced.cause(), Cause::Forced);
    let herd: Vec<_> = (0..50)
        .map(|_| drover.asking(with(Intent::Force, wait("item"))))
        .collect();
    until(|| drover.parked() == 50).await;
    let version = drover.accept(report("item", &forced, "new")).await;
    for asking in herd {
        let hit = hit(got(asking).await);
        assert_eq!((text(&hit), hit.version), ("new", version));
    }
    busy_or_hit_is_not_granted(&drover).await;
    drover.end().await;
}

/// Once the forced value is there, asking plainly is a hit and nothing is left over that holds the lease.
async fn busy_or_hit_is_not_granted(drover: &Drover) {
    let hit = drover.hit(ask("item")).await;
    assert!(text(&hit) == "new" && !hit.rebuilding, "{hit:?}");
}

#[tokio::test]
async fn force_waits_for_the_rebuild_that_is_under_way() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    busy(drover.ask(with(Intent::Force, ask("item"))).await);
    let waiting = drover.park(with(Intent::Force, wait("item"))).await;
    drover.accept(report("item", &rebuild, "value")).await;
    assert_eq!(text(&hit(got(waiting).await)), "value");
    drover.end().await;
}

#[tokio::test]
async fn read_is_never_told_to_rebuild() {
    let drover = Drover::start().await;
    let read = || with(Intent::Read, ask("item"));
    assert!(matches!(drover.ask(read()).await, Decision::Miss(_)));
    drover.fill("item", "value").await;
    assert_eq!(text(&drover.hit(read()).await), "value");
    drover.invalidate(soft(drop_keys(&["item"]))).await;
    let stale = drover.hit(read()).await;
    assert_eq!((text(&stale), stale.freshness()), ("value", Freshness::Stale));
    drover.invalidate(drop_keys(&["item"])).await;
    assert!(matches!(drover.ask(read()).await, Decision::Miss(_)));
    drover.granted(ask("item")).await;
    busy(drover.ask(read()).await);
    drover.end().await;
}
