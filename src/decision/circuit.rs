//! The circuit of a namespace: whether its origin is to be left alone.
//!
//! *Owns* the states and how they follow from each other. *Never* keeps a single key from its back-off: a key whose rebuilds fail has one
//! of its own, whatever the circuit does.
//!
//! ```text
//!            half of at least 20 rebuilds in 10 s failed
//!   closed ───────────────────────────────────────────────▶ open ◀──────────────┐
//!     ▲                                                       │ the pause is over │ it failed, or did not come back in its lease's time:
//!     └─────────────────────────── it succeeded ── probing ◀──┘ one is let by     │ a longer pause
//!                                                     └───────────────────────────┘
//! ```
//!
//! *Invariants.* While it is open, nothing is granted; while it is probing, one lease of one key is, and only how that one ends counts. What was
//! under way when it opened says nothing any more. The pause after the n-th opening in a row is that of the policy's back-off,
//! U(½, 1) · min(max, base · 2ⁿ⁻¹), and the row ends when it has been closed for as long as the longest pause. Given up is neither success
//! nor failure: the next caller is the probe.
//!
//! *Shared*: a circuit is one small value, and every step is a function of it, so that replicas share it by compare-and-set in its [written
//! form](Circuit::to_text): whoever's step is not taken takes it again from what is there now. So of many that ask after a pause exactly one
//! is the probe. A closed circuit changes with every rebuild; replicas count those for a second and take [one step](CircuitEvent::Counted) for all,
//! and none where no rebuild has failed. One that can't be read counts as closed.

use std::time::Duration;

use super::{Backoff, Draw, Key, Purpose, StoreTime};

/// The window, in slices of two seconds.
const SLICES: usize = 5;
const SLICE: Duration = Duration::from_secs(2);
/// Fewer rebuilds say nothing.
const LEAST: u32 = 20;
/// It opens when at least one of so many has failed.
const ONE_IN: u32 = 2;

/// A namespace's circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    state: State,
    /// How often it has opened in a row.
    opened: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Closed {
        /// When it closed; the beginning of time where it never was open.
        since: StoreTime,
        counted: Window,
    },
    Open {
        until: StoreTime,
    },
    Probing {
        /// Stands for the key.
        probe: u64,
        /// The probe counts as failed from then on.
        until: StoreTime,
    },
}

/// How rebuilds ended of late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Window {
    /// The number of the newest slice, which is the first.
    slice: u64,
    /// Successes and failures.
    counts: [[u32; 2]; SLICES],
}

/// What happens to a circuit.
#[derive(Clone, Copy, Debug)]
pub enum CircuitEvent<'a> {
    /// A key could be granted a lease of this length.
    Asked(&'a Key, Duration),
    /// A lease was renewed for so long.
    Renewed(&'a Key, Duration),
    /// A rebuild was reported.
    Ended(&'a Key, Ending),
    /// So many succeeded and so many failed, of those that were granted while the circuit was closed.
    Counted {
        /// With a value, or the fact that there is none.
        succeeded: u32,
        /// With an error.
        failed: u32,
    },
}

/// How a rebuild ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a value, or the fact that there is none.
    Succeeded,
    /// With an error.
    Failed,
    /// Its holder gave it up, or the grant did not come about.
    GivenUp,
}

/// What an event leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CircuitEffect {
    /// Nothing.
    None,
    /// The lease may be granted.
    Let,
    /// The lease may be granted once the circuit is written: it is the probe.
    Probe,
    /// No lease: ask again after so long.
    KeepOff(Duration),
    /// The circuit has opened, for so long.
    Opened(Duration),
    /// The circuit has closed.
    Closed,
}

impl Default for Circuit {
    fn default() -> Circuit {
        Circuit {
            state: State::Closed {
                since: StoreTime::ZERO,
                counted: Window::default(),
            },
            opened: 0,
        }
    }
}

impl Circuit {
    /// The circuit after an event, and what that leads to. Where it is the same as before there is nothing to write. `backoff` is that of
    /// the namespace's policy.
    pub fn step(
        &self,
        event: CircuitEvent<'_>,
        now: StoreTime,
        backoff: &Backoff,
        draw: Draw,
    ) -> (Circuit, CircuitEffect) {
        use CircuitEvent::*;
        match (&self.state, event) {
            (State::Closed { .. }, Asked(..)) => (self.clone(), CircuitEffect::Let),
            (State::Open { until } | State::Probing { until, .. }, Asked(..)) if now < *until => {
                (self.clone(), CircuitEffect::KeepOff(until.since(now)))
            }
            (State::Open { .. }, Asked(key, lease)) => (self.probing(key, now.after(lease)), CircuitEffect::Probe),
            (State::Probing { .. }, Asked(..)) => {
                let (open, pause) = self.open(self.opened, now, backoff, draw);
                (open, CircuitEffect::KeepOff(pause))
            }
            (State::Probing { probe, .. }, Renewed(key, lease)) if *probe == mark(key) => {
                (self.probing(key, now.after(lease)), CircuitEffect::None)
            }
            (State::Probing { probe, .. }, Ended(key, ending)) if *probe == mark(key) => {
                self.probed(ending, now, backoff, draw)
            }
            (State::Closed { since, counted }, Counted { succeeded, failed }) => {
                self.count(*since, *counted, [succeeded, failed], now, backoff, draw)
            }
            (State::Closed { since, counted }, Ended(_, ending)) => {
                let one = match ending {
                    Ending::Succeeded => [1, 0],
                    Ending::Failed => [0, 1],
                    Ending::GivenUp => return (self.clone(), CircuitEffect::None),
                };
                self.count(*since, *counted, one, now, backoff, draw)
            }
            (_, Renewed(..) | Ended(..) | Counted { .. }) => (self.clone(), CircuitEffect::None),
        }
    }

