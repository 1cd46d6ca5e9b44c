//! The checker, checked: a real history with a bug put into it must not pass, each promise by itself.

use std::sync::LazyLock;
use std::time::Duration;

use drover::decision::{Intent, LeaseId, Mode, Seq};

use crate::ALONE;
use crate::checker::model::{
    Accepted, Asked, End, Grant, History, Invalidated, Moment, Op, Outcome, Question, Read, Report, Target, What,
};
use crate::checker::{Promise, check};
use crate::faults::Fault;
use crate::names::{FARM, LONGEST_LEASE, MAX_WAIT, MILL, PLACES, STILL};
use crate::round::{self, Measure};

/// What clients of three replicas saw while nothing went wrong.
static RECORDED: LazyLock<History> = LazyLock::new(|| {
    let _alone = ALONE.blocking_lock();
    let measure = Measure {
        seed: 4711,
        length: Duration::from_secs(12),
        clients: 24,
        pause: Duration::from_millis(20),
        slack: Duration::from_secs(5),
        thorough: false,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let round = runtime.block_on(round::run(Fault::Nothing, measure));
    assert_eq!(round.found.count, 0, "{:#?}", round.found.violations);
    round.history
});

/// The bug is put into so many places; it counts as caught if the check of this promise finds one.
fn catches(promise: Promise, bug: impl FnOnce(&mut History) -> usize) {
    let mut history = RECORDED.clone();
    // What was recorded on a busy machine is held against the bounds of a quiet one only where a bug was put in.
    (history.terms.slack, history.terms.notice) = (1_000_000, 1_500_000);
    let places = bug(&mut history);
    assert!(places > 0, "there was no place for the bug");
    history.ops.sort_by_key(|op| op.invoked.place);
    let found = check(&history);
    let caught = found.violations.iter().any(|violation| violation.promise == promise);
    assert!(caught, "not caught, in {places} places: {:#?}", found.violations);
}

/// What may be is no violation.
fn lets_pass(change: impl FnOnce(&mut History) -> usize) {
    let mut history = RECORDED.clone();
    let places = change(&mut history);
    assert!(places > 0, "there was no place for the change");
    history.ops.sort_by_key(|op| op.invoked.place);
    let found = check(&history);
    assert_eq!(found.count, 0, "{:#?}", found.violations);
}

fn change(history: &mut History, mut change: impl FnMut(&mut Op) -> bool) -> usize {
    history.ops.iter_mut().map(|op| usize::from(change(op))).sum()
}

/// So long after everything else, in microseconds.
fn afterwards(history: &History, micros: u64) -> Moment {
    let last = history.ops.iter().map(|op| op.ended.at).max().unwrap_or_default();
    let at = last + 60_000_000 + micros;
    Moment { place: at * 1_000, at }
}

fn happened(asked: Asked, end: End, invoked: Moment, ended: Moment) -> Op {
    Op {
        client: 0,
        replica: 0,
        asked,
        invoked,
        ended,
        end,
        degraded: false,
        until: ended,
    }
}

fn question(key: u32, wait: u64) -> Asked {
    Asked::Acquire(Question {
        key,
        intent: Intent::Use,
        wait,
        newer_than: 0,
        request: 0,
        tags: Box::default(),
    })
}

fn grant(token: u64, from: Moment, ttl: u64) -> End {
    End::Granted(Grant {
        lease: lease(token),
        sure_until: from.at + ttl,
        over_by: from.at + ttl,
        fallback: None,
    })
}

fn lease(token: u64) -> LeaseId {
    LeaseId {
        token: Seq(token),
        secret: std::num::NonZeroU64::MIN,
    }
}

/// More than any number that was given out.
const NEXT: u64 = 1 << 52;

fn a_still_key() -> u32 {
    let namespaces = RECORDED.keys.iter();
    namespaces.take_while(|namespace| **namespace != STILL).count() as u32
}

#[test]
fn two_holders_are_caught() {
    catches(Promise::Exclusive, |history| {
        let granted = history.ops.iter().filter(|op| op.granted().is_some());
        let second = granted.map(|op| {
            let at = |micros: u64| Moment {
                place: op.ended.place + micros * 1_000,
                at: op.ended.at + micros,
            };
            let token = op.granted().map_or(0, |grant| grant.lease.token.0) + 1;
            happened(op.asked.clone(), grant(token, at(1), LONGEST_LEASE), at(1), at(2))
        });
        let second: Vec<Op> = second.collect();
        let places = second.len();
        history.ops.extend(second);
        places
    });
}

#[test]
fn one_number_a_client_is_caught() {
    catches(Promise::Tokens, |history| {
        change(history, |op| match &mut op.end {
            End::Granted(grant) => {
                grant.lease.token = Seq(NEXT + u64::from(op.client));
                true
            }
            _ => false,
        })
    });
}

#[test]
fn a_counter_that_restarts_is_caught() {
    catches(Promise::Tokens, |history| {
        let middle = history.ops[history.ops.len() / 2].invoked.at;
        change(history, |op| match &mut op.end {
            End::Granted(grant) if op.invoked.at > middle => {
                grant.lease.token.0 -= 1_000_000_000;
                true
            }
            _ => false,
        })
    });
}

#[test]
fn a_late_report_that_is_accepted_is_caught() {
    let key = a_still_key();
    let at = |micros| afterwards(&RECORDED, micros);
    let reported = Asked::Report(Report {
        key,
        lease: lease(NEXT),
        outcome: Outcome::Built,
        tags: Box::default(),
    });
    let accepted = End::Accepted(Accepted {
        version: NEXT,
        fresh_for: None,
        left_alone_for: None,
        stale_for: 0,
    });
    let first = happened(question(key, 0), grant(NEXT, at(0), 1_000), at(0), at(1));
    let newer = happened(
        question(key, 0),
        grant(NEXT + 1, at(2_000), 1_000),
        at(2_000),
        at(2_001),
    );
    let gone = happened(
        Asked::Invalidate {
            targets: [Target::Key(key)].into(),
            mode: Mode::Expire,
        },
        End::Invalidated(Invalidated {
            numbers: [NEXT + 1].into(),
            confirmed: false,
        }),
        at(500),
        at(501),
    );
    let late = happened(reported, accepted, at(3_000), at(3_001));
    for between in [newer, gone] {
        catches(Promise::NoLateReport, |history| {
            history.ops.extend([first.clone(), between, late.clone()]);
            1
        });
    }
}

#[test]
fn a_value_that_was_refused_and_is_served_is_caught() {
    catches(Promise::NoLateReport, |history| {
        let refused = history.ops.iter().filter(|op| matches!(op.end, End::Refused(_)));
        let refused: Vec<(u32, u64)> = refused
            .filter_map(|op| op.report().map(|report| (report.key, report.lease.token.0)))
            .collect();
        change(history, |op| {
            let key = op.key();
            let End::Hit(hit) = &mut op.end else { return false };
            let other = refused.iter().find(|(other, _)| Some(*other) == key);
            if let Some((_, token)) = other {
                (hit.version, hit.named) = (*token, Some(*token));
            }
            other.is_some()
        })
    });
}

#[test]
fn a_release_by_name_is_caught() {
    catches(Promise::OwnerOnly, |history| {
        change(history, |op| {
            let accepted = op.accepted().is_some();
            if let (true, Asked::Report(report)) = (accepted, &mut op.asked) {
                report.lease.secret = std::num::NonZeroU64::MIN;
            }
            accepted
        })
    });
}

#[test]
fn a_lease_that_revives_is_caught() {
    catches(Promise::OwnerOnly, |history| {
        change(history, |op| {
            let was_lost = matches!(op.end, End::Lost("superseded" | "reported"));
            if was_lost {
                op.end = End::Renewed(1_000_000);
            }
            was_lost
        })
    });
    catches(Promise::OwnerOnly, |history| {
        let key = a_still_key();
        let at = |micros| afterwards(history, micros);
        let renew = Asked::Renew {
            key,
            lease: lease(NEXT),
        };
        let scene = [
            happened(question(key, 0), grant(NEXT, at(0), 1_000_000), at(0), at(1)),
            happened(renew, End::Renewed(1_000_000), at(1_500_000), at(1_500_001)),
        ];
        history.ops.extend(scene);
        1
    });
}

#[test]
fn versions_that_go_down_are_caught() {
    catches(Promise::Versions, |history| {
        let mut first = std::collections::HashMap::new();
        change(history, |op| {
            let Some(key) = op.key() else { return false };
            let End::Hit(hit) = &mut op.end else { return false };
            let older = *first.entry(key).or_insert(hit.version);
            (hit.version, hit.named) = (older, Some(older));
            true
        })
    });
}

#[test]
fn bytes_of_another_version_are_caught() {
    catches(Promise::Versions, |history| {
        change(history, |op| match &mut op.end {
            End::Hit(hit) if hit.named.is_some() => {
                hit.named = Some(hit.version + 1);
                true
            }
            _ => false,
        })
    });
}

/// The invalidations of one key each, with the last version that was read before.
fn read_before(history: &History, counts: impl Fn(&Op) -> bool) -> Vec<(u32, Moment, u64)> {
    let mut last = std::collections::HashMap::new();
    let mut found = Vec::new();
    for op in &history.ops {
        if let (Some(key), Some(hit)) = (op.key(), op.hit()) {
            last.insert(key, hit.version);
        }
        if let Some((targets, _, done)) = op.invalidated().filter(|_| counts(op)) {
            for (target, number) in targets.iter().zip(&done.numbers) {
                if let Target::Key(key) = target
                    && let Some(version) = last.get(key).filter(|version| *version < number)
                {
                    found.push((*key, op.ended, *version));
                }
            }
        }
    }
    found
}

#[test]
fn what_is_served_after_an_invalidation_is_caught() {
    for fresh in [true, false] {
        catches(Promise::InvalidateWins, |history| {
            let hard = |op: &Op| matches!(&op.asked, Asked::Invalidate { mode: Mode::Drop, .. });
            let gone = read_before(history, hard);
            change(history, |op| {
                let (key, invoked) = (op.key(), op.invoked);
                let End::Hit(hit) = &mut op.end else { return false };
                let older = gone
                    .iter()
                    .find(|(other, answered, _)| Some(*other) == key && *answered < invoked);
                if let Some((_, _, version)) = older {
                    (hit.version, hit.fresh) = (*version, fresh);
                }
                older.is_some()
            })
        });
    }
}

#[test]
fn a_rebuild_of_something_fresh_is_caught() {
    catches(Promise::BoundedRebuilds, |history| {
        let mut token = NEXT;
        let namespaces = history.keys.clone();
        change(history, |op| {
            let still = op
                .question()
                .is_some_and(|asked| asked.intent == Intent::Use && namespaces[asked.key as usize] == STILL);
            let fresh = still && matches!(&op.end, End::Hit(hit) if hit.fresh);
            if fresh {
                token += 1;
                op.end = grant(token, op.ended, 1_000_000);
            }
            fresh
        })
    });
}

#[test]
fn values_that_outlive_their_time_are_caught() {
    catches(Promise::Lifetimes, |history| {
        let late = afterwards(history, 0);
        let end = afterwards(history, 1);
        let read: Vec<Op> = history
            .ops
            .iter()
            .filter(|op| matches!(op.end, End::Hit(_)))
            .cloned()
            .collect();
        history.ops.extend(read.iter().map(|op| Op {
            invoked: late,
            ended: end,
            until: end,
            ..op.clone()
        }));
        read.len()
    });
}

#[test]
fn a_wait_that_does_not_end_is_caught() {
    catches(Promise::NoStuckKey, |history| {
        change(history, |op| {
            let waits = op.question().is_some() && !op.is_unknown();
            if waits {
                op.ended.at += 2 * MAX_WAIT;
                op.ended.place += 2 * MAX_WAIT * 1_000;
            }
            waits
        })
    });
}

#[test]
fn a_waiter_that_is_never_woken_is_caught() {
    // By a value…
    catches(Promise::NoMissedWake, |history| {
        let key = a_still_key();
        let at = |micros| afterwards(history, micros);
        let reported = Asked::Report(Report {
            key,
            lease: lease(NEXT),
            outcome: Outcome::Built,
            tags: Box::default(),
        });
        let accepted = End::Accepted(Accepted {
            version: NEXT,
            fresh_for: Some(300_000_000),
            left_alone_for: Some(300_000_000),
            stale_for: 400_000_000,
        });
        let scene = [
            happened(question(key, 0), grant(NEXT, at(0), 5_000_000), at(0), at(1)),
            happened(question(key, MAX_WAIT), End::Busy, at(100), at(MAX_WAIT)),
            happened(reported, accepted, at(2_000_000), at(2_000_001)),
        ];
        history.ops.extend(scene);
        1
    });
    // …and by the end of a lease whose holder says nothing.
    catches(Promise::NoMissedWake, |history| {
        let key = a_still_key();
        let at = |micros| afterwards(history, micros);
        let scene = [
            happened(question(key, 0), grant(NEXT, at(0), 500_000), at(0), at(1)),
            happened(question(key, MAX_WAIT), End::Busy, at(100), at(MAX_WAIT)),
        ];
        history.ops.extend(scene);
        1
    });
}

#[test]
fn a_silent_gap_in_a_stream_is_caught() {
    catches(Promise::Watch, |history| {
        let mut nth = 0;
        for watcher in &mut history.watchers {
            watcher.told.retain(|told| {
                nth += usize::from(matches!(told.what, What::Invalidated { .. }));
                !matches!(told.what, What::Invalidated { .. }) || nth % 3 != 0
            });
        }
        nth / 3
    });
}

#[test]
fn a_stream_out_of_order_is_caught() {
    catches(Promise::Watch, |history| {
        let mut swapped = 0;
        for watcher in &mut history.watchers {
            let mut last = std::collections::HashMap::new();
            for at in 0..watcher.told.len() {
                let What::Invalidated { targets, version, .. } = &mut watcher.told[at].what else {
                    continue;
                };
                let [target @ Target::Key(_)] = targets[..] else {
                    continue;
                };
                let later = *version;
                if let Some(earlier) = last.insert(target, (at, later)) {
                    *version = earlier.1;
                    if let What::Invalidated { version, .. } = &mut watcher.told[earlier.0].what {
                        *version = later;
                    }
                    swapped += 1;
                }
            }
        }
        swapped
    });
}

#[test]
fn a_new_value_that_nobody_reported_is_caught() {
    catches(Promise::Watch, |history| {
        let told = history.watchers.iter_mut().flat_map(|watcher| &mut watcher.told);
        let mut places = 0;
        for told in told {
            if let What::Refreshed { version, .. } = &mut told.what {
                *version += 1;
                places += 1;
            }
        }
        places
    });
}

#[test]
fn a_copy_that_is_served_after_all_are_said_to_have_obeyed_is_caught() {
    catches(Promise::LocalCopies, |history| {
        change(history, |op| match &mut op.end {
            End::Invalidated(done) => {
                done.confirmed = true;
                true
            }
            _ => false,
        });
        let gone = read_before(history, |_| true);
        let reads = gone.iter().map(|(key, answered, version)| Read {
            moment: Moment {
                place: answered.place + 1,
                at: answered.at,
            },
            key: *key,
            version: *version,
            tags: Box::default(),
        });
        history.watchers[0].reads.extend(reads);
        gone.len()
    });
}

#[test]
fn a_copy_that_is_served_after_the_longest_silence_is_caught() {
    catches(Promise::LocalCopies, |history| {
        let unconfirmed = |op: &Op| op.invalidated().is_some_and(|(_, _, done)| !done.confirmed);
        let gone = read_before(history, unconfirmed);
        let moment = afterwards(history, 0);
        let last = happened(question(a_still_key(), 0), End::Busy, moment, moment);
        let reads = gone.iter().map(|(key, _, version)| Read {
            moment,
            key: *key,
            version: *version,
            tags: Box::default(),
        });
        history.watchers[0].reads.extend(reads);
        history.ops.push(last);
        gone.len()
    });
}

#[test]
fn a_copy_of_what_is_gone_at_rest_is_caught() {
    catches(Promise::LocalCopies, |history| {
        let gone = read_before(history, |_| true);
        let Some((rest, held)) = &mut history.watchers[0].rest else {
            return 0;
        };
        held.extend(gone.iter().map(|(key, _, version)| Read {
            moment: *rest,
            key: *key,
            version: *version,
            tags: Box::default(),
        }));
        gone.len()
    });
}

#[test]
fn reports_and_renewals_of_unknown_fate_are_no_violation() {
    lets_pass(|history| {
        let mut nth = 0;
        change(history, |op| {
            let changes = matches!(op.end, End::Accepted(_) | End::Renewed(_));
            nth += usize::from(changes);
            if changes && nth.is_multiple_of(3) {
                op.end = End::Unknown("connection");
                op.until = Moment {
                    place: op.ended.place + 3_000_000_000,
                    at: op.ended.at + 3_000_000,
                };
            }
            changes && nth.is_multiple_of(3)
        })
    });
}

/// A worker was given a key, a while after everything else, and has it for a second; it says nothing.
fn task(history: &History, key: u32, number: u64, micros: u64) -> Op {
    let (from, heard) = (afterwards(history, micros), afterwards(history, micros + 2_000));
    let pulled = Asked::Acquire(Question::pull(key));
    happened(pulled, grant(NEXT + number, from, 1_000_000), from, heard)
}

fn key_of(namespace: u16, number: u32) -> u32 {
    let namespaces = RECORDED.keys.iter();
    namespaces.take_while(|other| **other != namespace).count() as u32 + number
}

#[test]
fn two_workers_with_one_key_are_caught() {
    let key = key_of(FARM, 0);
    catches(Promise::Exclusive, |history| {
        let tasks = [task(history, key, 0, 0), task(history, key, 1, 500_000)];
        history.ops.extend(tasks);
        1
    });
    // Nor does somebody else have it as long as a late report is accepted.
    catches(Promise::Exclusive, |history| {
        let reported = Asked::Report(Report {
            key,
            lease: lease(NEXT),
            outcome: Outcome::Built,
            tags: Box::default(),
        });
        let accepted = End::Accepted(Accepted {
            version: NEXT,
            fresh_for: Some(1),
            left_alone_for: Some(1),
            stale_for: 1,
        });
        let at = |micros| afterwards(history, micros);
        let reported = happened(reported, accepted, at(2_500_000), at(2_501_000));
        let scene = [task(history, key, 0, 0), task(history, key, 1, 1_500_000), reported];
        history.ops.extend(scene);
        1
    });
    lets_pass(|history| {
        let tasks = [task(history, key, 0, 0), task(history, key, 1, 1_500_000)];
        history.ops.extend(tasks);
        1
    });
}

#[test]
fn more_holders_than_places_are_caught() {
    let at_once = |history: &mut History, holders: u32| {
        let has = |number: u32| task(history, key_of(MILL, number), number.into(), u64::from(number) * 10_000);
        let tasks: Vec<Op> = (0..holders).map(has).collect();
        history.ops.extend(tasks);
        1
    };
    catches(Promise::Budget, |history| at_once(history, PLACES + 1));
    lets_pass(|history| at_once(history, PLACES));
    // A caller among them.
    catches(Promise::Budget, |history| {
        let at = |micros| afterwards(history, micros);
        let asked = question(key_of(MILL, PLACES), 0);
        let granted = grant(NEXT + 10, at(500_000), 1_000_000);
        let caller = happened(asked, granted, at(500_000), at(500_001));
        let places = at_once(history, PLACES);
        history.ops.push(caller);
        places
    });
}

#[test]
fn a_place_that_stays_empty_is_caught() {
    /// More than any bound.
    const LONG: u64 = 30_000_000;
    let waits = |history: &mut History, holders: u32| {
        let at = |micros| afterwards(history, micros);
        let has = |number: u32| {
            let (key, token) = (key_of(MILL, number), NEXT + u64::from(number));
            let has = grant(token, at(0), 2 * LONG);
            happened(question(key, 0), has, at(0), at(1))
        };
        let mut scene: Vec<Op> = (0..holders).map(has).collect();
        let asked = question(key_of(MILL, PLACES), LONG);
        scene.push(happened(asked, End::Busy, at(10_000), at(LONG)));
        history.ops.extend(scene);
        1
    };
    catches(Promise::NoMissedWake, |history| waits(history, PLACES - 1));
    lets_pass(|history| waits(history, PLACES));
}
