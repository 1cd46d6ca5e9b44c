//! Which report counts.

use super::*;

fn with_tags(id: LeaseId, names: &[&str]) -> Report {
    Report {
        tags: tags(names),
        ..ended(id, bytes())
    }
}

#[test]
fn a_late_report_counts_while_nobody_has_replaced_the_grant() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.pass(secs(3600));
    room.store(lease);
    assert_eq!(room.hit(&ask("b")).version, lease.token);
}

#[test]
fn a_report_of_a_replaced_grant_is_superseded_and_leaves_the_new_lease_alone() {
    let mut room = Room::new();
    let old = room.grant(&ask("a"));
    room.pass(secs(10));
    let new = room.grant(&ask("b"));
    for outcome in [bytes(), Outcome::NotModified, failed(secs(9)), Outcome::Abandoned] {
        let before = room.entry.clone();
        assert_eq!(room.verdict(&ended(old, outcome.clone())), "superseded", "{outcome:?}");
        assert_eq!(room.entry, before, "{outcome:?}");
    }
    room.store(new);
    assert_eq!(room.verdict(&ended(old, bytes())), "superseded");
    assert_eq!(room.hit(&ask("c")).version, new.token);
}

#[test]
fn whatever_an_invalidation_covers_makes_the_running_grant_s_report_invalid() {
    /// What became of the lease between the invalidation and the report.
    const FATES: [&str; 3] = ["untouched", "revoked", "replaced"];
    // named, its mode, tags of the value before, tags of the acquire, tags of the report
    type Case = (
        Named,
        &'static [&'static str],
        &'static [&'static str],
        &'static [&'static str],
    );
    let cases: [Case; 6] = [
        (Named::Key, &[], &[], &[]),
        (Named::Namespace, &[], &[], &[]),
        (Named::Tag("t"), &["t"], &[], &[]),
        (Named::Tag("t"), &[], &["x", "t"], &[]),
        (Named::Tag("t"), &[], &[], &["x", "t"]),
        (Named::Tag("t"), &["t"], &["t"], &["t"]),
    ];
    for mode in [Mode::Drop, Mode::Expire] {
        for (named, of_value, of_acquire, of_report) in cases {
            for fate in FATES {
                // Past its windows, but for those cases where the value's tags matter.
                let age = if of_value.is_empty() { secs(400) } else { secs(120) };
                let mut room = Room::with_value(age, of_value);
                let question = Ask {
                    tags: Some(tags(of_acquire).into()),
                    ..ask("a")
                };
                let lease = room.grant(&question);
                room.invalidate(named, mode);
                if fate != "untouched" {
                    room.revoke();
                }
                if fate == "replaced" {
                    room.pass(secs(11));
                    room.grant(&ask("b"));
                }
                let told = room.verdict(&with_tags(lease, of_report));
                assert_eq!(
                    told, "invalidated",
                    "{mode:?} {named:?} {of_value:?} {of_acquire:?} {of_report:?} {fate}"
                );
                assert_ne!(room.entry.value.as_ref().map(|value| value.version), Some(lease.token));
            }
        }
    }
}

#[test]
fn a_grant_replaced_unseen_after_its_acquire_tag_was_invalidated_is_told_so() {
    // No replica has committed the revocation: the next grant finds the dead lease still there.
    let mut room = Room::new();
    let lease = room.grant(&Ask {
        tags: Some(tags(&["t"]).into()),
        ..ask("a")
    });
    room.invalidate(Named::Tag("t"), Mode::Drop);
    let Decision::Grant(grant) = room.decide(&ask("b")) else {
        panic!("a revoked lease is no lease to anyone");
    };
    let lost = grant.supersedes.as_ref().map(|(lease, reason)| (lease.id(), *reason));
    assert_eq!(lost, Some((lease, LostReason::Invalidated)));
    let next = room.grant(&ask("b"));
    assert_eq!(room.verdict(&ended(lease, bytes())), "invalidated");
    assert_eq!(room.verdict(&ended(next, bytes())), "accepted");
}

#[test]
fn an_invalidation_of_something_else_leaves_the_report_alone() {
    let mut room = Room::with_value(secs(120), &["a"]);
    let lease = room.grant(&Ask {
        tags: Some(tags(&["b"]).into()),
        ..ask("x")
    });
    room.invalidate(Named::Tag("other"), Mode::Drop);
    assert!(!room.revoke());
    assert_eq!(room.verdict(&with_tags(lease, &["c"])), "accepted");
}

#[test]
fn a_grant_at_or_below_the_floor_is_old() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.generations.floor = lease.token;
    assert_eq!(room.verdict(&ended(lease, bytes())), "invalidated");
    assert_eq!(room.say(&ask("b")), "rebuild invalidated");
}

