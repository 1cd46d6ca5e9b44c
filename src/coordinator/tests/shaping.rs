//! What is known of namespaces rather than of keys: who is asked for, and when rebuilds are due.

use super::*;

fn about(name: &str) -> Acquire {
    Acquire {
        key: Key::new("shop", name),
        ..question()
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_asked_for_much_is_told_so_and_listed_first() {
    let replica = replica();
    replica.ask(question()).await;
    let mut answers = Vec::new();
    for number in 0..600 {
        let reads = Acquire {
            ask: Ask {
                intent: Intent::Read,
                ..Ask::plain()
            },
            ..about(if number % 3 == 0 { "rare" } else { "hot" })
        };
        answers.push(replica.ask(reads).await.hint);
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    assert_eq!(answers[0], None, "one question makes nothing hot");
    let hint = answers[599].expect("66 times a second");
    assert!(hint.hot);
    assert_eq!(hint.copies, 1, "one copy bears that");
    let top = replica.0.hot_keys("shop", 20).expect("a namespace");
    let names: Vec<&str> = top.iter().map(|hot| hot.key.name()).collect();
    assert_eq!(names, ["hot", "rare", "front page"]);
    assert!((60.0..75.0).contains(&top[0].rate), "{top:?}");
    assert_eq!(top[0].error, 0.0);
    assert_eq!(replica.0.hot_keys("shop", 1).expect("a namespace").len(), 1);
    assert_eq!(replica.0.hot_keys("elsewhere", 9).expect("a namespace"), []);
}

#[tokio::test(start_paused = true)]
async fn what_callers_read_locally_counts_with_questions_and_with_acknowledgements() {
    let replica = replica();
    let told = Acquire {
        hits: 99,
        ..about("asked")
    };
    replica.ask(told).await;
    replica.0.read_locally("shop", "watched", 300);
    let top = replica.0.hot_keys("shop", 2).expect("a namespace");
    assert_eq!([top[0].key.name(), top[1].key.name()], ["watched", "asked"]);
    assert!((top[0].rate / top[1].rate - 3.0).abs() < 0.01, "{top:?}");
}

/// Fills so many keys at once; how many come due in the busiest second, against the mean of the seconds in which any can.
async fn busiest(level: bool) -> f64 {
    const KEYS: usize = 1_200;
    let mut policy = Policy::default();
    policy.jitter.level = level;
    let replica = Replica::with(policy);
    let mut due = [0_u32; 400];
    // The ledger's seconds are those of the store.
    let part = Duration::from_micros(replica.0.store.ping().await.expect("it answers").0 % 1_000_000);
    for number in 0..KEYS {
        let request = about(&format!("k{number}"));
        let granted = replica.ask(request.clone()).await;
        let report = Report {
            lease: rebuild(&granted).lease,
            outcome: value(),
            cost: Some(Duration::from_millis(100)),
            tags: Vec::new(),
            lifetimes: Lifetimes::default(),
            do_not_store: false,
        };
        let reported = replica.0.report(ReportValue {
            key: request.key,
            report,
            bytes: Some(Arc::from(&b"value"[..])),
        });
        let ReportAnswer::Accepted {
            expiry: Some(expiry), ..
        } = reported.await.expect("the store answers").answer
        else {
            panic!("it is current")
        };
        assert!((270..=330).contains(&expiry.fresh_for.as_secs()));
        due[(expiry.refresh_in.expect("one is planned") + part).as_secs() as usize] += 1;
    }
    f64::from(*due.iter().max().expect("seconds")) / (KEYS as f64 / 60.0)
}

#[tokio::test(start_paused = true)]
async fn levelled_lifetimes_put_no_second_above_the_others() {
    let (plain, levelled) = (busiest(false).await, busiest(true).await);
    assert!(levelled <= 1.15 && plain >= 1.3, "{levelled} levelled, {plain} plain");
}

#[tokio::test(start_paused = true)]
async fn a_report_that_is_refused_leaves_no_plan_behind() {
    let replica = replica();
    let granted = replica.ask(question()).await;
    let lease = rebuild(&granted).lease;
    replica.invalidate(Target::Everything, Mode::Drop).await;
    assert!(!accepted(&replica.report(lease, value()).await));
    let seen = replica
        .0
        .store
        .load(&key(), &[], Default::default())
        .await
        .expect("it answers");
    assert_eq!(replica.0.shaping.levels.planned("shop", seen.now), 0.0);
    let granted = replica.ask(question()).await;
    assert!(accepted(
        &replica
            .report_with(rebuild(&granted).lease, value(), |report| report.cost =
                Some(seconds(1)))
            .await
    ));
    assert_eq!(replica.0.shaping.levels.planned("shop", seen.now), 1.0);
}
