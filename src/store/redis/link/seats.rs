//! Which server has which partition, and what is told of it.
//!
//! *Invariants.* A change of a server's gate and what [`States`] say of it happen under one lock, so no outage is missed however short
//! it was: whoever looks later sees its number grow.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::gate::State;
use super::primary::Primary;

/// What is known of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct One {
    up: bool,
    outages: u64,
}

/// Which partitions are up, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States(Box<[One]>);

impl States {
    fn new(partitions: u16) -> States {
        let one = One { up: true, outages: 0 };
        States(vec![one; usize::from(partitions)].into())
    }

    /// Whether calls for the partition are let through.
    pub fn is_up(&self, partition: u16) -> bool {
        self.0.get(usize::from(partition)).is_some_and(|one| one.up)
    }

    /// How often the partition was down so far: two looks that find it up, and the same number, mean that no call was refused in between.
    pub fn outages(&self, partition: u16) -> u64 {
        self.0.get(usize::from(partition)).map_or(0, |one| one.outages)
    }

    /// How many are down.
    pub fn down(&self) -> usize {
        self.0.iter().filter(|one| !one.up).count()
    }
}

/// A server that was closed down does not come back; one that listens at the same place is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// The servers by partition.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Box<[ArcSwap<Primary>]>,
    states: watch::Sender<States>,
    turning: Mutex<()>,
}

impl Seats {
    pub fn new(partitions: u16, primary: Arc<Primary>) -> Seats {
        Seats {
            seats: (0..partitions).map(|_| ArcSwap::new(primary.clone())).collect(),
            states: watch::Sender::new(States::new(partitions)),
            turning: Mutex::default(),
        }
    }

    /// Who has it. A partition that does not exist is the first one: none but a bug asks for it.
    pub fn of(&self, partition: u16) -> Arc<Primary> {
        let seat = self.seats.get(usize::from(partition)).unwrap_or(&self.seats[0]);
        seat.load_full()
    }

    /// The partitions that a server has.
    pub fn held_by(&self, primary: &Primary) -> Vec<u16> {
        let held = |seat: &ArcSwap<Primary>| std::ptr::eq(Arc::as_ptr(&seat.load()), primary);
        let numbers = (0..).zip(&self.seats).filter(|(_, seat)| held(seat));
        numbers.map(|(number, _)| number).collect()
    }

    /// Gives a partition to a server, unless that is gone; answers who had it before.
    pub fn settle(&self, partition: u16, primary: &Arc<Primary>) -> Result<Arc<Primary>, Gone> {
        let _one_at_a_time = self.turning.lock();
        if primary.gate.state() == State::Gone {
            return Err(Gone);
        }
        let before = self.seats[usize::from(partition)].swap(primary.clone());
        self.tell();
        Ok(before)
    }

    /// Closes a server down, unless it has a partition.
    pub fn retire(&self, primary: &Primary) -> bool {
        let _one_at_a_time = self.turning.lock();
        self.held_by(primary).is_empty() && primary.gate.turn(State::Gone)
    }

    /// The connections of a server that is up are lost, or not to be trusted: calls wait a moment. False where it was not up.
    pub fn doubt(&self, primary: &Primary) -> bool {
        let _one_at_a_time = self.turning.lock();
        primary.gate.is_up() && primary.gate.turn(State::Mending(Instant::now()))
    }

    /// Turns a server's gate; false where it was so before.
    pub fn turn(&self, primary: &Primary, to: State) -> bool {
        let _one_at_a_time = self.turning.lock();
        let changed = primary.gate.turn(to);
        if changed {
            self.tell();
        }
        changed
    }

    pub fn states(&self) -> &watch::Sender<States> {
        &self.states
    }

    fn tell(&self) {
        self.states.send_if_modified(|states| {
            let mut changed = false;
            for (one, seat) in states.0.iter_mut().zip(&self.seats) {
                let up = seat.load().gate.state().lets_through();
                changed |= up != one.up;
                one.outages += u64::from(one.up && !up);
                one.up = up;
            }
            changed
        });
    }
}
