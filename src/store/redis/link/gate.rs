//! Whether calls to a server are let through: the circuit.
//!
//! ```text
//!            connected, probe good                    lost, within 250 ms
//!  Mending ─────────────────────────▶ Up ────────────────────────────────▶ Mending
//!     │ 250 ms over                   │ silent for a call's time, or says that it serves nobody
//!     └───────────▶ Open ◀────────────┘           Gone: another server has its place (the end)
//! ```
//!
//! *Invariants.* While it is open, a call costs a look at one atomic and a text. Whoever waits in `Mending` hears of the next state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// A lost connection that is remade within this is no outage: calls wait for it.
pub(super) const GRACE: Duration = Duration::from_millis(250);

/// What a gate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A connection is being made, since then.
    Mending(Instant),
    /// Calls go through.
    Up,
    /// Calls are refused, for this reason.
    Open(Arc<str>),
    /// Ask who has its place now.
    Gone,
}

impl State {
    fn code(&self) -> u8 {
        match self {
            State::Mending(_) => 0,
            State::Up => 1,
            State::Open(_) => 2,
            State::Gone => 3,
        }
    }

    /// Whether calls are let through, or soon will be.
    pub fn lets_through(&self) -> bool {
        matches!(self, State::Mending(_) | State::Up)
    }
}

/// Why a call is not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// Refused.
    Refused(Arc<str>),
    /// Another server has its place.
    Gone,
}

/// The circuit of one server.
#[derive(Debug)]
pub(super) struct Gate {
    code: AtomicU8,
    state: watch::Sender<State>,
}

impl Gate {
    pub fn new() -> Gate {
        let state = State::Mending(Instant::now());
        Gate {
            code: AtomicU8::new(state.code()),
            state: watch::Sender::new(state),
        }
    }

    pub fn is_up(&self) -> bool {
        self.code.load(Ordering::Acquire) == State::Up.code()
    }

    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Takes a state; false where it was the same before, or is at its end. Only for the one who holds the lock of [`Seats`](super::seats).
    pub fn turn(&self, to: State) -> bool {
        self.state.send_if_modified(|state| {
            let changes = *state != to && *state != State::Gone;
            if changes {
                self.code.store(to.code(), Ordering::Release);
                *state = to;
            }
            changes
        })
    }

    /// Returns when it is up; waits while it is mended, though not for longer than that may take, and not beyond `until`.
    pub async fn pass(&self, until: Instant) -> Result<(), Closed> {
        if self.is_up() {
            return Ok(());
        }
        let mut seen = self.state.subscribe();
        let until = until.min(Instant::now() + GRACE);
        let settled = seen.wait_for(|state| !matches!(state, State::Mending(_)));
        match timeout_at(until, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Open(reason) => Err(Closed::Refused(reason.clone())),
                State::Gone => Err(Closed::Gone),
                State::Up | State::Mending(_) => Ok(()),
            },
            Ok(Err(_)) | Err(_) => Err(Closed::Refused("no connection yet".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_for_a_connection_that_is_being_made_and_goes_on_when_it_is() {
        let gate = Gate::new();
        let until = Instant::now() + Duration::from_secs(10);
        let (passed, _) = tokio::join!(gate.pass(until), async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            gate.turn(State::Up)
        });
        assert_eq!(passed, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_never_waits_for_longer_than_the_grace_nor_beyond_its_own_time() {
        let gate = Gate::new();
        for (limit, waited) in [
            (Duration::from_secs(10), GRACE),
            (Duration::from_millis(30), Duration::from_millis(30)),
        ] {
            let begin = Instant::now();
            assert!(gate.pass(begin + limit).await.is_err());
            assert_eq!(begin.elapsed(), waited);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_open_circuit_refuses_at_once_and_says_why() {
        let gate = Gate::new();
        assert!(gate.turn(State::Open("it burns".into())));
        let begin = Instant::now();
        let refused = gate.pass(begin + Duration::from_secs(10)).await;
        assert_eq!(refused, Err(Closed::Refused("it burns".into())));
        assert_eq!(begin.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_gone_never_comes_back() {
        let gate = Gate::new();
        assert!(gate.turn(State::Gone));
        assert!(!gate.turn(State::Up));
        assert_eq!(gate.pass(Instant::now()).await, Err(Closed::Gone));
    }
}
