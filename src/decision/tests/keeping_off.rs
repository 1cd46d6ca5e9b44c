//! Back-off after failures.

use super::*;

/// After so many failures in a row, just reported.
fn failing(times: u32) -> Room {
    let mut room = Room::new();
    for _ in 0..times {
        fail(&mut room);
    }
    room
}

/// Waits for the back-off to be over and fails once more.
fn fail(room: &mut Room) -> Duration {
    if let Some(until) = room.view().retry_at() {
        room.now = until;
    }
    let lease = room.grant(&ask("a"));
    let body = Outcome::Failed {
        message: "origin down".into(),
        retry_after: None,
    };
    room.report(&ended(lease, body));
    room.view()
        .retry_at()
        .map_or(Duration::ZERO, |until| until.since(room.now))
}

fn keep_off(room: &mut Room, ask: &Ask) -> KeepOff {
    match room.acquire(ask) {
        Some(Answer::KeepOff(keep_off)) => keep_off,
        other => panic!("not kept off: {other:?}"),
    }
}

#[test]
fn nothing_overrides_a_back_off_and_nothing_but_its_time_ends_it() {
    for named in [None, Some(Named::Key), Some(Named::Tag("t")), Some(Named::Namespace)] {
        for mode in [Mode::Drop, Mode::Expire] {
            let mut room = Room::with_value(secs(400), &["t"]);
            let lease = room.grant(&ask("a"));
            room.report(&ended(lease, failed(secs(5))));
            if let Some(named) = named {
                room.invalidate(named, mode);
            }
            room.pass(secs(5) - Duration::from_micros(1));
            for intent in [Intent::Use, Intent::Early, Intent::Force, Intent::Read] {
                assert_eq!(room.say(&ask_to(intent)), "backoff", "{named:?} {mode:?} {intent:?}");
            }
            let newer = Ask {
                newer_than: Seq(u64::MAX),
                ..ask("b")
            };
            assert_eq!(room.say(&newer), "backoff");
            room.pass(Duration::from_micros(1));
            assert!(room.say(&ask("b")).starts_with("rebuild"), "{named:?} {mode:?}");
        }
    }
}

#[test]
fn a_soft_invalidation_during_back_off_serves_stale_and_a_hard_one_nothing() {
    for (mode, expected) in [(Mode::Expire, "hit stale"), (Mode::Drop, "backoff")] {
        let mut room = Room::with_value(secs(10), &[]);
        let lease = room.grant(&ask_to(Intent::Force));
        room.report(&ended(lease, failed(secs(5))));
        assert_eq!(room.say(&ask("b")), "hit fresh");
        room.invalidate(Named::Key, mode);
        assert_eq!(room.say(&ask("b")), expected, "{mode:?}");
    }
}

#[test]
fn failures_in_a_row_double_the_pause_and_are_counted_for_the_caller() {
    let mut room = Room::new();
    for (nth, ceiling) in [
        (1, 1.0),
        (2, 2.0),
        (3, 4.0),
        (4, 8.0),
        (5, 16.0),
        (6, 32.0),
        (7, 60.0),
        (8, 60.0),
    ] {
        let pause = fail(&mut room).as_secs_f64();
        assert!((ceiling / 2.0..=ceiling).contains(&pause), "failure {nth}: {pause} s");
        let told = keep_off(&mut room, &ask("b"));
        assert_eq!((told.failures, &*told.message), (nth, "origin down"));
        assert!(
            (pause..=pause * 1.1 + 1e-6).contains(&told.retry_after.as_secs_f64()),
            "{told:?}"
        );
    }
}

#[test]
fn each_answer_adds_its_own_bit_to_the_time_to_come_back() {
    let mut room = failing(4);
    let times: std::collections::HashSet<Duration> =
        (0..100).map(|_| keep_off(&mut room, &ask("b")).retry_after).collect();
    assert!(times.len() > 90, "only {} different ones", times.len());
}

#[test]
fn the_report_s_retry_after_counts_up_to_the_longest_back_off() {
    for (asked, pause) in [(secs(20), secs(20)), (secs(60), secs(60)), (LONGEST, secs(60))] {
        let mut room = Room::new();
        let lease = room.grant(&ask("a"));
        room.report(&ended(lease, failed(asked)));
        assert_eq!(room.view().retry_at(), Some(room.now.after(pause)), "{asked:?}");
    }
}

#[test]
fn a_success_of_any_kind_forgets_the_row_and_a_lost_lease_does_not() {
    type End = fn(&mut Room, LeaseId);
    let endings: [(&str, End, u32); 6] = [
        ("value", |room, id| room.store(id), 1),
        (
            "not found",
            |room, id| _ = room.report(&ended(id, Outcome::Built(Content::NotFound))),
            1,
        ),
        (
            "not stored",
            |room, id| {
                _ = room.report(&Report {
                    do_not_store: true,
                    ..ended(id, bytes())
                })
            },
            1,
        ),
        (
            "abandoned",
            |room, id| _ = room.report(&ended(id, Outcome::Abandoned)),
            4,
        ),
        ("time over", |room, _| room.pass(secs(10)), 4),
        ("invalidated", |room, _| _ = room.invalidate(Named::Key, Mode::Drop), 4),
    ];
    for (name, end, expected) in endings {
        let mut room = failing(3);
        room.now = room.view().retry_at().expect("a back-off");
        let lease = room.grant(&ask("a"));
        end(&mut room, lease);
        room.invalidate(Named::Key, Mode::Drop);
        fail(&mut room);
        assert_eq!(keep_off(&mut room, &ask("b")).failures, expected, "{name}");
    }
}

#[test]
fn a_row_is_forgotten_when_nobody_has_failed_for_long() {
    let mut room = failing(3);
    let remember_until = room.entry.trouble.as_ref().expect("trouble").remember_until;
    let mut early = room.clone();
    early.now = StoreTime(remember_until.0 - 1);
    fail(&mut early);
    assert_eq!(keep_off(&mut early, &ask("b")).failures, 4);
    room.now = remember_until;
    fail(&mut room);
    assert_eq!(keep_off(&mut room, &ask("b")).failures, 1);
}

#[test]
fn stale_on_error_ends_with_its_window_however_often_refreshes_fail() {
    let mut room = Room::with_value(secs(100), &[]);
    let end = START.after(secs(300));
    let mut served = 0;
    while room.now < end {
        fail(&mut room);
        let left = room
            .view()
            .retry_at()
            .map_or(Duration::ZERO, |until| until.since(room.now));
        room.pass(left / 2);
        let expected = if room.now < end { "hit stale" } else { "backoff" };
        assert_eq!(room.say(&ask("b")), expected, "{:?} after", room.now.since(START));
        served += 1;
        room.now = room.view().retry_at().map_or(room.now, |until| until.min(end));
    }
    assert!(served > 5, "only {served} failures");
    let answer = room.say(&ask("b"));
    assert!(answer == "backoff" || answer == "rebuild expired", "{answer}");
}

#[test]
fn a_grant_after_a_back_off_relies_on_its_being_over() {
    let mut room = failing(1);
    let until = room.view().retry_at().expect("a back-off");
    room.now = until;
    let Decision::Grant(grant) = room.decide(&ask("b")) else {
        panic!("the back-off is over");
    };
    assert_eq!(grant.not_before, until);
}
