//! A namespace's policy: the numbers that its operators choose, and what they may be.

use std::time::Duration;

/// What a namespace's operators decide. Every field has a default; `README.md` lists them for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How long a value is served freely.
    pub fresh_ttl: Duration,
    /// From the end of freshness: served at once while one holder refreshes.
    pub stale_while_revalidate: Duration,
    /// From the end of freshness: served when the origin fails.
    pub stale_if_error: Duration,
    /// How long "the origin has no such thing" holds. It has no stale windows.
    pub negative_ttl: Duration,
    /// No value lives longer, whatever a report asks for.
    pub max_lifetime: Duration,
    /// How lifetimes are spread.
    pub jitter: Jitter,
    /// Eagerness of early refreshes; 1 is the value of the paper, more is earlier.
    pub beta: f64,
    /// Length of a lease that asks for none.
    pub lease_ttl: Duration,
    /// No holder keeps a lease longer, however often it renews.
    pub max_hold: Duration,
    /// No caller is parked longer.
    pub max_wait: Duration,
    /// How long to keep off after failures.
    pub backoff: Backoff,
    /// Parked callers a key and replica.
    pub max_waiters_per_key: u32,
    /// Live leases of the namespace over the whole fleet; 0: no limit.
    pub max_concurrent_rebuilds: u32,
    /// Scheduled refreshes that nobody asked for before a key may lapse.
    pub idle_refreshes: u32,
    /// Largest value that a report may carry, in bytes.
    pub max_value_bytes: u32,
    /// What to do when the store does not answer.
    pub store_down: StoreDown,
}

/// How lifetimes are spread, so that what was filled together does not come due together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jitter {
    /// In which direction.
    pub mode: JitterMode,
    /// How far.
    pub amount: JitterAmount,
    /// Of a few draws take the one whose second has the least planned cost.
    pub level: bool,
}

/// The direction of the jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JitterMode {
    /// Around the lifetime.
    Both,
    /// Never beyond the lifetime: for a hard maximum age.
    Down,
}

/// The width of the jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum JitterAmount {
    /// A share of the lifetime, 0 to 1 (1 excluded).
    Ratio(f64),
    /// A length, for short lifetimes.
    Spread(Duration),
}

/// Exponential back-off with full-width lower half: U(1/2, 1) · min(max, base · 2ⁿ⁻¹).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub base: Duration,
    /// At most.
    pub max: Duration,
}

/// What a replica does when its store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreDown {
    /// Decide alone, one rebuild a replica, answers marked `degraded`.
    Local,
    /// Refuse with UNAVAILABLE.
    Refuse,
}

/// No length of time in a policy or a request is longer: 30 days.
pub const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// The ceiling of `max_value_bytes`: 3 MiB, under the transport's 4 MiB.
pub const MAX_VALUE_BYTES: u32 = 3 * 1024 * 1024;
/// No lease is shorter.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            fresh_ttl: Duration::from_secs(300),
            stale_while_revalidate: Duration::from_secs(60),
            stale_if_error: Duration::from_secs(3600),
            negative_ttl: Duration::from_secs(30),
            max_lifetime: Duration::from_secs(7 * 24 * 3600),
            jitter: Jitter {
                mode: JitterMode::Both,
                amount: JitterAmount::Ratio(0.1),
                level: true,
            },
            beta: 1.0,
            lease_ttl: Duration::from_secs(10),
            max_hold: Duration::from_secs(120),
            max_wait: Duration::from_secs(10),
            backoff: Backoff {
                base: Duration::from_secs(1),
                max: Duration::from_secs(60),
            },
            max_waiters_per_key: 10_000,
            max_concurrent_rebuilds: 0,
            idle_refreshes: 3,
            max_value_bytes: 1024 * 1024,
            store_down: StoreDown::Local,
        }
    }
}

/// A policy that contradicts itself or a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// As in the file, such as `backoff.base`.
    pub field: &'static str,
    /// What is allowed.
    pub allowed: String,
}

