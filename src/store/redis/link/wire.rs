//! One connection that many calls share.
//!
//! *Invariants.* A call ends at its time, and at once when the connection is lost. Whether it was applied is for the one who called to say.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ::redis::aio::MultiplexedConnection;
use ::redis::{Cmd, Pipeline, RedisError, Value};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// A connection that is, or was, good.
pub(super) struct Wire {
    connection: MultiplexedConnection,
    dead: CancellationToken,
    answers: AtomicU64,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Miss {
    /// There is one: an error.
    Error(RedisError),
    /// The connection was lost before.
    Lost,
    /// The time was over before.
    Late,
}

impl Wire {
    /// `dead` is told when the connection is lost, by whoever learns of it.
    pub fn new(connection: MultiplexedConnection, dead: CancellationToken) -> Wire {
        Wire {
            connection,
            dead,
            answers: AtomicU64::new(0),
        }
    }

    pub fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    /// Ends it, and every call on it.
    pub fn kill(&self) {
        self.dead.cancel();
    }

    /// How many answers came over it so far.
    pub fn answers(&self) -> u64 {
        self.answers.load(Relaxed)
    }

    pub async fn ask(&self, cmd: &Cmd, until: Instant) -> Result<Value, Miss> {
        let mut connection = self.connection.clone();
        self.within(until, connection.send_packed_command(cmd)).await
    }

    /// All of them in one write, with nothing in between: the answer to the last. An error of an earlier one is an error.
    pub async fn ask_all(&self, cmds: &Pipeline, until: Instant) -> Result<Value, Miss> {
        let mut connection = self.connection.clone();
        let all = connection.send_packed_commands(cmds, 0, cmds.len());
        let last = async { all.await.map(Value::Array) };
        match self.within(until, last).await? {
            Value::Array(mut answers) => Ok(answers.pop().unwrap_or(Value::Nil)),
            other => Ok(other),
        }
    }

    async fn within(
        &self,
        until: Instant,
        asking: impl Future<Output = Result<Value, RedisError>>,
    ) -> Result<Value, Miss> {
        let answer = tokio::select! {
            biased;
            answer = asking => answer,
            () = self.dead.cancelled() => return Err(Miss::Lost),
            () = over(until) => return Err(Miss::Late),
        };
        match answer.and_then(Value::extract_error) {
            Ok(value) => {
                self.answers.fetch_add(1, Relaxed);
                Ok(value)
            }
            Err(error) if error.is_io_error() || error.is_unrecoverable_error() => {
                self.kill();
                Err(Miss::Lost)
            }
            Err(error) => {
                self.answers.fetch_add(1, Relaxed);
                Err(Miss::Error(error))
            }
        }
    }
}

/// Until then; and where this process itself was held up, until it has had time to look at what has come meanwhile. Each turn goes once
/// through everything that is ready, and a busy runtime looks at its sockets on the way.
async fn over(until: Instant) {
    sleep_until(until).await;
    for _ in 0..3 {
        yield_now().await;
    }
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire")
            .field("dead", &self.is_dead())
            .field("answers", &self.answers())
            .finish_non_exhaustive()
    }
}
