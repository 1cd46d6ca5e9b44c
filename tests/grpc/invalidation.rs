//! Making values old, hard and soft.

use std::time::Duration;

use drover::proto::invalidated_target::Target;
use drover::proto::report_value_request::Outcome;
use drover::proto::{
    AcquireRebuildRequest, Cause, Freshness, InvalidateRequest, Mode, NotModified, ReportValueRequest,
};

use crate::support::{
    Drover, ask, drop_everything, drop_keys, drop_tags, ended, granted, length, report, span, text, token, words,
};

pub fn soft(request: InvalidateRequest) -> InvalidateRequest {
    InvalidateRequest {
        mode: Mode::Expire.into(),
        ..request
    }
}

async fn fill_tagged(drover: &Drover, key: &str, tags: &[&str]) {
    let rebuild = drover.granted(ask(key)).await;
    let request = ReportValueRequest {
        tags: words(tags),
        ..report(key, &rebuild, "value")
    };
    drover.accept(request).await;
}

#[tokio::test]
async fn a_hard_one_drops_and_a_soft_one_makes_stale_by_key_by_tag_and_by_all() {
    let drover = Drover::start().await;
    for (name, request) in [
        ("key", drop_keys(&["key", "nobody"])),
        ("tag", drop_tags(&["other", "tag"])),
        ("all", drop_everything()),
    ] {
        fill_tagged(&drover, name, &["tag"]).await;
        drover.invalidate(soft(request.clone())).await;
        let rebuild = drover.granted(ask(name)).await;
        assert!(
            matches!(rebuild.cause(), Cause::Stale | Cause::Invalidated),
            "{name}: {rebuild:?}"
        );
        let fallback = rebuild.fallback.as_ref().expect("a fallback");
        assert_eq!((text(fallback), fallback.freshness()), ("value", Freshness::Stale));
        assert_eq!(drover.hit(ask(name)).await.freshness(), Freshness::Stale);
        drover.accept(report(name, &rebuild, "second")).await;
        fill_again(&drover, name).await;
        let done = drover.invalidate(request).await;
        assert!(done.invalidated.iter().all(|target| target.version > 0), "{done:?}");
        let rebuild = drover.granted(ask(name)).await;
        assert_eq!(rebuild.cause(), Cause::Invalidated, "{name}");
        assert!(rebuild.fallback.is_none(), "{name}: no path returns the old value");
        drover.accept(ended(name, &rebuild, crate::support::abandoned())).await;
    }
    drover.end().await;
}

async fn fill_again(drover: &Drover, key: &str) {
    let force = AcquireRebuildRequest {
        intent: drover::proto::Intent::Force.into(),
        ..ask(key)
    };
    let rebuild = drover.granted(force).await;
    let tagged = ReportValueRequest {
        tags: words(&["tag"]),
        ..report(key, &rebuild, "third")
    };
    drover.accept(tagged).await;
}

#[tokio::test]
async fn the_answer_names_what_was_made_old_in_the_order_of_the_request() {
    let drover = Drover::start().await;
    let request = InvalidateRequest {
        keys: words(&["b", "a", "b"]),
        tags: words(&["z", "y"]),
        ..drop_keys(&[])
    };
    let done = drover.invalidate(request).await;
    let named: Vec<String> = done
        .invalidated
        .iter()
        .map(|target| match target.target.as_ref().expect("a target") {
            Target::Key(key) => format!("key {key}"),
            Target::Tag(tag) => format!("tag {tag}"),
            Target::Everything(_) => "everything".to_owned(),
        })
        .collect();
    assert_eq!(named, ["key b", "key a", "key b", "tag z", "tag y"]);
    assert!(done.invalidated.iter().all(|target| target.version > 0));
    let all = drover.invalidate(drop_everything()).await;
    assert_eq!(all.invalidated[0].target, Some(Target::Everything(true)));
    drover.end().await;
}

