//! Every way in which a rebuild can end, to those who wait and to the next who asks.

use std::time::Duration;

use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::hit::Content;
use drover::proto::report_value_request::Outcome;
use drover::proto::{
    AcquireRebuildRequest, External, Freshness, Hit, Intent, Lifetimes, NotModified, Rejection, ReportValueRequest,
};

use crate::support::{
    Drover, ask, busy, drop_keys, ended, failed, got, granted, hit, keep_off, length, not_found, report, span, text,
    token, wait, words,
};

fn zero(hit: &Hit) -> bool {
    let expiry = hit.expiry.as_ref().expect("an expiry");
    [expiry.fresh_for, expiry.stale_for, expiry.stale_if_error_for]
        .iter()
        .all(|span| length(span).is_zero())
}

#[tokio::test]
async fn an_empty_value_is_a_value() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let waiting = drover.park(wait("item")).await;
    drover.accept(report("item", &rebuild, "")).await;
    for hit in [hit(got(waiting).await), drover.hit(ask("item")).await] {
        assert_eq!(hit.content, Some(Content::Value(Vec::new().into())));
    }
    drover.end().await;
}

#[tokio::test]
async fn an_external_value_is_handed_on_by_its_locator() {
    let drover = Drover::start().await;
    for locator in ["s3://bucket/item@7", ""] {
        let key = format!("item {locator}");
        let rebuild = drover.granted(ask(&key)).await;
        let waiting = drover.park(wait(&key)).await;
        let external = External {
            locator: locator.to_owned(),
        };
        drover
            .accept(ended(&key, &rebuild, Outcome::External(external.clone())))
            .await;
        for hit in [hit(got(waiting).await), drover.hit(ask(&key)).await] {
            assert_eq!(hit.content, Some(Content::External(external.clone())));
        }
    }
    drover.end().await;
}

#[tokio::test]
async fn not_found_is_knowledge_with_its_own_lifetime_and_no_stale_windows() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let waiting = drover.park(wait("item")).await;
    drover.accept(ended("item", &rebuild, not_found())).await;
    for hit in [hit(got(waiting).await), drover.hit(ask("item")).await] {
        assert!(matches!(hit.content, Some(Content::NotFound(_))), "{hit:?}");
        let expiry = hit.expiry.expect("an expiry");
        let fresh = length(&expiry.fresh_for);
        assert!(
            fresh > Duration::from_secs(25) && fresh <= Duration::from_secs(33),
            "{fresh:?}"
        );
        assert!(length(&expiry.stale_for) <= fresh && length(&expiry.stale_if_error_for) <= fresh);
    }
    drover.end().await;
}

#[tokio::test]
async fn not_modified_keeps_the_bytes_under_a_new_version() {
    let drover = Drover::start().await;
    let old = drover.fill("item", "value").await;
    let force = AcquireRebuildRequest {
        intent: Intent::Force.into(),
        ..ask("item")
    };
    let rebuild = drover.granted(force).await;
    let waiting = drover
        .park(AcquireRebuildRequest {
            newer_than: old,
            ..wait("item")
        })
        .await;
    let new = drover
        .accept(ended("item", &rebuild, Outcome::NotModified(NotModified {})))
        .await;
    assert_eq!(new, token(&rebuild));
    let handed = hit(got(waiting).await);
    assert_eq!((text(&handed), handed.version), ("value", new));
    let knowing = |version| AcquireRebuildRequest {
        known_version: version,
        ..ask("item")
    };
    for version in [old, new] {
        let hit = drover.hit(knowing(version)).await;
        assert!(matches!(hit.content, Some(Content::Unchanged(_))), "{version}: {hit:?}");
        assert_eq!(hit.version, new);
    }
    assert_eq!(text(&drover.hit(knowing(old - 1)).await), "value");
    assert_eq!(text(&drover.hit(knowing(new + 1)).await), "value");
    drover.end().await;
}

#[tokio::test]
async fn not_modified_without_a_value_is_refused_and_the_lease_goes_on() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let nothing = ended("item", &rebuild, Outcome::NotModified(NotModified {}));
    assert_eq!(drover.refuse(nothing.clone()).await, Rejection::NoValue);
    busy(drover.ask(ask("item")).await);
    drover.accept(report("item", &rebuild, "value")).await;
    // What was not to be stored is not there to be confirmed either.
    let rebuild = drover.granted(ask("passing")).await;
    drover
        .accept(ReportValueRequest {
            do_not_store: true,
            ..report("passing", &rebuild, "value")
        })
        .await;
    let rebuild = drover.granted(ask("passing")).await;
    let nothing = ended("passing", &rebuild, Outcome::NotModified(NotModified {}));
    assert_eq!(drover.refuse(nothing).await, Rejection::NoValue);
    drover.end().await;
}

