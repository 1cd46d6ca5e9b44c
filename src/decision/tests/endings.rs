//! How a lease ends, what those parked on it get, and what the next caller gets.

use super::*;

/// What is there before the lease that ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Before {
    Nothing,
    Fresh,
    StaleOnError,
}

/// How it ends.
type End = fn(&mut Room, LeaseId);

fn stored(room: &mut Room, body: Report) {
    assert!(matches!(room.report(&body), ReportAnswer::Accepted { .. }));
}

fn value(room: &mut Room, id: LeaseId) {
    room.store(id);
}
fn external(room: &mut Room, id: LeaseId) {
    stored(room, ended(id, Outcome::Built(Content::External("".into()))));
}
fn not_found(room: &mut Room, id: LeaseId) {
    stored(room, ended(id, Outcome::Built(Content::NotFound)));
}
fn not_modified(room: &mut Room, id: LeaseId) {
    stored(room, ended(id, Outcome::NotModified));
}
fn do_not_store(room: &mut Room, id: LeaseId) {
    stored(
        room,
        Report {
            do_not_store: true,
            ..ended(id, bytes())
        },
    );
}
fn unstored_confirmation(room: &mut Room, id: LeaseId) {
    stored(
        room,
        Report {
            do_not_store: true,
            ..ended(id, Outcome::NotModified)
        },
    );
}
fn zero_lifetime(room: &mut Room, id: LeaseId) {
    // The stale windows of the same report do not keep it either.
    let lifetimes = Lifetimes {
        fresh_ttl: Some(Duration::ZERO),
        stale_if_error: Some(secs(60)),
        ..Lifetimes::default()
    };
    stored(
        room,
        Report {
            lifetimes,
            ..ended(id, bytes())
        },
    );
}
fn failure(room: &mut Room, id: LeaseId) {
    stored(room, ended(id, failed(secs(5))));
}
fn abandoned(room: &mut Room, id: LeaseId) {
    stored(room, ended(id, Outcome::Abandoned));
}
fn given_back(room: &mut Room, id: LeaseId) {
    let draft = give_back(&room.view(), id).expect("the lease is there");
    room.commit(draft, Seq::NONE);
}
fn time_over(room: &mut Room, _: LeaseId) {
    room.pass(secs(10));
}
fn longest_hold_over(room: &mut Room, id: LeaseId) {
    while room.renew(id, None) == "kept" {
        room.pass(secs(5));
    }
    assert_eq!(room.renew(id, None), "max_hold");
    room.pass(secs(10));
    assert!(room.now <= START.after(secs(400)));
}
fn key_invalidated(room: &mut Room, _: LeaseId) {
    room.invalidate(Named::Key, Mode::Expire);
}
fn tag_invalidated(room: &mut Room, _: LeaseId) {
    room.invalidate(Named::Tag("asked"), Mode::Drop);
}
fn namespace_invalidated(room: &mut Room, _: LeaseId) {
    room.invalidate(Named::Namespace, Mode::Drop);
}

/// A key with a running lease.
fn leased(before: Before) -> (Room, LeaseId) {
    let mut room = match before {
        Before::Nothing => Room::new(),
        Before::Fresh => Room::with_value(secs(10), &[]),
        Before::StaleOnError => Room::with_value(secs(200), &[]),
    };
    let question = Ask {
        intent: Intent::Force,
        tags: Some(tags(&["asked"]).into()),
        ..ask("holder")
    };
    let lease = room.grant(&question);
    room.pass(secs(1));
    (room, lease)
}

