//! When the origin of a namespace is to be left alone.

use tokio::time::advance;

use super::*;
use crate::decision::KeepOff;

fn about(name: &str) -> Acquire {
    Acquire {
        key: Key::new("shop", name),
        wait: Some(Duration::ZERO),
        ..question()
    }
}

fn kept_off(acquired: &Acquired) -> &KeepOff {
    match &acquired.answer {
        Answer::KeepOff(keep_off) => keep_off,
        other => panic!("expected a pause: {other:?}"),
    }
}

/// Pauses of 8 s at the first opening, at most.
fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.backoff.base = seconds(8);
    policy
}

impl Replica {
    async fn ends(&self, name: &str, acquired: &Acquired, outcome: Outcome) {
        let bytes = matches!(outcome, Outcome::Built(Content::Bytes(_))).then(|| Arc::from(&b"value"[..]));
        let report = Report {
            lease: rebuild(acquired).lease,
            outcome,
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        };
        let key = Key::new("shop", name);
        let reported = self.0.report(ReportValue { key, report, bytes }).await;
        assert!(accepted(&reported.expect("the store answers")));
        settle().await;
    }

    /// So many rebuilds, of which the first ones succeed.
    async fn rebuilds(&self, all: usize, good: usize) {
        for number in 0..all {
            let name = format!("key {number}");
            let acquired = self.ask(about(&name)).await;
            self.ends(&name, &acquired, if number < good { value() } else { failure() })
                .await;
        }
    }

    async fn is_open(&self) -> bool {
        let namespaces = self.0.namespaces().await.expect("the store answers");
        namespaces
            .iter()
            .any(|info| info.namespace == "shop" && info.circuit_open)
    }
}

