//! The decision table of the contract, row by row and intent by intent.

use super::*;

/// What is known of the key, for this caller.
#[derive(Clone, Copy, Debug)]
enum State {
    Fresh,
    Stale,
    StaleOnError,
    Missing,
    Expired,
    DroppedByKey,
    DroppedByTag,
    DroppedByNamespace,
    NewerThan,
    StaleNotAccepted,
    StaleOnErrorNotAccepted,
}

/// What stands in the way of a grant.
#[derive(Clone, Copy, Debug)]
enum Lock {
    Nobody,
    Somebody,
    BackOff,
}

fn room_in(state: State, lock: Lock) -> Room {
    let mut room = match state {
        State::Missing => Room::new(),
        State::Fresh | State::NewerThan => Room::with_value(secs(10), &[]),
        State::Stale | State::StaleNotAccepted => Room::with_value(secs(120), &[]),
        State::StaleOnError | State::StaleOnErrorNotAccepted => Room::with_value(secs(200), &[]),
        State::Expired => Room::with_value(secs(301), &[]),
        State::DroppedByKey | State::DroppedByTag | State::DroppedByNamespace => Room::with_value(secs(10), &["t"]),
    };
    match state {
        State::DroppedByKey => _ = room.invalidate(Named::Key, Mode::Drop),
        State::DroppedByTag => _ = room.invalidate(Named::Tag("t"), Mode::Drop),
        State::DroppedByNamespace => _ = room.invalidate(Named::Namespace, Mode::Drop),
        _ => {}
    }
    if !matches!(lock, Lock::Nobody) {
        let lease = room.grant(&Ask {
            intent: Intent::Force,
            ..ask("holder")
        });
        if matches!(lock, Lock::BackOff) {
            room.report(&ended(lease, failed(secs(5))));
        }
        room.pass(secs(1));
    }
    room
}

fn question(state: State, intent: Intent, room: &Room) -> Ask {
    let version = room.entry.value.as_ref().map_or(Seq::NONE, |value| value.version);
    Ask {
        accept_stale: !matches!(state, State::StaleNotAccepted | State::StaleOnErrorNotAccepted),
        newer_than: if matches!(state, State::NewerThan) {
            version
        } else {
            Seq::NONE
        },
        ..ask_to(intent)
    }
}

