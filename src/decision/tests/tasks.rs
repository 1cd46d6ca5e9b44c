//! When a key is looked at for its refresh, and how often a scheduled one is tried.

use super::*;

/// A key that is fresh for 100 s, with a refresh planned.
fn room() -> Room {
    let mut room = Room::new();
    room.policy.beta = 1.0;
    room.policy.lease_ttl = secs(10);
    let lease = room.grant(&ask("a"));
    room.pass(secs(2));
    room.store(lease);
    room
}

/// As a store would keep it that has stamped the draft.
fn task_at(room: &Room) -> Option<StoreTime> {
    room.entry.draft().task_at().map(|when| when.resolve(room.now))
}

#[test]
fn the_task_of_a_key_is_where_its_entry_says() {
    let mut room = room();
    let due = room.view().refresh_due();
    assert_eq!(task_at(&room), due, "the planned refresh");
    let lease = room.grant(&ask_to(Intent::Early));
    assert_eq!(task_at(&room), Some(room.now.after(secs(10))), "a lease's deadline");
    room.report(&ended(lease, failed(secs(4))));
    assert_eq!(task_at(&room), Some(room.now.after(secs(4))), "a failure's back-off");
    room.pass(secs(4));
    let lease = room.grant(&ask_to(Intent::Early));
    room.report(&ended(lease, Outcome::Abandoned));
    assert!(task_at(&room).is_some_and(|at| at <= room.now), "given up: at once");
}

#[test]
fn a_draft_says_the_same_before_it_is_stamped() {
    let mut room = room();
    let lease = room.grant(&ask_to(Intent::Early));
    room.pass(secs(1));
    let draw = room.draw();
    let ReportDecision::Accept { draft, .. } = report(&room.view(), &ended(lease, bytes()), &room.policy, draw) else {
        panic!("accepted");
    };
    let at = draft.task_at().expect("a refresh is planned");
    assert!(at.after.is_some(), "it counts from the commit");
    let stamp = Stamp {
        now: room.now.after(secs(5)),
        number: Seq::NONE,
    };
    let stored = draft.stamp(stamp);
    let due = stored.refresh.due(stored.value.as_ref().expect("a value").fresh_until);
    assert_eq!(Some(at.resolve(stamp.now)), due);
}

#[test]
fn where_nothing_can_be_refreshed_ahead_there_is_no_task() {
    type Before = fn(&mut Room);
    let table: [(&str, Before); 5] = [
        ("no entry", |room| room.entry = Entry::default()),
        ("no value yet", |room| {
            room.entry = Entry::default();
            room.grant(&ask("b"));
        }),
        ("no refresh planned", |room| room.entry.refresh = Refresh::NONE),
        ("dropped", |room| _ = room.invalidate(Named::Key, Mode::Drop)),
        ("expired", |room| _ = room.invalidate(Named::Key, Mode::Expire)),
    ];
    for (name, before) in table {
        let mut room = room();
        before(&mut room);
        assert_eq!(task_at(&room), None, "{name}");
    }
}

#[test]
fn a_refresh_now_is_granted_to_the_next_who_asks() {
    for length in [1, 7_777_777, 60_000_000, 97_000_000_u64] {
        let mut room = room();
        room.pass(Duration::from_micros(length));
        let draft = refresh_now(&room.view()).expect("a fresh value");
        room.commit(draft, Seq::NONE);
        assert_eq!(room.say(&ask("b")), "rebuild early, fresh meanwhile", "{length}");
    }
}

#[test]
fn what_the_next_who_asks_rebuilds_anyway_needs_no_refresh_now() {
    type Before = fn(&mut Room);
    let table: [(&str, Before); 4] = [
        ("no value", |room| room.entry = Entry::default()),
        ("stale", |room| room.pass(secs(120))),
        ("expired", |room| _ = room.invalidate(Named::Namespace, Mode::Expire)),
        ("somebody is on it", |room| _ = room.grant(&ask_to(Intent::Early))),
    ];
    for (name, before) in table {
        let mut room = room();
        before(&mut room);
        assert!(refresh_now(&room.view()).is_none(), "{name}");
    }
}

/// Gives a scheduled task out.
fn try_it(room: &mut Room, attempts: Attempts) -> (Attempts, LeaseId) {
    let before = room.entry.clone();
    let lease = room.grant(&ask_to(Intent::Force));
    (attempts.given(&before, lease.token), lease)
}

#[test]
fn a_scheduled_task_is_tried_once_more_after_a_failure_and_then_dropped() {
    let mut room = room();
    let mut attempts = Attempts::default();
    for round in 1..=MOST_FAILED {
        let (given, lease) = try_it(&mut room, attempts);
        assert_eq!(given.look(&room.entry), Ok(given), "under way");
        room.report(&ended(lease, failed(secs(4))));
        let looked = given.look(&room.entry);
        if round == MOST_FAILED {
            assert_eq!(looked, Err(Dropped::Failed));
        } else {
            attempts = looked.expect("once more");
            assert_eq!(attempts.look(&room.entry), Ok(attempts), "counted once");
            room.pass(secs(4));
        }
    }
}

#[test]
fn a_scheduled_task_that_was_given_back_or_lost_is_no_failure_but_not_offered_for_ever() {
    let mut room = room();
    let mut attempts = Attempts::default();
    for round in 1..MOST_GIVEN {
        let (given, lease) = try_it(&mut room, attempts);
        let gives_back = round % 2 == 0;
        if gives_back {
            room.report(&ended(lease, Outcome::Abandoned));
        } else {
            room.pass(secs(10));
        }
        assert_eq!(was_given_back(&room.entry, lease.token), gives_back);
        attempts = given.look(&room.entry).expect("it is offered again");
        assert_eq!(attempts.failed, 0);
    }
    let (given, _) = try_it(&mut room, attempts);
    assert_eq!(given.look(&room.entry), Err(Dropped::Failed));
}

#[test]
fn a_scheduled_task_is_over_with_its_value_even_one_that_is_not_kept() {
    for do_not_store in [false, true] {
        let mut room = room();
        let (given, lease) = try_it(&mut room, Attempts::default());
        room.report(&Report {
            do_not_store,
            ..ended(lease, bytes())
        });
        assert_eq!(given.look(&room.entry), Err(Dropped::Fresh));
    }
}
