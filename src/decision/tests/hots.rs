//! Hot keys: the bounds of the sketch on streams like those of real caches, its decay, and what callers are told.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn key(number: usize) -> Key {
    Key::new("shop", &format!("k{number}"))
}

/// Keys 0, 1, 2, … with chances as 1/1ˢ, 1/2ˢ, 1/3ˢ, …
struct Zipf {
    up_to: Vec<f64>,
    draws: Draw,
    number: u64,
}

impl Zipf {
    fn new(keys: usize, exponent: f64, seed: u64) -> Zipf {
        let mut sum = 0.0;
        let up_to = (1..=keys)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        Zipf {
            up_to,
            draws: Draw { secret: 0, seed },
            number: 0,
        }
    }

    fn next(&mut self) -> usize {
        self.number += 1;
        let all = self.up_to[self.up_to.len() - 1];
        let at = all * self.draws.other(Purpose::Choice, self.number).unit(Purpose::Fan);
        self.up_to.partition_point(|sum| *sum <= at)
    }
}

/// All that the sketch knows, as asks: what is told of a rate, taken back.
fn counts(sketch: &Sketch, asks: f64) -> BTreeMap<Key, (f64, f64)> {
    let scale = asks / sketch.rate(START);
    let all = sketch.top(usize::MAX, START);
    all.into_iter()
        .map(|hot| (hot.key, (hot.rate * scale, hot.error * scale)))
        .collect()
}

#[test]
fn counts_are_never_too_low_and_too_high_only_by_their_error_which_is_bounded() {
    const ASKS: usize = 60_000;
    for (exponent, seed) in [(1.2, 1), (1.0, 2), (0.8, 3), (0.5, 4), (0.0, 5)] {
        let (mut zipf, mut sketch) = (Zipf::new(20_000, exponent, seed), Sketch::new(seed));
        let mut exact = vec![0u32; 20_000];
        let keys: Vec<Key> = (0..20_000).map(key).collect();
        for _ in 0..ASKS {
            let asked = zipf.next();
            exact[asked] += 1;
            sketch.hit(&keys[asked], 1, START);
        }
        let told = counts(&sketch, ASKS as f64);
        let bound = ASKS as f64 / COUNTERS as f64;
        assert!(told.len() <= COUNTERS);
        for (number, exact) in exact.iter().enumerate() {
            let exact = f64::from(*exact);
            match told.get(&keys[number]) {
                None => assert!(exact <= bound, "{exponent}: k{number} with {exact} has no counter"),
                Some((count, error)) => {
                    assert!(
                        *count >= exact - 1e-6,
                        "{exponent}: k{number} has {exact} and {count} are told"
                    );
                    assert!(
                        count - error <= exact + 1e-6,
                        "{exponent}: k{number} has {exact}: {count}, at most {error} less"
                    );
                    assert!(*error <= bound + 1e-6, "{exponent}: k{number} may be wrong by {error}");
                }
            }
        }
        // Where some stand out, they come out in their order.
        if exponent >= 0.8 {
            let top: Vec<Key> = sketch.top(8, START).into_iter().map(|hot| hot.key).collect();
            let mut order: Vec<usize> = (0..exact.len()).collect();
            order.sort_by_key(|number| std::cmp::Reverse(exact[*number]));
            let expected: Vec<Key> = order[..8].iter().map(|number| keys[*number].clone()).collect();
            assert_eq!(top, expected, "{exponent}");
        }
    }
}

#[test]
fn a_filter_keeps_keys_that_are_asked_for_once_from_driving_others_out() {
    let mut sketch = Sketch::new(1);
    for number in 0..40_000 {
        sketch.hit(&key(number % 100), 1, START);
        sketch.hit(&key(1_000 + number), 1, START);
    }
    let told = counts(&sketch, 80_000.0);
    for number in 0..100 {
        let (count, error) = told[&key(number)];
        assert!(
            (count - 400.0).abs() < 1e-6 && error == 0.0,
            "k{number}: {count}, {error}"
        );
    }
}

/// Full, with every counter at its key's number.
fn full() -> Sketch {
    let mut sketch = Sketch::new(1);
    for number in (1..=COUNTERS).rev() {
        sketch.hit(&key(number), 300 + number as u64, START);
    }
    sketch
}

#[test]
fn it_is_the_least_counter_that_a_new_key_takes_over() {
    let mut sketch = full();
    for round in 1..=COUNTERS / 2 {
        sketch.hit(&key(1_000 + round), 10_000, START);
        let told = counts(&sketch, 1.0);
        assert!(
            !told.contains_key(&key(round)) && told.contains_key(&key(round + 1)),
            "after {round}"
        );
    }
}

#[test]
fn what_a_key_may_be_too_high_by_makes_it_not_hot() {
    let mut sketch = full();
    sketch.hit(&key(1_000), 300, START);
    // Some key shares the cell, and looks as if it had been asked for 900 times.
    let (mut shares, number) = (2_000..)
        .map(|number| {
            let mut sketch = sketch.clone();
            sketch.hit(&key(number), 600, START);
            (sketch, number)
        })
        .find(|(sketch, _)| sketch.top(1, START)[0].error > 0.0)
        .expect("some key does");
    let (all, seen) = (shares.rate(START), shares.top(1, START).remove(0));
    assert!(seen.key == key(number) && seen.rate > seen.error, "{seen:?} of {all}");
    // A hundredth of all is 1,100.
    for (asked, seems, hot) in [(900, 1_200, false), (1_200, 1_500, true)] {
        shares.hit(&key(number), 300, START);

        let share = shares.top(1, START)[0].rate / shares.rate(START);
        assert!(
            (share * 110_596.0 / f64::from(seems) - 1.0).abs() < 0.02,
            "{asked}: {share}"
        );
        assert_eq!(shares.hint(&key(number), START).hot, hot, "{asked}");
    }
}