#[test]
fn each_row_of_the_table_answers_each_intent_as_written() {
    use Lock::*;
    use State::*;
    const BUSY: &str = "wait, then busy";
    const HIT: &str = "hit fresh";
    const SERVED: &str = "hit fresh, rebuilding";
    const OLD: &str = "hit stale";
    const OLD_SERVED: &str = "hit stale, rebuilding";
    const OLD_LATER: &str = "wait, then hit stale, rebuilding";
    const MEANWHILE: &str = "rebuild stale, stale meanwhile";
    const ON_FAILURE: &str = "rebuild stale, stale if it fails";
    const EARLY: &str = "rebuild early, fresh meanwhile";
    const FORCED: &str = "rebuild forced, fresh meanwhile";
    //                                use            early          force          read
    let table: &[(State, Lock, [&str; 4])] = &[
        (Fresh, Nobody, [HIT, EARLY, FORCED, HIT]),
        (Fresh, Somebody, [SERVED, SERVED, BUSY, SERVED]),
        (Fresh, BackOff, [HIT, HIT, HIT, HIT]),
        (Stale, Nobody, [MEANWHILE, MEANWHILE, MEANWHILE, OLD]),
        (Stale, Somebody, [OLD_SERVED, OLD_SERVED, OLD_LATER, OLD_SERVED]),
        (Stale, BackOff, [OLD, OLD, OLD, OLD]),
        (StaleOnError, Nobody, [ON_FAILURE, ON_FAILURE, ON_FAILURE, OLD]),
        (StaleOnError, Somebody, [OLD_LATER; 4]),
        (StaleOnError, BackOff, [OLD; 4]),
        (
            Missing,
            Nobody,
            ["rebuild miss", "rebuild miss", "rebuild miss", "miss"],
        ),
        (Missing, Somebody, [BUSY; 4]),
        (Missing, BackOff, ["backoff"; 4]),
        (
            Expired,
            Nobody,
            ["rebuild expired", "rebuild expired", "rebuild expired", "miss"],
        ),
        (Expired, Somebody, [BUSY; 4]),
        (Expired, BackOff, ["backoff"; 4]),
        (
            DroppedByKey,
            Nobody,
            [
                "rebuild invalidated",
                "rebuild invalidated",
                "rebuild invalidated",
                "miss",
            ],
        ),
        (DroppedByKey, Somebody, [BUSY; 4]),
        (DroppedByKey, BackOff, ["backoff"; 4]),
        (
            DroppedByTag,
            Nobody,
            [
                "rebuild invalidated",
                "rebuild invalidated",
                "rebuild invalidated",
                "miss",
            ],
        ),
        (DroppedByTag, Somebody, [BUSY; 4]),
        (DroppedByTag, BackOff, ["backoff"; 4]),
        (
            DroppedByNamespace,
            Nobody,
            [
                "rebuild invalidated",
                "rebuild invalidated",
                "rebuild invalidated",
                "miss",
            ],
        ),
        (DroppedByNamespace, Somebody, [BUSY; 4]),
        (DroppedByNamespace, BackOff, ["backoff"; 4]),
        (
            NewerThan,
            Nobody,
            ["rebuild lost", "rebuild lost", "rebuild lost", "miss"],
        ),
        (NewerThan, Somebody, [BUSY; 4]),
        (NewerThan, BackOff, ["backoff"; 4]),
        (
            StaleNotAccepted,
            Nobody,
            ["rebuild stale", "rebuild stale", "rebuild stale", "miss"],
        ),
        (StaleNotAccepted, Somebody, [BUSY; 4]),
        (StaleNotAccepted, BackOff, ["backoff"; 4]),
        (
            StaleOnErrorNotAccepted,
            Nobody,
            ["rebuild stale", "rebuild stale", "rebuild stale", "miss"],
        ),
        (StaleOnErrorNotAccepted, Somebody, [BUSY; 4]),
        (StaleOnErrorNotAccepted, BackOff, ["backoff"; 4]),
    ];
    let mut wrong = Vec::new();
    for (state, lock, answers) in table {
        let intents = [Intent::Use, Intent::Early, Intent::Force, Intent::Read];
        for (intent, expected) in intents.into_iter().zip(answers) {
            let mut room = room_in(*state, *lock);
            let question = question(*state, intent, &room);
            let answer = room.say(&question);
            if answer != *expected {
                wrong.push(format!("{state:?} {lock:?} {intent:?}: {answer}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_band_begins_at_its_first_microsecond_and_ends_before_the_next() {
    let micro = Duration::from_micros(1);
    let table = [
        (secs(100) - micro, "hit fresh"),
        (secs(100), "rebuild stale, stale meanwhile"),
        (secs(150) - micro, "rebuild stale, stale meanwhile"),
        (secs(150), "rebuild stale, stale if it fails"),
        (secs(300) - micro, "rebuild stale, stale if it fails"),
        (secs(300), "rebuild expired"),
    ];
    for (age, expected) in table {
        assert_eq!(Room::with_value(age, &[]).say(&ask("b")), expected, "{age:?}");
    }
}

#[test]
fn stale_while_revalidate_may_be_the_longer_window() {
    for (age, expected) in [
        (secs(149), "rebuild stale, stale meanwhile"),
        (secs(399), "rebuild stale, stale meanwhile"),
        (secs(400), "rebuild expired"),
    ] {
        let mut room = Room::new();
        room.policy.stale_while_revalidate = secs(300);
        let lease = room.grant(&ask("a"));
        room.store(lease);
        room.pass(age);
        assert_eq!(room.say(&ask("b")), expected, "{age:?}");
    }
}

#[test]
fn newer_than_is_met_only_by_a_higher_version() {
    let mut room = Room::with_value(secs(1), &[]);
    let version = room.hit(&ask("b")).version;
    for (newer_than, expected) in [
        (Seq(version.0 - 1), "hit fresh"),
        (version, "rebuild lost"),
        (Seq(version.0 + 1), "rebuild lost"),
    ] {
        let question = Ask { newer_than, ..ask("b") };
        assert_eq!(room.say(&question), expected, "{newer_than:?}");
    }
}

#[test]
fn a_wait_is_on_the_live_grant_and_ends_with_its_time() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.pass(secs(4));
    let Decision::Wait(wait) = room.decide(&ask("b")) else {
        panic!("not parked");
    };
    assert_eq!((wait.on, wait.until), (lease.token, START.after(secs(10))));
    let Answer::Busy(busy) = wait.when_over else {
        panic!("not busy: {:?}", wait.when_over);
    };
    assert_eq!((busy.lease_remaining, busy.cause), (secs(6), BusyCause::WaitElapsed));
    assert!(busy.retry_after > Duration::ZERO && busy.retry_after <= secs(6).mul_f64(1.1));
}

#[test]
fn a_lease_is_as_long_as_asked_within_what_the_policy_allows() {
    for (asked, length) in [
        (None, secs(10)),
        (Some(Duration::ZERO), SHORTEST_LEASE),
        (Some(millis(99)), SHORTEST_LEASE),
        (Some(secs(45)), secs(45)),
        (Some(secs(61)), secs(60)),
        (Some(LONGEST), secs(60)),
    ] {
        let rebuild = Room::new().rebuild(&Ask {
            lease_ttl: asked,
            ..ask("a")
        });
        assert_eq!((rebuild.ttl, rebuild.max_hold), (length, secs(60)), "{asked:?}");
    }
}

#[test]
fn a_grant_exceeds_the_highest_token_that_the_caller_s_own_store_has_seen() {
    let mut room = Room::new();
    let seen = START.after(secs(3600));
    let question = Ask {
        min_token: Seq(seen.0),
        ..ask("a")
    };
    assert_eq!(question.too_far_ahead(room.now), None);
    assert_eq!(room.grant(&question).token, Seq(seen.0 + 1));
    for (ahead, too_far) in [(TOKEN_AHEAD, false), (TOKEN_AHEAD + Duration::from_micros(1), true)] {
        let question = Ask {
            min_token: Seq(START.after(ahead).0),
            ..ask("a")
        };
        assert_eq!(question.too_far_ahead(START).is_some(), too_far, "{ahead:?}");
    }
}
