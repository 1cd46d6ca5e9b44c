//! The clock of the embedded store.

use std::time::SystemTime;

use tokio::time::Instant;

use crate::decision::{StoreTime, micros};

/// Wall time at the start, and from there on the monotonic clock: it never steps, whatever is done to the machine's date.
///
/// It reads tokio's clock, so a test that pauses time pauses this too.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    epoch: StoreTime,
}

impl Clock {
    /// Starts now, at the wall's time.
    #[allow(clippy::disallowed_methods, reason = "the one place where the wall's time comes in")]
    pub fn start() -> Clock {
        let wall = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Clock::start_at(StoreTime(micros(wall)))
    }

    /// Starts now, at a given time.
    pub fn start_at(epoch: StoreTime) -> Clock {
        Clock {
            started: Instant::now(),
            epoch,
        }
    }

    /// The time.
    pub fn now(&self) -> StoreTime {
        self.epoch.after(self.started.elapsed())
    }
}