#[tokio::test]
async fn what_is_not_to_be_stored_goes_to_those_who_wait_and_the_next_rebuilds() {
    let drover = Drover::start().await;
    let no_life = Lifetimes {
        fresh_ttl: span(0),
        ..Lifetimes::default()
    };
    for (key, change) in [("do-not-store", (true, None)), ("no-life", (false, Some(no_life)))] {
        for outcome in [Outcome::Value("value".into()), not_found()] {
            let rebuild = drover.granted(ask(key)).await;
            let parked = [drover.park(wait(key)).await, drover.park(wait(key)).await];
            let reading = drover
                .park(AcquireRebuildRequest {
                    intent: Intent::Read.into(),
                    ..wait(key)
                })
                .await;
            let (mut other, newcomer) = (drover.another().await, ask(key));
            drover.looked_at().await;
            let answer = drover
                .report(ReportValueRequest {
                    do_not_store: change.0,
                    ttl: change.1,
                    ..ended(key, &rebuild, outcome)
                })
                .await;
            assert!(answer.accepted);
            // Nobody holds the lease, so who comes now rebuilds, although the others are hardly answered yet.
            let next = other.acquire_rebuild(newcomer).await.expect("an answer").into_inner();
            let next = granted(next.decision.expect("a decision"));
            assert!(token(&next) > token(&rebuild));
            for asking in parked.into_iter().chain([reading]) {
                let hit = hit(got(asking).await);
                assert!(hit.freshness() == Freshness::Fresh && zero(&hit), "{key}: {hit:?}");
                assert_eq!(hit.version, token(&rebuild));
            }
            drover.accept(ended(key, &next, crate::support::abandoned())).await;
        }
    }
    drover.end().await;
}

#[tokio::test]
async fn a_failure_gives_those_who_wait_the_stale_value_and_the_next_too() {
    let drover = Drover::start().await;
    drover.fill("item", "old").await;
    drover.invalidate(crate::invalidation::soft(drop_keys(&["item"]))).await;
    let rebuild = drover.granted(ask("item")).await;
    let fallback = rebuild.fallback.as_ref().expect("a fallback");
    assert_eq!((text(fallback), fallback.freshness()), ("old", Freshness::Stale));
    let waiting = drover
        .park(AcquireRebuildRequest {
            accept_stale: Some(false),
            ..wait("item")
        })
        .await;
    drover.accept(ended("item", &rebuild, failed("down"))).await;
    let stale = drover.hit(ask("item")).await;
    assert_eq!((text(&stale), stale.freshness()), ("old", Freshness::Stale));
    assert_eq!(
        keep_off(got(waiting).await).message,
        "down",
        "who wants nothing stale gets nothing"
    );
    drover.end().await;
}

#[tokio::test]
async fn a_value_that_is_too_large_is_an_error_and_ends_the_lease_as_a_failure() {
    let drover = Drover::with(|policy| policy.max_value_bytes = 10).await;
    let rebuild = drover.granted(ask("item")).await;
    assert_eq!(rebuild.max_value_bytes, 10);
    let waiting = drover.park(wait("item")).await;
    let large = report("item", &rebuild, "eleven byte");
    for _ in 0..2 {
        let status = drover
            .calls
            .clone()
            .report_value(large.clone())
            .await
            .expect_err("too large");
        assert_eq!(crate::statuses::reason(&status), "VALUE_TOO_LARGE");
    }
    assert_eq!(keep_off(got(waiting).await).failures, 1);
    assert_eq!(
        keep_off(drover.ask(ask("item")).await).failures,
        1,
        "repeating it is no second failure"
    );
    let exact = drover.granted(ask("exact")).await;
    drover.accept(report("exact", &exact, "ten bytes!")).await;
    drover.end().await;
}

#[tokio::test]
async fn the_largest_value_that_a_policy_can_allow_passes_both_ways() {
    let drover = Drover::with(|policy| policy.max_value_bytes = 3 << 20).await;
    let rebuild = drover.granted(ask("item")).await;
    let value = "x".repeat(3 << 20);
    let waiting = drover.park(wait("item")).await;
    drover.accept(report("item", &rebuild, &value)).await;
    assert_eq!(text(&hit(got(waiting).await)).len(), 3 << 20);
    drover.end().await;
}

#[tokio::test]
async fn lifetimes_of_a_report_are_jittered_and_cut_to_the_longest() {
    let drover = Drover::start().await;
    let mut ends = std::collections::HashSet::new();
    for at in 0..20 {
        let key = format!("item {at}");
        let rebuild = drover.granted(ask(&key)).await;
        let ttl = Lifetimes {
            fresh_ttl: span(100_000),
            stale_while_revalidate: span(0),
            stale_if_error: span(30 * 24 * 3_600_000),
        };
        let request = ReportValueRequest {
            ttl: Some(ttl),
            tags: words(&["all"]),
            ..report(&key, &rebuild, "value")
        };
        let expiry = drover.report(request).await.expiry.expect("an expiry");
        let fresh = length(&expiry.fresh_for);
        assert!(
            fresh >= Duration::from_secs(89) && fresh <= Duration::from_secs(110),
            "{fresh:?}"
        );
        assert!(length(&expiry.stale_for) <= fresh);
        assert!(length(&expiry.stale_if_error_for) <= Duration::from_secs(7 * 24 * 3_600));
        ends.insert(fresh.as_millis());
    }
    assert!(ends.len() > 10, "not all alike: {ends:?}");
    drover.end().await;
}

#[tokio::test]
async fn a_rebuild_tells_its_fallback_and_a_forced_failure_keeps_the_fresh_value() {
    let drover = Drover::start().await;
    drover.fill("item", "value").await;
    let force = AcquireRebuildRequest {
        intent: Intent::Force.into(),
        ..ask("item")
    };
    let rebuild = drover.granted(force.clone()).await;
    assert_eq!(text(rebuild.fallback.as_ref().expect("a fallback")), "value");
    drover.accept(ended("item", &rebuild, failed("down"))).await;
    let answer = drover.ask(force).await;
    assert!(
        matches!(&answer, Decision::Hit(hit) if hit.freshness() == Freshness::Fresh),
        "{answer:?}"
    );
    drover.end().await;
}
