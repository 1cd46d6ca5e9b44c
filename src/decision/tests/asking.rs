//! Retries of one question, and what of a value a caller gets.

use super::*;

fn question(holder: &str, request_id: &str) -> Ask {
    Ask {
        request_id: request_id.into(),
        ..ask(holder)
    }
}

#[test]
fn a_retry_gets_the_same_lease_with_the_time_that_is_left() {
    let mut room = Room::with_value(secs(120), &[]);
    let first = room.rebuild(&question("a", "r1"));
    room.pass(secs(4));
    let again = room.rebuild(&question("a", "r1"));
    assert_eq!((again.lease, again.cause), (first.lease, first.cause));
    assert_eq!((again.ttl, again.max_hold), (secs(6), secs(56)));
    assert_eq!(
        again.fallback.map(|hit| (hit.version, hit.fresh)),
        first.fallback.map(|hit| (hit.version, hit.fresh))
    );
}

#[test]
fn only_the_same_holder_with_the_same_id_is_a_retry() {
    for (holder, request_id, same) in [
        ("a", "r1", true),
        ("a", "r2", false),
        ("b", "r1", false),
        ("a", "", false),
    ] {
        let mut room = Room::new();
        room.grant(&question("a", "r1"));
        let answer = room.say(&question(holder, request_id));
        assert_eq!(
            answer.starts_with("same lease"),
            same,
            "{holder} {request_id}: {answer}"
        );
    }
}

#[test]
fn an_empty_request_id_makes_nobody_the_same_caller() {
    let mut room = Room::new();
    room.grant(&question("", ""));
    assert_eq!(room.say(&question("", "")), "wait, then busy");
}

#[test]
fn a_retry_counts_as_new_once_its_lease_has_ended() {
    type End = fn(&mut Room, LeaseId);
    let endings: [(&str, End, &str); 5] = [
        ("reported", |room, id| room.store(id), "hit fresh"),
        (
            "failed",
            |room, id| _ = room.report(&ended(id, failed(secs(5)))),
            "backoff",
        ),
        (
            "given up",
            |room, id| _ = room.report(&ended(id, Outcome::Abandoned)),
            "rebuild miss",
        ),
        ("over", |room, _| room.pass(secs(10)), "rebuild takeover"),
        (
            "revoked",
            |room, _| _ = room.invalidate(Named::Namespace, Mode::Drop),
            "rebuild miss",
        ),
    ];
    for (name, end, expected) in endings {
        let mut room = Room::new();
        let lease = room.grant(&question("a", "r1"));
        end(&mut room, lease);
        assert_eq!(room.say(&question("a", "r1")), expected, "{name}");
    }
}

#[test]
fn a_read_never_gets_a_lease_even_with_the_id_of_a_live_one() {
    let mut room = Room::new();
    room.grant(&question("a", "r1"));
    let read = Ask {
        intent: Intent::Read,
        ..question("a", "r1")
    };
    assert_eq!(room.say(&read), "wait, then busy");
}

#[test]
fn the_id_of_a_promoted_caller_is_kept_with_its_lease() {
    let mut room = Room::new();
    let lost = room.grant(&ask("a"));
    room.pass(secs(10));
    let promoted = room.grant(&Ask {
        request_id: "r1".into(),
        ..parked("b", lost)
    });
    assert_eq!(room.rebuild(&question("b", "r1")).lease, promoted);
}

#[test]
fn a_caller_gets_of_each_content_what_it_has_not_got() {
    let external = Content::External("s3://there".into());
    let known = |room: &Room| room.entry.value.as_ref().map_or(Seq::NONE, |value| value.version);
    let table = [
        // content                 knows  omits  gets
        (Content::Bytes(4), false, false, HitContent::Bytes),
        (Content::Bytes(4), false, true, HitContent::Omitted),
        (Content::Bytes(4), true, false, HitContent::Unchanged),
        (Content::Bytes(4), true, true, HitContent::Unchanged),
        (
            external.clone(),
            false,
            false,
            HitContent::External("s3://there".into()),
        ),
        (external.clone(), false, true, HitContent::Omitted),
        (external, true, false, HitContent::Unchanged),
        (Content::NotFound, false, false, HitContent::NotFound),
        (Content::NotFound, true, false, HitContent::NotFound),
    ];
    for (content, knows, omit_value, expected) in table {
        let mut room = Room::new();
        let lease = room.grant(&ask("a"));
        room.report(&ended(lease, Outcome::Built(content.clone())));
        let known_version = if knows { known(&room) } else { Seq::NONE };
        let hit = room.hit(&Ask {
            known_version,
            omit_value,
            ..ask("b")
        });
        assert_eq!(
            hit.content, expected,
            "{content:?}, knows: {knows}, omits: {omit_value}"
        );
    }
}

#[test]
fn a_hit_tells_age_tags_trace_and_what_is_left_of_the_three_lifetimes() {
    let mut room = Room::new();
    let trace = || Some("00-aa-bb-01".into());
    let lease = room.grant(&Ask {
        traceparent: trace(),
        tags: Some(tags(&["early"]).into()),
        ..ask("a")
    });
    room.pass(secs(2));
    let report = Report {
        tags: tags(&["late", "early"]),
        ..ended(lease, bytes())
    };
    room.report(&report);
    room.pass(secs(30));
    let hit = room.hit(&ask("b"));
    assert_eq!((hit.version, hit.age, hit.rebuilding), (lease.token, secs(30), false));
    assert_eq!(hit.tags.as_deref(), Some(&tags(&["early", "late"])[..]));
    assert_eq!(hit.traceparent, trace());
    let expected = Expiry {
        fresh_for: secs(70),
        stale_for: secs(120),
        stale_if_error_for: secs(270),
        refresh_in: None,
        rebuild_cost: secs(2),
        beta: 0.0,
    };
    assert_eq!(hit.expiry, expected);
}
