//! One call: to the server that has the partition, along its redirections, until there is an answer or the time is over.

use std::sync::Arc;
use std::time::Duration;

use ::redis::aio::ConnectionLike as _;
use ::redis::{Cmd, Pipeline, RedisError, Value};
use deadpool_redis::PoolError;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Link;
use super::access::Place;
use super::gate::Closed;
use super::primary::Primary;
use super::scout::redirection;
use super::script::Script;
use super::trouble::{Trouble, plain};
use super::wire::{Miss, Wire};
use crate::store::StoreError;
use crate::store::redis::condition::{Condition, Verdict};

/// A call is led from server to server at most so often.
const REDIRECTIONS: u32 = 5;
/// While the keys of a slot move, its scripts are asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// Where a call goes.
enum Way {
    /// To who has the partition.
    Seat,
    /// For this once to who takes it over.
    Asking(Arc<Primary>),
}

impl Link {
    /// Runs a script on the primary that has the partition: EVALSHA, or the code itself where the server does not know it yet. All keys are of
    /// that partition. Answers are in RESP3; an error in them is an `Err`.
    ///
    /// `writes`: whether an answer that does not come leaves the fate unknown.
    pub async fn call(
        &self,
        partition: u16,
        script: &Script,
        keys: &[impl AsRef<[u8]>],
        args: &[impl AsRef<[u8]>],
        writes: bool,
    ) -> Result<Value, StoreError> {
        let begin = Instant::now();
        let answer = self.lead(partition, script, keys, args, writes).await;
        if let (Ok(_), Some(times)) = (&answer, self.times.get()) {
            times.answered(script.name(), begin.elapsed());
        }
        answer
    }

    async fn lead(
        &self,
        partition: u16,
        script: &Script,
        keys: &[impl AsRef<[u8]>],
        args: &[impl AsRef<[u8]>],
        writes: bool,
    ) -> Result<Value, StoreError> {
        let until = Instant::now() + self.timeout;
        let mut cmd = script.call(false, keys, args);
        let mut way = Way::Seat;
        let (mut led, mut broken, mut loaded) = (0, 0, false);
        loop {
            let primary = match &way {
                Way::Seat => self.seats.of(partition),
                Way::Asking(primary) => primary.clone(),
            };
            let wire = match self.wire(&primary, until).await {
                Ok(wire) => wire,
                Err(Closed::Gone) => {
                    way = Way::Seat;
                    continue;
                }
                Err(Closed::Refused(reason)) => return Err(StoreError::Unavailable(reason.to_string())),
            };
            let asked = self
                .ask(&primary, &wire, &cmd, matches!(way, Way::Asking(_)), until)
                .await;
            let error = match asked {
                Ok(value) => return Ok(value),
                Err(Miss::Error(error)) => error,
                // What only reads may be asked again.
                Err(Miss::Lost) if !writes && broken < 2 => {
                    broken += 1;
                    continue;
                }
                Err(miss) => return Err(self.missed(&primary, &miss, writes)),
            };
            way = match error.code() {
                Some("NOSCRIPT") if !loaded => {
                    loaded = true;
                    self.conditions.count(Condition::ScriptReloaded);
                    cmd = script.call(true, keys, args);
                    way
                }
                Some("TRYAGAIN") if self.is_elsewhere(&error) && Instant::now() + ASK_AGAIN < until => {
                    sleep(ASK_AGAIN).await;
                    Way::Seat
                }
                Some("MOVED" | "ASK") if self.is_elsewhere(&error) && led < REDIRECTIONS => {
                    led += 1;
                    self.led(partition, &error)
                }
                _ => return Err(self.refused(&primary, &error, writes)),
            };
        }
    }

    /// One plain command that only reads, off the hot path, over a pool of its own, to the primary that has the partition.
    pub async fn cold(&self, partition: u16, cmd: Cmd) -> Result<Value, StoreError> {
        let until = Instant::now() + self.timeout;
        let mut led = false;
        loop {
            let primary = self.seats.of(partition);
            match primary.gate.pass(until).await {
                Ok(()) => {}
                Err(Closed::Gone) => continue,
                Err(Closed::Refused(reason)) => return Err(StoreError::Unavailable(reason.to_string())),
            }
            let Some(pool) = &primary.pool else {
                return Err(StoreError::Unavailable(format!("{primary}: there is no pool")));
            };
            let asked = async {
                let mut connection = pool.get().await.map_err(|error| self.no_connection(&primary, error))?;
                let answer = connection.req_packed_command(&cmd).await.and_then(Value::extract_error);
                Ok(answer)
            };
            let error = match timeout_at(until, asked).await {
                Err(_) => return Err(self.missed(&primary, &Miss::Late, false)),
                Ok(Err(told)) => return Err(told),
                Ok(Ok(Ok(value))) => return Ok(value),
                Ok(Ok(Err(error))) => error,
            };
            if !led && self.is_elsewhere(&error) {
                led = true;
                self.led(partition, &error);
                continue;
            }
            return Err(self.refused(&primary, &error, false));
        }
    }

