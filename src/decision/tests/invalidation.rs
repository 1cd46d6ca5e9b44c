//! Hard and soft invalidations of keys, tags and namespaces, and origins that lag.

use super::*;

const EVERYTHING: [Named; 3] = [Named::Key, Named::Tag("t"), Named::Namespace];

/// When a value's stale windows end, told by a caller that only reads.
fn ends(room: &mut Room) -> (StoreTime, StoreTime, StoreTime) {
    let expiry = room.hit(&ask_to(Intent::Read)).expiry;
    let at = |left| room.now.after(left);
    (
        at(expiry.fresh_for),
        at(expiry.stale_for),
        at(expiry.stale_if_error_for),
    )
}

#[test]
fn a_hard_invalidation_leaves_no_path_to_the_old_value() {
    for named in EVERYTHING {
        for intent in [Intent::Use, Intent::Early, Intent::Force, Intent::Read] {
            let mut room = Room::with_value(secs(10), &["t"]);
            room.invalidate(named, Mode::Drop);
            let decision = room.decide(&ask_to(intent));
            let fallback = match &decision {
                Decision::Answer(answer) => answer.hit().is_some(),
                Decision::Grant(grant) => grant.fallback.is_some(),
                Decision::Wait(wait) => wait.when_over.hit().is_some(),
            };
            assert!(!fallback, "{named:?} {intent:?}: {}", said(&decision));
        }
    }
}

#[test]
fn a_hard_invalidation_of_a_key_takes_the_bytes_and_a_soft_one_leaves_them() {
    for (mode, body) in [(Mode::Drop, Body::Clear), (Mode::Expire, Body::Keep)] {
        let room = Room::with_value(secs(10), &[]);
        let done = invalidate(&room.view(), mode, Duration::ZERO, &room.policy);
        assert_eq!(done.body, body, "{mode:?}");
    }
    // Nothing usable is left to keep.
    let mut room = Room::with_value(secs(10), &["t"]);
    room.invalidate(Named::Tag("t"), Mode::Drop);
    let done = invalidate(&room.view(), Mode::Expire, Duration::ZERO, &room.policy);
    assert_eq!(done.body, Body::Clear);
    assert!(done.draft.is_some_and(|draft| draft.value.is_none()));
}

#[test]
fn soft_invalidation_ends_freshness_now_and_the_windows_start_there() {
    for named in EVERYTHING {
        let mut room = Room::with_value(secs(10), &["t"]);
        room.invalidate(named, Mode::Expire);
        assert_eq!(room.say(&ask("b")), "rebuild stale, stale meanwhile", "{named:?}");
        let now = room.now;
        room.pass(secs(1));
        let expected = (room.now, now.after(secs(50)), now.after(secs(200)));
        assert_eq!(ends(&mut room), expected, "{named:?}");
        room.pass(secs(49));
        assert_eq!(room.say(&ask("b")), "rebuild stale, stale if it fails", "{named:?}");
        room.pass(secs(150));
        assert_eq!(room.say(&ask("b")), "rebuild invalidated", "{named:?}");
    }
}

#[test]
fn soft_invalidation_of_a_value_that_is_stale_already_moves_nothing() {
    for named in EVERYTHING {
        let mut room = Room::with_value(secs(120), &["t"]);
        let before = ends(&mut room);
        room.invalidate(named, Mode::Expire);
        assert_eq!(ends(&mut room), before, "{named:?}");
    }
}

#[test]
fn repeating_soft_invalidations_of_any_kind_never_prolongs() {
    for first in EVERYTHING {
        for second in EVERYTHING {
            let mut room = Room::with_value(secs(10), &["t"]);
            room.invalidate(first, Mode::Expire);
            room.pass(secs(20));
            let before = ends(&mut room);
            room.invalidate(second, Mode::Expire);
            assert_eq!(ends(&mut room), before, "{first:?}, then {second:?}");
            room.pass(secs(5));
            let (fresh, stale, on_error) = ends(&mut room);
            assert_eq!(
                (fresh, stale, on_error),
                (room.now, before.1, before.2),
                "{first:?}, then {second:?}"
            );
        }
    }
}

#[test]
fn soft_after_hard_does_not_bring_the_value_back() {
    for hard in EVERYTHING {
        for soft in EVERYTHING {
            let mut room = Room::with_value(secs(10), &["t"]);
            room.invalidate(hard, Mode::Drop);
            room.invalidate(soft, Mode::Expire);
            assert_eq!(room.say(&ask("b")), "rebuild invalidated", "{hard:?}, then {soft:?}");
        }
    }
}

#[test]
fn an_invalidation_ends_the_running_lease_whatever_its_mode() {
    for named in EVERYTHING {
        for mode in [Mode::Drop, Mode::Expire] {
            let mut room = Room::with_value(secs(10), &["t"]);
            let lease = room.grant(&ask_to(Intent::Force));
            room.invalidate(named, mode);
            let answer = room.say(&parked("b", lease));
            assert!(answer.starts_with("rebuild takeover"), "{named:?} {mode:?}: {answer}");
        }
    }
}

