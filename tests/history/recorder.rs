//! One clock for all clients, and the account of what was broken when.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::checker::model::{Kind, Lapse, Moment, Op};

/// An unknown call is done, if at all, so long after its caller gave up or what had held it up was over, in microseconds.
const LINGERS: u64 = 3_000_000;

pub struct Recorder {
    started: Instant,
    place: AtomicU64,
    lapses: Mutex<Vec<Lapse>>,
    stuck: Mutex<Vec<String>>,
    /// Calls that came to an end.
    pub calls: AtomicU64,
}

/// A fault that lasts.
#[derive(Clone, Copy)]
pub struct Lasting(usize);

impl Recorder {
    pub fn new() -> Recorder {
        Recorder {
            started: Instant::now(),
            place: AtomicU64::new(0),
            lapses: Mutex::default(),
            stuck: Mutex::default(),
            calls: AtomicU64::new(0),
        }
    }

    pub fn now(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    /// A new place: the nanoseconds that passed, and never one twice. So the order of places is that of real time.
    pub fn moment(&self) -> Moment {
        let now = self.started.elapsed().as_nanos() as u64;
        let next = |last: u64| now.max(last + 1);
        let last = self
            .place
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(next(last)));
        let place = next(last.unwrap_or_default());
        Moment {
            place,
            at: place / 1_000,
        }
    }

    /// Something breaks.
    pub fn begin(&self, kind: Kind) -> Lasting {
        let from = self.now();
        let mut lapses = self.lapses.lock().unwrap_or_else(PoisonError::into_inner);
        lapses.push(Lapse {
            kind,
            from,
            to: u64::MAX,
        });
        Lasting(lapses.len() - 1)
    }

    /// It is whole again.
    pub fn end(&self, lasting: Lasting) {
        let to = self.now();
        let mut lapses = self.lapses.lock().unwrap_or_else(PoisonError::into_inner);
        lapses[lasting.0].to = to;
    }

    /// Something is wrong that no check would see.
    pub fn wrong(&self, what: String) {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    pub fn lapses(&self) -> Vec<Lapse> {
        self.lapses.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn stuck(&self) -> Vec<String> {
        self.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Puts the calls of all clients in order, and says until when each of unknown fate may still be done.
pub fn arrange(mut ops: Vec<Op>, lapses: &[Lapse]) -> Vec<Op> {
    ops.sort_unstable_by_key(|op| op.invoked.place);
    for op in &mut ops {
        let lasts = lasts_to(op, lapses).map(|at| Moment {
            place: at.saturating_mul(1_000),
            at,
        });
        op.until = lasts.unwrap_or(op.ended);
    }
    ops
}

fn lasts_to(op: &Op, lapses: &[Lapse]) -> Option<u64> {
    if !op.is_unknown() {
        return None;
    }
    let (mut to, mut grown) = (op.ended.at, true);
    while std::mem::take(&mut grown) {
        for lapse in lapses.iter().filter(|lapse| lapse.kind != Kind::Evicting) {
            if lapse.from <= to && op.invoked.at <= lapse.to && lapse.to > to {
                (to, grown) = (lapse.to, true);
            }
        }
    }
    Some(to.saturating_add(LINGERS))
}
