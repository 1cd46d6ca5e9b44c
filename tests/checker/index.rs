//! A history, arranged so that each check looks at each call once: by key, by lease, by target, and sorted by place.

use std::collections::{HashMap, HashSet};

use drover::decision::{LeaseId, Mode};

use super::model::{Asked, End, Grant, History, Kind, Op, Target};

/// The greatest value among all that came before a place.
#[derive(Default)]
pub struct Stairs(Vec<(u64, u64, usize)>);

impl Stairs {
    pub fn of(mut steps: Vec<(u64, u64, usize)>) -> Stairs {
        steps.sort_unstable();
        let mut best = (0, 0);
        for (_, value, whose) in &mut steps {
            best = best.max((*value, *whose));
            (*value, *whose) = best;
        }
        Stairs(steps)
    }

    /// The greatest value strictly before a place, and whose it is.
    pub fn before(&self, place: u64) -> Option<(u64, usize)> {
        let count = self.0.partition_point(|(at, ..)| *at < place);
        let (_, value, whose) = self.0.get(count.checked_sub(1)?)?;
        Some((*value, *whose))
    }

    /// The first place at or after this one.
    pub fn first_from(&self, place: u64) -> Option<u64> {
        let count = self.0.partition_point(|(at, ..)| *at < place);
        self.0.get(count).map(|(at, ..)| *at)
    }
}

/// All that concerns one key. Indices of calls, in the order in which they were invoked.
#[derive(Default)]
pub struct OfKey {
    pub acquires: Vec<usize>,
    pub reports: Vec<usize>,
    pub renewals: Vec<usize>,
    /// The calls that were granted, the first one for each lease.
    pub grants: Vec<usize>,
    /// The greatest token that was granted before a place, and cannot have been lost again.
    pub newest: Stairs,
}

/// All that concerns one lease.
#[derive(Default)]
pub struct OfLease {
    pub grants: Vec<usize>,
    pub reports: Vec<usize>,
    pub renewals: Vec<usize>,
}

/// Invalidations of one target.
#[derive(Default)]
pub struct Made {
    /// Those that were answered: the greatest number before a place.
    pub number: Stairs,
    /// Those that were answered: the latest beginning of one that ended before a place.
    pub begun: Stairs,
    /// The same, only of those that leave nothing to be served.
    pub hard_number: Stairs,
    pub hard_begun: Stairs,
    /// The same, only of those that every watcher has obeyed.
    pub confirmed_number: Stairs,
    pub confirmed_begun: Stairs,
    /// All that may have been done: the latest end of one that began before a place.
    pub lasting: Stairs,
    /// Those that were answered.
    pub certain: Vec<usize>,
}

/// What there is to look at.
pub struct Seen<'a> {
    pub history: &'a History,
    pub ops: &'a [Op],
    pub keys: Vec<OfKey>,
    pub leases: HashMap<(u32, LeaseId), OfLease>,
    /// The first grant of a key with a token.
    pub tokens: HashMap<(u32, u64), usize>,
    pub made: HashMap<Target, Made>,
    /// Tags that a key was ever named with.
    pub carried: Vec<Vec<u32>>,
}

impl<'a> Seen<'a> {
    pub fn of(history: &'a History) -> Seen<'a> {
        let mut seen = Seen {
            history,
            ops: &history.ops,
            keys: (0..history.keys.len()).map(|_| OfKey::default()).collect(),
            leases: HashMap::new(),
            tokens: HashMap::new(),
            made: HashMap::new(),
            carried: Vec::new(),
        };
        let mut carried: Vec<HashSet<u32>> = vec![HashSet::new(); history.keys.len()];
        for (index, op) in history.ops.iter().enumerate() {
            seen.take(index, op, &mut carried);
        }
        for of_lease in seen.leases.values_mut() {
            of_lease.grants.sort_by_key(|index| history.ops[*index].ended.place);
        }
        for ((key, lease), of_lease) in &seen.leases {
            if let Some(first) = of_lease.grants.first() {
                seen.keys[*key as usize].grants.push(*first);
                seen.tokens.insert((*key, lease.token.0), *first);
            }
        }
        for number in 0..seen.keys.len() {
            let mut grants = std::mem::take(&mut seen.keys[number].grants);
            grants.sort_unstable();
            let kept = grants.iter().filter_map(|index| {
                let (_, op, grant) = seen.grant(*index)?;
                let lost = seen.lapsed(op.invoked.at, op.ended.at, |kind| kind == Kind::Failover);
                (!lost).then_some((op.ended.place, grant.lease.token.0, *index))
            });
            seen.keys[number].newest = Stairs::of(kept.collect());
            seen.keys[number].grants = grants;
        }
        seen.carried = carried.into_iter().map(|tags| tags.into_iter().collect()).collect();
        seen.made = made(history);
        seen
    }

    fn take(&mut self, index: usize, op: &Op, carried: &mut [HashSet<u32>]) {
        match &op.asked {
            Asked::Acquire(question) => {
                let key = question.key as usize;
                self.keys[key].acquires.push(index);
                carried[key].extend(question.tags.iter());
                if let Some(hit) = op.hit() {
                    carried[key].extend(hit.tags.iter());
                }
                if let Some(grant) = op.granted() {
                    let of_lease = self.leases.entry((question.key, grant.lease)).or_default();
                    of_lease.grants.push(index);
                }
            }
            Asked::Report(report) => {
                let key = report.key as usize;
                self.keys[key].reports.push(index);
                carried[key].extend(report.tags.iter());
                let of_lease = self.leases.entry((report.key, report.lease)).or_default();
                of_lease.reports.push(index);
            }
            Asked::Renew { key, lease } => {
                self.keys[*key as usize].renewals.push(index);
                self.leases.entry((*key, *lease)).or_default().renewals.push(index);
            }
            Asked::Invalidate { .. } => {}
        }
    }

    /// Whatever may make a value of this key, or a lease on it, old.
    pub fn touching(&self, key: u32) -> impl Iterator<Item = &Made> {
        let named = [Target::Key(key), Target::Everything(self.history.keys[key as usize])];
        let tags = self.carried[key as usize].iter().map(|tag| Target::Tag(*tag));
        named
            .into_iter()
            .chain(tags)
            .filter_map(|target| self.made.get(&target))
    }

    /// Invalidations that cover something with this key and these tags.
    pub fn covering(&self, key: u32, tags: &[u32]) -> impl Iterator<Item = (Target, &Made)> {
        let named = [Target::Key(key), Target::Everything(self.history.keys[key as usize])];
        let tags = tags.iter().map(|tag| Target::Tag(*tag));
        named
            .into_iter()
            .chain(tags)
            .filter_map(|target| self.made.get(&target).map(|made| (target, made)))
    }

    /// An invalidation that was answered before a place, and is newer than what was granted with this token.
    pub fn undone(&self, key: u32, token: u64, tags: &[u32], place: u64, hard: bool) -> Option<&'a Op> {
        self.undone_by(key, token, tags, place, |made| {
            if hard {
                (&made.hard_number, &made.hard_begun)
            } else {
                (&made.number, &made.begun)
            }
        })
    }