    /// A connection of one's own to the primary that has the partition now, for blocking reads. It ends when another becomes the primary.
    pub async fn dedicated(&self, partition: u16) -> Result<Dedicated, StoreError> {
        let until = Instant::now() + self.timeout;
        loop {
            let primary = self.seats.of(partition);
            match primary.gate.pass(until).await {
                Ok(()) => {}
                Err(Closed::Gone) => continue,
                Err(Closed::Refused(reason)) => return Err(StoreError::Unavailable(reason.to_string())),
            }
            let Some(place) = &primary.place else {
                return Err(StoreError::Unavailable(format!("{primary}: no connection yet")));
            };
            let dead = CancellationToken::new();
            let told = dead.clone();
            let connection = self.access.connect(place, move || told.cancel()).await;
            let connection = connection.map_err(|error| self.refused(&primary, &error, false))?;
            return Ok(Dedicated {
                wire: Wire::new(connection, dead),
                gone: primary.gone.clone(),
                place: place.clone(),
            });
        }
    }

    /// A connection to the server, as soon as it has one.
    async fn wire(&self, primary: &Primary, until: Instant) -> Result<Arc<Wire>, Closed> {
        loop {
            primary.gate.pass(until).await?;
            if let Some(wire) = primary.wire() {
                return Ok(wire);
            }
            // The last one has just broken, and the mender does not know yet.
            self.lost(primary);
            if Instant::now() >= until {
                return Err(Closed::Refused(format!("{primary}: the connection is lost").into()));
            }
        }
    }

    async fn ask(
        &self,
        primary: &Primary,
        wire: &Wire,
        cmd: &Cmd,
        asking: bool,
        until: Instant,
    ) -> Result<Value, Miss> {
        let (sent, own, all) = (Instant::now(), wire.answers(), primary.answers());
        let answer = if asking {
            let mut both = Pipeline::with_capacity(2);
            both.cmd("ASKING").add_command(cmd.clone());
            wire.ask_all(&both, until).await
        } else {
            wire.ask(cmd, until).await
        };
        // A call that had to wait for its connection has not given the server the whole time.
        if matches!(answer, Err(Miss::Late)) && sent.elapsed() >= self.timeout / 2 && wire.answers() == own {
            wire.kill();
            primary.wake.notify_one();
            if primary.answers() == all {
                self.open(primary, &self.late(primary));
            }
        }
        answer
    }

    /// There was no answer.
    fn missed(&self, primary: &Primary, miss: &Miss, writes: bool) -> StoreError {
        let trouble = match miss {
            Miss::Late => self.late(primary),
            Miss::Lost | Miss::Error(_) => {
                primary.wake.notify_one();
                Trouble::new(
                    Condition::Broken,
                    format!("{primary}: the connection was lost before the answer"),
                )
            }
        };
        self.conditions.count(trouble.condition);
        let verdict = Verdict {
            condition: trouble.condition,
            unapplied: false,
        };
        verdict.told(writes, trouble.to_string())
    }

    fn late(&self, primary: &Primary) -> Trouble {
        let text = format!("{primary}: no answer for {} ms", self.timeout.as_millis());
        Trouble::new(Condition::TimedOut, text)
    }

    /// The answer was an error.
    fn refused(&self, primary: &Primary, error: &RedisError, writes: bool) -> StoreError {
        let verdict = Verdict::of(error);
        self.conditions.count(verdict.condition);
        let trouble = match &primary.place {
            Some(place) => Trouble::of(place, error, self.access.is_secured()),
            None => Trouble::new(verdict.condition, plain(error)),
        };
        let serves_nobody = match verdict.condition {
            Condition::ClusterDown => error.code() == Some("CLUSTERDOWN"),
            condition => matches!(
                condition,
                Condition::ReadOnly | Condition::CutOff | Condition::CannotSave | Condition::Loading | Condition::Busy
            ),
        };
        if serves_nobody {
            self.open(primary, &trouble);
        }
        verdict.told(writes, trouble.to_string())
    }

    /// Another server has the slot, or is about to.
    fn led(&self, partition: u16, error: &RedisError) -> Way {
        self.search.notify_one();
        match (error.code(), redirection(error)) {
            (Some("ASK"), Some(address)) => Way::Asking(self.primary_at(Place::Tcp(address))),
            (_, Some(address)) => {
                self.seat(partition, address);
                Way::Seat
            }
            (_, None) => Way::Seat,
        }
    }

    fn no_connection(&self, primary: &Primary, error: PoolError) -> StoreError {
        match error {
            PoolError::Backend(error) => self.refused(primary, &error, false),
            PoolError::Timeout(_) => {
                StoreError::Unavailable(format!("{primary}: all connections for chores are in use"))
            }
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => {
                StoreError::Unavailable(format!("{primary}: it is no longer the primary"))
            }
        }
    }
}

/// A connection of one's own.
#[derive(Debug)]
pub struct Dedicated {
    wire: Wire,
    gone: CancellationToken,
    place: Place,
}

impl Dedicated {
    /// Runs one command, which may block at the server for nearly as long as `within`. After an error it is of no more use.
    pub async fn run(&mut self, cmd: &Cmd, within: Duration) -> Result<Value, StoreError> {
        let answer = self
            .gone
            .run_until_cancelled(self.wire.ask(cmd, Instant::now() + within))
            .await;
        let text = match answer {
            Some(Ok(value)) => return Ok(value),
            Some(Err(Miss::Error(error))) => plain(&error),
            Some(Err(Miss::Lost)) => "the connection is lost".to_owned(),
            Some(Err(Miss::Late)) => format!("no answer for {} ms", within.as_millis()),
            None => "it is no longer the primary".to_owned(),
        };
        Err(StoreError::Unavailable(format!("{}: {text}", self.place)))
    }
}
