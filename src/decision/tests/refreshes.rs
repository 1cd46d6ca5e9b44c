//! When a refresh begins: its distribution, its bounds, what it does to an entry, and who is asked to do it.

use proptest::prelude::*;

use super::*;

/// For handing out; as in the rule.
const HAND_OUT: Duration = Duration::from_millis(50);

fn gaps(fresh: Duration, cost: Duration, beta: f64, draws: u64) -> Vec<f64> {
    (0..draws)
        .map(|seed| {
            let draw = Draw {
                secret: 0,
                seed: seed.wrapping_mul(0x2545_f491_4f6c_dd1d),
            };
            Refresh::gap(fresh, cost, beta, draw).as_secs_f64()
        })
        .collect()
}

/// The least gap as the doc states it, written a second time.
fn least(fresh: f64, cost: f64) -> f64 {
    let hand_out = HAND_OUT.as_secs_f64();
    (2.0 * cost + hand_out).min((cost + hand_out + fresh / 2.0) / 2.0)
}

/// The greatest distance between the draws and a distribution function (Kolmogorov, Smirnov), in units of 1/√n: more than 1.95 in one
/// of a thousand samples that follow it.
fn distance(mut sample: Vec<f64>, stated: impl Fn(f64) -> f64) -> f64 {
    sample.sort_by(f64::total_cmp);
    let count = sample.len() as f64;
    let furthest = (0..)
        .zip(&sample)
        .map(|(rank, &drawn)| {
            let (below, above) = (f64::from(rank) / count, f64::from(rank + 1) / count);
            (stated(drawn) - below).abs().max((stated(drawn) - above).abs())
        })
        .fold(0.0, f64::max);
    furthest * count.sqrt()
}

#[test]
fn gaps_follow_the_stated_distribution_between_the_least_and_half_of_the_freshness() {
    // fresh, cost, beta; seconds. From nearly a plain exponential to nearly uniform, and one where the least gap gives way.
    let table = [
        (300.0, 0.2, 1.0),
        (300.0, 0.2, 0.1),
        (300.0, 5.0, 1.0),
        (300.0, 5.0, 10.0),
        (300.0, 20.0, 3.0),
        (300.0, 20.0, 100.0),
        (300.0, 120.0, 1.0),
        (1.0, 0.1, 1.0),
        (604_800.0, 60.0, 1.0),
    ];
    for (fresh, cost, beta) in table {
        let case = format!("{fresh} {cost} {beta}");
        let drawn = gaps(
            Duration::from_secs_f64(fresh),
            Duration::from_secs_f64(cost),
            beta,
            20_000,
        );
        let (low, high, mean) = (least(fresh, cost), fresh / 2.0, cost * beta);
        let width = high - low;
        let all = 1.0 - (-width / mean).exp();
        let stated = |gap: f64| (1.0 - (-(gap - low) / mean).exp()) / all;
        assert!(drawn.iter().all(|gap| (low - 1e-6..=high).contains(gap)), "{case}");
        let off = distance(drawn.clone(), stated);
        assert!(off < 1.95, "{case}: {off} from the stated distribution");
        // Of the truncated exponential: μ − width · e^(−width/μ) / (1 − e^(−width/μ)).
        let expected = low + mean - width * (1.0 - all) / all;
        let found = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!(
            (found - expected).abs() < 0.03 * (expected - low),
            "{case}: mean {found}, not {expected}"
        );
        // Nothing heaps up at the ends: what lies within a thousandth of the width is what the distribution puts there.
        for (edge, share) in [
            (low..low + width / 1_000.0, stated(low + width / 1_000.0)),
            (high - width / 1_000.0..f64::MAX, 1.0 - stated(high - width / 1_000.0)),
        ] {
            let there = drawn.iter().filter(|gap| edge.contains(gap)).count() as f64 / drawn.len() as f64;
            assert!(
                (there - share).abs() < 0.004 + share * 0.2,
                "{case}: {there} at an end, not {share}"
            );
        }
    }
}

