//! Until when an answer must be on its way.
//!
//! gRPC tells a server in `grpc-timeout` how long the caller still waits. An answer that comes at that moment comes too late, and
//! says nothing to the caller. So drover ends its waits earlier: by a tenth of the time, at most
//! 100 ms, which is also what the way back may take.
//!
//! The time counts from the moment when the whole request has arrived, since that is when a handler runs. A request whose body
//! takes longer than the margin to arrive is answered too late.

use std::time::Duration;

use tokio::time::Instant;
use tonic::metadata::MetadataMap;

const HEADER: &str = "grpc-timeout";
/// The largest part of the time given that is kept for the way back.
const MARGIN: Duration = Duration::from_millis(100);

/// When the answer to a call that has just arrived must be on its way. `None`: the call has no deadline. A malformed one counts as
/// none, as it does for tonic.
pub fn answer_by(metadata: &MetadataMap) -> Option<Instant> {
    Instant::now().checked_add(time_left(metadata)?)
}

/// How long the answer to a call that has just arrived may take.
pub fn time_left(metadata: &MetadataMap) -> Option<Duration> {
    let given = read(metadata.get(HEADER)?.to_str().ok()?)?;
    Some(given.saturating_sub(MARGIN.min(given / 10)))
}

/// `TimeoutValue TimeoutUnit` of the gRPC protocol: 1 to 8 digits, and one letter.
fn read(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: u64 = digits.parse().ok()?;
    // Eight digits of hours are far below the range of either type.
    Some(match unit {
        "H" => Duration::from_secs(value * 3_600),
        "M" => Duration::from_secs(value * 60),
        "S" => Duration::from_secs(value),
        "m" => Duration::from_millis(value),
        "u" => Duration::from_micros(value),
        "n" => Duration::from_nanos(value),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(header: &str) -> Option<Duration> {
        let mut metadata = MetadataMap::new();
        metadata.insert(HEADER, header.parse().expect("ASCII"));
        time_left(&metadata)
    }

    #[test]
    fn an_answer_leaves_a_tenth_of_the_time_before_the_deadline_but_at_most_100_ms() {
        let cases = [
            ("10S", Duration::from_millis(9_900)),
            ("1S", Duration::from_millis(900)),
            ("500m", Duration::from_millis(450)),
            ("500000u", Duration::from_millis(450)),
            ("1000n", Duration::from_nanos(900)),
            ("0S", Duration::ZERO),
            ("1M", Duration::from_millis(59_900)),
            ("1H", Duration::from_millis(3_599_900)),
        ];
        for (header, expected) in cases {
            assert_eq!(left(header), Some(expected), "{header}");
        }
    }

    #[test]
    fn a_malformed_timeout_is_none() {
        for header in ["", "S", "10", "10s", "+1S", "-1S", "1.5S", "123456789S", "1 S", "10SS"] {
            assert_eq!(left(header), None, "{header:?}");
        }
        assert_eq!(time_left(&MetadataMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_moment_counts_from_the_arrival_and_the_longest_timeout_does_not_overflow() {
        let mut metadata = MetadataMap::new();
        metadata.insert(HEADER, "2S".parse().expect("ASCII"));
        assert_eq!(
            answer_by(&metadata),
            Some(Instant::now() + Duration::from_millis(1_900))
        );
        metadata.insert(HEADER, "99999999H".parse().expect("ASCII"));
        assert!(answer_by(&metadata).is_some());
    }
}