#[test]
fn a_value_built_after_an_invalidation_is_untouched_by_it() {
    for named in EVERYTHING {
        for mode in [Mode::Drop, Mode::Expire] {
            let mut room = Room::with_value(secs(10), &["t"]);
            room.invalidate(named, mode);
            let lease = room.grant(&Ask {
                tags: Some(tags(&["t"]).into()),
                ..ask("a")
            });
            room.store(lease);
            assert_eq!(room.say(&ask("b")), "hit fresh", "{named:?} {mode:?}");
            assert_eq!(room.hit(&ask("b")).expiry.fresh_for, secs(100));
        }
    }
}

#[test]
fn a_clock_that_is_set_back_makes_nothing_fresh_again() {
    for named in EVERYTHING {
        let mut room = Room::with_value(secs(10), &["t"]);
        room.invalidate(named, Mode::Expire);
        room.now = START.after(secs(2));
        let hit = room.hit(&ask_to(Intent::Read));
        assert!(!hit.fresh && hit.expiry.fresh_for.is_zero(), "{named:?}: {hit:?}");
    }
}

#[test]
fn an_unknown_key_is_remembered_only_if_its_origin_lags() {
    let room = Room::new();
    assert!(
        invalidate(&room.view(), Mode::Drop, Duration::ZERO, &room.policy)
            .draft
            .is_none()
    );
    assert!(
        invalidate(&room.view(), Mode::Drop, secs(1), &room.policy)
            .draft
            .is_some()
    );
}

#[test]
fn what_is_built_while_the_origin_lags_is_fresh_at_most_until_it_has_caught_up() {
    for named in EVERYTHING {
        for mode in [Mode::Drop, Mode::Expire] {
            for (granted_after, fresh_until) in [(secs(0), secs(20)), (secs(19), secs(20)), (secs(20), secs(125))] {
                let mut room = Room::with_value(secs(10), &["t"]);
                room.invalidate_settling(named, mode, secs(20));
                let invalidated = room.now;
                room.pass(granted_after);
                let lease = room.grant(&ask("a"));
                room.pass(secs(5));
                let body = Report {
                    tags: tags(&["t"]),
                    ..ended(lease, bytes())
                };
                assert_eq!(room.verdict(&body), "accepted");
                let value = room.entry.value.as_ref().expect("a value");
                let case = format!("{named:?} {mode:?}, granted {granted_after:?} after");
                assert_eq!(value.fresh_until, invalidated.after(fresh_until), "{case}");
                // The stale windows start where freshness ends.
                assert_eq!(
                    value.stale_until(),
                    invalidated.after(fresh_until + secs(200)),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn what_only_confirms_while_the_origin_lags_is_bounded_too() {
    let mut room = Room::with_value(secs(10), &["t"]);
    room.invalidate_settling(Named::Tag("t"), Mode::Expire, secs(20));
    let end = room.now.after(secs(20));
    let lease = room.grant(&ask("a"));
    room.report(&ended(lease, Outcome::NotModified));
    assert_eq!(room.entry.value.as_ref().map(|value| value.fresh_until), Some(end));
}

#[test]
fn settling_is_told_of_an_unknown_key_too() {
    let mut room = Room::new();
    room.invalidate_settling(Named::Key, Mode::Drop, secs(20));
    let lease = room.grant(&ask("a"));
    room.store(lease);
    assert_eq!(room.hit(&ask("b")).expiry.fresh_for, secs(20));
}

#[test]
fn of_two_settling_times_the_later_end_counts() {
    for named in EVERYTHING {
        for (first, then, end) in [(20, 5, 20), (5, 20, 21), (20, 0, 20), (0, 5, 6)] {
            let mut room = Room::with_value(secs(10), &["t"]);
            let start = room.now;
            room.invalidate_settling(named, Mode::Expire, secs(first));
            room.pass(secs(1));
            room.invalidate_settling(named, Mode::Expire, secs(then));
            let lease = room.grant(&ask("a"));
            let body = Report {
                tags: tags(&["t"]),
                ..ended(lease, bytes())
            };
            room.report(&body);
            let fresh_until = room.entry.value.as_ref().map(|value| value.fresh_until);
            assert_eq!(
                fresh_until,
                Some(start.after(secs(end))),
                "{named:?}: {first} s, then {then} s"
            );
        }
    }
}

#[test]
fn a_settling_time_counts_from_the_commit_even_after_a_longer_one() {
    let mut room = Room::with_value(secs(10), &[]);
    room.invalidate_settling(Named::Key, Mode::Expire, secs(20));
    let draft = invalidate(&room.view(), Mode::Expire, secs(19), &room.policy)
        .draft
        .expect("a draft");
    room.pass(secs(5));
    room.commit(draft, Seq::NONE);
    let settle_until = room.entry.mark.as_ref().map(|mark| mark.settle_until);
    assert!(settle_until >= Some(room.now.after(secs(19))), "{settle_until:?}");
}
