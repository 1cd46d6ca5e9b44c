//! What callers get whom the budget or the circuit holds back, row by row of the decision table.

use super::*;

fn granted_to(room: &mut Room, question: &Ask) -> Grant {
    match room.decide(question) {
        Decision::Grant(grant) => *grant,
        other => panic!("not granted: {other:?}"),
    }
}

#[test]
fn whoever_can_be_served_is_and_who_has_nothing_waits_or_keeps_off() {
    let strict = |intent| Ask {
        accept_stale: false,
        ..ask_to(intent)
    };
    let newer = |intent| Ask {
        newer_than: Seq(u64::MAX >> 1),
        ..ask_to(intent)
    };
    // age of the value, question, without a place, with the circuit open
    type Question = fn(Intent) -> Ask;
    let table: &[(Option<u64>, Question, Intent, &str, &str)] = &[
        (Some(10), ask_to, Intent::Early, "hit fresh", "hit fresh"),
        (Some(10), ask_to, Intent::Force, "hit fresh", "hit fresh"),
        (Some(120), ask_to, Intent::Use, "hit stale", "hit stale"),
        (Some(200), ask_to, Intent::Use, "hit stale", "hit stale"),
        (Some(120), strict, Intent::Use, "wait, then busy", "backoff"),
        (Some(10), newer, Intent::Use, "wait, then busy", "backoff"),
        (Some(301), ask_to, Intent::Use, "wait, then busy", "backoff"),
        (None, ask_to, Intent::Use, "wait, then busy", "backoff"),
        (None, ask_to, Intent::Force, "wait, then busy", "backoff"),
    ];
    for (age, question, intent, placeless, open) in table {
        let mut room = age.map_or_else(Room::new, |age| Room::with_value(secs(age), &[]));
        let grant = granted_to(&mut room, &question(*intent));
        let draw = room.draw();
        let answers = [
            said(&without_place(grant.clone(), draw)),
            said_answer(&circuit_open(grant, secs(5), draw)),
        ];
        assert_eq!(answers, [*placeless, *open], "{age:?} {intent:?}");
    }
}

#[test]
fn who_waits_for_a_place_is_told_so_in_the_end() {
    let mut room = Room::new();
    room.entry.cost = secs(4).into();
    let grant = granted_to(&mut room, &ask("b"));
    let Decision::Wait(wait) = without_place(grant, room.draw()) else {
        panic!("answered");
    };
    let Answer::Busy(busy) = wait.when_over else {
        panic!("{:?}", wait.when_over);
    };
    assert_eq!((wait.on, busy.cause), (Seq::NONE, BusyCause::RebuildBudget));
    assert!(
        (secs(4)..millis(4_400)).contains(&busy.retry_after),
        "{:?}",
        busy.retry_after
    );
}

#[test]
fn an_open_circuit_tells_its_pause_and_what_is_known_of_the_key() {
    let mut room = Room::new();
    let grant = granted_to(&mut room, &ask("b"));
    let Answer::KeepOff(pause) = circuit_open(grant, secs(5), room.draw()) else {
        panic!("served");
    };
    assert!((secs(5)..millis(5_500)).contains(&pause.retry_after));
    assert_eq!((pause.failures, pause.circuit_open), (0, true));
    assert!(!pause.message.is_empty());
    let lease = room.grant(&ask("b"));
    room.report(&ended(lease, failed(secs(1))));
    assert!(matches!(room.acquire(&ask("b")), Some(Answer::KeepOff(pause)) if !pause.circuit_open));
    room.pass(secs(1));
    let grant = granted_to(&mut room, &ask("b"));
    let Answer::KeepOff(pause) = circuit_open(grant, secs(5), room.draw()) else {
        panic!("served");
    };
    assert_eq!((pause.failures, &*pause.message), (1, "origin down"));
}