#[test]
fn a_plain_draw_of_the_paper_s_exponential_would_mostly_come_too_late() {
    let cost = 0.2;
    let late = |gaps: &[f64]| gaps.iter().filter(|gap| **gap < cost).count() as f64 / gaps.len() as f64;
    let plain: Vec<f64> = (0..20_000)
        .map(|seed| -cost * (1.0 - Draw { secret: 0, seed }.unit(Purpose::Refresh)).ln())
        .collect();
    assert!((late(&plain) - 0.632).abs() < 0.01);
    assert_eq!(late(&gaps(secs(300), Duration::from_secs_f64(cost), 1.0, 20_000)), 0.0);
}

proptest! {
    #[test]
    fn a_refresh_that_begins_when_it_is_due_ends_before_freshness_does(
        fresh in 1..=LONGEST.as_micros() as u64, share in 0.0..1.2_f64, beta in prop_oneof![0.0..4.0_f64, Just(100.0)], draw in arbitrary::draw(),
    ) {
        let fresh = Duration::from_micros(fresh);
        let cost = Duration::from_micros((fresh.as_micros() as f64 * share.powi(4)) as u64);
        let refresh = Refresh::NONE.with_gap(Refresh::gap(fresh, cost, beta, draw));
        let taken = known_cost(cost, fresh);
        let has_room = beta > 0.0 && taken + HAND_OUT < fresh / 2;
        prop_assert_eq!(refresh.begins_before_end().is_some(), has_room);
        if let Some(gap) = refresh.begins_before_end() {
            prop_assert!(gap > taken, "{gap:?} before the end, and it costs {taken:?}");
            prop_assert!(gap <= fresh / 2 + fresh / 50_000, "{gap:?} of {fresh:?}");
            if cost * 4 + HAND_OUT * 2 < fresh / 2 {
                // Even if it is handed out late, and takes twice as long.
                prop_assert!(gap + gap / 50_000 >= taken * 2 + HAND_OUT);
            }
        }
    }

    #[test]
    fn what_is_packed_comes_out_again(gap in 1..=LONGEST.as_micros() as u64, idle in 0..300_u32) {
        let gap = Duration::from_micros(gap);
        let refresh = (0..idle).fold(Refresh::NONE.with_gap(gap), |refresh, _| refresh.not_asked_for());
        let packed = refresh.begins_before_end().expect("a gap");
        prop_assert!(packed.abs_diff(gap) <= gap / (1 << 17), "{gap:?} became {packed:?}");
        prop_assert_eq!(u32::from(refresh.idle()), idle.min(255));
        prop_assert_eq!(refresh.with_gap(packed), refresh, "it is rounded once");
        prop_assert_eq!(Refresh::from_bits(refresh.to_bits()), refresh);
        prop_assert_eq!(refresh.asked_for(), Refresh::NONE.with_gap(gap));
        prop_assert_eq!(refresh.with_gap(Duration::ZERO).begins_before_end(), None);
    }

    #[test]
    fn whatever_was_written_down_has_an_answer(bits: u32, end in arbitrary::time()) {
        let refresh = Refresh::from_bits(bits);
        let (due, overdue) = (refresh.due(end), refresh.overdue(end));
        prop_assert!(due.is_none_or(|due| due < end || end == StoreTime::ZERO));
        prop_assert_eq!(due.is_some(), overdue.is_some());
        prop_assert!(due <= overdue);
    }
}

