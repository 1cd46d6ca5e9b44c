//! What workers did beside what they had to do.

use std::time::Duration;

use tokio::time::Instant;

use crate::decision::Refresh;
use crate::lab::strategy::drover::{Ledger, Lives, Served};

/// How workers kept a set of keys fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worked {
    /// How many workers there were.
    pub workers: usize,
    /// How their readers were served.
    pub served: Served,
    /// Queries of the warming call, before the herd was let go.
    pub warmed: u64,
    /// Queries that lifetimes and costs allow at the least: each rebuild begins its cost before its value's freshness ends, and not earlier.
    pub least: u64,
    /// The most rebuilds that one key had beyond that.
    pub over: u64,
    /// The least with the room that drover leaves: each begins twice the cost and 50 ms before.
    pub with_room: u64,
}

impl Worked {
    /// Sums up a run that began then and lasted so long, of rebuilds that cost so much.
    pub fn new(workers: usize, warmed: u64, ledger: &Ledger, began: Instant, length: Duration, cost: Duration) -> Self {
        let keys = ledger.lives();
        let of = |lives: &Lives, room| least(lives, began, length, cost, room);
        let least = |room| keys.iter().map(|lives| of(lives, room)).sum();
        let over = |lives: &Lives| begun(lives, began, length, cost).saturating_sub(of(lives, cost));
        Self {
            workers,
            served: ledger.served(),
            warmed,
            least: least(cost),
            over: keys.iter().map(over).max().unwrap_or_default(),
            with_room: least(Refresh::room(cost)),
        }
    }
}

/// How many rebuilds of a key did begin within the run.
fn begun(lives: &[(Instant, Duration)], began: Instant, length: Duration, cost: Duration) -> u64 {
    let within = |(stored, _): &&(Instant, Duration)| *stored > began && *stored < began + length + cost;
    lives.iter().filter(within).count() as u64
}

/// How many rebuilds of a key begin within the run if each begins `room` before the end of its value's freshness and takes `cost`.
///
/// The lifetimes are those that drover's jitter drew in this run, one a report, so nothing has to be assumed about the draw. Only the first value
/// was really stored when it says; each later one is taken to be stored when the rebuild before it would have ended. Rebuilds that really
/// ran were never later than that, so there are lifetimes enough.
fn least(lives: &[(Instant, Duration)], began: Instant, length: Duration, cost: Duration, room: Duration) -> u64 {
    let Some(((stored, fresh), later)) = lives.split_first() else {
        return 0;
    };
    let (mut ends, mut count) = (*stored + *fresh, 0);
    let mut later = later.iter();
    while ends < began + length + room {
        count += 1;
        let Some((_, fresh)) = later.next() else { break };
        ends = ends + cost + *fresh - room;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_one_rebuild_a_lifetime_begun_its_cost_before_the_end() {
        let ms = Duration::from_millis;
        let began = Instant::now() + ms(500);
        let stored = |lives: &[u64]| {
            lives
                .iter()
                .map(|&life| (began - ms(500), ms(life)))
                .collect::<Vec<_>>()
        };
        // The first ends at 2.5 s, the next at 5.2 s, 8.5 s and 11.5 s.
        let lives = stored(&[3_000, 2_700, 3_300, 3_000, 3_000, 3_000]);
        let within = |length, room| least(&lives, began, ms(length), ms(200), ms(room));
        assert_eq!(
            [2_300, 2_301, 5_001, 8_301].map(|length| within(length, 200)),
            [0, 1, 2, 3]
        );
        // Begun 450 ms before the end, each ends 250 ms before: the second is due at 4.5 s.
        assert_eq!(
            [2_050, 2_051, 4_500, 4_501].map(|length| within(length, 450)),
            [0, 1, 1, 2]
        );
        assert_eq!(least(&[], began, ms(9_000), ms(200), ms(200)), 0);
    }
}
