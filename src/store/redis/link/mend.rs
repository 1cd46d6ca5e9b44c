//! Keeps the connections to one server alive.
//!
//! *Owns* when a connection is made again, and every change of the gate but two: a call opens it where the server is silent or says that it serves
//! nobody, and a scout closes a server down whose place another has.
//!
//! *Invariants.* The gate is up only after a **probe** was answered: a DEL of names that never exist. It changes nothing, and Redis refuses it
//! wherever it would refuse a script that writes: while it loads, as a replica, without enough replicas, without a disk, in a
//! Cluster that is down, or stopped. A full Redis takes it, and rightly: reads go on there.
//!
//! *Why not PING*: a replica answers it, and so does a primary that was cut off.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ::redis::{Pipeline, cmd};
use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Link;
use super::access::Place;
use super::gate::{GRACE, State};
use super::primary::Primary;
use super::trouble::Trouble;
use super::wire::{Miss, Wire};
use crate::store::redis::condition::Condition;

/// The first and the longest pause between two attempts. The longest is well below a second, within which grants go on after Redis is back.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(300));

/// The settings of a server are looked at again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Pauses that double, each drawn between a half and the whole, so that replicas do not come back together.
#[derive(Default)]
struct Pauses(u32);

impl Pauses {
    fn next(&mut self) -> Duration {
        let whole = PAUSES.0.saturating_mul(1 << self.0.min(16)).min(PAUSES.1);
        self.0 += 1;
        whole.mul_f64(rand::random_range(0.5..1.0))
    }
}

/// Mends a server's connections for as long as it has a place in the link.
pub(super) async fn mend(link: Arc<Link>, primary: Arc<Primary>) {
    let Some(place) = primary.place.clone() else { return };
    let mender = Mender {
        link: &link,
        primary: &primary,
        place: &place,
    };
    tokio::select! {
        () = mender.go_on() => {}
        () = primary.gone.cancelled() => {}
    }
}

struct Mender<'a> {
    link: &'a Link,
    primary: &'a Primary,
    place: &'a Place,
}

