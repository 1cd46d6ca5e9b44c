//! Planning refreshes of many keys, evenly over a length of time.
//!
//! *Owns* the spread. *Never* rebuilds anything: what is planned is given to workers when its time comes, or left to the next caller.
//!
//! *Why slots*: n keys over a length s get a slot of s/n each, in the order of the request, and a place drawn within the slot. So no two
//! stretches of the same length hold numbers of keys that differ by more than a few, which draws over all of s would not give.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::{Coordinator, Error};
use crate::decision::{Draw, Key, Purpose};
use crate::store::{Plan, StoreError, Want};

/// So many refreshes may be planned in a namespace.
pub const MOST_PLANNED: usize = 100_000;
/// Who plans more than fits is to come back when some are done.
const COME_BACK: Duration = Duration::from_secs(5);
/// So many keys are looked at at the same time.
const AT_ONCE: usize = 64;

/// Keys to be rebuilt later.
#[derive(Clone, Debug)]
pub struct ScheduleRefresh {
    /// Where.
    pub namespace: Arc<str>,
    /// Which; a key that is named twice counts once.
    pub keys: Vec<Key>,
    /// Over which length of time, from now.
    pub spread_over: Duration,
    /// Leave those alone that are fresh.
    pub only_if_missing: bool,
    /// W3C traceparent of the caller.
    pub traceparent: Option<Arc<str>>,
}

/// What was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshScheduled {
    /// Keys whose refresh is planned now.
    pub scheduled: u32,
    /// Keys that were left alone: fresh, named twice, or planned before.
    pub skipped: u32,
    /// Workers of the namespace, over all replicas.
    pub workers: u32,
}

impl Coordinator {
    /// Plans refreshes. Never decided alone: without its store this fails.
    ///
    /// # Errors
    ///
    /// [`Error`] where the namespace is not served, too much is planned already, or the store does not answer.
    pub async fn schedule(self: &Arc<Self>, request: ScheduleRefresh) -> Result<RefreshScheduled, Error> {
        self.policy(&request.namespace)?;
        let asked = request.keys.len();
        let mut named = HashSet::with_capacity(asked);
        let mut keys: Vec<Key> = Vec::with_capacity(asked);
        keys.extend(request.keys.into_iter().filter(|key| named.insert(key.clone())));
        if request.only_if_missing {
            keys = self.without_fresh(keys).await?;
        }
        let plan = Plan {
            namespace: request.namespace.clone(),
            keys: spread(keys, request.spread_over, || self.dice.draw()),
            only_if_missing: request.only_if_missing,
            traceparent: request.traceparent,
            most: MOST_PLANNED,
        };
        let planned = self.store.schedule(plan).await?;
        self.workers.ring();
        if planned.refused > 0 {
            return Err(Error::Overloaded {
                what: "as many refreshes are scheduled in this namespace as it may have (100,000); repeat the call when some are done",
                retry_after: COME_BACK,
            });
        }
        let of = |(name, _): &(Arc<str>, u32)| *name == request.namespace;
        let workers = self
            .store
            .fleet()
            .await?
            .into_iter()
            .find(of)
            .map_or(0, |(_, count)| count);
        let skipped = asked.saturating_sub(planned.new as usize);
        Ok(RefreshScheduled {
            scheduled: planned.new,
            skipped: u32::try_from(skipped).unwrap_or(u32::MAX),
            workers,
        })
    }

    async fn without_fresh(&self, keys: Vec<Key>) -> Result<Vec<Key>, StoreError> {
        let is_missing = |key: Key| async move {
            let loaded = self.store.load(&key, &[], Want::default()).await?;
            Ok((!loaded.view().is_fresh()).then_some(key))
        };
        let looked: Vec<Option<Key>> = stream::iter(keys)
            .map(is_missing)
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        Ok(looked.into_iter().flatten().collect())
    }
}

/// Each key with its time: the i-th of n somewhere within the i-th n-th of the length.
fn spread(keys: Vec<Key>, over: Duration, mut draw: impl FnMut() -> Draw) -> Vec<(Key, Duration)> {
    let count = keys.len().max(1) as f64;
    let place = |(number, key)| {
        let part = (number as f64 + draw().unit(Purpose::Spread)) / count;
        (key, over.mul_f64(part.clamp(0.0, 1.0)))
    };
    keys.into_iter().enumerate().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::Dice;

    #[test]
    fn keys_are_spread_flat_each_within_its_slot() {
        let dice = Dice::seeded(7);
        let keys = (0..1_000).map(|number| Key::new("shop", &number.to_string()));
        let planned = spread(keys.collect(), Duration::from_secs(100), || dice.draw());
        for (number, (_, at)) in (0..).zip(&planned) {
            let slot = Duration::from_millis(100 * number)..Duration::from_millis(100 * (number + 1));
            assert!(slot.contains(at), "{number}: {at:?}");
        }
        let second = |(_, at): &(Key, Duration)| at.as_secs();
        for number in 0..100 {
            assert_eq!(planned.iter().filter(|one| second(one) == number).count(), 10);
        }
        let within: f64 = planned.iter().map(|(_, at)| at.as_secs_f64() % 0.1).sum::<f64>() / 1_000.0;
        assert!((0.045..0.055).contains(&within), "drawn within the slot: {within}");
    }

    #[test]
    fn without_a_length_all_are_due_now() {
        let dice = Dice::seeded(7);
        let planned = spread(vec![Key::new("shop", "a"); 3], Duration::ZERO, || dice.draw());
        assert!(planned.iter().all(|(_, at)| at.is_zero()));
        assert!(spread(Vec::new(), Duration::ZERO, || dice.draw()).is_empty());
    }
}