    /// The same, of those that every watcher has obeyed.
    pub fn undone_for_all(&self, key: u32, token: u64, tags: &[u32], place: u64) -> Option<&'a Op> {
        self.undone_by(key, token, tags, place, |made| {
            (&made.confirmed_number, &made.confirmed_begun)
        })
    }

    fn undone_by(
        &self,
        key: u32,
        token: u64,
        tags: &[u32],
        place: u64,
        which: impl Fn(&Made) -> (&Stairs, &Stairs),
    ) -> Option<&'a Op> {
        for (target, made) in self.covering(key, tags) {
            let (numbers, begun) = which(made);
            if (self.history.terms.one_sequence || matches!(target, Target::Key(_)))
                && let Some((number, by)) = numbers.before(place)
                && number > token
            {
                return Some(&self.ops[by]);
            }
            let granted = self.tokens.get(&(key, token)).map(|index| &self.ops[*index]);
            if let Some((begun, by)) = begun.before(place)
                && granted.is_some_and(|grant| grant.ended.place < begun)
            {
                return Some(&self.ops[by]);
            }
        }
        None
    }

    pub fn grant(&self, index: usize) -> Option<(u32, &'a Op, &'a Grant)> {
        let op = &self.ops[index];
        Some((op.key()?, op, op.granted()?))
    }

    /// The tags that a lease was asked for with.
    pub fn tags_of(&self, key: u32, lease: LeaseId) -> &'a [u32] {
        let first = self.leases.get(&(key, lease)).and_then(|of| of.grants.first());
        let question = first.and_then(|index| self.ops[*index].question());
        question.map(|question| &*question.tags).unwrap_or_default()
    }

    /// When the call that was invoked in this place was invoked.
    pub fn at(&self, place: u64) -> u64 {
        let index = self.ops.partition_point(|op| op.invoked.place < place);
        self.ops.get(index).map_or(u64::MAX, |op| op.invoked.at)
    }

    /// Whether a stretch of time has something in common with a lapse.
    pub fn lapsed(&self, from: u64, to: u64, kinds: impl Fn(Kind) -> bool) -> bool {
        self.history
            .lapses(kinds)
            .any(|(begin, end)| begin <= to && from <= end)
    }
}

fn made(history: &History) -> HashMap<Target, Made> {
    type Steps = Vec<(u64, u64, usize)>;
    let mut lists: HashMap<Target, [Steps; 7]> = HashMap::new();
    let mut certain: HashMap<Target, Vec<usize>> = HashMap::new();
    for (index, op) in history.ops.iter().enumerate() {
        let Asked::Invalidate { targets, mode } = &op.asked else {
            continue;
        };
        for (nth, target) in targets.iter().enumerate() {
            let lists = lists.entry(*target).or_default();
            if let End::Invalidated(done) = &op.end {
                let number = done.numbers.get(nth).copied().unwrap_or_default();
                // All, the hard ones, the confirmed ones: by number and by beginning.
                for (of, counts) in [(0, true), (2, *mode == Mode::Drop), (4, done.confirmed)] {
                    if counts {
                        lists[of].push((op.ended.place, number, index));
                        lists[of + 1].push((op.ended.place, op.invoked.place, index));
                    }
                }
                certain.entry(*target).or_default().push(index);
            }
            if op.may_have_been_done() {
                lists[6].push((op.invoked.place, op.until.place, index));
            }
        }
    }
    let arranged = lists.into_iter().map(|(target, lists)| {
        let [
            number,
            begun,
            hard_number,
            hard_begun,
            confirmed_number,
            confirmed_begun,
            lasting,
        ] = lists.map(Stairs::of);
        let made = Made {
            number,
            begun,
            hard_number,
            hard_begun,
            confirmed_number,
            confirmed_begun,
            lasting,
            certain: certain.remove(&target).unwrap_or_default(),
        };
        (target, made)
    });
    arranged.collect()
}
