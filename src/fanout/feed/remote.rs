//! What fills a feed that follows the log of a shared store. All of it may be called from several tasks, one a partition.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Feed, Record, ResetReason};
use crate::decision::StoreTime;
use crate::fanout::log::Logged;
use crate::fanout::logs::Logs;

impl Feed {
    /// A partition's log begins here: everything after `from` will be taken in (`refreshed_from`: the same for `Refreshed` events). `log`
    /// identifies the deployment. Call it again whenever reading was interrupted:
    ///
    /// | now | readers |
    /// |---|---|
    /// | the same log and epoch, `from` not above what was taken in | go on; what comes twice is ignored |
    /// | the same, `from` above it: a hole | Reset LOG_LOST, and listeners' `reset` |
    /// | another log, or another epoch | the same |
    /// | `refreshed_from` above what it was: `Refreshed` were not recorded up to there | those who want them from before get CURSOR_TOO_OLD |
    ///
    /// A store never takes a position twice: an epoch begins above every position of the ones before it, for example at the larger of the
    /// last known position + 1 and its time in microseconds. Cursors and barriers rely on it.
    ///
    /// A partition that does not go on is filled until the first [`Feed::advance`]: until then nothing is read from it, and readers are reset
    /// after. So nobody is sent the past as if it were new.
    pub fn begin(&self, partition: u16, log: u64, epoch: u64, from: u64, refreshed_from: u64) {
        let now = Instant::now();
        let partition = usize::from(partition);
        self.change(|logs| logs.begin(now, partition, log, epoch, from, refreshed_from));
    }

    /// Takes in records of one partition, in the order of their positions over both kinds: a `Refreshed` that comes after an event with
    /// a higher position is taken for one that is known, and ignored. Announces them.
    pub fn take_in(&self, records: Vec<Record>) {
        let now = Instant::now();
        let taken: Vec<Arc<Logged>> = self.change(|logs| {
            let records = records.into_iter();
            records.filter_map(|record| logs.take_in(now, record)).collect()
        });
        self.tell(&taken);
    }

    /// The partition's log has come to here, and nothing is left to take in: **the proof that this replica is current**. Call it each time
    /// that a read of the log came back with all there was, also if that was nothing and `at` is what it was, so at least once a second:
    /// watchers hear no sign of life while a partition was not proven current for [`CURRENT`](crate::fanout::CURRENT), because a client that is told
    /// "alive" goes on trusting copies of which the log may know better.
    pub fn advance(&self, partition: u16, at: u64) {
        let now = Instant::now();
        if self.change(|logs| logs.advance(now, usize::from(partition), at)) {
            self.each_listener(|listener| listener.reset(ResetReason::LogLost));
        }
    }

    /// The partition's log begins to hold `Refreshed` events at this position, after a time without: as `refreshed_from` of [`Feed::begin`],
    /// in the middle of the log. Said before the log is taken in up to there.
    pub fn refreshed_since(&self, partition: u16, from: u64) {
        self.change(|logs| logs.refreshed_since(usize::from(partition), from));
    }

    /// The store has been told that somebody here wants `Refreshed` events, and records those of the partition from here on, or did before.
    /// Until that is said of all partitions, watchers that want them wait for their `Started`, but not for long.
    pub fn records(&self, partition: u16, at: u64) {
        self.change(|logs| logs.records(usize::from(partition), at));
    }

    /// The store's time is this. Tell it now and then: by it is known how old a record is that is taken in late.
    pub fn tell_time(&self, time: StoreTime) {
        let now = Instant::now();
        self.logs.write().tell_time(now, time);
    }

    /// The store does not answer for a partition. Watchers get Reset LOG_LOST, and then no sign of life until it is back; new ones are
    /// refused. Said twice, it counts once.
    pub fn lost(&self, partition: u16) {
        if self.change(|logs| logs.lose(usize::from(partition))) {
            self.each_listener(|listener| listener.lost(partition));
        }
    }

    /// The store answers again for a partition that was lost. Watchers get Reset DEGRADED_ENDED.
    pub fn regained(&self, partition: u16) {
        if self.change(|logs| logs.regain(usize::from(partition))) {
            self.each_listener(|listener| listener.regained(partition));
        }
    }

    /// What was proven current until now does not count: a proof is to be read from the store anew.
    pub(in crate::fanout) fn doubt(&self) {
        self.change(Logs::doubt);
    }
}
