//! How long a value lives: freshness with jitter, stale windows, and what is left of both at some moment.
//!
//! The windows are those of RFC 5861 and both count from the end of freshness. Jitter is drawn once a stored value and applies to
//! what a report brings along too, so that a bulk load with one lifetime does not come due in one second.

use std::time::Duration;

use super::{Draw, Jitter, JitterAmount, JitterMode, Policy, Purpose, Standing, View};

/// The shortest length that the store's clock can tell from none.
const RESOLUTION: Duration = Duration::from_micros(1);

/// Lifetimes that a report brings along; what is absent comes from the policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Freshness; zero: do not store.
    pub fresh_ttl: Option<Duration>,
    /// From the end of freshness.
    pub stale_while_revalidate: Option<Duration>,
    /// From the end of freshness.
    pub stale_if_error: Option<Duration>,
}

/// Where a lifetime lies, before it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// At least.
    pub shortest: Duration,
    /// At most.
    pub longest: Duration,
}

/// What a value is given at its report, all lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Freshness.
    pub fresh: Duration,
    /// From the end of freshness.
    pub stale_while_revalidate: Duration,
    /// From the end of freshness.
    pub stale_if_error: Duration,
}

/// What is left of a value's life, all lengths counted from now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expiry {
    /// Serve freely.
    pub fresh_for: Duration,
    /// Serve while one holder refreshes.
    pub stale_for: Duration,
    /// Serve when the origin fails.
    pub stale_if_error_for: Duration,
    /// The one central draw: when the service wants it refreshed, zero when that is due; `None`: no refresh is planned.
    pub refresh_in: Option<Duration>,
    /// Smoothed cost of a rebuild.
    pub rebuild_cost: Duration,
    /// Eagerness of early refreshes.
    pub beta: f64,
}

impl Lifetimes {
    /// The range of freshness: a report's own, else the policy's, of a value or (`negative`) of the fact that there is none.
    pub fn freshness(&self, policy: &Policy, negative: bool) -> Range {
        let usual = if negative {
            policy.negative_ttl
        } else {
            policy.fresh_ttl
        };
        policy
            .jitter
            .range(self.fresh_ttl.unwrap_or(usual), policy.max_lifetime)
    }
}

impl Range {
    /// One draw, uniform.
    pub fn at(self, draw: Draw) -> Duration {
        let width = self.longest.saturating_sub(self.shortest);
        // Faster than the multiplication of lengths, which looks for what can't be here.
        let nanoseconds = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX) as f64;
        self.shortest + Duration::from_nanos((nanoseconds * draw.unit(Purpose::Lifetime)) as u64)
    }
}

impl Planned {
    /// Lifetimes of a value that is stored.
    pub fn value(policy: &Policy, asked: Lifetimes, draw: Draw) -> Planned {
        Planned::within(
            policy.max_lifetime,
            asked.freshness(policy, false).at(draw),
            asked.stale_while_revalidate.unwrap_or(policy.stale_while_revalidate),
            asked.stale_if_error.unwrap_or(policy.stale_if_error),
        )
    }

    /// Lifetimes of "the origin has no such thing": a report's own freshness, else the policy's; no stale windows.
    pub fn negative(policy: &Policy, asked: Lifetimes, draw: Draw) -> Planned {
        let fresh = asked.freshness(policy, true).at(draw);
        Planned::within(policy.max_lifetime, fresh, Duration::ZERO, Duration::ZERO)
    }

    /// Not a moment.
    pub fn nothing() -> Planned {
        Planned {
            fresh: Duration::ZERO,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
        }
    }

    fn within(max: Duration, fresh: Duration, stale_while_revalidate: Duration, stale_if_error: Duration) -> Planned {
        let fresh = fresh.min(max);
        let left = max - fresh;
        Planned {
            fresh,
            stale_while_revalidate: stale_while_revalidate.min(left),
            stale_if_error: stale_if_error.min(left),
        }
    }

