//! What the embedded store knows of its one partition: the sequence and the generations.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::decision::{Generation, Generations, Seq, StoreTime, Tag};
use crate::store::{Covering, Guard};

/// How many tags and namespaces are remembered as invalidated. Beyond, the oldest are forgotten and the floor rises to them, which
/// drops everything that is older still: too much is made old, never too little.
pub const MAX_GENERATIONS: usize = 100_000;

/// A partition's header.
#[derive(Default)]
pub struct Header {
    sequence: AtomicU64,
    /// Whether anything was ever invalidated by tag or namespace: most loads need to know no more than that.
    any: AtomicBool,
    table: RwLock<Table>,
}

#[derive(Default)]
struct Table {
    floor: Seq,
    namespaces: HashMap<Arc<str>, Covered>,
    /// By the number of their last invalidation: who goes first when there are too many.
    ages: BTreeMap<Seq, (Arc<str>, Option<Tag>)>,
}

#[derive(Default)]
struct Covered {
    all: Option<Generation>,
    tags: HashMap<Tag, Generation>,
}

impl Header {
    /// Takes the next number.
    pub fn take(&self, now: StoreTime, above: Seq) -> Seq {
        let next = |last| Some(Seq::next(Seq(last), now, above).0);
        // The closure always answers, so there is always a value before it.
        let last = self
            .sequence
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next)
            .unwrap_or_default();
        Seq::next(Seq(last), now, above)
    }

    /// What bears on an entry of this namespace with these tags.
    pub fn generations<'a>(&self, namespace: &str, tags: impl Iterator<Item = &'a Tag>) -> Generations {
        if !self.any.load(Ordering::SeqCst) {
            return Generations::default();
        }
        self.table.read().generations(namespace, tags)
    }

    /// Whether nothing newer bears on it than the guard knew.
    pub fn keeps(&self, namespace: &str, guard: &Guard) -> bool {
        self.generations(namespace, guard.tags.iter()).newest() <= guard.newest
    }

    /// Commits an invalidation: `log` is called with its number while the header is locked, so that the log has its order.
    pub fn invalidate<T>(
        &self,
        covering: &Covering,
        now: impl FnOnce() -> StoreTime,
        log: impl FnOnce(Seq, StoreTime) -> T,
    ) -> (Seq, StoreTime, T) {
        let mut table = self.table.write();
        self.any.store(true, Ordering::SeqCst);
        let now = now();
        let number = self.take(now, Seq::NONE);
        table.invalidate(covering, number, now);
        let logged = log(number, now);
        (number, now, logged)
    }
}

impl Table {
    fn generations<'a>(&self, namespace: &str, tags: impl Iterator<Item = &'a Tag>) -> Generations {
        let mut found = Generations {
            floor: self.floor,
            ..Generations::default()
        };
        if let Some(covered) = self.namespaces.get(namespace) {
            found.namespace = covered.all.clone();
            if !covered.tags.is_empty() {
                found.tags = tags
                    .filter_map(|tag| {
                        covered
                            .tags
                            .get(tag)
                            .map(|generation| (tag.clone(), generation.clone()))
                    })
                    .collect();
            }
        }
        found
    }

    fn invalidate(&mut self, covering: &Covering, number: Seq, now: StoreTime) {
        let covered = self.namespaces.entry(covering.namespace.clone()).or_default();
        let generation = match &covering.tag {
            Some(tag) => covered.tags.entry(tag.clone()).or_default(),
            None => covered.all.get_or_insert_default(),
        };
        self.ages.remove(&generation.newest());
        generation.invalidate(covering.mode, number, now, now.after(covering.settle));
        self.ages
            .insert(generation.newest(), (covering.namespace.clone(), covering.tag.clone()));
        while self.ages.len() > MAX_GENERATIONS {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((number, (namespace, tag))) = self.ages.pop_first() else {
            return;
        };
        self.floor = self.floor.max(number);
        if let Some(covered) = self.namespaces.get_mut(&namespace) {
            match tag {
                Some(tag) => drop(covered.tags.remove(&tag)),
                None => covered.all = None,
            }
            if covered.all.is_none() && covered.tags.is_empty() {
                self.namespaces.remove(&namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::decision::{Mode, Verdict};

    fn tag(number: usize) -> Covering {
        Covering {
            namespace: "shop".into(),
            tag: Some(format!("t{number}").into()),
            mode: Mode::Drop,
            settle: Duration::ZERO,
        }
    }

    #[test]
    fn too_many_generations_raise_the_floor_to_the_oldest_that_was_forgotten() {
        let header = Header::default();
        let clock = || StoreTime(1);
        let (first, ..) = header.invalidate(&tag(0), clock, |_, _| ());
        for number in 1..=MAX_GENERATIONS {
            header.invalidate(&tag(number), clock, |_, _| ());
        }
        let generations = header.generations("other", [].into_iter());
        assert_eq!(generations.floor, first);
        assert_eq!(generations.verdict(first, &[]), Verdict::Dropped);
        assert_eq!(generations.verdict(Seq(first.0 + 1), &[]), Verdict::Valid);
        assert!(header.generations("shop", [&"t0".into()].into_iter()).tags.is_empty());
    }

    #[test]
    fn numbers_keep_growing_when_the_clock_steps_back() {
        let header = Header::default();
        let first = header.take(StoreTime(1_000), Seq::NONE);
        assert!(header.take(StoreTime(10), Seq::NONE) > first);
        assert_eq!(header.take(StoreTime(10), Seq(5_000)), Seq(5_001));
    }
}
