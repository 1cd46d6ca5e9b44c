//! How long values live: jitter, negative results, bounds, and what a holder is told beforehand.

use super::*;

const DRAWS: u64 = 2_000;

fn draws() -> impl Iterator<Item = Draw> {
    (0..DRAWS).map(|seed| Draw {
        secret: 0,
        seed: seed.wrapping_mul(0x2545_f491_4f6c_dd1d),
    })
}

fn jitter(mode: JitterMode, amount: JitterAmount) -> Jitter {
    Jitter {
        mode,
        amount,
        level: false,
    }
}

#[test]
fn a_draw_fills_its_range_evenly_and_never_leaves_it() {
    use JitterAmount::*;
    use JitterMode::*;
    const MAX: u64 = 1_000;
    // mode, amount, base, shortest, longest; seconds. The cut at MAX takes part of the range away and heaps nothing up there.
    let table = [
        (Both, Ratio(0.1), 100, 90, 110),
        (Down, Ratio(0.1), 100, 90, 100),
        (Both, Spread(secs(20)), 100, 80, 120),
        (Down, Spread(secs(20)), 100, 80, 100),
        (Both, Spread(secs(500)), 100, 0, 200),
        (Down, Spread(secs(500)), 100, 0, 100),
        (Both, Ratio(0.1), 1_000, 900, 1_000),
        (Both, Ratio(0.1), 5_000, 900, 1_000),
        (Down, Ratio(0.1), 5_000, 900, 1_000),
        (Both, Spread(secs(100)), 950, 850, 1_000),
    ];
    for (mode, amount, base, shortest, longest) in table {
        let jitter = jitter(mode, amount);
        let lengths: Vec<f64> = draws()
            .map(|draw| jitter.spread(secs(base), secs(MAX), draw).as_secs_f64())
            .collect();
        let (low, high) = (shortest as f64, longest as f64);
        let case = format!("{mode:?} {amount:?} {base}");
        assert!(
            lengths
                .iter()
                .all(|length| (low..=high).contains(length) && *length > 0.0),
            "{case}"
        );
        let mean = lengths.iter().sum::<f64>() / lengths.len() as f64;
        let width = high - low;
        assert!((mean - (low + high) / 2.0).abs() < width * 0.03, "{case}: mean {mean}");
        for tenth in 0..10 {
            let bucket = low + width * f64::from(tenth) / 10.0..low + width * f64::from(tenth + 1) / 10.0;
            let share = lengths.iter().filter(|length| bucket.contains(length)).count() as f64 / DRAWS as f64;
            assert!((share - 0.1).abs() < 0.03, "{case}: {share} in {bucket:?}");
        }
    }
}

