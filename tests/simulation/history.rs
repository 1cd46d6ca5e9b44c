//! What the actors did and saw: the only thing, beside the store's own account, that the checker looks at.

use std::sync::{Mutex, MutexGuard, PoisonError};

use drover::coordinator::{
    Acquire, Acquired, Error, Invalidate, Invalidated, RefreshTask, Renew, Renewed, ReportValue, Reported,
};
use drover::decision::{Answer, Key, Rebuild, ReportAnswer, Seq};
use drover::fanout::What;
use tokio::time::Instant;

/// A moment: when, and in which place among all that was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Its place; one thread records, so this is the real order.
    pub place: u64,
    /// Microseconds since the start.
    pub at: u64,
}

/// One call of one client.
#[derive(Clone, Debug)]
pub struct Call {
    pub replica: usize,
    pub asked: Asked,
    pub invoked: Moment,
    /// When it came to an end, and how.
    pub ended: Option<(Moment, Ended)>,
}

#[derive(Clone, Debug)]
pub enum Asked {
    Acquire(Acquire),
    Report(ReportValue),
    Renew(Renew),
    Invalidate(Invalidate),
    /// A worker was there.
    Pull(Key),
}

#[derive(Clone, Debug)]
pub enum Ended {
    Acquired(Acquired),
    Reported(Reported),
    Renewed(Renewed),
    Invalidated(Invalidated),
    Pulled(RefreshTask),
    Failed(Error),
    /// The caller left.
    Aborted,
}

/// Everything that was recorded.
#[derive(Default)]
pub struct History(Mutex<Records>);

#[derive(Default)]
pub struct Records {
    next: u64,
    started: Option<Instant>,
    pub calls: Vec<Call>,
    /// By replica.
    pub watched: Vec<(usize, Moment, What)>,
    /// Time jumped by so many microseconds.
    pub jumps: Vec<(Moment, u64)>,
    /// A replica's store was away from the first to the second.
    pub downs: Vec<(usize, u64, u64)>,
    /// A replica began to leave.
    pub drained: Vec<(usize, Moment)>,
    /// What an actor found wrong by itself.
    pub stuck: Vec<String>,
}

impl Records {
    pub fn moment(&mut self) -> Moment {
        let now = Instant::now();
        let at = now.duration_since(*self.started.get_or_insert(now)).as_micros() as u64;
        self.next += 1;
        Moment { place: self.next, at }
    }

    /// How much of the time between two instants was jumped over.
    pub fn jumped(&self, from: u64, to: u64) -> u64 {
        let part = |(moment, by): &(Moment, u64)| (moment.at + by).min(to).saturating_sub(moment.at.max(from));
        self.jumps.iter().map(part).sum()
    }
}

impl History {
    pub fn lock(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client asks.
    pub fn invoke(self: &std::sync::Arc<Self>, replica: usize, asked: Asked) -> Pending {
        let mut records = self.lock();
        let invoked = records.moment();
        records.calls.push(Call {
            replica,
            asked,
            invoked,
            ended: None,
        });
        Pending {
            history: self.clone(),
            call: records.calls.len() - 1,
        }
    }
}

impl History {
    /// A worker was given a task.
    pub fn pulled(&self, replica: usize, task: RefreshTask) {
        let mut records = self.lock();
        let moment = records.moment();
        records.calls.push(Call {
            replica,
            asked: Asked::Pull(task.key.clone()),
            invoked: moment,
            ended: Some((moment, Ended::Pulled(task))),
        });
    }
}

/// A call under way. Dropped before its end, it was aborted.
pub struct Pending {
    history: std::sync::Arc<History>,
    call: usize,
}

impl Pending {
    pub fn end(self, ended: Ended) {
        self.note(ended);
    }

    fn note(&self, ended: Ended) {
        let mut records = self.history.lock();
        let moment = records.moment();
        // Once the run is over and its records are taken, what is dropped says nothing any more.
        if let Some(call) = records.calls.get_mut(self.call) {
            call.ended.get_or_insert((moment, ended));
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.note(Ended::Aborted);
    }
}

impl Call {
    /// The question, its end and its answer, if it was an acquire that was answered from the store.
    pub fn acquired(&self) -> Option<(&Acquire, Moment, &Acquired)> {
        self.answered().filter(|(_, _, acquired)| !acquired.degraded)
    }

    /// The same, if it was answered by a replica alone.
    pub fn acquired_alone(&self) -> Option<(&Acquire, Moment, &Acquired)> {
        self.answered().filter(|(_, _, acquired)| acquired.degraded)
    }

    fn answered(&self) -> Option<(&Acquire, Moment, &Acquired)> {
        match (&self.asked, &self.ended) {
            (Asked::Acquire(asked), Some((moment, Ended::Acquired(acquired)))) => Some((asked, *moment, acquired)),
            _ => None,
        }
    }

    /// The same, if it was granted the lease.
    pub fn granted(&self) -> Option<(&Acquire, Moment, &Rebuild)> {
        match self.acquired()? {
            (
                asked,
                moment,
                Acquired {
                    answer: Answer::Rebuild(rebuild),
                    ..
                },
            ) => Some((asked, moment, rebuild)),
            _ => None,
        }
    }

    pub fn report(&self) -> Option<&ReportValue> {
        match &self.asked {
            Asked::Report(report) => Some(report),
            _ => None,
        }
    }

    /// The report and the version that it was accepted with, by the store.
    pub fn accepted(&self) -> Option<(&ReportValue, Moment, Seq)> {
        match (&self.asked, &self.ended) {
            (Asked::Report(report), Some((moment, Ended::Reported(reported)))) if !reported.degraded => {
                match reported.answer {
                    ReportAnswer::Accepted { version, .. } => Some((report, *moment, version)),
                    ReportAnswer::Rejected(_) => None,
                }
            }
            _ => None,
        }
    }

    pub fn ended_at(&self) -> Option<Moment> {
        self.ended.as_ref().map(|(moment, _)| *moment)
    }

    pub fn key(&self) -> Option<&Key> {
        match &self.asked {
            Asked::Acquire(asked) => Some(&asked.key),
            Asked::Report(asked) => Some(&asked.key),
            Asked::Renew(asked) => Some(&asked.key),
            Asked::Pull(key) => Some(key),
            Asked::Invalidate(_) => None,
        }
    }
}