#[test]
fn each_ending_serves_the_parked_and_the_next_as_written() {
    use Before::*;
    const FAILS: &str = "rebuild takeover, stale if it fails";
    //                                                      the parked          the next
    let table: &[(Before, &str, End, &str, &str)] = &[
        (Nothing, "value", value, "hit fresh", "hit fresh"),
        (StaleOnError, "value", value, "hit fresh", "hit fresh"),
        (Nothing, "external", external, "hit fresh", "hit fresh"),
        (Nothing, "not found", not_found, "hit fresh", "hit fresh"),
        (StaleOnError, "not found", not_found, "hit fresh", "hit fresh"),
        (StaleOnError, "not modified", not_modified, "hit fresh", "hit fresh"),
        (Nothing, "do not store", do_not_store, "hit fresh", "rebuild expired"),
        (
            StaleOnError,
            "do not store",
            do_not_store,
            "hit fresh",
            "rebuild expired",
        ),
        (
            StaleOnError,
            "not modified, do not store",
            unstored_confirmation,
            "hit fresh",
            "rebuild expired",
        ),
        (Nothing, "zero lifetime", zero_lifetime, "hit fresh", "rebuild expired"),
        (
            StaleOnError,
            "zero lifetime",
            zero_lifetime,
            "hit fresh",
            "rebuild expired",
        ),
        (Nothing, "failed", failure, "backoff", "backoff"),
        (Fresh, "failed", failure, "hit fresh", "hit fresh"),
        (StaleOnError, "failed", failure, "hit stale", "hit stale"),
        (Nothing, "abandoned", abandoned, "rebuild takeover", "rebuild miss"),
        (
            StaleOnError,
            "abandoned",
            abandoned,
            FAILS,
            "rebuild stale, stale if it fails",
        ),
        (Nothing, "given back", given_back, "rebuild takeover", "rebuild miss"),
        (Nothing, "time over", time_over, "rebuild takeover", "rebuild takeover"),
        (StaleOnError, "time over", time_over, FAILS, FAILS),
        (
            Nothing,
            "longest hold over",
            longest_hold_over,
            "rebuild takeover",
            "rebuild takeover",
        ),
        (
            Nothing,
            "key invalidated",
            key_invalidated,
            "rebuild takeover",
            "rebuild invalidated",
        ),
        (
            Fresh,
            "key invalidated",
            key_invalidated,
            "rebuild takeover, stale meanwhile",
            "rebuild stale, stale meanwhile",
        ),
        (
            Nothing,
            "tag invalidated",
            tag_invalidated,
            "rebuild takeover",
            "rebuild miss",
        ),
        (
            Nothing,
            "namespace invalidated",
            namespace_invalidated,
            "rebuild takeover",
            "rebuild miss",
        ),
        (
            Fresh,
            "namespace invalidated",
            namespace_invalidated,
            "rebuild takeover",
            "rebuild invalidated",
        ),
    ];
    let mut wrong = Vec::new();
    for (before, name, end, to_parked, to_next) in table {
        let (mut room, lease) = leased(*before);
        end(&mut room, lease);
        let answers = [room.say(&parked("b", lease)), room.say(&ask("c"))];
        if answers != [*to_parked, *to_next] {
            wrong.push(format!(
                "{before:?}, {name}: {answers:?}, not {:?}",
                [to_parked, to_next]
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn of_those_parked_on_a_lost_lease_exactly_one_takes_over_and_the_others_stay() {
    let endings: [(&str, End); 7] = [
        ("abandoned", abandoned),
        ("given back", given_back),
        ("time over", time_over),
        ("longest hold over", longest_hold_over),
        ("key invalidated", key_invalidated),
        ("tag invalidated", tag_invalidated),
        ("namespace invalidated", namespace_invalidated),
    ];
    for (name, end) in endings {
        let (mut room, lease) = leased(Before::Nothing);
        end(&mut room, lease);
        let promoted = room.rebuild(&parked("b", lease));
        assert_eq!(promoted.cause, Cause::Takeover, "{name}");
        assert!(promoted.lease.token > lease.token, "{name}");
        for holder in ["c", "d"] {
            assert_eq!(room.say(&parked(holder, lease)), "wait, then busy", "{name}");
        }
        assert_eq!(room.say(&ask("e")), "wait, then busy", "{name}");
        room.store(promoted.lease);
        assert_eq!(room.say(&parked("c", lease)), "hit fresh", "{name}");
    }
}

#[test]
fn a_result_that_is_not_stored_reaches_those_that_were_parked_with_no_life_left() {
    let endings: [(&str, End); 2] = [("do not store", do_not_store), ("zero lifetime", zero_lifetime)];
    for (name, end) in endings {
        let (mut room, lease) = leased(Before::Nothing);
        end(&mut room, lease);
        room.pass(HAND_OVER - Duration::from_micros(1));
        let hit = room.hit(&parked("b", lease));
        assert_eq!(
            (hit.version, hit.fresh, hit.content),
            (lease.token, true, HitContent::Bytes),
            "{name}"
        );
        let left = [
            hit.expiry.fresh_for,
            hit.expiry.stale_for,
            hit.expiry.stale_if_error_for,
        ];
        assert_eq!(left, [Duration::ZERO; 3], "{name}");
        room.pass(Duration::from_micros(1));
        assert_eq!(room.say(&parked("b", lease)), "rebuild takeover", "{name}");
    }
}

#[test]
fn a_result_that_is_not_stored_is_handed_over_even_while_somebody_rebuilds_again() {
    let (mut room, lease) = leased(Before::Nothing);
    do_not_store(&mut room, lease);
    room.grant(&ask("next"));
    assert_eq!(room.say(&parked("b", lease)), "hit fresh, rebuilding");
    assert_eq!(room.say(&ask("c")), "wait, then busy");
}

#[test]
fn a_result_that_is_not_stored_is_not_handed_over_once_it_is_invalidated() {
    for named in [Named::Key, Named::Tag("asked"), Named::Namespace] {
        for mode in [Mode::Drop, Mode::Expire] {
            let (mut room, lease) = leased(Before::Nothing);
            do_not_store(&mut room, lease);
            room.invalidate(named, mode);
            assert_eq!(room.say(&parked("b", lease)), "rebuild takeover", "{named:?} {mode:?}");
        }
    }
}

#[test]
fn a_parked_forced_caller_is_served_by_the_rebuild_that_it_waited_for_and_no_earlier_one() {
    let (mut room, lease) = leased(Before::Fresh);
    let forced = Ask {
        intent: Intent::Force,
        ..parked("b", lease)
    };
    assert_eq!(room.say(&forced), "wait, then busy");
    value(&mut room, lease);
    assert_eq!(room.say(&forced), "hit fresh");
    assert_eq!(room.say(&ask_to(Intent::Force)), "rebuild forced, fresh meanwhile");
    // However late it comes to look.
    room.pass(secs(50));
    assert_eq!(room.say(&forced), "hit fresh");
    room.pass(secs(60));
    assert_eq!(room.say(&forced), "rebuild takeover, stale meanwhile");
}

#[test]
fn a_parked_caller_that_accepts_no_stale_value_keeps_off_after_a_failure() {
    let (mut room, lease) = leased(Before::StaleOnError);
    failure(&mut room, lease);
    let strict = Ask {
        accept_stale: false,
        ..parked("b", lease)
    };
    assert_eq!(room.say(&strict), "backoff");
}

#[test]
fn a_parked_caller_whose_newer_than_is_not_met_by_the_result_rebuilds() {
    let (mut room, lease) = leased(Before::Nothing);
    value(&mut room, lease);
    let question = Ask {
        newer_than: lease.token,
        ..parked("b", lease)
    };
    assert_eq!(room.say(&question), "rebuild takeover");
}
