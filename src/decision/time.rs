//! Time as the core sees it: values that come in, never a clock that is read.
//!
//! A stored entry holds instants of the *store's* clock. A drafted one holds [`When`]s, which the store resolves at the moment it
//! commits. So no replica's clock ever decides, and a replica that was stopped between load and commit cannot write a deadline
//! that is already wrong.

use std::time::Duration;

/// An instant of the store's clock, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub u64);

impl StoreTime {
    /// Before everything.
    pub const ZERO: StoreTime = StoreTime(0);
    /// After everything: the end of what has no end.
    pub const NEVER: StoreTime = StoreTime(u64::MAX);

    /// This instant and so much more; stops at [`StoreTime::NEVER`].
    pub fn after(self, length: Duration) -> StoreTime {
        StoreTime(self.0.saturating_add(micros(length)))
    }

    /// How long from `earlier` until this instant; zero when it is not later.
    pub fn since(self, earlier: StoreTime) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// A length as an entry keeps it: whole microseconds in half the room of a [`Duration`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// As a length.
    pub fn length(self) -> Duration {
        Duration::from_micros(self.0)
    }

    /// Whether it is no time at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Duration> for Span {
    fn from(length: Duration) -> Span {
        Span(micros(length))
    }
}

/// A length of which 24 binary digits count, in half the room of a [`Span`]: for what is measured, not for what is promised. Exact to
/// the microsecond below 16 seconds, and to one part in 16 million beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rough(f32);

impl Rough {
    /// No time at all.
    pub const ZERO: Rough = Rough(0.0);

    /// As a length, in whole microseconds.
    pub fn length(self) -> Duration {
        Duration::from_micros(self.0 as u64)
    }

    /// Whether it is no time at all.
    pub fn is_zero(self) -> bool {
        self.0 == 0.0
    }
}

impl From<Duration> for Rough {
    fn from(length: Duration) -> Rough {
        Rough(micros(length) as f32)
    }
}

/// A length in whole microseconds, the resolution of the store's clock.
pub fn micros(length: Duration) -> u64 {
    u64::try_from(length.as_micros()).unwrap_or(u64::MAX)
}

/// An instant that is only known once the store commits: so long after the commit, but not later than a fixed bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Counted from the commit; `None` when the bound alone says it.
    pub after: Option<Duration>,
    /// Not later than this.
    pub at_most: StoreTime,
}

impl When {
    /// A fixed instant.
    pub fn at(instant: StoreTime) -> When {
        When {
            after: None,
            at_most: instant,
        }
    }

    /// So long after the commit.
    pub fn after(length: Duration) -> When {
        When {
            after: Some(length),
            at_most: StoreTime::NEVER,
        }
    }

    /// The moment of the commit.
    pub fn now() -> When {
        When::after(Duration::ZERO)
    }

    /// The same, but not later than `bound`.
    pub fn at_most(self, bound: StoreTime) -> When {
        When {
            after: self.after,
            at_most: self.at_most.min(bound),
        }
    }

    /// What it comes to when the commit happens at `now`.
    pub fn resolve(self, now: StoreTime) -> StoreTime {
        match self.after {
            Some(length) => now.after(length).min(self.at_most),
            None => self.at_most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_when_is_the_earlier_of_its_offset_and_its_bound() {
        let now = StoreTime(1_000);
        assert_eq!(When::after(Duration::from_micros(5)).resolve(now), StoreTime(1_005));
        assert_eq!(
            When::after(Duration::from_micros(5))
                .at_most(StoreTime(1_003))
                .resolve(now),
            StoreTime(1_003)
        );
        assert_eq!(When::at(StoreTime(7)).resolve(now), StoreTime(7));
        assert_eq!(When::at(StoreTime(7)).at_most(StoreTime(3)).resolve(now), StoreTime(3));
    }

    #[test]
    fn a_rough_length_is_exact_where_it_is_short_and_near_where_it_is_long() {
        for micros in (0..24).map(|digit| (1 << digit) + 1) {
            let length = Duration::from_micros(micros);
            assert_eq!(Rough::from(length).length(), length);
        }
        for digit in 24..62 {
            let length = Duration::from_micros((1 << digit) + (1 << (digit - 9)) + 1);
            let rough = Rough::from(length).length();
            assert!(
                length.abs_diff(rough) <= length / (1 << 24),
                "{length:?} became {rough:?}"
            );
            assert_eq!(Rough::from(rough).length(), rough, "it is rounded once");
        }
        assert_eq!(Rough::from(Duration::MAX).length(), Duration::from_micros(u64::MAX));
    }

    #[test]
    fn lengths_stop_at_the_end_of_time_instead_of_wrapping() {
        assert_eq!(StoreTime(5).after(Duration::MAX), StoreTime::NEVER);
        assert_eq!(StoreTime(5).since(StoreTime(9)), Duration::ZERO);
    }
}
