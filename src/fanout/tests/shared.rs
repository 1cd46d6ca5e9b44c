//! A model of a shared store's log, and replicas that follow it at their own paces.

use super::*;
use crate::store::Place;

/// The deployment.
pub const LOG: u64 = 77;

/// The log that is in the store.
pub struct Source {
    parts: Vec<Part>,
    number: u64,
}

struct Part {
    epoch: u64,
    head: u64,
    /// Everything up to here is gone.
    trimmed: u64,
    records: Vec<Record>,
}

impl Source {
    pub fn new(partitions: u16) -> Source {
        let part = || Part {
            epoch: 5,
            head: 0,
            trimmed: 0,
            records: Vec::new(),
        };
        Source {
            parts: std::iter::repeat_with(part).take(usize::from(partitions)).collect(),
            number: 100,
        }
    }

    pub fn partitions(&self) -> u16 {
        self.parts.len() as u16
    }

    /// The number of the last commit.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn commit(&mut self, partition: u16, event: Event) -> Place {
        self.number += 1;
        let part = &mut self.parts[usize::from(partition)];
        part.head += 1;
        let place = Place {
            partition,
            at: part.head,
        };
        part.records.push(Record {
            place,
            number: Seq(self.number),
            at: StoreTime(1_000_000),
            event,
        });
        place
    }

    pub fn drop_key(&mut self, partition: u16, key: &str) -> Place {
        self.commit(partition, invalidated(key, Mode::Drop))
    }

    /// All but the last so many records go.
    pub fn trim(&mut self, partition: u16, keep: u64) {
        let part = &mut self.parts[usize::from(partition)];
        part.trimmed = part.trimmed.max(part.head.saturating_sub(keep));
        let trimmed = part.trimmed;
        part.records.retain(|record| record.place.at > trimmed);
    }

    /// A failover that loses the last so many records: the log goes on in a new epoch, above whatever was taken.
    pub fn lose(&mut self, partition: u16, last: usize) {
        let part = &mut self.parts[usize::from(partition)];
        part.records.truncate(part.records.len().saturating_sub(last));
        part.epoch += 1;
        part.head += 1_000;
    }
}

/// One replica: its feed, its hub, and how far its tails are.
pub struct Replica {
    pub feed: Arc<Feed>,
    pub hub: Arc<Hub>,
    at: Vec<Option<At>>,
}

#[derive(Clone, Copy)]
struct At {
    epoch: u64,
    position: u64,
}

impl Replica {
    /// Has read nothing yet.
    pub fn new(source: &Source, bounds: Bounds) -> Replica {
        let feed = Feed::remote_bounded(source.partitions(), bounds);
        Replica {
            hub: Hub::new(&feed, HubLimits::default()),
            feed,
            at: vec![None; source.parts.len()],
        }
    }

    /// Follows the log and is current.
    pub fn live(source: &Source) -> Replica {
        let mut replica = Replica::new(source, Bounds::default());
        replica.catch_up(source);
        replica
    }

    /// Reads at most so many records of a partition, beginning anew where it cannot go on.
    pub fn pull(&mut self, source: &Source, partition: u16, most: usize) {
        let (index, part) = (usize::from(partition), &source.parts[usize::from(partition)]);
        let goes_on = |at: &At| at.epoch == part.epoch && at.position >= part.trimmed;
        let Some(at) = self.at[index].filter(goes_on) else {
            self.begin(source, partition, part.trimmed);
            return;
        };
        let after = part.records.iter().filter(|record| record.place.at > at.position);
        let records: Vec<Record> = after.take(most).cloned().collect();
        let position = records.last().map_or(part.head, |last| last.place.at);
        self.feed.take_in(records);
        self.feed.advance(partition, position);
        self.at[index] = Some(At {
            epoch: part.epoch,
            position,
        });
    }

    /// Begins a partition and reads what there is after `from`.
    pub fn begin(&mut self, source: &Source, partition: u16, from: u64) {
        let part = &source.parts[usize::from(partition)];
        self.feed.begin(partition, LOG, part.epoch, from, part.trimmed);
        let records = part.records.iter().filter(|record| record.place.at > from);
        self.feed.take_in(records.cloned().collect());
        self.feed.advance(partition, part.head);
        self.at[usize::from(partition)] = Some(At {
            epoch: part.epoch,
            position: part.head,
        });
    }

    /// Begins a partition again, so many positions back from where it was, if that can still be read.
    pub fn again(&mut self, source: &Source, partition: u16, back: u64) {
        let part = &source.parts[usize::from(partition)];
        let was = self.at[usize::from(partition)].filter(|at| at.epoch == part.epoch);
        let from = was.map_or(part.trimmed, |at| at.position.saturating_sub(back).max(part.trimmed));
        self.begin(source, partition, from);
    }

    /// The store records what this replica wants.
    pub fn records(&self) {
        (0..self.at.len() as u16).for_each(|partition| self.feed.records(partition, 0));
    }

    /// Reads everything.
    pub fn catch_up(&mut self, source: &Source) {
        (0..source.partitions()).for_each(|partition| self.pull(source, partition, usize::MAX));
    }

    pub fn watch(&self, subscription: Subscription) -> Watching {
        self.hub.watch(&subscription).expect("the store is up")
    }

    /// A watcher that has seen its Started.
    pub fn live_watch(&self, subscription: Subscription) -> Watching {
        let mut watching = self.watch(subscription);
        assert_eq!(words(&seen(&mut watching)), ["started"]);
        watching
    }
}

/// Lets so many seconds pass, in each of which every replica hears from the store.
pub async fn pass(seconds: u64, source: &Source, replicas: &mut [&mut Replica]) {
    for _ in 0..seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        replicas.iter_mut().for_each(|replica| replica.catch_up(source));
    }
}