#[test]
fn a_report_refused_as_invalidated_frees_the_key_at_once() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    room.invalidate(Named::Tag("late"), Mode::Drop);
    // To everybody else the lease is alive: only its report names the tag.
    assert_eq!(room.say(&ask("b")), "wait, then busy");
    assert_eq!(room.verdict(&with_tags(lease, &["late"])), "invalidated");
    assert_eq!(room.say(&parked("b", lease)), "rebuild takeover");
}

#[test]
fn a_forged_secret_is_an_unknown_lease_and_changes_nothing() {
    let mut room = Room::new();
    let lease = room.grant(&ask("a"));
    let forged = LeaseId {
        secret: lease.secret.saturating_add(1),
        ..lease
    };
    let before = room.entry.clone();
    assert_eq!(room.verdict(&ended(forged, bytes())), "unknown_lease");
    assert_eq!(room.renew(forged, None), "unknown_lease");
    assert!(give_back(&room.view(), forged).is_none());
    assert_eq!(room.entry, before);
    room.store(lease);
    assert_eq!(room.verdict(&ended(forged, bytes())), "unknown_lease");
    assert_eq!(room.renew(forged, None), "unknown_lease");
    let future = LeaseId {
        token: Seq(u64::MAX),
        ..lease
    };
    assert_eq!(room.verdict(&ended(future, bytes())), "unknown_lease");
    assert_eq!(Room::new().verdict(&ended(lease, bytes())), "unknown_lease");
    // Not even that it was invalidated is told to one who cannot prove the grant.
    room.invalidate(Named::Namespace, Mode::Drop);
    assert_eq!(room.verdict(&ended(forged, bytes())), "unknown_lease");
}

#[test]
fn a_repeated_report_gets_its_first_answer_again_whatever_it_said() {
    let no_value = ReportAnswer::Accepted {
        version: Seq::NONE,
        expiry: None,
    };
    for (outcome, stores) in [
        (bytes(), true),
        (Outcome::Built(Content::NotFound), true),
        (Outcome::NotModified, true),
        (failed(secs(5)), false),
        (Outcome::Abandoned, false),
    ] {
        let mut room = Room::with_value(secs(120), &[]);
        let lease = room.grant(&ask("a"));
        let first = room.report(&ended(lease, outcome.clone()));
        let after = room.entry.clone();
        assert_eq!(room.report(&ended(lease, outcome.clone())), first, "{outcome:?}");
        // Nothing counts twice, and a failure after a value is not that report again.
        let then = if stores {
            ReportAnswer::Rejected(Rejection::UnknownLease)
        } else {
            first.clone()
        };
        assert_eq!(room.report(&ended(lease, failed(secs(30)))), then, "{outcome:?}");
        assert_eq!(room.entry, after, "{outcome:?}");
        assert_eq!(first != no_value, stores, "{outcome:?}");
    }
}

#[test]
fn a_report_is_repeated_while_the_next_rebuild_runs_and_superseded_after_its_end() {
    let mut room = Room::new();
    let first = room.grant(&ask("a"));
    room.store(first);
    let second = room.grant(&ask_to(Intent::Force));
    assert_eq!(room.verdict(&ended(first, bytes())), "accepted");
    room.store(second);
    assert_eq!(room.verdict(&ended(first, bytes())), "superseded");
}

#[test]
fn a_repeated_report_promises_no_life_that_an_invalidation_has_taken() {
    for (mode, named, stale_for) in [
        (Mode::Drop, Named::Namespace, Duration::ZERO),
        (Mode::Drop, Named::Tag("t"), Duration::ZERO),
        (Mode::Expire, Named::Namespace, secs(50)),
        (Mode::Expire, Named::Tag("t"), secs(50)),
        (Mode::Expire, Named::Key, secs(50)),
    ] {
        let mut room = Room::new();
        let lease = room.grant(&ask("a"));
        let body = with_tags(lease, &["t"]);
        room.report(&body);
        room.invalidate(named, mode);
        let ReportAnswer::Accepted {
            version,
            expiry: Some(expiry),
        } = room.report(&body)
        else {
            panic!("{mode:?} {named:?}: the first answer was another");
        };
        let told = (version, expiry.fresh_for, expiry.stale_for);
        assert_eq!(told, (lease.token, Duration::ZERO, stale_for), "{mode:?} {named:?}");
    }
}

#[test]
fn another_outcome_for_a_lease_that_was_reported_is_refused_and_the_same_is_answered_again() {
    let outcomes = [
        bytes(),
        failed(secs(1)),
        Outcome::Abandoned,
        Outcome::Built(Content::NotFound),
    ];
    let is_built = |outcome: &Outcome| matches!(outcome, Outcome::Built(_));
    for first in &outcomes {
        for second in &outcomes {
            let mut room = Room::new();
            let lease = room.grant(&ask("first"));
            assert_eq!(room.verdict(&ended(lease, first.clone())), "accepted");
            let again = room.verdict(&ended(lease, second.clone()));
            let expected = if is_built(first) == is_built(second) {
                "accepted"
            } else {
                "unknown_lease"
            };
            assert_eq!(again, expected, "{first:?}, then {second:?}");
        }
    }
}
