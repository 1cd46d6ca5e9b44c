//! What a caller already has, and what it wants.

use drover::proto::hit::Content;
use drover::proto::{AcquireRebuildRequest, Cause, Freshness};

use crate::invalidation::soft;
use crate::support::{Drover, ask, busy, drop_keys, got, hit, report, text, token, wait};

#[tokio::test]
async fn a_value_at_or_below_newer_than_is_lost_to_one_and_the_others_wait() {
    let drover = Drover::start().await;
    let version = drover.fill("item", "old").await;
    let newer = |version| AcquireRebuildRequest {
        newer_than: version,
        ..wait("item")
    };
    assert_eq!(text(&drover.hit(newer(version - 1)).await), "old");
    let rebuild = drover.granted(newer(version)).await;
    assert_eq!(rebuild.cause(), Cause::Lost);
    assert!(rebuild.fallback.is_none(), "what is lost is no fallback");
    let waiting = drover.park(newer(version)).await;
    let fresh = drover.hit(ask("item")).await;
    assert!(text(&fresh) == "old" && fresh.rebuilding, "to others it is fresh");
    let new = drover.accept(report("item", &rebuild, "new")).await;
    assert_eq!(text(&hit(got(waiting).await)), "new");
    assert_eq!(drover.hit(newer(version)).await.version, new);
    drover.end().await;
}

#[tokio::test]
async fn the_number_of_an_invalidation_serves_as_newer_than() {
    let drover = Drover::start().await;
    let old = drover.fill("item", "old").await;
    let number = drover.invalidate(drop_keys(&["item"])).await.invalidated[0].version;
    assert!(number > old);
    let rebuild = drover.granted(ask("item")).await;
    assert!(token(&rebuild) > number);
    drover.accept(report("item", &rebuild, "new")).await;
    let newer = AcquireRebuildRequest {
        newer_than: number,
        ..ask("item")
    };
    assert_eq!(text(&drover.hit(newer).await), "new");
    drover.end().await;
}

#[tokio::test]
async fn known_version_saves_the_bytes_and_omit_value_leaves_them_out() {
    let drover = Drover::start().await;
    let version = drover.fill("item", "value").await;
    let known = AcquireRebuildRequest {
        known_version: version,
        ..ask("item")
    };
    assert!(matches!(
        drover.hit(known.clone()).await.content,
        Some(Content::Unchanged(_))
    ));
    let omitting = AcquireRebuildRequest {
        omit_value: true,
        ..ask("item")
    };
    let facts = drover.hit(omitting).await;
    assert!(matches!(facts.content, Some(Content::Omitted(_))), "{facts:?}");
    assert_eq!((facts.version, facts.freshness()), (version, Freshness::Fresh));
    drover.invalidate(drop_keys(&["item"])).await;
    let rebuild = drover.granted(known.clone()).await;
    assert!(rebuild.fallback.is_none());
    drover.accept(report("item", &rebuild, "other")).await;
    assert_eq!(
        text(&drover.hit(known).await),
        "other",
        "other bytes are not the known ones"
    );
    drover.end().await;
}

#[tokio::test]
async fn a_waiter_gets_the_facts_as_it_asked_for_them() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let omitting = drover
        .park(AcquireRebuildRequest {
            omit_value: true,
            ..wait("item")
        })
        .await;
    let plain = drover.park(wait("item")).await;
    drover.accept(report("item", &rebuild, "value")).await;
    assert!(matches!(hit(got(omitting).await).content, Some(Content::Omitted(_))));
    assert_eq!(text(&hit(got(plain).await)), "value");
    drover.end().await;
}

#[tokio::test]
async fn who_accepts_nothing_stale_waits_where_others_are_served() {
    let drover = Drover::start().await;
    drover.fill("item", "old").await;
    drover.invalidate(soft(drop_keys(&["item"]))).await;
    let strict = AcquireRebuildRequest {
        accept_stale: Some(false),
        ..wait("item")
    };
    let rebuild = drover.granted(strict.clone()).await;
    assert!(rebuild.fallback.is_none(), "{rebuild:?}");
    let waiting = drover.park(strict.clone()).await;
    let stale = drover.hit(wait("item")).await;
    assert_eq!((text(&stale), stale.freshness()), ("old", Freshness::Stale));
    busy(
        drover
            .ask(AcquireRebuildRequest {
                wait: crate::support::span(0),
                ..strict
            })
            .await,
    );
    drover.accept(report("item", &rebuild, "new")).await;
    assert_eq!(text(&hit(got(waiting).await)), "new");
    drover.end().await;
}
