//! What a replica decides that cannot ask its store: the same rules, over less.
//!
//! *Owns* how a policy, a question, a report and an answer are cut down for that. *Never* decides: the rules are where they always are.
//!
//! *Invariants.* What is built then lives at most [`DEGRADED_LIFE`], counted whole: no stale windows, and no jitter beyond. No number
//! of such a decision leaves, because no other replica knows it; and none comes in, because what a caller has seen of the store's
//! numbers says nothing about those of a replica alone: held against each other, a caller would be sent to rebuild for ever.

use std::time::Duration;

use super::{Answer, Ask, Hit, Jitter, JitterMode, Lifetimes, Policy, Report, ReportAnswer, Seq};

/// What is built while the store does not answer lives no longer.
pub const DEGRADED_LIFE: Duration = Duration::from_secs(5);

impl Policy {
    /// As it is in force while the store does not answer.
    pub fn degraded(&self) -> Policy {
        Policy {
            fresh_ttl: self.fresh_ttl.min(DEGRADED_LIFE),
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            negative_ttl: self.negative_ttl.min(DEGRADED_LIFE),
            max_lifetime: self.max_lifetime.min(DEGRADED_LIFE),
            jitter: Jitter {
                mode: JitterMode::Down,
                ..self.jitter
            },
            ..self.clone()
        }
    }
}

impl Ask {
    /// Without what refers to the store's numbers.
    pub fn degraded(&self) -> Ask {
        Ask {
            known_version: Seq::NONE,
            min_token: Seq::NONE,
            newer_than: Seq::NONE,
            parked_on: None,
            ..self.clone()
        }
    }
}

impl Report {
    /// With lifetimes that no replica alone grants cut off.
    pub fn degraded(self) -> Report {
        Report {
            lifetimes: Lifetimes {
                fresh_ttl: self.lifetimes.fresh_ttl.map(|given| given.min(DEGRADED_LIFE)),
                stale_while_revalidate: None,
                stale_if_error: None,
            },
            ..self
        }
    }
}

impl Answer {
    /// Without the versions. A lease keeps its number: that is part of its id, and [`LeaseId::fencing_token`] does not tell it.
    ///
    /// [`LeaseId::fencing_token`]: super::LeaseId::fencing_token
    pub fn degraded(self) -> Answer {
        let unnumbered = |hit: Hit| Hit {
            version: Seq::NONE,
            ..hit
        };
        match self {
            Answer::Hit(hit) => Answer::Hit(unnumbered(hit)),
            Answer::Rebuild(mut rebuild) => {
                rebuild.fallback = rebuild.fallback.map(unnumbered);
                Answer::Rebuild(rebuild)
            }
            Answer::Busy(_) | Answer::KeepOff(_) | Answer::Miss => self,
        }
    }
}

impl ReportAnswer {
    /// Without the version.
    pub fn degraded(self) -> ReportAnswer {
        match self {
            ReportAnswer::Accepted { expiry, .. } => ReportAnswer::Accepted {
                version: Seq::NONE,
                expiry,
            },
            ReportAnswer::Rejected(_) => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Draw, JitterAmount, Planned};
    use super::*;

    #[test]
    fn nothing_lives_longer_than_the_policy_says_nor_than_five_seconds() {
        let wide = Jitter {
            mode: JitterMode::Both,
            amount: JitterAmount::Ratio(0.5),
            level: true,
        };
        for (fresh, bound) in [(300, 5), (5, 5), (2, 2)] {
            let policy = Policy {
                fresh_ttl: Duration::from_secs(fresh),
                jitter: wide,
                ..Policy::default()
            };
            let alone = policy.degraded();
            assert_eq!(alone.check(), Ok(()));
            for seed in 0..1_000 {
                let draw = Draw { secret: 1, seed };
                let planned = Planned::value(&alone, Lifetimes::default(), draw);
                assert!(planned.fresh <= Duration::from_secs(bound) && !planned.fresh.is_zero());
                assert_eq!(planned.stale_while_revalidate + planned.stale_if_error, Duration::ZERO);
                assert!(Planned::negative(&alone, Lifetimes::default(), draw).fresh <= DEGRADED_LIFE);
            }
        }
    }

    #[test]
    fn lifetimes_that_a_report_brings_are_cut_too() {
        let hour = Some(Duration::from_secs(3_600));
        let report = Report {
            lease: super::super::LeaseId {
                token: Seq(1),
                secret: std::num::NonZeroU64::MIN,
            },
            outcome: super::super::Outcome::NotModified,
            cost: None,
            tags: Vec::new(),
            lifetimes: Lifetimes {
                fresh_ttl: hour,
                stale_while_revalidate: hour,
                stale_if_error: hour,
            },
            do_not_store: false,
        };
        let lifetimes = report.degraded().lifetimes;
        let planned = Planned::value(&Policy::default().degraded(), lifetimes, Draw { secret: 1, seed: 1 });
        assert!(planned.fresh <= DEGRADED_LIFE);
        assert_eq!(planned.stale_while_revalidate + planned.stale_if_error, Duration::ZERO);
    }
}
