//! May a holder keep its lease, and when is it nobody's any more?

use super::*;

fn left(room: &Room) -> Duration {
    room.entry
        .lease
        .as_ref()
        .map_or(Duration::ZERO, |lease| lease.deadline.since(room.now))
}

#[test]
fn a_renewal_sets_the_deadline_anew_within_the_policy_and_the_longest_hold() {
    // At 5 s into a hold of at most 60 s.
    for (asked, expected) in [
        (None, secs(10)),
        (Some(secs(3)), secs(3)),
        (Some(Duration::ZERO), SHORTEST_LEASE),
        (Some(secs(55)), secs(55)),
        (Some(secs(56)), secs(55)),
        (Some(LONGEST), secs(55)),
    ] {
        let mut room = Room::new();
        let lease = room.grant(&ask("a"));
        room.pass(secs(5));
        assert_eq!((room.renew(lease, asked), left(&room)), ("kept", expected), "{asked:?}");
    }
}

#[test]
fn the_longest_hold_of_the_grant_counts_even_if_the_policy_has_become_longer() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.policy.max_hold = secs(600);
    room.pass(secs(5));
    assert_eq!((room.renew(lease, Some(secs(500))), left(&room)), ("kept", secs(55)));
}

#[test]
fn at_the_longest_hold_the_lease_runs_out_at_what_it_has_left() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.pass(secs(5));
    assert_eq!(room.renew(lease, Some(LONGEST)), "kept");
    room.pass(secs(15));
    let RenewDecision::Lost { reason, ttl, max_hold } = renew(&room.view(), lease, None, &room.policy) else {
        panic!("kept beyond the longest hold");
    };
    assert_eq!((reason, ttl, max_hold), (LostReason::MaxHold, secs(40), secs(40)));
    assert_eq!(room.say(&ask("b")), "wait, then busy");
}

#[test]
fn a_lease_that_is_gone_tells_how() {
    type Lose = fn(&mut Room, LeaseId);
    let table: [(&str, Lose, &str); 12] = [
        ("time over", |room, _| room.pass(secs(10)), "expired"),
        ("hold over", |room, _| room.pass(secs(60)), "expired"),
        (
            "replaced",
            |room, _| {
                room.pass(secs(10));
                room.grant(&ask("b"));
            },
            "superseded",
        ),
        ("reported", |room, id| room.store(id), "reported"),
        (
            "failed",
            |room, id| _ = room.report(&ended(id, failed(secs(1)))),
            "reported",
        ),
        (
            "abandoned",
            |room, id| _ = room.report(&ended(id, Outcome::Abandoned)),
            "reported",
        ),
        (
            "key invalidated",
            |room, _| _ = room.invalidate(Named::Key, Mode::Expire),
            "invalidated",
        ),
        (
            "tag invalidated",
            |room, _| _ = room.invalidate(Named::Tag("t"), Mode::Expire),
            "invalidated",
        ),
        (
            "namespace invalidated",
            |room, _| _ = room.invalidate(Named::Namespace, Mode::Drop),
            "invalidated",
        ),
        (
            "tag invalidated and revoked",
            |room, _| {
                room.invalidate(Named::Tag("t"), Mode::Drop);
                assert!(room.revoke());
            },
            "invalidated",
        ),
        (
            "invalidated after its time",
            |room, _| {
                room.pass(secs(10));
                room.invalidate(Named::Namespace, Mode::Drop);
            },
            "invalidated",
        ),
        (
            "never granted",
            |room, _| room.entry = Entry::default(),
            "unknown_lease",
        ),
    ];
    for (name, lose, expected) in table {
        let mut room = Room::new();
        let lease = room.grant(&Ask {
            tags: Some(tags(&["t"]).into()),
            ..ask("a")
        });
        lose(&mut room, lease);
        let before = room.entry.clone();
        assert_eq!(room.renew(lease, None), expected, "{name}");
        assert_eq!(room.entry, before, "{name}");
    }
}

#[test]
fn an_expired_lease_is_not_revived_but_may_still_report() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.pass(secs(10));
    assert_eq!(room.renew(lease, Some(secs(30))), "expired");
    assert_eq!(room.say(&ask("b")), "rebuild takeover");
    room.store(lease);
}

#[test]
fn a_grant_over_an_expired_lease_relies_on_its_deadline_and_tells_its_holder() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.pass(secs(4));
    assert_eq!(room.renew(lease, Some(secs(20))), "kept");
    room.pass(secs(20));
    let Decision::Grant(grant) = room.decide(&ask("b")) else {
        panic!("the lease is over");
    };
    assert_eq!(grant.not_before, START.after(secs(24)));
    let lost = grant.supersedes.map(|(lease, reason)| (lease.id(), reason));
    assert_eq!(lost, Some((lease, LostReason::Superseded)));
}

#[test]
fn a_lease_is_given_back_once() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    let draft = give_back(&room.view(), lease).expect("it is there");
    room.commit(draft, Seq::NONE);
    assert!(give_back(&room.view(), lease).is_none());
    assert_eq!(room.verdict(&ended(lease, bytes())), "unknown_lease");
    assert_eq!(room.say(&ask("b")), "rebuild miss");
}

#[test]
fn only_a_lease_that_an_invalidation_covers_is_revoked() {
    let mut room = Room::with_value(secs(120), &["of value"]);
    assert!(!room.revoke());
    room.grant(&Ask {
        tags: Some(tags(&["asked"]).into()),
        ..ask("a")
    });
    room.invalidate(Named::Tag("another"), Mode::Drop);
    room.pass(secs(11));
    assert!(!room.revoke(), "its time is over, but no invalidation covers it");
    room.invalidate(Named::Tag("of value"), Mode::Expire);
    assert!(room.revoke());
    assert!(room.entry.lease.is_none() && !room.revoke());
}

#[test]
fn revoking_a_lease_leaves_a_value_that_no_invalidation_touched_as_it_was() {
    let mut room = Room::with_value(secs(10), &["of value"]);
    let lease = room.grant(&Ask {
        tags: Some(tags(&["asked"]).into()),
        ..ask_to(Intent::Force)
    });
    room.invalidate(Named::Tag("asked"), Mode::Drop);
    assert!(room.revoke());
    assert_eq!(room.say(&ask("c")), "hit fresh");
    assert_ne!(room.verdict(&ended(lease, bytes())), "accepted");
}
