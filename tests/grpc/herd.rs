use drover::proto::{Cause, Freshness};

use crate::support::{Asking, Drover, ask, busy, got, granted, hit, report, text, token, until, wait};

#[tokio::test]
async fn two_hundred_callers_are_one_rebuild_and_all_get_its_value() {
    let drover = Drover::start().await;
    let first = drover.granted(ask("item")).await;
    assert_eq!(first.cause(), Cause::Miss);
    let herd: Vec<_> = (0..199).map(|_| drover.asking(wait("item"))).collect();
    until(|| drover.parked() == 199).await;
    let version = drover.accept(report("item", &first, "built once")).await;
    assert_eq!(version, token(&first));
    for asking in herd {
        let hit = hit(got(asking).await);
        assert_eq!(
            (text(&hit), hit.version, hit.freshness()),
            ("built once", version, Freshness::Fresh)
        );
        assert!(!hit.rebuilding);
    }
    assert_eq!(text(&drover.hit(ask("item")).await), "built once");
    drover.end().await;
}

#[tokio::test]
async fn a_herd_that_comes_at_once_has_one_winner() {
    let drover = Drover::start().await;
    let herd: Vec<_> = (0..200).map(|_| drover.asking(wait("item"))).collect();
    until(|| drover.parked() == 199 && herd.iter().any(Asking::is_finished)).await;
    let mut winners = Vec::new();
    let mut losers = Vec::new();
    for asking in herd {
        match asking.is_finished() {
            true => winners.push(granted(got(asking).await)),
            false => losers.push(asking),
        }
    }
    assert_eq!((winners.len(), losers.len()), (1, 199));
    drover.accept(report("item", &winners[0], "value")).await;
    for asking in losers {
        assert_eq!(text(&hit(got(asking).await)), "value");
    }
    drover.end().await;
}

#[tokio::test]
async fn who_does_not_wait_is_told_how_long_the_lease_lives() {
    let drover = Drover::start().await;
    drover.granted(ask("item")).await;
    let busy = busy(drover.ask(ask("item")).await);
    assert_eq!(busy.cause(), drover::proto::BusyCause::WaitElapsed);
    let left = crate::support::length(&busy.lease_remaining);
    assert!(left.as_secs() >= 8 && left.as_secs() <= 10, "{left:?}");
    assert!(!crate::support::length(&busy.retry_after).is_zero());
    drover.end().await;
}