#[test]
fn zero_stays_zero_and_nothing_else_becomes_zero() {
    for mode in [JitterMode::Both, JitterMode::Down] {
        for amount in [JitterAmount::Ratio(0.99), JitterAmount::Spread(secs(60))] {
            let jitter = jitter(mode, amount);
            for draw in draws() {
                assert_eq!(jitter.spread(Duration::ZERO, secs(100), draw), Duration::ZERO);
                for base in [Duration::from_nanos(1), Duration::from_micros(1), millis(1)] {
                    assert!(
                        jitter.spread(base, secs(100), draw) >= Duration::from_micros(1),
                        "{base:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn no_jitter_is_exact() {
    let none = jitter(JitterMode::Both, JitterAmount::Ratio(0.0));
    for draw in draws() {
        assert_eq!(none.spread(secs(100), secs(1_000), draw), secs(100));
    }
}

#[test]
fn jitter_is_drawn_once_a_value_and_applies_to_what_reports_bring_along() {
    let lifetimes = Lifetimes {
        fresh_ttl: Some(secs(1_000)),
        ..Lifetimes::default()
    };
    for outcome in [
        bytes(),
        Outcome::Built(Content::NotFound),
        Outcome::Built(Content::External("".into())),
    ] {
        let mut ends = std::collections::HashSet::new();
        for seed in 0..50 {
            let mut room = Room::new();
            room.seed = seed * 100;
            room.policy.jitter = jitter(JitterMode::Both, JitterAmount::Ratio(0.1));
            let lease = room.grant(&ask("a"));
            room.report(&Report {
                lifetimes,
                ..ended(lease, outcome.clone())
            });
            let first = room.hit(&ask("b")).expiry.fresh_for;
            assert!((secs(900)..=secs(1_100)).contains(&first), "{first:?}");
            room.pass(secs(1));
            assert_eq!(room.hit(&ask("b")).expiry.fresh_for, first - secs(1));
            ends.insert(first);
        }
        assert!(ends.len() > 45, "{outcome:?}: only {} different ones", ends.len());
    }
}

#[test]
fn lifetimes_come_from_the_report_then_from_the_policy_and_negative_ones_have_no_windows() {
    let found = |fresh, swr, sie| Lifetimes {
        fresh_ttl: fresh,
        stale_while_revalidate: swr,
        stale_if_error: sie,
    };
    let absent = found(None, None, None);
    let some = |seconds| Some(secs(seconds));
    let not_found = || Outcome::Built(Content::NotFound);
    // outcome, what the report brings, then fresh for, stale for, stale on error for; seconds
    let table = [
        (bytes(), absent, [100, 150, 300]),
        (bytes(), found(some(7), None, None), [7, 57, 207]),
        (bytes(), found(None, some(1), some(2)), [100, 101, 102]),
        (bytes(), found(some(7), some(0), some(0)), [7, 0, 0]),
        (bytes(), found(None, some(0), None), [100, 0, 300]),
        (not_found(), absent, [30, 0, 0]),
        (not_found(), found(some(7), some(8), some(9)), [7, 0, 0]),
    ];
    for (outcome, lifetimes, expected) in table {
        let mut room = Room::new();
        let lease = room.grant(&ask("a"));
        let answer = room.report(&Report {
            lifetimes,
            ..ended(lease, outcome.clone())
        });
        let ReportAnswer::Accepted {
            version,
            expiry: Some(expiry),
        } = answer
        else {
            panic!("{outcome:?}: {answer:?}");
        };
        assert_eq!(version, lease.token);
        let told = [expiry.fresh_for, expiry.stale_for, expiry.stale_if_error_for];
        assert_eq!(told, expected.map(secs), "{outcome:?} {lifetimes:?}");
        let hit = room.hit(&ask("b"));
        assert_eq!(hit.expiry, expiry, "{outcome:?} {lifetimes:?}");
    }
}

#[test]
fn a_negative_result_is_absent_once_it_is_no_longer_fresh() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.report(&ended(lease, Outcome::Built(Content::NotFound)));
    room.pass(secs(29));
    assert_eq!(room.say(&ask("b")), "hit fresh");
    room.pass(secs(1));
    assert_eq!(room.say(&ask("b")), "rebuild expired");
}

#[test]
fn nothing_lives_longer_than_max_lifetime_whatever_a_report_asks() {
    for (fresh, swr, sie) in [
        (10, 10_000, 20_000),
        (999, 5, 0),
        (1_000, 60, 60),
        (LONGEST.as_secs(), 60, 60),
    ] {
        for seed in 0..50 {
            let mut room = Room::new();
            room.seed = seed * 100;
            room.policy.jitter = jitter(JitterMode::Both, JitterAmount::Ratio(0.1));
            room.policy.max_lifetime = secs(1_000);
            let lease = room.grant(&ask("a"));
            let lifetimes = Lifetimes {
                fresh_ttl: Some(secs(fresh)),
                stale_while_revalidate: Some(secs(swr)),
                stale_if_error: Some(secs(sie)),
            };
            room.report(&Report {
                lifetimes,
                ..ended(lease, bytes())
            });
            let value = room.entry.value.as_ref().expect("a value");
            let lives = value.stale_until().since(value.stored_at);
            assert!(
                lives > Duration::ZERO && lives <= secs(1_000),
                "{fresh} {swr} {sie}: {lives:?}"
            );
            room.pass(secs(1_000));
            assert_eq!(room.say(&ask("b")), "rebuild expired");
        }
    }
}

#[test]
fn planned_expiry_is_an_upper_bound_of_every_report_without_lifetimes_of_its_own() {
    let table = [
        // fresh, negative, stale while revalidate, stale if error, max
        (300, 30, 60, 3_600, 604_800),
        (300, 30, 0, 0, 604_800),
        (1_000, 30, 60, 3_600, 1_000),
        (950, 30, 60, 10, 1_000),
        (10, 500, 1, 1, 1_000),
        (0, 30, 60, 60, 1_000),
    ];
    for (fresh, negative, swr, sie, max) in table {
        for mode in [JitterMode::Both, JitterMode::Down] {
            for seed in 0..100 {
                let mut room = Room::new();
                room.seed = seed * 100;
                room.policy.fresh_ttl = secs(fresh);
                room.policy.negative_ttl = secs(negative);
                room.policy.stale_while_revalidate = secs(swr);
                room.policy.stale_if_error = secs(sie);
                room.policy.max_lifetime = secs(max);
                room.policy.jitter = jitter(mode, JitterAmount::Ratio(0.1));
                let planned = room.rebuild(&ask("a"));
                let content = if seed % 2 == 0 {
                    Content::Bytes(1)
                } else {
                    Content::NotFound
                };
                let answer = room.report(&ended(planned.lease, Outcome::Built(content.clone())));
                let ReportAnswer::Accepted {
                    expiry: Some(given), ..
                } = answer
                else {
                    panic!("{answer:?}");
                };
                let bound = planned.planned;
                let within = given.fresh_for <= bound.fresh_for
                    && given.stale_for <= bound.stale_for
                    && given.stale_if_error_for <= bound.stale_if_error_for;
                assert!(within, "{mode:?} {content:?}: given {given:?}, planned {bound:?}");
                assert!(bound.fresh_for.max(bound.stale_for).max(bound.stale_if_error_for) <= secs(max));
            }
        }
    }
}

#[test]
fn the_cost_of_a_rebuild_is_smoothed_and_counts_from_the_grant_unless_told() {
    let mut room = Room::new();
    let mut costs = Vec::new();
    for (took, told) in [(secs(8), None), (secs(1), Some(secs(4))), (secs(7), None)] {
        let lease = room.grant(&ask_to(Intent::Force));
        room.pass(took);
        room.report(&Report {
            cost: told,
            ..ended(lease, bytes())
        });
        costs.push(room.entry.cost.length());
    }
    assert_eq!(costs, [secs(8), secs(7), secs(7)]);
    let lease = room.grant(&ask_to(Intent::Force));
    room.pass(secs(9));
    room.report(&ended(lease, failed(secs(1))));
    assert_eq!(
        room.entry.cost.length(),
        secs(7),
        "a failure costs nothing that a rebuild would"
    );
}

#[test]
fn an_entry_goes_only_when_nothing_in_it_matters_any_more() {
    let mut room = Room::with_value(secs(0), &[]);
    assert_eq!(room.entry.gone_at(), START.after(secs(300)));
    room.pass(secs(290));
    let lease = room.grant(&ask("a"));
    assert_eq!(
        room.entry.gone_at(),
        room.now.after(REMEMBER_REPORT + secs(10)),
        "a late report may still come"
    );
    room.report(&ended(lease, failed(secs(60))));
    assert_eq!(room.entry.gone_at(), room.now.after(secs(120)), "the row of failures");
    room.invalidate_settling(Named::Key, Mode::Drop, secs(3_600));
    assert_eq!(room.entry.gone_at(), room.now.after(secs(3_600)), "the lagging origin");
    assert_eq!(Entry::<Stored>::default().gone_at(), StoreTime::ZERO);
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    let unstored = Report {
        do_not_store: true,
        ..ended(lease, bytes())
    };
    room.report(&unstored);
    room.entry.reported = None;
    assert_eq!(
        room.entry.gone_at(),
        room.now.after(HAND_OVER),
        "those that were parked"
    );
}
