//! What a caller gets that the table would grant the lease, where the namespace's budget is used up or its circuit open.
//!
//! Both are like "no grant allowed": what there is is served, fresh or inside either stale window, whatever the caller insists on. Only
//! who has nothing is treated differently: without a place it waits, in line; while the circuit is open it is told to keep off.

use std::sync::Arc;
use std::time::Duration;

use super::{Answer, Busy, BusyCause, Decision, Draw, Grant, Hit, KeepOff, LONGEST, Seq, StoreTime, Wait, fan};

/// A busy caller is not told to come back sooner.
const SOONEST: Duration = Duration::from_millis(100);
/// What is said where the key itself has not failed.
const CIRCUIT: &str = "too many rebuilds of this namespace fail";

/// There is no place for the rebuild. Who is to wait stands in [line](super::Line) meanwhile, and is served by whoever rebuilds first.
pub fn without_place(grant: Grant, draw: Draw) -> Decision {
    match served(&grant) {
        Some(hit) => Decision::Answer(Answer::Hit(hit)),
        None => Decision::Wait(Wait {
            on: Seq::NONE,
            until: StoreTime::NEVER,
            when_over: Answer::Busy(Busy {
                retry_after: fan(grant.draft.cost.length().max(SOONEST), draw).min(LONGEST),
                lease_remaining: Duration::ZERO,
                cause: BusyCause::RebuildBudget,
            }),
        }),
    }
}

/// The circuit is open, for so long.
pub fn circuit_open(grant: Grant, pause: Duration, draw: Draw) -> Answer {
    match served(&grant) {
        Some(hit) => Answer::Hit(hit),
        None => {
            let trouble = grant.draft.trouble.as_deref();
            Answer::KeepOff(KeepOff {
                retry_after: fan(pause, draw).min(LONGEST),
                failures: trouble.map_or(0, |trouble| trouble.failures),
                message: trouble.map_or_else(|| Arc::from(CIRCUIT), |trouble| trouble.message.clone()),
                circuit_open: true,
            })
        }
    }
}

/// What keeps callers off a key: its `own` failures, its namespace's circuit where that is open for so long, or both.
pub fn kept_off(own: Option<KeepOff>, circuit: Option<Duration>, draw: Draw) -> Option<KeepOff> {
    let Some(pause) = circuit else {
        return own.map(|own| KeepOff {
            circuit_open: false,
            ..own
        });
    };
    let pause = fan(pause, draw).min(LONGEST);
    Some(KeepOff {
        retry_after: own.as_ref().map_or(pause, |own| own.retry_after.max(pause)),
        failures: own.as_ref().map_or(0, |own| own.failures),
        message: own.map_or_else(|| Arc::from(CIRCUIT), |own| own.message),
        circuit_open: true,
    })
}

/// What the grant would have served meanwhile; nobody rebuilds it now.
fn served(grant: &Grant) -> Option<Hit> {
    grant.fallback.clone().map(|hit| Hit {
        rebuilding: false,
        ..hit
    })
}