proptest! {
    #[test]
    fn with_decay_the_bounds_hold_for_weighed_asks(seed: u64, exponent in 0.0..1.5_f64, pause in 0..200_u64) {
        // So few counters are left over that they change hands all the time.
        let (mut zipf, mut sketch) = (Zipf::new(1_000, exponent, seed), Sketch::new(seed));
        let mut exact: BTreeMap<Key, f64> = BTreeMap::new();
        let mut now = START;
        let (mut all, half_life) = (0.0, HALF_LIFE.as_secs_f64());
        for _ in 0..1_500 {
            let (asked, times) = (key(zipf.next()), 1 + zipf.number % 3);
            now = now.after(millis(pause * 10 * (zipf.number % 7)));
            sketch.hit(&asked, times, now);
            let weight = times as f64 * (now.since(START).as_secs_f64() / half_life).exp2();
            *exact.entry(asked).or_default() += weight;
            all += weight;
        }
        let scale = all / sketch.rate(now);
        let told: BTreeMap<Key, (f64, f64)> =
            sketch.top(COUNTERS, now).into_iter().map(|hot| (hot.key, (hot.rate * scale, hot.error * scale))).collect();
        let (bound, little) = (all / COUNTERS as f64, all * 1e-9);
        for (asked, exact) in exact {
            match told.get(&asked) {
                None => prop_assert!(exact <= bound + little),
                Some((count, error)) => prop_assert!(
                    *count >= exact - little && count - error <= exact + little && *error <= bound + little,
                    "{exact}: {count}, {error} of {bound}"
                ),
            }
        }
    }
}

#[test]
fn a_rate_is_told_within_seconds_and_follows_what_happens() {
    let (mut sketch, mut now) = (Sketch::new(1), START);
    let mut told = Vec::new();
    // 200 a second for five minutes, then 20, then none.
    for second in 0..1_000 {
        let times = match second {
            0..300 => 20,
            300..700 => 2,
            _ => 0,
        };
        for _ in 0..10 {
            sketch.hit(&key(1), times, now);
            now = now.after(millis(100));
        }
        told.push(sketch.top(1, now)[0].rate);
    }
    for (second, low, high) in [
        (2, 180.0, 220.0),
        (30, 195.0, 205.0),
        (299, 199.0, 202.0),
        (329, 105.0, 115.0),
    ] {
        assert!(
            (low..high).contains(&told[second]),
            "after {second} s: {}",
            told[second]
        );
    }
    assert!((told[699] - 20.0).abs() < 0.5, "{}", told[699]);
    assert!((told[999] / 20.0 - 2f64.powi(-10)).abs() < 1e-4, "{}", told[999]);
    assert!((sketch.rate(now) - told[999]).abs() < 1e-9);
}

#[test]
fn yesterday_s_hot_key_gives_way_to_today_s() {
    let mut sketch = Sketch::new(1);
    sketch.hit(&key(1), 1_000_000, START);
    let mut now = START.after(secs(24 * 3_600));
    for number in 2..1_000 {
        now = now.after(millis(10));
        sketch.hit(&key(number), 5, now);
    }
    let top = sketch.top(COUNTERS, now);
    assert!(top.iter().all(|hot| hot.key != key(1)), "{:?}", top.last());
    // A clock that goes back is no harm.
    sketch.hit(&key(2), 1, START);
    assert!(sketch.rate(START).is_finite());
}

#[test]
fn hot_is_what_is_asked_for_often_and_by_a_part_of_all() {
    // Asks a second of the key and of all others, and what is told.
    let table = [
        (5, 0, false, 1),
        (9, 0, false, 1),
        (11, 0, true, 1),
        (11, 500, true, 1),
        (11, 2_000, false, 1),
        (400, 20_000, true, 1),
        (4_900, 0, true, 1),
        (5_100, 0, true, 2),
        (12_000, 0, true, 4),
        (40_500, 0, true, 16),
        (10_000_000, 0, true, 64),
    ];
    for (own, others, hot, copies) in table {
        let (mut sketch, mut now) = (Sketch::new(1), START);
        for _ in 0..120 {
            sketch.hit(&key(0), own, now);
            for number in 1..=100 {
                sketch.hit(&key(number), others / 100, now);
            }
            now = now.after(secs(1));
        }
        let hint = sketch.hint(&key(0), now);
        assert_eq!(
            hint,
            Hint { hot, copies },
            "{own} of {}: {:?}",
            own + others,
            sketch.top(1, now)
        );
        assert!(!sketch.hint(&key(101), now).hot);
    }
    let silent = Sketch::new(1);
    assert_eq!(silent.hint(&key(0), START), Hint { hot: false, copies: 1 });
    assert_eq!((silent.top(5, START), silent.rate(START)), (Vec::new(), 0.0));
}
