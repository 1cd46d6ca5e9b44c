//! One worker's stream of tasks.
//!
//! *Owns* the order of messages: `Started`, tasks, signs of life, and at the end of this replica the word that it is draining.
//!
//! *Invariant.* A task that was not yielded when the stream is dropped is given back at once: its worker never heard of it. One that was
//! keeps its lease, which outlives the stream.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep};

use super::{RefreshTask, Registration};
use crate::coordinator::{Coordinator, Error};
use crate::fanout::{MAX_SILENCE, PROGRESS_INTERVAL};

/// A message to a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Pulled {
    /// It is registered.
    Started {
        /// A sign of life comes at least so often.
        progress_interval: Duration,
        /// After so long without a word the stream is dead.
        max_silence: Duration,
    },
    /// To be rebuilt.
    Task(RefreshTask),
    /// A sign of life.
    Progress {
        /// This replica is about to leave; the stream ends.
        draining: bool,
    },
}

/// A worker's stream. Dropping it unregisters the worker.
pub struct Pulling {
    coordinator: Arc<Coordinator>,
    id: u64,
    started: bool,
    retiring: bool,
    ended: bool,
    silence: Pin<Box<Sleep>>,
}

impl Coordinator {
    /// Registers a worker.
    ///
    /// # Errors
    ///
    /// [`Error`] where a namespace is not served, there are too many workers, or this replica is about to leave.
    pub fn pull(self: &Arc<Self>, registration: Registration) -> Result<Pulling, Error> {
        self.check(&registration)?;
        let id = self.workers.join(registration)?;
        Ok(Pulling {
            coordinator: self.clone(),
            id,
            started: false,
            retiring: false,
            ended: false,
            silence: Box::pin(sleep(PROGRESS_INTERVAL)),
        })
    }

    fn check(&self, registration: &Registration) -> Result<(), Error> {
        let unknown = |name: &&Arc<str>| self.policies.of(name).is_none();
        match registration.namespaces.iter().find(unknown) {
            Some(name) => Err(Error::UnknownNamespace(name.to_string())),
            None => Ok(()),
        }
    }
}

impl Pulling {
    /// The worker takes something else, or more or fewer, from now on.
    ///
    /// # Errors
    ///
    /// [`Error`] where a namespace is not served.
    pub fn change(&self, registration: Registration) -> Result<(), Error> {
        self.coordinator.check(&registration)?;
        self.coordinator.workers.change(self.id, registration);
        Ok(())
    }

    /// The worker wants no more. The stream ends once it has nothing in hand.
    pub fn retire(&mut self) {
        self.retiring = true;
        self.coordinator.workers.retire(self.id);
    }

    /// What there is to say at once.
    fn next(&mut self, cx: &Context<'_>) -> Option<Pulled> {
        let mut inner = self.coordinator.workers.inner.lock();
        let draining = inner.draining;
        let worker = inner.workers.get_mut(&self.id)?;
        if draining || (self.retiring && worker.in_hand == 0) {
            self.ended = true;
            return draining.then_some(Pulled::Progress { draining: true });
        }
        if worker.started && !self.started {
            self.started = true;
            return Some(Pulled::Started {
                progress_interval: PROGRESS_INTERVAL,
                max_silence: MAX_SILENCE,
            });
        }
        while let Some(handed) = worker.queue.pop_front() {
            let age = handed.sent.elapsed();
            // Its time has passed on the way: somebody else is offered it.
            if age < handed.task.ttl {
                let mut task = handed.task;
                task.ttl -= age;
                task.max_hold = task.max_hold.saturating_sub(age);
                return Some(Pulled::Task(task));
            }
        }
        worker.waker = Some(cx.waker().clone());
        None
    }
}

impl Stream for Pulling {
    type Item = Pulled;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Pulled>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let next = match self.next(cx) {
            Some(next) => next,
            None if self.ended => return Poll::Ready(None),
            None if self.silence.as_mut().poll(cx).is_ready() => Pulled::Progress { draining: false },
            None => return Poll::Pending,
        };
        self.silence.as_mut().reset(Instant::now() + PROGRESS_INTERVAL);
        Poll::Ready(Some(next))
    }
}

impl Drop for Pulling {
    fn drop(&mut self) {
        for handed in self.coordinator.workers.leave(self.id) {
            self.coordinator.demand.mark(&handed.task.key);
            self.coordinator.give_back_later(handed.granted);
        }
    }
}