#[test]
fn no_refresh_is_planned_where_none_is_wanted_or_there_is_no_room() {
    let planned = |fresh, cost, beta| gaps(fresh, cost, beta, 200).iter().any(|gap| *gap > 0.0);
    let table = [
        (secs(300), secs(1), 0.0, false),
        (secs(300), secs(1), -1.0, false),
        (secs(300), secs(1), f64::NAN, false),
        (secs(300), secs(1), 0.001, true),
        (secs(300), secs(1), f64::INFINITY, true),
        // Half of the freshness is the bound, for the cost and 50 ms.
        (secs(10), millis(4_949), 1.0, true),
        (secs(10), millis(4_950), 1.0, false),
        (secs(10), secs(60), 1.0, false),
        (secs(10), Duration::MAX, 1.0, false),
        (Duration::MAX, secs(1), 1.0, true),
        // What costs nothing counts as 100 ms, or a tenth.
        (millis(130), Duration::ZERO, 1.0, true),
        (millis(120), Duration::ZERO, 1.0, false),
        (Duration::ZERO, Duration::ZERO, 1.0, false),
    ];
    for (fresh, cost, beta, expected) in table {
        assert_eq!(planned(fresh, cost, beta), expected, "{fresh:?} {cost:?} {beta}");
    }
    assert_eq!(known_cost(Duration::ZERO, secs(300)), FIRST_COST);
    assert_eq!(known_cost(Duration::ZERO, millis(500)), millis(50));
    assert_eq!(known_cost(millis(3), secs(300)), millis(3));
}

/// A key whose rebuild took 2 s and that is fresh for 100 s from now.
fn eager() -> Room {
    let mut room = Room::new();
    room.policy.beta = 1.0;
    let lease = room.grant(&ask("a"));
    room.pass(secs(2));
    room.store(lease);
    room
}

fn due(room: &Room) -> Duration {
    room.view().refresh_due().expect("a refresh is planned").since(room.now)
}

#[test]
fn the_refresh_is_drawn_at_the_report_from_the_greater_of_the_last_and_the_smoothed_cost() {
    let mut room = eager();
    assert!(
        (secs(50)..=secs(100) - millis(4_050)).contains(&due(&room)),
        "{:?}",
        due(&room)
    );
    // Smoothed, 28 s become 8.5 s; the last of them needs 28 s, which leaves room for (28.05 + 50) / 2.
    let lease = room.grant(&ask_to(Intent::Force));
    room.pass(secs(28));
    room.store(lease);
    assert_eq!(room.entry.cost.length(), millis(8_500));
    assert!((secs(50)..=secs(61)).contains(&due(&room)), "{:?}", due(&room));
    // Then a quick one: the smoothed cost stays the greater for a while.
    let lease = room.grant(&ask_to(Intent::Force));
    room.store(lease);
    assert_eq!(room.entry.cost.length(), millis(6_375));
    assert!(due(&room) <= secs(100) - millis(12_800), "{:?}", due(&room));
}

#[test]
fn it_is_told_with_every_answer_and_counts_down() {
    let mut room = eager();
    let due = due(&room);
    for age in [0, 1, 40] {
        assert_eq!(room.hit(&ask("b")).expiry.refresh_in, Some(due - secs(age)));
        room.pass(secs(if age == 0 { 1 } else { 39 }));
    }
    room.pass(secs(18));
    let read = room.hit(&ask_to(Intent::Read));
    assert_eq!(
        (read.fresh, read.expiry.refresh_in),
        (true, Some(Duration::ZERO)),
        "it is due"
    );
    room.policy.beta = 0.0;
    let lease = room.grant(&ask_to(Intent::Force));
    room.store(lease);
    assert_eq!(room.hit(&ask("b")).expiry.refresh_in, None);
}

#[test]
fn without_workers_the_next_caller_refreshes_what_is_due_and_with_workers_only_what_none_came_for() {
    const EARLY: &str = "rebuild early, fresh meanwhile";
    let micro = Duration::from_micros(1);
    let room = eager();
    let (due, gap) = (due(&room), secs(100) - due(&room));
    let table = [
        // age, without workers, with them
        (due - micro, "hit fresh", "hit fresh"),
        (due, EARLY, "hit fresh"),
        (due + gap / 2 - micro, EARLY, "hit fresh"),
        (due + gap / 2 + micro, EARLY, EARLY),
        (secs(100) - micro, EARLY, EARLY),
        (
            secs(100),
            "rebuild stale, stale meanwhile",
            "rebuild stale, stale meanwhile",
        ),
    ];
    for (age, without, with) in table {
        for (workers, expected) in [(false, without), (true, with)] {
            let mut room = room.clone();
            room.pass(age);
            let question = Ask { workers, ..ask("b") };
            assert_eq!(room.say(&question), expected, "{age:?}, workers: {workers}");
            assert_eq!(
                room.say(&Ask {
                    workers,
                    ..ask_to(Intent::Read)
                })
                .split_once(' ')
                .map_or("", |said| said.0),
                "hit"
            );
        }
    }
}