#[tokio::test(start_paused = true)]
async fn it_opens_when_half_of_at_least_twenty_rebuilds_failed() {
    let few = Replica::with(policy());
    few.rebuilds(19, 0).await;
    assert!(!few.is_open().await);
    rebuild(&few.ask(about("other")).await);
    let good = Replica::with(policy());
    good.rebuilds(41, 21).await;
    assert!(!good.is_open().await);
    let bad = Replica::with(policy());
    bad.rebuilds(40, 20).await;
    assert!(bad.is_open().await);
    // Also to whom its own key's failures keep off.
    assert!(kept_off(&bad.ask(about("key 39")).await).circuit_open);
    let acquired = bad.ask(about("other")).await;
    let keep_off = kept_off(&acquired);
    assert!(keep_off.circuit_open);
    assert!(
        (seconds(4)..=Duration::from_millis(8_800)).contains(&keep_off.retry_after),
        "{keep_off:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn while_it_is_open_what_is_there_is_served_and_nobody_rebuilds_whatever_they_insist_on() {
    let replica = Replica::with(policy());
    let acquired = replica.ask(about("there")).await;
    replica.ends("there", &acquired, value()).await;
    let running = replica.ask(about("running")).await;
    // With the success there are twenty.
    replica.rebuilds(19, 0).await;
    assert!(replica.is_open().await);
    let mut asked = about("there");
    asked.ask.intent = Intent::Force;
    assert!(hit(&replica.ask(asked).await).fresh);
    let waits = Acquire {
        wait: None,
        ..about("missing")
    };
    assert!(
        kept_off(&ended(replica.park(waits).await).await).circuit_open,
        "nobody is parked for it"
    );
    // What was under way when it opened says nothing any more.
    replica.ends("running", &running, value()).await;
    assert!(replica.is_open().await);
}

#[tokio::test(start_paused = true)]
async fn who_looks_at_a_key_sees_that_its_namespace_s_circuit_is_open() {
    let replica = Replica::with(policy());
    let described = async |name| {
        replica
            .0
            .describe(&Key::new("shop", name))
            .await
            .expect("an answer")
            .backoff
    };
    assert_eq!(described("never asked for").await, None);
    replica.rebuilds(20, 0).await;
    let never = described("never asked for").await.expect("a pause");
    assert!(never.circuit_open && never.failures == 0, "{never:?}");
    assert!((seconds(4)..seconds(9)).contains(&never.retry_after), "{never:?}");
    let failed = described("key 0").await.expect("a pause");
    assert!(failed.circuit_open && failed.failures == 1, "{failed:?}");
}

#[tokio::test(start_paused = true)]
async fn after_the_pause_exactly_one_probe_is_let_by_and_its_success_closes_it() {
    let memory = Memory::new(Limits::default());
    let replicas = [
        Replica::over(memory.clone(), policy(), 10_000),
        Replica::over(memory, policy(), 10_000),
    ];
    replicas[0].rebuilds(20, 0).await;
    assert!(replicas[1].is_open().await, "the other replica has heard of it");
    advance(seconds(8)).await;
    let mut probes = Vec::new();
    for number in 0..20 {
        let name = format!("other {number}");
        let acquired = replicas[number % 2].ask(about(&name)).await;
        match &acquired.answer {
            Answer::Rebuild(_) => probes.push((name, acquired)),
            _ => assert!(kept_off(&acquired).circuit_open),
        }
    }
    assert_eq!(probes.len(), 1);
    let (name, probe) = &probes[0];
    // Reported at the one that did not grant it.
    replicas[1].ends(name, probe, value()).await;
    for replica in &replicas {
        assert!(!replica.is_open().await);
    }
    rebuild(&replicas[0].ask(about("next")).await);
    rebuild(&replicas[1].ask(about("and next")).await);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_opens_it_for_longer_and_so_does_one_that_never_comes_back() {
    let replica = Replica::with(policy());
    replica.rebuilds(20, 0).await;
    advance(seconds(8)).await;
    let probe = replica.ask(about("probe")).await;
    replica.ends("probe", &probe, failure()).await;
    let acquired = replica.ask(about("other")).await;
    assert!((seconds(8)..=seconds(18)).contains(&kept_off(&acquired).retry_after));
    advance(seconds(16)).await;
    let mut asked = about("second probe");
    asked.ask.lease_ttl = Some(seconds(5));
    rebuild(&replica.ask(asked).await);
    advance(Duration::from_millis(4_900)).await;
    assert!(kept_off(&replica.ask(about("other")).await).circuit_open);
    advance(Duration::from_millis(200)).await;
    let acquired = replica.ask(about("other")).await;
    assert!(
        (seconds(16)..=seconds(36)).contains(&kept_off(&acquired).retry_after),
        "{acquired:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_given_up_makes_the_next_caller_the_probe_and_a_renewed_one_stays_it() {
    let replica = Replica::with(policy());
    replica.rebuilds(20, 0).await;
    advance(seconds(8)).await;
    let probe = replica.ask(about("probe")).await;
    replica.ends("probe", &probe, Outcome::Abandoned).await;
    let second = replica.ask(about("front page")).await;
    let lease = rebuild(&second).lease;
    advance(seconds(9)).await;
    let key = Key::new("shop", "front page");
    let renewal = Renew {
        key,
        lease,
        ttl: Some(seconds(10)),
    };
    assert_eq!(replica.0.renew(renewal).await.expect("the store answers").lost, None);
    settle().await;
    advance(seconds(9)).await;
    assert!(kept_off(&replica.ask(about("other")).await).retry_after <= Duration::from_millis(1_100));
    replica.ends("front page", &second, value()).await;
    assert!(!replica.is_open().await);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_for_a_place_are_told_when_it_opens_and_a_probe_needs_a_place() {
    let mut policy = policy();
    policy.max_concurrent_rebuilds = 1;
    let replica = Replica::with(policy);
    replica.rebuilds(20, 0).await;
    assert!(replica.is_open().await);
    advance(seconds(8)).await;
    let probe = replica.ask(about("probe")).await;
    let waits = Acquire {
        wait: None,
        ..about("waits")
    };
    assert!(kept_off(&ended(replica.park(waits.clone()).await).await).circuit_open);
    replica.ends("probe", &probe, value()).await;
    let holder = replica.ask(about("holder")).await;
    let waiting = replica.park(waits).await;
    assert!(!waiting.is_finished());
    replica.ends("holder", &holder, value()).await;
    rebuild(&ended(waiting).await);
}

#[tokio::test(start_paused = true)]
async fn successes_that_were_before_the_first_failure_count_too() {
    let replica = Replica::with(policy());
    replica.rebuilds(100, 100).await;
    for number in 0..30 {
        let name = format!("bad {number}");
        let acquired = replica.ask(about(&name)).await;
        replica.ends(&name, &acquired, failure()).await;
    }
    assert!(!replica.is_open().await, "30 of 130");
}
