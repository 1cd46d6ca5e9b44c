//! *Owns* how quantities are written: lengths of time, counts and sizes.
//!
//! *Never does*: fail. A server may send any `google.protobuf.Duration`, also one whose parts disagree in sign.
//!
//! *Why* not `humantime::format_duration`: it writes "12s 345ms 678us 901ns" where people need "12.3s".

use prost_types::Duration;

const SECOND: u128 = 1_000_000_000;

/// Signed nanoseconds; an i128 holds every value that the message can carry.
fn nanoseconds(duration: &Duration) -> i128 {
    i128::from(duration.seconds) * SECOND as i128 + i128::from(duration.nanos)
}

fn sign(nanoseconds: i128) -> &'static str {
    if nanoseconds < 0 { "-" } else { "" }
}

/// For people: two units at most, rounded down ("820us", "250ms", "12.3s", "4m 48s", "3h 5m", "7d").
pub fn people(duration: &Duration) -> String {
    let total = nanoseconds(duration);
    let (sign, total) = (sign(total), total.unsigned_abs());
    let seconds = total / SECOND;
    let text = match total {
        0 => return "0s".into(),
        1..1_000 => format!("{total}ns"),
        1_000..1_000_000 => format!("{}us", total / 1_000),
        1_000_000..SECOND => format!("{}ms", total / 1_000_000),
        _ if seconds < 60 => match total % SECOND / 100_000_000 {
            0 => format!("{seconds}s"),
            tenth => format!("{seconds}.{tenth}s"),
        },
        _ if seconds < 3_600 => pair(seconds / 60, "m", seconds % 60, "s"),
        _ if seconds < 86_400 => pair(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => pair(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    };
    format!("{sign}{text}")
}

fn pair(major: u128, major_unit: &str, minor: u128, minor_unit: &str) -> String {
    match minor {
        0 => format!("{major}{major_unit}"),
        _ => format!("{major}{major_unit} {minor}{minor_unit}"),
    }
}

/// For scripts: exact decimal seconds without trailing zeros, as in the JSON mapping of the message ("1.5s", "0s").
pub fn exact(duration: &Duration) -> String {
    let total = nanoseconds(duration);
    let (sign, total) = (sign(total), total.unsigned_abs());
    let fraction = format!("{:09}", total % SECOND);
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{}s", total / SECOND),
        digits => format!("{sign}{}.{digits}s", total / SECOND),
    }
}

/// Absent and zero lengths count as none.
pub fn some(duration: &Option<Duration>) -> Option<&Duration> {
    duration.as_ref().filter(|duration| nanoseconds(duration) != 0)
}

/// How much longer one is than the other; absent counts as zero, and so does a difference below zero.
pub fn beyond(longer: &Option<Duration>, shorter: &Option<Duration>) -> Option<Duration> {
    let length = |duration: &Option<Duration>| duration.as_ref().map_or(0, nanoseconds);
    let difference = (length(longer) - length(shorter).max(0)).max(0).unsigned_abs();
    if difference == 0 {
        return None;
    }
    let seconds = i64::try_from(difference / SECOND).unwrap_or(i64::MAX);
    let nanos = i32::try_from(difference % SECOND).unwrap_or_default();
    Some(Duration { seconds, nanos })
}

/// A count with its thousands set off: 1,000,000.
pub fn count(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 key", "2 keys", "1,000 keys"; for words whose plural adds an s.
pub fn counted(number: i64, word: &str) -> String {
    format!("{} {word}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A size: "512 bytes", "1 MiB", "48.3 KiB".
pub fn size(bytes: usize) -> String {
    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    let (unit, name) = match bytes {
        1 => return "1 byte".into(),
        0..KIB => return format!("{bytes} bytes"),
        KIB..MIB => (KIB, "KiB"),
        _ => (MIB, "MiB"),
    };
    match bytes % unit * 10 / unit {
        0 => format!("{} {name}", bytes / unit),
        tenth => format!("{}.{tenth} {name}", bytes / unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duration(seconds: i64, nanos: i32) -> Duration {
        Duration { seconds, nanos }
    }

    #[test]
    fn a_length_of_time_reads_with_two_units_at_most_and_is_exact_for_scripts() {
        let table = [
            (duration(0, 0), "0s", "0s"),
            (duration(0, 7), "7ns", "0.000000007s"),
            (duration(0, 820_400), "820us", "0.0008204s"),
            (duration(0, 250_000_000), "250ms", "0.25s"),
            (duration(1, 500_000_000), "1.5s", "1.5s"),
            (duration(59, 999_999_999), "59.9s", "59.999999999s"),
            (duration(60, 0), "1m", "60s"),
            (duration(288, 900_000_000), "4m 48s", "288.9s"),
            (duration(3_600, 0), "1h", "3600s"),
            (duration(11_100, 0), "3h 5m", "11100s"),
            (duration(604_800, 0), "7d", "604800s"),
            (duration(612_000, 0), "7d 2h", "612000s"),
            (duration(-1, -500_000_000), "-1.5s", "-1.5s"),
            (duration(1, -500_000_000), "500ms", "0.5s"),
            (
                duration(i64::MAX, i32::MAX),
                "106751991167300d 15h",
                "9223372036854775809.147483647s",
            ),
            (
                duration(i64::MIN, i32::MIN),
                "-106751991167300d 15h",
                "-9223372036854775810.147483648s",
            ),
        ];
        for (input, for_people, for_scripts) in table {
            assert_eq!(people(&input), for_people, "{input:?}");
            assert_eq!(exact(&input), for_scripts, "{input:?}");
        }
    }

    #[test]
    fn counts_and_sizes_are_easy_to_read() {
        let counts = [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
            (-12_345, "-12,345"),
        ];
        for (number, text) in counts {
            assert_eq!(count(number), text);
        }
        assert_eq!(count(i64::MIN), "-9,223,372,036,854,775,808");
        let sizes = [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1_023, "1023 bytes"),
            (1_024, "1 KiB"),
            (49_500, "48.3 KiB"),
            (1 << 20, "1 MiB"),
            (3_500_000, "3.3 MiB"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(
            (counted(1, "key"), counted(2, "key")),
            ("1 key".into(), "2 keys".into())
        );
    }
}