impl Policy {
    /// Every rule that a policy must keep; all that are broken are named.
    pub fn check(&self) -> Result<(), Vec<PolicyError>> {
        let mut errors = Vec::new();
        let mut rule = |holds: bool, field: &'static str, allowed: &str| {
            if !holds {
                errors.push(PolicyError {
                    field,
                    allowed: allowed.to_owned(),
                });
            }
        };
        let lifetimes = [
            (self.fresh_ttl, "fresh_ttl"),
            (self.stale_while_revalidate, "stale_while_revalidate"),
            (self.stale_if_error, "stale_if_error"),
            (self.negative_ttl, "negative_ttl"),
            (self.max_wait, "max_wait"),
        ];
        for (length, field) in lifetimes {
            rule(length <= LONGEST, field, "0s to 30d");
        }
        let positive = |length: Duration| !length.is_zero() && length <= LONGEST;
        rule(positive(self.max_lifetime), "max_lifetime", "more than 0s, at most 30d");
        rule(self.fresh_ttl <= self.max_lifetime, "fresh_ttl", "at most max_lifetime");
        rule(
            self.negative_ttl <= self.max_lifetime,
            "negative_ttl",
            "at most max_lifetime",
        );
        match self.jitter.amount {
            JitterAmount::Ratio(ratio) => {
                rule(
                    (0.0..1.0).contains(&ratio),
                    "jitter.ratio",
                    "0 to less than 1, such as 0.1",
                );
            }
            JitterAmount::Spread(spread) => rule(spread <= LONGEST, "jitter.spread", "0s to 30d"),
        }
        rule(
            self.beta.is_finite() && (0.0..=100.0).contains(&self.beta),
            "beta",
            "0 to 100",
        );
        rule(
            self.max_hold >= SHORTEST_LEASE && self.max_hold <= LONGEST,
            "max_hold",
            "100ms to 30d",
        );
        rule(
            self.lease_ttl >= SHORTEST_LEASE && self.lease_ttl <= self.max_hold,
            "lease_ttl",
            "100ms to max_hold, which is the longest that a holder may keep a lease",
        );
        rule(positive(self.backoff.base), "backoff.base", "more than 0s, at most 30d");
        rule(
            self.backoff.max >= self.backoff.base && self.backoff.max <= LONGEST,
            "backoff.max",
            "backoff.base to 30d",
        );
        rule(
            (1..=MAX_VALUE_BYTES).contains(&self.max_value_bytes),
            "max_value_bytes",
            "1 to 3145728 (3 MiB)",
        );
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_keep_their_own_rules() {
        assert_eq!(Policy::default().check(), Ok(()));
    }

    #[test]
    fn each_broken_rule_names_its_field() {
        type Break = fn(&mut Policy);
        let cases: [(&str, Break); 12] = [
            ("fresh_ttl", |p| p.fresh_ttl = p.max_lifetime + Duration::from_secs(1)),
            ("stale_if_error", |p| {
                p.stale_if_error = LONGEST + Duration::from_secs(1)
            }),
            ("max_lifetime", |p| p.max_lifetime = LONGEST + Duration::from_secs(1)),
            ("jitter.ratio", |p| p.jitter.amount = JitterAmount::Ratio(1.0)),
            ("jitter.ratio", |p| p.jitter.amount = JitterAmount::Ratio(f64::NAN)),
            ("beta", |p| p.beta = f64::INFINITY),
            ("lease_ttl", |p| p.lease_ttl = Duration::from_millis(99)),
            ("lease_ttl", |p| p.lease_ttl = p.max_hold + Duration::from_millis(1)),
            ("backoff.base", |p| p.backoff.base = Duration::ZERO),
            ("backoff.max", |p| p.backoff.max = Duration::from_millis(1)),
            ("max_value_bytes", |p| p.max_value_bytes = MAX_VALUE_BYTES + 1),
            ("max_value_bytes", |p| p.max_value_bytes = 0),
        ];
        for (field, breaks) in cases {
            let mut policy = Policy::default();
            breaks(&mut policy);
            let errors = policy.check().expect_err(field);
            assert!(errors.iter().any(|error| error.field == field), "{field}: {errors:?}");
        }
    }
}
