//! What a worker is given: when, for what reason, how often in vain, and what is dropped.

use super::*;

/// A key whose rebuild took 2 s, fresh for 100 s from now, at the moment when its refresh is due.
fn due_room() -> Room {
    let mut room = Room::new();
    room.policy.beta = 1.0;
    let lease = room.grant(&ask("a"));
    room.pass(secs(2));
    room.store(lease);
    pass_to_due(&mut room);
    room
}

fn pass_to_due(room: &mut Room) {
    room.now = room.view().refresh_due().expect("a refresh is planned");
}

fn task(why: Why) -> Offer {
    Offer {
        holder: "worker".into(),
        why,
        traceparent: Some("00-scheduled".into()),
    }
}

const ASKED: Why = Why::Due { asked_for: true };
const NOT_ASKED: Why = Why::Due { asked_for: false };

fn decided(room: &mut Room, why: Why) -> OfferDecision {
    let draw = room.draw();
    offer(&room.view(), &task(why), &room.policy, draw)
}

/// In a few words.
fn told(room: &mut Room, why: Why) -> String {
    match decided(room, why) {
        OfferDecision::Grant(grant) => said(&Decision::Grant(grant)),
        OfferDecision::Later(at) => format!("in {:?}", at.since(room.now)),
        OfferDecision::Drop(dropped) => dropped.as_str().to_owned(),
    }
}

/// Gives the task to a worker, who must get it.
fn given(room: &mut Room, why: Why) -> LeaseId {
    let OfferDecision::Grant(grant) = decided(room, why) else {
        panic!("not given: {}", told(room, why));
    };
    assert!(room.now >= grant.not_before);
    room.commit(grant.draft.clone(), grant.above);
    room.entry.lease.as_ref().expect("a lease").id()
}

#[test]
fn a_due_refresh_is_given_with_a_lease_of_its_worker() {
    let mut room = due_room();
    assert_eq!(told(&mut room, ASKED), "rebuild early, fresh meanwhile");
    let lease = given(&mut room, ASKED);
    let held = room.entry.lease.as_deref().expect("a lease");
    assert_eq!(
        (&*held.holder, held.traceparent.as_deref()),
        ("worker", Some("00-scheduled"))
    );
    assert_eq!(room.say(&ask("b")), "hit fresh, rebuilding");
    room.pass(secs(2));
    room.store(lease);
    assert!(
        room.view().refresh_due().is_some_and(|due| due > room.now),
        "the next one is planned"
    );
}

#[test]
fn a_task_is_put_off_or_dropped_as_the_key_stands() {
    type Before = fn(&mut Room);
    let table: [(&str, Before, &str); 11] = [
        (
            "not due yet",
            |room| room.now = StoreTime(room.now.0 - 7_000_000),
            "in 7s",
        ),
        ("somebody is on it", |room| _ = room.grant(&ask("b")), "in 10s"),
        (
            "its origin fails",
            |room| {
                let lease = room.grant(&ask("b"));
                room.report(&ended(lease, failed(secs(4))));
            },
            "in 4s",
        ),
        (
            "somebody has done it",
            |room| {
                let lease = room.grant(&ask("b"));
                room.policy.beta = 0.0;
                room.store(lease);
            },
            "fresh",
        ),
        ("dropped", |room| _ = room.invalidate(Named::Key, Mode::Drop), "gone"),
        (
            "dropped with all",
            |room| _ = room.invalidate(Named::Namespace, Mode::Drop),
            "gone",
        ),
        // Its next caller gets a stale value at once and rebuilds it.
        ("expired", |room| _ = room.invalidate(Named::Key, Mode::Expire), "fresh"),
        ("forgotten", |room| room.entry = Entry::default(), "gone"),
        (
            "a little late",
            |room| room.pass(secs(51)),
            "rebuild stale, stale meanwhile",
        ),
        ("late", |room| room.pass(secs(200)), "rebuild stale, stale if it fails"),
        ("too late", |room| room.pass(secs(300)), "gone"),
    ];
    for (name, before, expected) in table {
        let mut room = due_room();
        before(&mut room);
        assert_eq!(told(&mut room, ASKED), expected, "{name}");
    }
}

/// Refreshes a key until it is left alone; how often that was.
fn refreshed_in_vain(room: &mut Room) -> u32 {
    for count in 0.. {
        pass_to_due(room);
        if matches!(decided(room, NOT_ASKED), OfferDecision::Drop(Dropped::Lapsed)) {
            return count;
        }
        let lease = given(room, NOT_ASKED);
        room.store(lease);
    }
    unreachable!("it is refreshed for ever")
}

