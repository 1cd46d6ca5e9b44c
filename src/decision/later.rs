//! What an answer has come to when it is given later than it was decided, without asking again: less is left of everything.

use std::time::Duration;

use super::{Answer, Busy, BusyCause, Expiry, Hit};

/// Who can't be served any more is not told to come back sooner.
const SOONEST: Duration = Duration::from_millis(100);

impl Answer {
    /// So much later. A value whose life has ended by then is no answer any more.
    pub fn later(self, by: Duration) -> Answer {
        match self {
            Answer::Rebuild(mut rebuild) => {
                rebuild.ttl = rebuild.ttl.saturating_sub(by);
                rebuild.max_hold = rebuild.max_hold.saturating_sub(by);
                rebuild.fallback = rebuild.fallback.and_then(|hit| hit.later(by));
                Answer::Rebuild(rebuild)
            }
            Answer::Hit(hit) => hit.later(by).map_or(
                Answer::Busy(Busy {
                    retry_after: SOONEST,
                    lease_remaining: Duration::ZERO,
                    cause: BusyCause::WaitElapsed,
                }),
                Answer::Hit,
            ),
            Answer::Busy(busy) => Answer::Busy(Busy {
                lease_remaining: busy.lease_remaining.saturating_sub(by),
                ..busy
            }),
            Answer::KeepOff(_) | Answer::Miss => self,
        }
    }
}

impl Hit {
    fn later(self, by: Duration) -> Option<Hit> {
        let expiry = Expiry {
            fresh_for: self.expiry.fresh_for.saturating_sub(by),
            stale_for: self.expiry.stale_for.saturating_sub(by),
            stale_if_error_for: self.expiry.stale_if_error_for.saturating_sub(by),
            refresh_in: self.expiry.refresh_in.map(|refresh_in| refresh_in.saturating_sub(by)),
            ..self.expiry
        };
        let left = expiry.fresh_for.max(expiry.stale_for).max(expiry.stale_if_error_for);
        let lives = by.is_zero() || !left.is_zero();
        lives.then(|| Hit {
            fresh: self.fresh && (by.is_zero() || !expiry.fresh_for.is_zero()),
            age: self.age.saturating_add(by),
            expiry,
            ..self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HitContent, Seq};
    use super::*;

    fn hit(fresh: u64, stale: u64) -> Answer {
        Answer::Hit(Hit {
            version: Seq(1),
            fresh: true,
            content: HitContent::NotFound,
            age: Duration::from_secs(1),
            expiry: Expiry {
                fresh_for: Duration::from_secs(fresh),
                stale_if_error_for: Duration::from_secs(stale),
                refresh_in: Some(Duration::from_secs(1)),
                ..Expiry::default()
            },
            rebuilding: true,
            tags: None,
            traceparent: None,
        })
    }

    #[test]
    fn a_value_grows_old_and_then_is_no_answer() {
        let Answer::Hit(fresh) = hit(3, 6).later(Duration::from_secs(2)) else {
            panic!("it lives")
        };
        assert!(fresh.fresh);
        assert_eq!(
            (fresh.age, fresh.expiry.fresh_for),
            (Duration::from_secs(3), Duration::from_secs(1))
        );
        assert_eq!(fresh.expiry.refresh_in, Some(Duration::ZERO), "its refresh is due");
        let Answer::Hit(stale) = hit(3, 6).later(Duration::from_secs(4)) else {
            panic!("it lives")
        };
        assert!(!stale.fresh);
        assert_eq!(stale.expiry.stale_if_error_for, Duration::from_secs(2));
        assert!(matches!(hit(3, 6).later(Duration::from_secs(6)), Answer::Busy(_)));
    }
}