#[test]
fn one_caller_refreshes_and_the_others_are_served() {
    let mut room = eager();
    room.pass(due(&room));
    let rebuild = room.rebuild(&ask("b"));
    assert_eq!(rebuild.cause, Cause::Early);
    assert!(rebuild.fallback.is_some_and(|hit| hit.fresh && hit.rebuilding));
    assert_eq!(room.say(&ask("c")), "hit fresh, rebuilding");
    room.pass(secs(2));
    room.store(rebuild.lease);
    assert_eq!(room.say(&ask("c")), "hit fresh");
    assert!(due(&room) >= secs(50), "it is planned anew");
}

#[test]
fn after_a_refresh_that_failed_nobody_tries_before_the_back_off_is_over() {
    let mut room = eager();
    room.pass(due(&room));
    let lease = room.grant(&ask("b"));
    room.report(&ended(lease, failed(secs(2))));
    assert_eq!(room.say(&ask("c")), "hit fresh");
    room.pass(secs(2));
    assert_eq!(room.say(&ask("c")), "rebuild early, fresh meanwhile");
}

#[test]
fn an_invalidated_value_has_no_refresh() {
    for named in [Named::Key, Named::Tag("t"), Named::Namespace] {
        for mode in [Mode::Drop, Mode::Expire] {
            let mut room = Room::new();
            room.policy.beta = 1.0;
            let lease = room.grant(&ask("a"));
            let report = Report {
                tags: tags(&["t"]),
                ..ended(lease, bytes())
            };
            room.report(&report);
            assert!(room.view().refresh_due().is_some());
            room.invalidate(named, mode);
            assert_eq!(room.view().refresh_due(), None, "{named:?} {mode:?}");
        }
    }
}

#[test]
fn what_is_built_before_its_origin_has_settled_is_not_refreshed_ahead_of_that() {
    let mut room = eager();
    room.invalidate_settling(Named::Key, Mode::Drop, secs(40));
    let lease = room.grant(&ask("a"));
    room.store(lease);
    assert_eq!(room.view().refresh_due(), None);
    room.pass(secs(40));
    let lease = room.grant(&ask("a"));
    room.store(lease);
    assert!(room.view().refresh_due().is_some());
    // A settling that is over before the planned end of freshness is none that lasts beyond it.
    room.invalidate_settling(Named::Key, Mode::Drop, secs(200));
    let lease = room.grant(&ask("a"));
    room.store(lease);
    assert!(
        room.view().refresh_due().is_some(),
        "it is old before its origin has settled anyway"
    );
}

#[test]
fn what_is_not_stored_has_no_refresh_and_what_is_not_found_has_one() {
    let mut room = eager();
    let lease = room.grant(&ask_to(Intent::Force));
    room.report(&Report {
        do_not_store: true,
        ..ended(lease, bytes())
    });
    assert_eq!(room.view().refresh_due(), None);
    let lease = room.grant(&ask("a"));
    room.report(&ended(lease, Outcome::Built(Content::NotFound)));
    assert!((secs(15)..secs(30)).contains(&due(&room)), "{:?}", due(&room));
}

#[test]
fn an_entry_has_room_for_it_in_what_it_took_before() {
    assert_eq!((size_of::<Refresh>(), size_of::<Rough>()), (4, 4));
    assert_eq!(size_of::<Option<Value>>(), 80);
    // With key, bytes, revision and the two counts of an Arc 192 bytes, a size class of the allocators.
    assert_eq!(size_of::<Entry>(), 136);
}