    /// Whether grants are held back.
    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    fn probing(&self, key: &Key, until: StoreTime) -> Circuit {
        Circuit {
            state: State::Probing {
                probe: mark(key),
                until,
            },
            opened: self.opened,
        }
    }

    fn probed(&self, ending: Ending, now: StoreTime, backoff: &Backoff, draw: Draw) -> (Circuit, CircuitEffect) {
        let state = match ending {
            Ending::Failed => {
                let (open, pause) = self.open(self.opened, now, backoff, draw);
                return (open, CircuitEffect::Opened(pause));
            }
            Ending::Succeeded => State::Closed {
                since: now,
                counted: Window::default(),
            },
            Ending::GivenUp => State::Open { until: now },
        };
        let effect = if ending == Ending::Succeeded {
            CircuitEffect::Closed
        } else {
            CircuitEffect::None
        };
        (Circuit { state, ..*self }, effect)
    }

    fn count(
        &self,
        since: StoreTime,
        mut counted: Window,
        more: [u32; 2],
        now: StoreTime,
        backoff: &Backoff,
        draw: Draw,
    ) -> (Circuit, CircuitEffect) {
        counted.add(more, now);
        let [succeeded, failed] = counted.sum();
        let all = succeeded.saturating_add(failed);
        if all >= LEAST && failed >= all.div_ceil(ONE_IN) {
            // Soon after it closed it is the same trouble.
            let in_a_row = if now < since.after(backoff.max) { self.opened } else { 0 };
            let (open, pause) = self.open(in_a_row, now, backoff, draw);
            return (open, CircuitEffect::Opened(pause));
        }
        let state = State::Closed { since, counted };
        (Circuit { state, ..*self }, CircuitEffect::None)
    }

    fn open(&self, before: u32, now: StoreTime, backoff: &Backoff, draw: Draw) -> (Circuit, Duration) {
        let opened = before.saturating_add(1);
        let pause = backoff
            .ceiling(opened)
            .mul_f64(draw.between(Purpose::Circuit, 0.5, 1.0));
        let until = now.after(pause);
        let state = State::Open { until };
        (Circuit { state, opened }, pause)
    }

    /// Its written form, layout 1: `1 closed <opened> <since> <slice> <succeeded>/<failed>…`, `1 open <opened> <until>`,
    /// `1 probing <opened> <until> <probe>`; instants in µs.
    pub fn to_text(&self) -> String {
        let opened = self.opened;
        match &self.state {
            State::Closed { since, counted } => {
                let counts = counted
                    .counts
                    .map(|[succeeded, failed]| format!("{succeeded}/{failed}"));
                format!("1 closed {opened} {} {} {}", since.0, counted.slice, counts.join(" "))
            }
            State::Open { until } => format!("1 open {opened} {}", until.0),
            State::Probing { probe, until } => format!("1 probing {opened} {} {probe}", until.0),
        }
    }

    /// From its written form; `None` for what can't be read.
    pub fn from_text(text: &str) -> Option<Circuit> {
        let words: Vec<&str> = text.split(' ').collect();
        let instant = |word: &str| word.parse().ok().map(StoreTime);
        let (state, opened) = match *words.as_slice() {
            ["1", "closed", opened, since, slice, ref counts @ ..] => {
                let counts: Option<Vec<[u32; 2]>> = counts.iter().map(|word| count(word)).collect();
                let counted = Window {
                    slice: slice.parse().ok()?,
                    counts: counts?.try_into().ok()?,
                };
                let since = instant(since)?;
                (State::Closed { since, counted }, opened)
            }
            ["1", "open", opened, until] => (State::Open { until: instant(until)? }, opened),
            ["1", "probing", opened, until, probe] => {
                let (probe, until) = (probe.parse().ok()?, instant(until)?);
                (State::Probing { probe, until }, opened)
            }
            _ => return None,
        };
        let opened = opened.parse().ok()?;
        Some(Circuit { state, opened })
    }
}

impl Window {
    fn add(&mut self, more: [u32; 2], now: StoreTime) {
        let slice = now.0 / super::micros(SLICE);
        let passed = slice.saturating_sub(self.slice).min(SLICES as u64) as usize;
        self.counts.rotate_right(passed % SLICES);
        self.counts[..passed].fill([0; 2]);
        // A clock that goes back counts on in the newest.
        self.slice = self.slice.max(slice);
        for (count, more) in self.counts[0].iter_mut().zip(more) {
            *count = count.saturating_add(more);
        }
    }

    fn sum(&self) -> [u32; 2] {
        self.counts.iter().fold([0u32; 2], |sum, count| {
            [sum[0].saturating_add(count[0]), sum[1].saturating_add(count[1])]
        })
    }
}

fn count(word: &str) -> Option<[u32; 2]> {
    let (succeeded, failed) = word.split_once('/')?;
    Some([succeeded.parse().ok()?, failed.parse().ok()?])
}

/// What stands for a key, the same at every replica and in every release: FNV-1a (G. Fowler, L. C. Noll, K.-P. Vo). Two keys of the same mark
/// would be taken for each other while one of them is the probe, and whoever makes that so has failed rebuilds to report anyway.
fn mark(key: &Key) -> u64 {
    key.text().bytes().fold(0xcbf2_9ce4_8422_2325, |mark, byte| {
        (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
