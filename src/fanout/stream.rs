//! One watcher's stream: a position that moves through the log as fast as its client reads.
//!
//! *Owns* the order of messages. *Never does* buffer: each message is made when the transport asks for it.
//!
//! *Invariants.* What is yielded covers the log from the position before it to its cursor, for this filter, or is a reset. The
//! position moves only with what was yielded, or past what does not match.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::time::{Instant, Sleep, sleep};

use super::cursor::{BadCursor, Cursor};
use super::event::{WatchEvent, What};
use super::feed::ResetReason;
use super::hub::{Hub, Phase, Resume};
use super::log::{Position, text};
use super::merge::Run;
use super::watcher::Watcher;

/// Something is sent at least so often.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// A client that hears nothing for so long stops trusting its copies.
pub const MAX_SILENCE: Duration = Duration::from_secs(15);

/// So many reads of the log that find nothing, then others get their turn.
const READS: usize = 16;

/// A subscription as a stream. Dropping it unsubscribes.
pub struct Watching {
    hub: Arc<Hub>,
    watcher: Arc<Watcher>,
    position: Position,
    /// To be yielded first.
    reset: Option<ResetReason>,
    /// The position is still the client's own cursor, which nobody has compared with the log.
    resuming: bool,
    started: bool,
    told: bool,
    ended: bool,
    last: Instant,
    /// Fires at the latest when a sign of life is due. It is moved when it fires, not with each message.
    silence: Pin<Box<Sleep>>,
}

/// What a look at the log brought.
enum Next {
    Message(WatchEvent),
    Nothing,
    /// There is more to look at.
    Again,
}

impl Watching {
    pub(super) fn new(hub: Arc<Hub>, watcher: Arc<Watcher>, resume: Resume) -> Watching {
        Watching {
            hub,
            watcher,
            position: resume.position(),
            reset: matches!(resume, Resume::Unknown(_)).then_some(ResetReason::UnknownCursor),
            resuming: matches!(resume, Resume::From(_)),
            started: false,
            told: false,
            ended: false,
            last: Instant::now(),
            silence: Box::pin(sleep(PROGRESS_INTERVAL)),
        }
    }

    /// The client has applied everything up to a cursor. One of another log, or of what was not sent yet, is not refused: it counts
    /// for no more than what was sent.
    ///
    /// # Errors
    ///
    /// [`BadCursor`] if the text is none.
    pub fn acknowledge(&self, cursor: &str) -> Result<(), BadCursor> {
        if let Some(position) = self.hub.position_of(&Cursor::decode(cursor)?) {
            self.watcher.acknowledge(position);
        }
        Ok(())
    }

    /// The client has read a key so often from its local cache.
    pub fn hit(&self, namespace: &str, key: &str, hits: u64) {
        self.hub.hit(namespace, key, hits);
    }

    fn next(&mut self) -> Next {
        if self.hub.phase() == Phase::Closed {
            self.ended = true;
            return Next::Message(self.here(What::Progress { draining: true }));
        }
        if let Some(reason) = self.reset.take() {
            return Next::Message(self.here(What::Reset { reason }));
        }
        for _ in 0..READS {
            if !self.resuming && self.hub.feed.head() == self.position.at {
                return self.idle();
            }
            if let Some(message) = self.read() {
                return Next::Message(message);
            }
        }
        Next::Again
    }

    /// The next message from the log, if a look finds one; moves the position.
    fn read(&mut self) -> Option<WatchEvent> {
        let mut run = Run::default();
        let read = self
            .hub
            .feed
            .read(self.position, &self.watcher.filter, |logged| run.take(logged));
        let first = std::mem::take(&mut self.resuming);
        match read {
            Ok(covered) => {
                self.position = run.last().map_or(covered, |last| last.position());
                run.message(self.hub.feed.id())
            }
            Err(gap) => {
                self.position = gap.now;
                let behind = if first {
                    ResetReason::CursorTooOld
                } else {
                    ResetReason::SlowConsumer
                };
                let reason = gap.reason.unwrap_or(behind);
                Some(self.here(What::Reset { reason }))
            }
        }
    }

    /// What there is to say when nothing was missed.
    fn idle(&mut self) -> Next {
        if !self.started {
            self.started = true;
            return Next::Message(self.here(What::Started {
                progress_interval: PROGRESS_INTERVAL,
                max_silence: MAX_SILENCE,
            }));
        }
        if !self.told && self.hub.phase() == Phase::Draining {
            self.told = true;
            return Next::Message(self.here(What::Progress { draining: true }));
        }
        Next::Nothing
    }

    fn here(&self, what: What) -> WatchEvent {
        WatchEvent {
            cursor: text(self.hub.feed.id(), self.position),
            what,
        }
    }

    fn yielded(&mut self, message: WatchEvent) -> Poll<Option<WatchEvent>> {
        self.last = Instant::now();
        self.watcher.sent(self.position);
        self.hub.stats.sent(&message.what);
        Poll::Ready(Some(message))
    }
}

impl Stream for Watching {
    type Item = WatchEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<WatchEvent>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // Before the look at the log, so that no record falls between the two.
        self.watcher.waker.register(cx.waker());
        match self.next() {
            Next::Message(message) => return self.yielded(message),
            Next::Again => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Next::Nothing => {}
        }
        while self.silence.as_mut().poll(cx).is_ready() {
            let due = self.last + PROGRESS_INTERVAL;
            if Instant::now() >= due {
                let draining = self.told;
                let message = self.here(What::Progress { draining });
                return self.yielded(message);
            }
            self.silence.as_mut().reset(due);
        }
        Poll::Pending
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.hub.leave(&self.watcher);
    }
}