    /// As it is told.
    pub fn expiry(self, rebuild_cost: Duration, beta: f64) -> Expiry {
        let window = |length: Duration| {
            if length.is_zero() {
                Duration::ZERO
            } else {
                self.fresh + length
            }
        };
        Expiry {
            fresh_for: self.fresh,
            stale_for: window(self.stale_while_revalidate),
            stale_if_error_for: window(self.stale_if_error),
            refresh_in: None,
            rebuild_cost,
            beta,
        }
    }
}

impl Expiry {
    /// No report without lifetimes of its own will be given more, in any of the parts: each is bounded by itself, since the longest
    /// freshness leaves less of `max_lifetime` to the stale windows than a shorter one does. "Not found" counts too.
    pub fn upper_bound(policy: &Policy, rebuild_cost: Duration) -> Expiry {
        let max = policy.max_lifetime;
        let fresh = policy.jitter.longest(policy.fresh_ttl);
        let negative = policy.jitter.longest(policy.negative_ttl);
        let window = |length: Duration| {
            if length.is_zero() {
                Duration::ZERO
            } else {
                fresh.saturating_add(length).min(max)
            }
        };
        Expiry {
            fresh_for: fresh.max(negative).min(max),
            stale_for: window(policy.stale_while_revalidate),
            stale_if_error_for: window(policy.stale_if_error),
            refresh_in: None,
            rebuild_cost,
            beta: policy.beta,
        }
    }

    /// What is left of a key's value.
    pub fn of(view: &View<'_>, standing: &Standing<'_>, beta: f64) -> Expiry {
        let (value, fresh_until, now) = (standing.value, standing.fresh_until, view.now);
        let window = |length: Duration| {
            if length.is_zero() {
                Duration::ZERO
            } else {
                fresh_until.after(length).since(now)
            }
        };
        Expiry {
            fresh_for: fresh_until.since(now),
            stale_for: window(value.stale_while_revalidate.length()),
            stale_if_error_for: window(value.stale_if_error.length()),
            refresh_in: view.refresh_due().map(|due| due.since(now)),
            rebuild_cost: view.entry.cost.length(),
            beta,
        }
    }
}

impl Jitter {
    /// One draw around `base`.
    pub fn spread(&self, base: Duration, max: Duration, draw: Draw) -> Duration {
        self.range(base, max).at(draw)
    }

    /// What lies around `base` within `max`: draws are uniform over what is left of the range. Where it is cut they do not heap up at the
    /// cut, or whatever asks for more than `max` would come due together. Zero stays zero, and nothing else becomes zero.
    pub fn range(&self, base: Duration, max: Duration) -> Range {
        let base = base.min(max);
        if base.is_zero() {
            return Range {
                shortest: Duration::ZERO,
                longest: Duration::ZERO,
            };
        }
        let shortest = base.saturating_sub(self.width(base)).max(RESOLUTION);
        let longest = self.longest(base).min(max).max(shortest);
        Range { shortest, longest }
    }

    /// The longest that a draw around `base` can be.
    pub fn longest(&self, base: Duration) -> Duration {
        match self.mode {
            JitterMode::Both => base.saturating_add(self.width(base)),
            JitterMode::Down => base,
        }
    }

    /// Never wider than the lifetime itself.
    fn width(&self, base: Duration) -> Duration {
        match self.amount {
            JitterAmount::Ratio(ratio) if (0.0..=1.0).contains(&ratio) => base.mul_f64(ratio).min(base),
            // No policy that was checked has such a ratio.
            JitterAmount::Ratio(_) => Duration::ZERO,
            JitterAmount::Spread(spread) => spread.min(base),
        }
    }
}

/// The smoothed cost after one more rebuild: an exponentially weighted mean with weight 1/4, the first cost as it is.
pub fn smooth(known: Duration, measured: Duration) -> Duration {
    if known.is_zero() {
        measured
    } else {
        (known.saturating_mul(3).saturating_add(measured)) / 4
    }
}