impl Mender<'_> {
    async fn go_on(&self) {
        let mut pauses = Pauses::default();
        loop {
            if self.primary.gate.is_up() {
                if self.primary.is_whole() {
                    pauses = Pauses::default();
                    if timeout(LOOK_AGAIN, self.primary.wake.notified()).await.is_err()
                        && let Some(wire) = self.primary.wire()
                    {
                        self.look_at_settings(&wire).await;
                    }
                    continue;
                }
                if self.primary.wire().is_none() {
                    self.link.lost(self.primary);
                }
            }
            if let Err(trouble) = self.attempt().await {
                tracing::debug!(%trouble, "Redis");
                self.pause(pauses.next(), &trouble).await;
            }
        }
    }

    /// One attempt at all connections; the gate opens on the way if it takes too long.
    async fn attempt(&self) -> Result<(), Trouble> {
        let mut all = pin!(join_all((0..self.primary.lines.len()).map(|line| self.line(line))));
        let all = match self.primary.gate.state() {
            State::Mending(since) => match timeout_at((since + GRACE).max(Instant::now() + PAUSES.0), &mut all).await {
                Ok(all) => all,
                Err(_) => {
                    let text = format!("{}: no answer for {} ms", self.place, GRACE.as_millis());
                    self.link.open(self.primary, &Trouble::new(Condition::TimedOut, text));
                    all.await
                }
            },
            _ => all.await,
        };
        all.into_iter().collect()
    }

    /// Waits until the next attempt, and opens the gate when its time has come.
    async fn pause(&self, pause: Duration, trouble: &Trouble) {
        let next = Instant::now() + pause;
        match self.primary.gate.state() {
            State::Mending(since) if next < since + GRACE => sleep(pause).await,
            // The last moment for an attempt inside the grace.
            State::Mending(since) if Instant::now() < since + GRACE - PAUSES.0 => {
                sleep_until(since + GRACE - PAUSES.0).await;
            }
            State::Mending(_) | State::Open(_) => {
                self.link.open(self.primary, trouble);
                sleep(pause).await;
            }
            State::Up | State::Gone => {
                // The others may be lost meanwhile. Not at once: a server that ends each connection would keep us busy.
                sleep(PAUSES.0).await;
                let _ = timeout_at(next, self.primary.wake.notified()).await;
            }
        }
    }

    /// Makes one connection if there is none, and has it probed if the gate is not up.
    async fn line(&self, line: usize) -> Result<(), Trouble> {
        if let Some(wire) = self.primary.living(line) {
            if self.primary.gate.is_up() {
                return Ok(());
            }
            return self.try_out(&wire).await;
        }
        let dead = CancellationToken::new();
        let told = (dead.clone(), self.primary.wake.clone());
        let connecting = self.link.access.connect(self.place, move || {
            told.0.cancel();
            told.1.notify_one();
        });
        let connection = connecting.await.map_err(|error| self.trouble(&error))?;
        let wire = Arc::new(Wire::new(connection, dead));
        self.primary.lines[line].store(Some(wire.clone()));
        self.try_out(&wire).await?;
        if line == 0 {
            self.look_at_settings(&wire).await;
        }
        Ok(())
    }

    async fn try_out(&self, wire: &Wire) -> Result<(), Trouble> {
        let mut tried = self.probe(wire).await;
        if tried.is_ok() && !self.primary.gate.is_up() {
            tried = self.link.vouch(self.place).await;
            if let Err(trouble) = &tried {
                self.link.conditions.count(trouble.condition);
            }
        }
        match tried {
            Ok(()) => {
                self.link.up(self.primary);
                Ok(())
            }
            Err(trouble) => {
                // What says that it is no primary, or a cut-off one, may be another server by now where the name leads to.
                let other = matches!(trouble.condition, Condition::ReadOnly | Condition::CutOff);
                if !trouble.answered || other {
                    wire.kill();
                }
                Err(trouble)
            }
        }
    }

    async fn probe(&self, wire: &Wire) -> Result<(), Trouble> {
        let mut cmds = Pipeline::new();
        for partition in self.link.seats.held_by(self.primary) {
            cmds.cmd("DEL").arg(&self.link.probes[usize::from(partition)]);
        }
        if cmds.is_empty() {
            cmds.cmd("PING");
        }
        match wire.ask_all(&cmds, Instant::now() + self.link.timeout).await {
            Ok(_) => Ok(()),
            Err(Miss::Error(error)) if self.link.is_elsewhere(&error) => {
                self.link.search.notify_one();
                Ok(())
            }
            Err(Miss::Error(error)) => Err(self.trouble(&error)),
            Err(Miss::Lost) => Err(Trouble::new(
                Condition::Broken,
                format!("{}: the connection is lost", self.place),
            )),
            Err(Miss::Late) => Err(Trouble::new(
                Condition::TimedOut,
                format!("{}: no answer for {} ms", self.place, self.link.timeout.as_millis()),
            )),
        }
    }

    /// Looks at the settings of the server that matter to drover, where it lets us: at each new connection, and again now and then.
    async fn look_at_settings(&self, wire: &Wire) {
        if let Some(policy) = self.setting(wire, "maxmemory-policy").await {
            // It takes leases and invalidations with it.
            let evicts = policy.starts_with("allkeys");
            let before = self.primary.evicts.swap(evicts, Relaxed);
            if evicts && !before {
                self.link.evicts(self.place, &policy);
            }
        }
        if let Some(count) = self.setting(wire, "min-replicas-to-write").await {
            self.primary.min_replicas.store(count.parse().unwrap_or(0), Relaxed);
        }
    }

    async fn setting(&self, wire: &Wire, name: &str) -> Option<String> {
        let asked = cmd("CONFIG").arg("GET").arg(name).take();
        match wire.ask(&asked, Instant::now() + self.link.timeout).await {
            Ok(value) => {
                let pairs: Vec<(String, String)> = ::redis::from_redis_value(value).unwrap_or_default();
                pairs.into_iter().next().map(|(_, value)| value)
            }
            Err(Miss::Error(error)) => {
                let error = super::trouble::plain(&error);
                tracing::debug!(%error, "Redis {}: its {name} can't be seen", self.place);
                None
            }
            Err(Miss::Lost | Miss::Late) => None,
        }
    }

    fn trouble(&self, error: &::redis::RedisError) -> Trouble {
        let trouble = Trouble::of(self.place, error, self.link.access.is_secured());
        self.link.conditions.count(trouble.condition);
        trouble
    }
}
