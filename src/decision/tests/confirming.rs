//! Reports that what was there is still right.

use super::*;

#[test]
fn not_modified_keeps_bytes_and_tags_under_a_new_version_with_new_lifetimes() {
    let mut room = Room::with_value(secs(120), &["old"]);
    let before = room.entry.value.clone().expect("a value");
    let lease = room.grant(&ask("a"));
    room.pass(secs(1));
    let draw = room.draw();
    let body = Report {
        tags: tags(&["new"]),
        ..ended(lease, Outcome::NotModified)
    };
    let ReportDecision::Accept { draft, body } = report(&room.view(), &body, &room.policy, draw) else {
        panic!("not accepted");
    };
    assert_eq!(body, Body::Keep);
    room.commit(*draft, Seq::NONE);
    let value = room.entry.value.clone().expect("a value");
    assert_eq!((value.version, value.since), (lease.token, before.since));
    assert_eq!(
        (&value.content, value.tags()),
        (&before.content, &tags(&["old", "new"])[..])
    );
    assert_eq!(
        (value.stored_at, value.fresh_until),
        (room.now, room.now.after(secs(100)))
    );
}

#[test]
fn known_version_matches_every_version_since_the_bytes_were_written() {
    let mut room = Room::with_value(secs(120), &[]);
    let mut versions = vec![room.entry.value.as_ref().expect("a value").version];
    for _ in 0..3 {
        let lease = room.grant(&ask_to(Intent::Force));
        assert_eq!(room.verdict(&ended(lease, Outcome::NotModified)), "accepted");
        versions.push(lease.token);
        room.pass(secs(120));
    }
    let content = |room: &mut Room, known_version| {
        room.hit(&Ask {
            known_version,
            intent: Intent::Read,
            ..ask("b")
        })
        .content
    };
    for known in &versions {
        assert_eq!(
            content(&mut room, *known),
            HitContent::Unchanged,
            "{known:?} of {versions:?}"
        );
    }
    assert_eq!(content(&mut room, Seq(versions[0].0 - 1)), HitContent::Bytes);
    assert_eq!(content(&mut room, Seq(versions[3].0 + 1)), HitContent::Bytes);
    let lease = room.grant(&ask("a"));
    room.store(lease);
    assert_eq!(content(&mut room, versions[3]), HitContent::Bytes);
}

#[test]
fn not_modified_without_a_value_is_refused_and_the_lease_goes_on() {
    type Prepare = fn() -> Room;
    let rooms: [(&str, Prepare); 4] = [
        ("nothing was there", Room::new),
        ("the key was dropped", || {
            let mut room = Room::with_value(secs(10), &["t"]);
            room.invalidate(Named::Key, Mode::Drop);
            room
        }),
        ("its tag was dropped", || {
            let mut room = Room::with_value(secs(10), &["t"]);
            room.invalidate(Named::Tag("t"), Mode::Drop);
            room
        }),
        ("it was not stored", || {
            let mut room = Room::new();
            let lease = room.grant(&ask("a"));
            room.report(&Report {
                do_not_store: true,
                ..ended(lease, bytes())
            });
            room
        }),
    ];
    for (name, prepare) in rooms {
        let mut room = prepare();
        let lease = room.grant(&ask("b"));
        assert_eq!(room.verdict(&ended(lease, Outcome::NotModified)), "no_value", "{name}");
        assert_eq!(room.say(&ask("c")), "wait, then busy", "{name}");
        assert_eq!(room.renew(lease, None), "kept", "{name}");
        assert_eq!(room.verdict(&ended(lease, bytes())), "accepted", "{name}");
    }
}

#[test]
fn a_softly_invalidated_value_may_be_confirmed_by_a_grant_that_is_newer() {
    for named in [Named::Key, Named::Tag("t"), Named::Namespace] {
        let mut room = Room::with_value(secs(10), &["t"]);
        room.invalidate(named, Mode::Expire);
        let lease = room.grant(&ask("a"));
        assert_eq!(
            room.verdict(&ended(lease, Outcome::NotModified)),
            "accepted",
            "{named:?}"
        );
        assert_eq!(room.say(&ask("b")), "hit fresh", "{named:?}");
    }
}