#[test]
fn a_key_that_nobody_asks_for_is_refreshed_as_often_as_the_policy_says_and_then_lapses() {
    for limit in [0, 1, 3, 254, 255, 1_000_000] {
        let mut room = due_room();
        room.policy.idle_refreshes = limit;
        assert_eq!(
            refreshed_in_vain(&mut room),
            limit.min(255),
            "more than 255 count as 255"
        );
        room.pass(secs(400));
        assert_eq!(room.say(&ask("b")), "rebuild expired");
    }
}

#[test]
fn whoever_asks_gives_the_key_its_credit_back() {
    type Wants = fn(&mut Room);
    let table: [(&str, Wants); 3] = [
        ("seen by the coordinator", |room| {
            let lease = given(room, ASKED);
            room.store(lease);
        }),
        ("granted an early refresh", |room| {
            let lease = room.grant(&ask_to(Intent::Early));
            room.store(lease);
        }),
        ("scheduled", |room| {
            let why = Why::Scheduled {
                at: room.now,
                only_if_missing: false,
            };
            let lease = given(room, why);
            room.store(lease);
        }),
    ];
    for (name, wants) in table {
        let mut room = due_room();
        assert_eq!(refreshed_in_vain(&mut room), 3);
        wants(&mut room);
        assert_eq!(room.entry.refresh.idle(), 0, "{name}");
        assert_eq!(refreshed_in_vain(&mut room), 3, "{name}");
    }
}

#[test]
fn a_refresh_that_a_worker_lost_is_given_to_the_next_and_counted_once() {
    let mut room = due_room();
    room.policy.idle_refreshes = 1;
    room.policy.lease_ttl = secs(1);
    let lost = given(&mut room, NOT_ASKED);
    room.pass(secs(1));
    assert_eq!(told(&mut room, NOT_ASKED), "rebuild takeover, fresh meanwhile");
    let lease = given(&mut room, NOT_ASKED);
    assert_eq!(room.entry.refresh.idle(), 1);
    assert_eq!(room.verdict(&ended(lost, bytes())), "superseded");
    room.store(lease);
    assert_eq!(refreshed_in_vain(&mut room), 0);
}

#[test]
fn a_refresh_that_failed_counts_as_one_in_vain() {
    let mut room = due_room();
    for _ in 0..3 {
        let lease = given(&mut room, NOT_ASKED);
        room.report(&ended(lease, failed(secs(1))));
        room.pass(secs(4));
    }
    assert_eq!(told(&mut room, NOT_ASKED), "lapsed");
}

#[test]
fn what_is_not_found_is_refreshed_only_when_somebody_asked() {
    let mut room = due_room();
    let lease = room.grant(&ask("b"));
    room.report(&ended(lease, Outcome::Built(Content::NotFound)));
    pass_to_due(&mut room);
    assert_eq!(told(&mut room, NOT_ASKED), "lapsed");
    assert_eq!(told(&mut room, ASKED), "rebuild early, fresh meanwhile");
}

#[test]
fn a_scheduled_rebuild_is_given_unless_the_key_was_rebuilt_since() {
    let scheduled = |only_if_missing| move |at| Why::Scheduled { at, only_if_missing };
    let mut room = Room::new();
    let at = room.now;
    for why in [scheduled(false)(at), scheduled(true)(at)] {
        assert_eq!(told(&mut room, why), "rebuild scheduled");
    }
    let lease = given(&mut room, scheduled(true)(at));
    assert_eq!(told(&mut room, scheduled(false)(at)), "in 10s");
    room.pass(secs(1));
    room.store(lease);
    assert_eq!(told(&mut room, scheduled(false)(at)), "fresh", "somebody has done it");
    room.pass(secs(1));
    let now = room.now;
    assert_eq!(told(&mut room, scheduled(true)(now)), "fresh");
    assert_eq!(
        told(&mut room, scheduled(false)(now)),
        "rebuild scheduled, fresh meanwhile"
    );
    room.pass(secs(100));
    assert_eq!(
        told(&mut room, scheduled(true)(now)),
        "rebuild scheduled, stale meanwhile"
    );
    let lease = given(&mut room, scheduled(true)(now));
    room.report(&ended(lease, failed(secs(3))));
    assert_eq!(told(&mut room, scheduled(true)(now)), "in 3s");
}
