//! Scenarios in small, on paused time.

use super::*;
use crate::lab::progress::Bars;
use crate::lab::strategy::drover::Served;
use crate::lab::strategy::fake;

const SLACK: Duration = Duration::from_millis(5);

async fn world() -> World {
    World {
        client: Some(fake::start().await.1),
        is_own: false,
        bars: Bars::hidden(),
    }
}

/// The defaults of the command line, with fewer seconds and keys.
pub fn plan(scenario: Scenario) -> Plan {
    let (callers, lives, keys) = scenario.defaults();
    let query = Duration::from_millis(200);
    let strategies = Kind::ALL.to_vec();
    Plan {
        strategies,
        callers,
        query,
        connections: 20,
        lives,
        duration: Duration::from_secs(4),
        keys: keys.min(500),
        restart: 1_000,
        workers: 0,
        seed: 1,
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_costs_as_many_queries_as_the_strategy_lets_through() {
    let herds = burst::run(&plan(Scenario::Burst), &world().await).await.unwrap();
    let queries: Vec<_> = herds.iter().map(Herd::queried).collect();
    assert_eq!(queries, [200, 1, 200, 1, 1]);
    assert!(herds.iter().all(|herd| (herd.requests(), herd.failed) == (200, 0)));
    let slowest: Vec<_> = herds.iter().map(Herd::slowest).collect();
    // Ten rounds of the origin's connections; the query and one poll; the query and nothing else.
    assert!(slowest[0] >= Duration::from_secs(2) && slowest[0] < Duration::from_secs(2) + SLACK);
    assert!(slowest[1] >= Duration::from_millis(205) && slowest[1] < Duration::from_millis(260));
    assert!(slowest[4] >= Duration::from_millis(200) && slowest[4] < Duration::from_millis(200) + SLACK);
}

#[tokio::test(start_paused = true)]
async fn a_steady_herd_stampedes_at_each_expiry_unless_it_is_held() {
    let plan = Plan {
        keys: 1,
        ..plan(Scenario::Steady)
    };
    let herds = steady::run(&plan, &world().await).await.unwrap();
    let queries: Vec<_> = herds.iter().map(Herd::queried).collect();
    assert_eq!((queries[0], queries[1], queries[4]), (50, 1, 1));
    let slow: Vec<_> = herds.iter().map(Herd::slow).collect();
    assert_eq!((slow[0], slow[1], slow[4]), (50, 50, 0));
}

/// Read by callers, with a drover whose refreshes are its own.
fn worked(herds: &[Herd]) -> &Herd {
    let herd = herds.last().unwrap();
    assert_eq!(
        (herd.kind, herd.variant, herd.failed),
        (Kind::Drover, "with workers", 0)
    );
    herd
}

#[tokio::test(start_paused = true)]
async fn with_workers_nobody_waits_and_the_origin_gets_hardly_more_than_must_be() {
    let world = World {
        client: Some(fake::real().await),
        is_own: true,
        bars: Bars::hidden(),
    };
    let plan = Plan {
        strategies: vec![Kind::Drover],
        callers: 6,
        duration: Duration::from_secs(30),
        workers: 2,
        ..plan(Scenario::Steady)
    };
    let herds = steady::run(&plan, &world).await.unwrap();
    let herd = worked(&herds);
    let seen = herd.worked.unwrap();
    assert_eq!(seen.served, Served::default(), "of {} requests", herd.requests());
    assert_eq!((seen.warmed, herd.trouble.as_deref()), (5, None));
    assert!(herd.slowest() < SLACK, "{:?}", herd.slowest());
    // Five keys for ten lifetimes, give or take their jitter. The draw that keeps keys apart costs some more.
    assert!((45..=60).contains(&seen.least), "{seen:?}");
    assert!(
        seen.least <= seen.with_room && seen.with_room <= herd.queried(),
        "{seen:?}"
    );
    assert!(seen.over <= 2, "of ten lifetimes: {seen:?}");
    let spread = herd.queried() - seen.with_room;
    assert!(spread <= 5, "{spread} more than {seen:?}");
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_not_wanted_leave_the_herds_as_they_were() {
    let plan = Plan {
        strategies: vec![Kind::None],
        workers: 2,
        ..plan(Scenario::Steady)
    };
    let herds = steady::run(&plan, &world().await).await.unwrap();
    assert_eq!(herds.len(), 1, "no drover, no workers");
}

#[tokio::test(start_paused = true)]
async fn only_a_refused_late_write_leaves_the_new_value() {
    let races = race::run(&plan(Scenario::Race), &world().await).await.unwrap();
    let stays: Vec<_> = races
        .iter()
        .map(|race| (race.new_stays(), race.late_write_refused))
        .collect();
    assert_eq!(
        stays,
        [
            (false, false),
            (false, false),
            (false, false),
            (false, false),
            (true, true)
        ]
    );
    let second: Vec<_> = races.iter().map(|race| race.second.data == race.newest).collect();
    assert_eq!(
        second,
        [true, false, true, false, true],
        "a lock makes the second reader wait for the old value"
    );
}

#[tokio::test(start_paused = true)]
async fn an_avalanche_fills_each_key_once() {
    let fills = avalanche::run(&plan(Scenario::Avalanche), &world().await)
        .await
        .unwrap();
    assert_eq!(
        fills.iter().map(|fill| (fill.kind, fill.keys)).collect::<Vec<_>>(),
        [(Kind::None, 500), (Kind::Drover, 500)]
    );
    // The fake has no jitter.
    assert_eq!(
        (fills[1].due.as_slice(), fills[1].first),
        (&[500][..], Duration::from_secs(300))
    );
}

#[tokio::test(start_paused = true)]
async fn a_cold_start_sends_a_query_for_each_key_or_for_each_caller() {
    let plan = Plan {
        callers: 200,
        ..plan(Scenario::Coldstart)
    };
    let herds = coldstart::run(&plan, &world().await).await.unwrap();
    let seen: Vec<_> = herds
        .iter()
        .map(|herd| (herd.kind, herd.queried(), herd.failed))
        .collect();
    assert_eq!(
        seen,
        [(Kind::None, 200, 0), (Kind::Lock, 100, 0), (Kind::Drover, 100, 0)]
    );
    assert_eq!(
        herds[2].last_query(),
        Duration::from_secs(1),
        "five rounds of the connections"
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_as_long_as_it_says_and_queries_are_counted_in_it() {
    let plan = Plan {
        callers: 5,
        strategies: vec![Kind::None],
        ..plan(Scenario::Outage)
    };
    let herds = outage::run(&plan, &world().await).await.unwrap();
    let (all, late) = outage::during(&herds[0]);
    assert!(
        late > 100 && all > late && herds[0].failed >= late,
        "{all} {late} {}",
        herds[0].failed
    );
    assert!(herds[0].failed <= all, "none fails before or after");
}

#[tokio::test(start_paused = true)]
async fn a_failing_drover_is_shown_as_failed_requests() {
    let (fake, client) = fake::start().await;
    fake.unavailable.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let world = World {
        client: Some(client),
        is_own: false,
        bars: Bars::hidden(),
    };
    let plan = Plan {
        strategies: vec![Kind::Drover],
        ..plan(Scenario::Burst)
    };
    let herds = burst::run(&plan, &world).await.unwrap();
    assert_eq!((herds[0].failed, herds[0].queried()), (200, 0));
    assert_eq!(
        herds[0].trouble.as_deref(),
        Some("AcquireRebuild: not yet (Unavailable)")
    );
}
