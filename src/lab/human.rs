//! Numbers and lengths of time as people read them.

use std::time::Duration;

pub use crate::config::grouped as count;

/// `1 query`, `2 queries`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Three digits at most: `1.3 ms`, `204 ms`, `2.03 s`, `15.2 s`, `300 s`, `10 min`.
pub fn time(length: Duration) -> String {
    let ms = length.as_secs_f64() * 1e3;
    match ms {
        ..9.95 => trimmed(ms, 1, "ms"),
        ..999.5 => trimmed(ms, 0, "ms"),
        ..9_995.0 => trimmed(ms / 1e3, 2, "s"),
        ..99_950.0 => trimmed(ms / 1e3, 1, "s"),
        ..600_000.0 => trimmed(ms / 1e3, 0, "s"),
        ..7_200_000.0 => trimmed(ms / 6e4, 1, "min"),
        _ => trimmed(ms / 3.6e6, 1, "h"),
    }
}

fn trimmed(number: f64, decimals: usize, unit: &str) -> String {
    let text = format!("{number:.decimals$}");
    let text = if decimals > 0 {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_its_noun() {
        assert_eq!(counted(1, "query", "queries"), "1 query");
        assert_eq!(counted(0, "query", "queries"), "0 queries");
        assert_eq!(counted(1_500, "query", "queries"), "1,500 queries");
    }

    #[test]
    fn times_keep_three_digits_and_the_unit_that_fits() {
        let read: Vec<_> = [
            0,
            1_250,
            204_400,
            999_600,
            2_034_000,
            15_240_000,
            300_000_000,
            600_000_000,
            20_000_000_000,
        ]
        .map(|us| time(Duration::from_micros(us)))
        .into();
        assert_eq!(
            read,
            [
                "0 ms", "1.2 ms", "204 ms", "1 s", "2.03 s", "15.2 s", "300 s", "10 min", "5.6 h"
            ]
        );
    }
}
