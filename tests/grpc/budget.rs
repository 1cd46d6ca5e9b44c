//! How many rebuilds run at once, and what stops them altogether.

use std::sync::Arc;
use std::time::Duration;

use drover::config::PolicySet;
use drover::decision::Policy;
use drover::proto::acquire_rebuild_response::Decision;
use drover::proto::{AcquireRebuildRequest, Backoff, BusyCause, ListNamespacesRequest, RenewLeaseRequest};

use crate::support::{
    Drover, SHOP, abandoned, ask, busy, drop_everything, ended, eventually, failed, granted, lease, not_found, report,
    span, wait,
};

async fn limited(limit: u32) -> Drover {
    Drover::with(|policy| policy.max_concurrent_rebuilds = limit).await
}

async fn is_out_of_budget(drover: &Drover, key: &str) -> bool {
    match drover.ask(ask(key)).await {
        Decision::Busy(busy) => busy.cause() == BusyCause::RebuildBudget,
        other => panic!("no place was to be had: {other:?}"),
    }
}

#[tokio::test]
async fn a_rebuild_without_a_place_waits_for_one_and_is_told_why_when_its_wait_is_over() {
    let drover = limited(2).await;
    let (a, _b) = (drover.granted(ask("a")).await, drover.granted(ask("b")).await);
    assert!(is_out_of_budget(&drover, "c").await);
    let short = AcquireRebuildRequest {
        wait: span(200),
        ..ask("c")
    };
    let answer = drover.answer(short).await;
    assert!(answer.waited.is_some());
    assert_eq!(
        busy(answer.decision.expect("a decision")).cause(),
        BusyCause::RebuildBudget
    );
    let waiting = drover.park(wait("c")).await;
    drover.accept(report("a", &a, "value")).await;
    let answer = waiting.await.expect("no panic").expect("an answer");
    granted(answer.decision.expect("a decision"));
    assert!(is_out_of_budget(&drover, "d").await);
    drover.end().await;
}

#[tokio::test]
async fn every_end_of_a_lease_gives_its_place_back() {
    let drover = limited(1).await;
    for (number, outcome) in [abandoned(), failed("down"), not_found()].into_iter().enumerate() {
        let key = format!("key {number}");
        let rebuild = drover.granted(wait(&key)).await;
        assert!(is_out_of_budget(&drover, "other").await);
        drover.accept(ended(&key, &rebuild, outcome)).await;
        is_let_in(&drover, &format!("after {number}")).await;
    }
    // Revoked.
    drover.granted(wait("revoked")).await;
    drover.invalidate(drop_everything()).await;
    is_let_in(&drover, "after a revocation").await;
    // Crashed.
    let short = AcquireRebuildRequest {
        lease_ttl: span(150),
        ..wait("crashed")
    };
    drover.granted(short).await;
    let waiting = drover.asking(wait("after a crash"));
    granted(
        waiting
            .await
            .expect("no panic")
            .expect("an answer")
            .decision
            .expect("a decision"),
    );
    drover.end().await;
}

/// Where replicas share a store, a place is there a moment after the end of its lease was answered: so whoever comes next waits for it.
async fn is_let_in(drover: &Drover, key: &str) {
    let rebuild = granted(drover.ask(wait(key)).await);
    drover.accept(ended(key, &rebuild, abandoned())).await;
}

#[tokio::test]
async fn a_renewed_lease_keeps_its_place_beyond_its_first_length() {
    let drover = limited(1).await;
    let short = AcquireRebuildRequest {
        lease_ttl: span(300),
        ..ask("a")
    };
    let rebuild = drover.granted(short).await;
    let renewal = RenewLeaseRequest {
        namespace: SHOP.to_owned(),
        key: "a".to_owned(),
        lease_id: lease(&rebuild).lease_id,
        ttl: span(20_000),
    };
    let renewed = drover.calls.clone().renew_lease(renewal).await.expect("an answer");
    assert!(renewed.into_inner().renewed);
    let past = AcquireRebuildRequest {
        wait: span(600),
        ..ask("b")
    };
    assert_eq!(busy(drover.ask(past).await).cause(), BusyCause::RebuildBudget);
    drover.end().await;
}

#[tokio::test]
async fn a_waiter_inherits_the_place_of_its_key_and_other_namespaces_have_places_of_their_own() {
    let policy = Policy {
        max_concurrent_rebuilds: 1,
        ..Policy::default()
    };
    let drover = Drover::under(PolicySet {
        namespaces: [(SHOP.to_owned(), Arc::new(policy))].into(),
        ..PolicySet::default()
    })
    .await
    .at_one_replica()
    .await;
    let rebuild = drover.granted(ask("a")).await;
    let (in_line, heir) = (drover.park(wait("b")).await, drover.park(wait("a")).await);
    drover.looked_at().await;
    for key in ["a", "b", "c"] {
        let elsewhere = AcquireRebuildRequest {
            namespace: "elsewhere".to_owned(),
            ..ask(key)
        };
        drover.granted(elsewhere).await;
    }
    drover.accept(ended("a", &rebuild, abandoned())).await;
    let inherited = granted(
        heir.await
            .expect("no panic")
            .expect("an answer")
            .decision
            .expect("a decision"),
    );
    assert!(!in_line.is_finished());
    drover.accept(report("a", &inherited, "value")).await;
    granted(
        in_line
            .await
            .expect("no panic")
            .expect("an answer")
            .decision
            .expect("a decision"),
    );
    drover.end().await;
}

async fn is_open(drover: &Drover) -> bool {
    let list = drover
        .admin()
        .await
        .list_namespaces(ListNamespacesRequest::default())
        .await;
    let list = list.expect("a page").into_inner();
    list.namespaces
        .iter()
        .any(|info| info.namespace == SHOP && info.circuit_open)
}

fn paused(decision: Decision) -> Option<Backoff> {
    match decision {
        Decision::Backoff(backoff) => Some(backoff),
        _ => None,
    }
}

#[tokio::test]
async fn an_origin_that_fails_is_left_alone_but_for_one_probe_until_that_succeeds() {
    let drover = Drover::with(|policy| policy.backoff.base = Duration::from_millis(1_500)).await;
    drover.fill("there", "value").await;
    for number in 0..25 {
        let key = format!("key {number}");
        let rebuild = drover.granted(ask(&key)).await;
        drover.accept(ended(&key, &rebuild, failed("down"))).await;
        if number >= 18 && is_open(&drover).await {
            break;
        }
    }
    let mut others = 0;
    let backoff = eventually(async || {
        others += 1;
        paused(drover.ask(ask(&format!("other {others}"))).await)
    })
    .await;
    assert!(backoff.circuit_open);
    assert!(is_open(&drover).await);
    drover.hit(ask("there")).await;
    // The pause passes: of those who ask, one gets the lease.
    let rebuild = eventually(async || match drover.ask(ask("probe")).await {
        Decision::Rebuild(rebuild) => Some(rebuild),
        _ => None,
    })
    .await;
    for number in 0..10 {
        let refused = paused(drover.ask(ask(&format!("others {number}"))).await);
        assert!(refused.is_some_and(|backoff| backoff.circuit_open));
    }
    drover.accept(report("probe", &rebuild, "value")).await;
    eventually(async || (!is_open(&drover).await).then_some(())).await;
    eventually(async || matches!(drover.ask(ask("next")).await, Decision::Rebuild(_)).then_some(())).await;
    drover.end().await;
}
