//! A lease that ends without a result passes to exactly one of those who wait.

use drover::proto::{AcquireRebuildRequest, Cause, Intent};

use crate::support::{
    Asking, Drover, abandoned, ask, drop_everything, drop_keys, drop_tags, ended, got, granted, hit, lease, length,
    report, span, text, token, until, wait, words,
};

/// The one of them that was answered, and the others.
async fn promoted(mut parked: Vec<Asking>) -> (drover::proto::Rebuild, Vec<Asking>) {
    until(|| parked.iter().any(Asking::is_finished)).await;
    let at = parked.iter().position(Asking::is_finished).expect("one");
    let rebuild = granted(got(parked.remove(at)).await);
    (rebuild, parked)
}

/// Three wait; the holder's lease ends as `end` makes it end. One takes over, the value goes to the others.
async fn passes_on(
    drover: &Drover,
    key: &str,
    first: AcquireRebuildRequest,
    end: impl AsyncFnOnce(&Drover, &drover::proto::Rebuild),
) {
    let lost = drover.granted(first).await;
    let mut parked = Vec::new();
    for _ in 0..3 {
        parked.push(drover.park(wait(key)).await);
    }
    end(drover, &lost).await;
    let (new, others) = promoted(parked).await;
    assert_eq!(new.cause(), Cause::Takeover);
    assert!(token(&new) > token(&lost));
    assert_eq!(drover.parked(), 2, "the others stay parked");
    drover.accept(report(key, &new, "second")).await;
    for asking in others {
        assert_eq!(text(&hit(got(asking).await)), "second");
    }
    drover.report(report(key, &lost, "late")).await;
    assert_eq!(
        text(&drover.hit(ask(key)).await),
        "second",
        "the late value is never served"
    );
}

#[tokio::test]
async fn one_takes_over_when_the_holder_abandons() {
    let drover = Drover::start().await;
    passes_on(&drover, "item", ask("item"), async |drover, lost| {
        drover.accept(ended("item", lost, abandoned())).await;
    })
    .await;
    drover.end().await;
}

#[tokio::test]
async fn one_takes_over_when_the_lease_time_is_over() {
    let drover = Drover::start().await;
    let short = AcquireRebuildRequest {
        lease_ttl: span(100),
        ..ask("item")
    };
    passes_on(&drover, "item", short, async |_, _| ()).await;
    drover.end().await;
}

#[tokio::test]
async fn one_takes_over_when_an_invalidation_revokes_the_lease() {
    let drover = Drover::start().await;
    let tagged = |key| AcquireRebuildRequest {
        tags: words(&["colour", "size"]),
        ..ask(key)
    };
    for (key, request) in [
        ("by-key", drop_keys(&["by-key"])),
        ("by-tag", drop_tags(&["size"])),
        ("by-all", drop_everything()),
    ] {
        passes_on(&drover, key, tagged(key), async |drover, _| {
            let done = drover.invalidate(request).await;
            assert_eq!(done.leases_revoked, 1, "{key}");
        })
        .await;
    }
    drover.end().await;
}

#[tokio::test]
async fn readers_are_not_promoted_and_get_what_the_one_who_is_brings() {
    let drover = Drover::start().await;
    let lost = drover.granted(ask("item")).await;
    let reader = drover
        .park(AcquireRebuildRequest {
            intent: Intent::Read.into(),
            ..wait("item")
        })
        .await;
    let user = drover.park(wait("item")).await;
    drover.accept(ended("item", &lost, abandoned())).await;
    let new = granted(got(user).await);
    assert!(!reader.is_finished());
    drover.accept(report("item", &new, "value")).await;
    assert_eq!(text(&hit(got(reader).await)), "value");
    drover.end().await;
}

#[tokio::test]
async fn readers_alone_are_told_of_a_miss_when_the_holder_abandons() {
    let drover = Drover::start().await;
    let lost = drover.granted(ask("item")).await;
    let reader = drover
        .park(AcquireRebuildRequest {
            intent: Intent::Read.into(),
            ..wait("item")
        })
        .await;
    drover.accept(ended("item", &lost, abandoned())).await;
    let answer = got(reader).await;
    assert!(
        matches!(answer, drover::proto::acquire_rebuild_response::Decision::Miss(_)),
        "{answer:?}"
    );
    drover.end().await;
}

#[tokio::test]
async fn a_promoted_caller_has_the_lease_length_and_tags_that_it_asked_for() {
    let drover = Drover::start().await;
    let lost = drover.granted(ask("item")).await;
    let waiting = drover
        .park(AcquireRebuildRequest {
            lease_ttl: span(3_000),
            tags: words(&["late"]),
            min_fencing_token: token(&lost) + 1_000_000,
            ..wait("item")
        })
        .await;
    drover.accept(ended("item", &lost, abandoned())).await;
    let new = granted(got(waiting).await);
    assert!(token(&new) > token(&lost) + 1_000_000);
    let left = length(&lease(&new).ttl);
    assert!(left.as_millis() > 2_000 && left.as_millis() <= 3_000, "{left:?}");
    assert_eq!(drover.invalidate(drop_tags(&["late"])).await.leases_revoked, 1);
    drover.end().await;
}

#[tokio::test]
async fn a_promoted_caller_that_leaves_gives_way_to_the_next() {
    let drover = Drover::start().await;
    let lost = drover.granted(ask("item")).await;
    let first = drover.park(wait("item")).await;
    let second = drover.park(wait("item")).await;
    first.abort();
    until(|| drover.parked() == 1).await;
    drover.accept(ended("item", &lost, abandoned())).await;
    assert_eq!(granted(got(second).await).cause(), Cause::Takeover);
    drover.end().await;
}