#[tokio::test]
async fn mode_unspecified_drops() {
    let drover = Drover::start().await;
    drover.fill("item", "value").await;
    let request = InvalidateRequest {
        mode: Mode::Unspecified.into(),
        ..drop_keys(&["item"])
    };
    drover.invalidate(request).await;
    assert!(drover.granted(ask("item")).await.fallback.is_none());
    drover.end().await;
}

#[tokio::test]
async fn repeating_a_soft_one_never_prolongs_the_stale_windows() {
    let drover = Drover::start().await;
    drover.fill("item", "value").await;
    drover.invalidate(soft(drop_keys(&["item"]))).await;
    let rebuild = drover.granted(ask("item")).await;
    let left = |hit: drover::proto::Hit| length(&hit.expiry.expect("an expiry").stale_if_error_for);
    let mut before = left(rebuild.fallback.clone().expect("a fallback"));
    for _ in 0..20 {
        for request in [drop_keys(&["item"]), drop_everything()] {
            drover.invalidate(soft(request)).await;
            let rebuild = drover.granted(ask("item")).await;
            let now = left(rebuild.fallback.clone().expect("a fallback"));
            assert!(now < before, "{now:?} after {before:?}");
            before = now;
        }
    }
    drover.end().await;
}

#[tokio::test]
async fn a_soft_one_after_a_hard_one_brings_nothing_back() {
    let drover = Drover::start().await;
    fill_tagged(&drover, "item", &["tag"]).await;
    for request in [
        drop_tags(&["tag"]),
        soft(drop_tags(&["tag"])),
        soft(drop_keys(&["item"])),
        soft(drop_everything()),
    ] {
        drover.invalidate(request).await;
        let rebuild = drover.granted(ask("item")).await;
        assert!(rebuild.fallback.is_none(), "{rebuild:?}");
    }
    drover.end().await;
}

#[tokio::test]
async fn a_value_that_not_modified_confirmed_is_made_old_like_any() {
    let drover = Drover::start().await;
    fill_tagged(&drover, "item", &["tag"]).await;
    drover.invalidate(soft(drop_keys(&["item"]))).await;
    let rebuild = drover.granted(ask("item")).await;
    drover
        .accept(ended("item", &rebuild, Outcome::NotModified(NotModified {})))
        .await;
    assert_eq!(drover.hit(ask("item")).await.freshness(), Freshness::Fresh);
    drover.invalidate(drop_tags(&["tag"])).await;
    let new = granted(drover.ask(ask("item")).await);
    assert!(new.fallback.is_none() && token(&new) > token(&rebuild));
    drover.end().await;
}

#[tokio::test]
async fn what_is_built_while_the_origin_settles_is_fresh_only_until_it_has() {
    let drover = Drover::start().await;
    for (key, request) in [
        ("by-key", drop_keys(&["by-key"])),
        ("by-tag", drop_tags(&["tag"])),
        ("by-all", drop_everything()),
    ] {
        let request = InvalidateRequest {
            settle: span(20_000),
            ..request
        };
        drover.invalidate(request).await;
        let rebuild = drover.granted(ask(key)).await;
        let tagged = ReportValueRequest {
            tags: words(&["tag"]),
            ..report(key, &rebuild, "value")
        };
        let expiry = drover.report(tagged).await.expiry.expect("an expiry");
        let fresh = length(&expiry.fresh_for);
        assert!(
            fresh > Duration::from_secs(10) && fresh <= Duration::from_secs(20),
            "{key}: {fresh:?}"
        );
    }
    let other = drover.granted(AcquireRebuildRequest {
        namespace: "elsewhere".to_owned(),
        ..ask("by-key")
    });
    let other = other.await;
    let report = ReportValueRequest {
        namespace: "elsewhere".to_owned(),
        ..report("by-key", &other, "value")
    };
    let fresh = length(&drover.report(report).await.expiry.expect("an expiry").fresh_for);
    assert!(fresh > Duration::from_secs(200), "elsewhere nothing settles: {fresh:?}");
    drover.end().await;
}
