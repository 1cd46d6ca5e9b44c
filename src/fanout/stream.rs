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
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::cursor::{BadCursor, Cursor};
use super::event::{WatchEvent, What};
use super::feed::{Feed, ResetReason};
use super::hub::{Held, Hub, Phase};
use super::logs::{Gap, Opening};
use super::merge::Run;
use super::position::Position;
use super::watcher::Watcher;
use crate::store::Place;

/// Something is sent at least so often.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// A client that hears nothing for so long stops trusting its copies.
pub const MAX_SILENCE: Duration = Duration::from_secs(15);

/// So many reads of the log that find nothing, then others get their turn.
const READS: usize = 16;
/// A cursor from a replica that is ahead of this one must have come up by then. Else it is of nothing that happened.
const CATCH_UP: Duration = Duration::from_secs(5);
/// Who is held back looks again so often.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Whether the log came up to where the stream can begin, in time.
type CatchingUp = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A subscription as a stream. Dropping it unsubscribes.
pub struct Watching {
    hub: Arc<Hub>,
    watcher: Arc<Watcher>,
    position: Position,
    /// The partition to be read first.
    first: usize,
    /// To be yielded first.
    reset: Option<ResetReason>,
    /// It goes on at a cursor of its own.
    resumed: bool,
    /// The position is ahead of this log, or the log does not hold yet what is wanted.
    catching_up: Option<CatchingUp>,
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
    /// There may be something that is not to be said now.
    Held,
    /// There is more to look at.
    Again,
    End,
}

impl Watching {
    pub(super) fn new(hub: Arc<Hub>, watcher: Arc<Watcher>, opening: Opening) -> Watching {
        let behind = opening.ahead || opening.unrecorded;
        let catching_up = behind.then(|| catch_up(hub.feed.clone(), &opening));
        Watching {
            hub,
            watcher,
            position: opening.position,
            first: 0,
            reset: opening.reset,
            resumed: opening.resumed,
            catching_up,
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
        self.watcher.acknowledge(&Cursor::decode(cursor)?);
        Ok(())
    }

    /// The client has read a key so often from its local cache.
    pub fn hit(&self, namespace: &str, key: &str, hits: u64) {
        self.hub.hit(namespace, key, hits);
    }

    fn next(&mut self, cx: &mut Context<'_>) -> Next {
        let held = self.hub.holds_back();
        if self.hub.phase() == Phase::Closed {
            self.ended = true;
            return match held {
                Held::Nothing => Next::Message(self.here(What::Progress { draining: true })),
                Held::AllButResets | Held::Everything => Next::End,
            };
        }
        if held == Held::Everything {
            return Next::Held;
        }
        self.poll_catching_up(cx);
        if let Some(reason) = self.reset.take() {
            return Next::Message(self.here(What::Reset { reason }));
        }
        if held == Held::AllButResets {
            return self.reset_if_due().map_or(Next::Held, Next::Message);
        }
        for _ in 0..READS {
            if self.hub.feed.has_nothing_after(&self.position) {
                return self.idle();
            }
            if let Some(message) = self.read() {
                return Next::Message(message);
            }
        }
        Next::Again
    }

    /// A reset alone.
    fn reset_if_due(&mut self) -> Option<WatchEvent> {
        let gap = self.hub.feed.fenced(&self.position)?;
        Some(self.missed(gap))
    }

    /// The next message from the log, if a look finds one; moves the position.
    fn read(&mut self) -> Option<WatchEvent> {
        let mut run = Run::default();
        let take = |logged: &_| run.take(logged);
        let feed = &self.hub.feed;
        match feed.read(&mut self.position, self.first, &self.watcher.filter, take) {
            Ok(next) => {
                self.first = next;
                run.message(&self.position)
            }
            // Who has not begun has missed nothing by what was not recorded before.
            Err(gap) if gap.reason == Some(ResetReason::CursorTooOld) && !self.started && !self.resumed => {
                self.position = gap.now;
                None
            }
            Err(gap) => Some(self.missed(gap)),
        }
    }

    fn missed(&mut self, gap: Gap) -> WatchEvent {
        self.position = gap.now;
        let reason = gap.reason.unwrap_or(ResetReason::SlowConsumer);
        self.here(What::Reset { reason })
    }

    /// Who resumes at a cursor of which this replica has not heard yet waits until it has. What comes of other partitions meanwhile it is
    /// told; that it is live it is not.
    fn poll_catching_up(&mut self, cx: &mut Context<'_>) {
        let Some(catching_up) = &mut self.catching_up else {
            return;
        };
        if let Poll::Ready(in_time) = catching_up.as_mut().poll(cx) {
            self.catching_up = None;
            if !in_time {
                self.position = self.hub.feed.position();
                self.reset = Some(ResetReason::UnknownCursor);
            }
        }
    }

    /// What there is to say when nothing was missed.
    fn idle(&mut self) -> Next {
        if self.catching_up.is_some() {
            return Next::Nothing;
        }
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
            cursor: self.position.text(),
            what,
        }
    }

    fn yielded(&mut self, message: WatchEvent) -> Poll<Option<WatchEvent>> {
        self.last = Instant::now();
        self.watcher.sent(&self.position);
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
        match self.next(cx) {
            Next::Message(message) => return self.yielded(message),
            Next::Again => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Next::End => return Poll::Ready(None),
            Next::Held => {
                let again = Instant::now() + LOOK_AGAIN;
                self.silence.as_mut().reset(again);
                if self.silence.as_mut().poll(cx).is_ready() {
                    cx.waker().wake_by_ref();
                }
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

/// Waits until the log has come up to where a stream begins, and holds what it wants.
fn catch_up(feed: Arc<Feed>, opening: &Opening) -> CatchingUp {
    let place = |(partition, at)| Place {
        partition: u16::try_from(partition).unwrap_or(u16::MAX),
        at,
    };
    let places: Vec<Place> = opening.position.at.iter().enumerate().map(place).collect();
    let unrecorded = opening.unrecorded;
    Box::pin(async move {
        let arrived = timeout(CATCH_UP, feed.arrived(&places)).await.is_ok();
        if unrecorded {
            // Should that take longer, the stream begins without, and is reset when they are recorded.
            let _ = timeout(CATCH_UP, feed.recorded()).await;
        }
        arrived
    })
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.hub.leave(&self.watcher);
    }
}
