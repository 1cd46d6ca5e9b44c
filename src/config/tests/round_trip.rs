//! What is written reads back the same.

use std::time::Duration;

use proptest::prelude::*;

use super::read;
use crate::config::{policy_toml, read_duration, read_size, write_duration, write_size};
use crate::decision::{Backoff, Jitter, JitterAmount, JitterMode, LONGEST, MAX_VALUE_BYTES, Policy, StoreDown};

fn length(least: Duration, most: Duration) -> impl Strategy<Value = Duration> {
    let whole = (least.as_secs()..=most.as_secs()).prop_map(Duration::from_secs);
    let exact = (least.as_nanos() as u64..=most.as_nanos() as u64).prop_map(Duration::from_nanos);
    prop_oneof![whole, exact].prop_map(move |length| length.clamp(least, most))
}

fn jitter() -> impl Strategy<Value = Jitter> {
    let mode = prop_oneof![Just(JitterMode::Both), Just(JitterMode::Down)];
    let amount = prop_oneof![
        (0.0..1.0f64).prop_map(JitterAmount::Ratio),
        length(Duration::ZERO, LONGEST).prop_map(JitterAmount::Spread),
    ];
    (mode, amount, any::<bool>()).prop_map(|(mode, amount, level)| Jitter { mode, amount, level })
}

fn lengths() -> impl Strategy<Value = Policy> {
    let ns = Duration::from_nanos(1);
    let lives = length(ns, LONGEST).prop_flat_map(|most| {
        let within = || length(Duration::ZERO, most);
        (Just(most), within(), within())
    });
    let shortest = Duration::from_millis(100);
    let lease = length(shortest, LONGEST).prop_flat_map(move |hold| (Just(hold), length(shortest, hold)));
    let backoff = length(ns, LONGEST).prop_flat_map(|base| (Just(base), length(base, LONGEST)));
    let free = || length(Duration::ZERO, LONGEST);
    (lives, lease, backoff, free(), free(), free()).prop_map(
        |((max_lifetime, fresh_ttl, negative_ttl), (max_hold, lease_ttl), (base, max), stale, on_error, max_wait)| {
            Policy {
                max_lifetime,
                fresh_ttl,
                negative_ttl,
                max_hold,
                lease_ttl,
                backoff: Backoff { base, max },
                stale_while_revalidate: stale,
                stale_if_error: on_error,
                max_wait,
                ..Policy::default()
            }
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let numbers = (
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
        1..=MAX_VALUE_BYTES,
        0.0..=100.0f64,
    );
    let store_down = prop_oneof![Just(StoreDown::Local), Just(StoreDown::Refuse)];
    (lengths(), jitter(), numbers, store_down).prop_map(
        |(lengths, jitter, (per_key, rebuilds, idle, bytes, beta), store_down)| Policy {
            jitter,
            max_waiters_per_key: per_key,
            max_concurrent_rebuilds: rebuilds,
            idle_refreshes: idle,
            max_value_bytes: bytes,
            beta,
            store_down,
            ..lengths
        },
    )
}

proptest! {
    #[test]
    fn a_written_policy_reads_back_to_the_same(policy in policy()) {
        prop_assert_eq!(policy.check(), Ok(()));
        let text = format!("[defaults]\n{}", policy_toml(&policy));
        let file = read(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&*file.policies.defaults, &policy);
    }

    #[test]
    fn a_namespace_that_says_every_field_takes_nothing_from_the_defaults(defaults in policy(), own in policy()) {
        let text = format!("[defaults]\n{}[namespaces.own]\n{}[namespaces.none]\n", policy_toml(&defaults), policy_toml(&own));
        let file = read(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(file.policies.of("own").map(|policy| &**policy), Some(&own));
        prop_assert_eq!(file.policies.of("none").map(|policy| &**policy), Some(&defaults));
    }

    #[test]
    fn a_written_length_reads_back_to_the_same(nanos in any::<u64>()) {
        let length = Duration::from_nanos(nanos);
        prop_assert_eq!(read_duration(&write_duration(length)), Ok(length));
    }

    #[test]
    fn a_written_size_reads_back_to_the_same(size in any::<u64>(), shift in 0..50u32) {
        prop_assert_eq!(read_size(&write_size(size >> shift << shift)), Ok(size >> shift << shift));
    }
}

#[test]
fn the_defaults_are_written_as_people_would() {
    let expected = r#"fresh_ttl               = "5m"
stale_while_revalidate  = "1m"
stale_if_error          = "1h"
negative_ttl            = "30s"
max_lifetime            = "7d"
jitter                  = { mode = "both", ratio = 0.1, level = true }
beta                    = 1.0
lease_ttl               = "10s"
max_hold                = "2m"
max_wait                = "10s"
backoff                 = { base = "1s", max = "1m" }
max_waiters_per_key     = 10000
max_concurrent_rebuilds = 0
idle_refreshes          = 3
max_value_bytes         = "1MiB"
store_down              = "local"
"#;
    assert_eq!(policy_toml(&Policy::default()), expected);
}

#[test]
fn sizes_are_read_in_the_units_that_people_use() {
    let cases = [
        ("0", 0),
        ("1_000", 1_000),
        ("64KiB", 65_536),
        ("64 kib", 65_536),
        ("1MiB", 1 << 20),
        ("512Mi", 512 << 20),
        ("2GiB", 2 << 30),
        ("1TiB", 1 << 40),
        ("500MB", 500_000_000),
        ("7B", 7),
    ];
    for (text, size) in cases {
        assert_eq!(read_size(text), Ok(size), "{text}");
    }
    for text in [
        "",
        "MiB",
        "1M",
        "1.5GiB",
        "-1",
        "1 000",
        "20000000TiB",
        "99999999999999999999",
    ] {
        assert!(read_size(text).is_err(), "{text}");
    }
}
