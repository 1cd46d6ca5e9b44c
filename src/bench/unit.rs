//! What a number counts, and how it is written: three digits and a unit, or commas. Pure.

use serde::Serialize;

/// What a number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds, shown in what reads best.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// So many a second.
    PerSecond,
    /// Things.
    Count,
    /// So many times another figure.
    Times,
    /// So many for each of something else.
    Ratio,
}

impl Unit {
    /// Three digits and the unit.
    pub fn shown(self, number: f64) -> String {
        match self {
            Self::Nanoseconds if number < 1e3 => format!("{number:.0} ns"),
            Self::Nanoseconds if number < 1e6 => format!("{} µs", three_digits(number / 1e3)),
            Self::Nanoseconds if number < 1e9 => format!("{} ms", three_digits(number / 1e6)),
            Self::Nanoseconds => format!("{} s", three_digits(number / 1e9)),
            Self::Bytes => format!("{} B", grouped(number)),
            Self::PerSecond => format!("{} /s", grouped(number)),
            Self::Count => grouped(number),
            Self::Times => format!("{number:.2} ×"),
            Self::Ratio => format!("{number:.2}"),
        }
    }
}

fn three_digits(number: f64) -> String {
    match number {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

/// A whole number with commas.
fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            shown.push(',');
        }
        shown.push(digit);
    }
    if number < -0.5 { format!("-{shown}") } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_three_digits_or_commas() {
        let time = |nanos| Unit::Nanoseconds.shown(nanos);
        assert_eq!(
            [time(950.0), time(14_230.0), time(999_500.0)],
            ["950 ns", "14.2 µs", "1000 µs"]
        );
        assert_eq!(
            [time(1_234_000.0), time(99_960_000.0), time(2.5e9)],
            ["1.23 ms", "100 ms", "2.50 s"]
        );
        assert_eq!(Unit::PerSecond.shown(71_234.4), "71,234 /s");
        assert_eq!(Unit::Bytes.shown(300.0), "300 B");
        assert_eq!(
            [grouped(1_000_000.0), grouped(-1_234.0), grouped(0.0)],
            ["1,000,000", "-1,234", "0"]
        );
    }
}
