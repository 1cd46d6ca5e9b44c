//! What invalidations of tags and namespaces leave behind: numbers against which every value and every grant is held.
//!
//! *Owns* the one rule that an invalidation is a number in the same sequence as the grants: what was built under a smaller number
//! is old. Nothing is searched for and nothing is marked, so an invalidation of a tag with a million keys costs one write.
//!
//! *Invariant*: forgetting only ever makes more values old, never fewer ([`Generation::expire`], `floor`).

use super::{Mode, Seq, StoreTime, Tag};

/// How many soft invalidations of one tag are kept apart.
pub const SOFT_KEPT: usize = 8;

/// The invalidations of one tag, or of a whole namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generation {
    /// What was built under a smaller number is gone.
    pub dropped: Seq,
    /// What was built under a smaller number was fresh at most until then. Numbers grow; times do unless the store's clock is set
    /// back.
    pub expired: Vec<(Seq, StoreTime)>,
    /// What is built before this is fresh at most until then.
    pub settle_until: StoreTime,
}

impl Generation {
    /// Its last invalidation of either kind.
    pub fn newest(&self) -> Seq {
        self.expired
            .last()
            .map_or(self.dropped, |(number, _)| self.dropped.max(*number))
    }

    /// Takes in an invalidation.
    pub fn invalidate(&mut self, mode: Mode, number: Seq, now: StoreTime, settle_until: StoreTime) {
        match mode {
            Mode::Drop => {
                self.dropped = self.dropped.max(number);
                self.expired.retain(|(soft, _)| *soft > number);
            }
            Mode::Expire => self.expire(number, now),
        }
        self.settle_until = self.settle_until.max(settle_until);
    }

    /// Keeps the last few soft invalidations apart. Where there are too many, the two closest in time become one with the later
    /// number and the earlier time: values between them lose a little of their stale window, and none ever gains any.
    fn expire(&mut self, number: Seq, now: StoreTime) {
        self.expired.push((number, now));
        if self.expired.len() > SOFT_KEPT {
            let closest = (1..self.expired.len())
                .min_by_key(|&later| self.expired[later].1.since(self.expired[later - 1].1))
                .unwrap_or(1);
            self.expired[closest].1 = self.expired[closest].1.min(self.expired[closest - 1].1);
            self.expired.remove(closest - 1);
        }
    }

    /// The end of freshness that a soft invalidation forced on what was built under `version`.
    fn expired_at(&self, version: Seq) -> Option<StoreTime> {
        self.expired
            .iter()
            .filter(|(number, _)| *number > version)
            .map(|(_, at)| *at)
            .min()
    }
}

/// Everything in a partition's header that bears on one entry: its namespace's generation and those of its tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Generations {
    /// Generations that had to be forgotten rose to this: what was built under it or before is gone.
    pub floor: Seq,
    /// Of the namespace.
    pub namespace: Option<Generation>,
    /// Of the tags asked about, those that were ever invalidated.
    pub tags: Vec<(Tag, Generation)>,
}

/// What generations say of something that was built under a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Valid,
    /// It was fresh at most until then.
    ExpiredAt(StoreTime),
    /// It is gone.
    Dropped,
}

impl Generations {
    /// Those that cover something with these tags.
    fn covering<'a>(&'a self, tags: &'a [Tag]) -> impl Iterator<Item = &'a Generation> {
        let tagged = self
            .tags
            .iter()
            .filter(|(tag, _)| tags.contains(tag))
            .map(|(_, generation)| generation);
        self.namespace.iter().chain(tagged)
    }

    /// What they say of something with these tags that was built under `version`.
    pub fn verdict(&self, version: Seq, tags: &[Tag]) -> Verdict {
        if version <= self.floor {
            return Verdict::Dropped;
        }
        let mut verdict = Verdict::Valid;
        for generation in self.covering(tags) {
            if generation.dropped > version {
                return Verdict::Dropped;
            }
            if let Some(at) = generation.expired_at(version) {
                verdict = match verdict {
                    Verdict::ExpiredAt(earlier) if earlier < at => verdict,
                    _ => Verdict::ExpiredAt(at),
                };
            }
        }
        verdict
    }

    /// The latest instant until which the origin of something with these tags may lag.
    pub fn settle_until(&self, tags: &[Tag]) -> StoreTime {
        self.covering(tags)
            .map(|generation| generation.settle_until)
            .max()
            .unwrap_or_default()
    }

    /// The newest number among them: a commit that relies on them asks that none newer exists.
    pub fn newest(&self) -> Seq {
        let tags = self.tags.iter().map(|(_, generation)| generation.newest());
        let namespace = self.namespace.iter().map(Generation::newest);
        tags.chain(namespace).max().unwrap_or_default().max(self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soft(times: &[(u64, u64)]) -> Generation {
        let mut generation = Generation::default();
        for (number, at) in times {
            generation.invalidate(Mode::Expire, Seq(*number), StoreTime(*at), StoreTime::ZERO);
        }
        generation
    }

    #[test]
    fn a_soft_invalidation_repeated_does_not_prolong_the_first() {
        let generations = Generations {
            namespace: Some(soft(&[(10, 100), (20, 200)])),
            ..Default::default()
        };
        assert_eq!(generations.verdict(Seq(5), &[]), Verdict::ExpiredAt(StoreTime(100)));
        assert_eq!(generations.verdict(Seq(15), &[]), Verdict::ExpiredAt(StoreTime(200)));
        assert_eq!(generations.verdict(Seq(20), &[]), Verdict::Valid);
    }

    #[test]
    fn too_many_soft_invalidations_shorten_windows_and_never_lengthen_them() {
        let times: Vec<(u64, u64)> = (1..=100).map(|n| (n * 10, n * 1_000)).collect();
        let generation = soft(&times);
        assert!(generation.expired.len() <= SOFT_KEPT);
        for version in 0..1_000 {
            let exact = times
                .iter()
                .find(|(number, _)| *number > version)
                .map(|(_, at)| StoreTime(*at));
            let kept = generation.expired_at(Seq(version));
            assert!(
                kept.is_some() && kept <= exact,
                "version {version}: kept {kept:?}, exact {exact:?}"
            );
        }
        assert_eq!(generation.expired_at(Seq(1_000)), None);
    }

    #[test]
    fn a_hard_invalidation_swallows_the_soft_ones_before_it() {
        let mut generation = soft(&[(10, 100), (30, 300)]);
        generation.invalidate(Mode::Drop, Seq(20), StoreTime(200), StoreTime::ZERO);
        let generations = Generations {
            tags: vec![("t".into(), generation)],
            ..Default::default()
        };
        assert_eq!(generations.verdict(Seq(15), &["t".into()]), Verdict::Dropped);
        assert_eq!(
            generations.verdict(Seq(25), &["t".into()]),
            Verdict::ExpiredAt(StoreTime(300))
        );
        assert_eq!(generations.verdict(Seq(15), &["other".into()]), Verdict::Valid);
    }

    #[test]
    fn the_floor_makes_everything_at_or_below_it_old() {
        let generations = Generations {
            floor: Seq(50),
            ..Default::default()
        };
        assert_eq!(generations.verdict(Seq(50), &[]), Verdict::Dropped);
        assert_eq!(generations.verdict(Seq(51), &[]), Verdict::Valid);
        assert_eq!(generations.newest(), Seq(50));
    }
}
