//! The circuit: when it opens, whom it lets by, how it closes, and that it can be shared.

use proptest::prelude::*;

use super::*;

const LEASE: Duration = Duration::from_secs(10);

fn key(name: &str) -> Key {
    Key::new("shop", name)
}

fn backoff() -> Backoff {
    Policy::default().backoff
}

/// A circuit on a clock of its own.
#[derive(Clone)]
struct Desk {
    circuit: Circuit,
    now: StoreTime,
    seed: u64,
}

impl Desk {
    fn new() -> Desk {
        Desk {
            circuit: Circuit::default(),
            now: START,
            seed: 0,
        }
    }

    fn step(&mut self, event: CircuitEvent<'_>) -> CircuitEffect {
        self.seed += 1;
        let draw = Draw {
            secret: 0,
            seed: self.seed,
        };
        let (circuit, effect) = self.circuit.step(event, self.now, &backoff(), draw);
        assert_eq!(
            Circuit::from_text(&circuit.to_text()).as_ref(),
            Some(&circuit),
            "{}",
            circuit.to_text()
        );
        self.circuit = circuit;
        effect
    }

    fn ask(&mut self, name: &str) -> CircuitEffect {
        self.step(CircuitEvent::Asked(&key(name), LEASE))
    }

    fn end(&mut self, name: &str, ending: Ending) -> CircuitEffect {
        self.step(CircuitEvent::Ended(&key(name), ending))
    }

    fn counted(&mut self, succeeded: u32, failed: u32) -> CircuitEffect {
        self.step(CircuitEvent::Counted { succeeded, failed })
    }

    /// Opens it; how long for.
    fn open(&mut self) -> Duration {
        match self.counted(0, 20) {
            CircuitEffect::Opened(pause) => pause,
            other => panic!("it did not open: {other:?}"),
        }
    }
}

#[test]
fn it_opens_when_half_of_enough_rebuilds_have_failed() {
    let table = [
        (0, 19, false),
        (0, 20, true),
        (10, 9, false),
        (10, 10, true),
        (11, 10, false),
        (11, 11, true),
        (1_000, 999, false),
        (u32::MAX, u32::MAX, true),
    ];
    for (succeeded, failed, opens) in table {
        let mut desk = Desk::new();
        assert_eq!(desk.counted(succeeded, 0), CircuitEffect::None);
        let effect = desk.counted(0, failed);
        assert_eq!(
            matches!(effect, CircuitEffect::Opened(_)),
            opens,
            "{succeeded} and {failed}: {effect:?}"
        );
        assert_eq!(desk.circuit.is_open(), opens);
        assert_eq!(desk.ask("a") == CircuitEffect::Let, !opens);
    }
}

#[test]
fn one_by_one_counts_as_all_at_once_and_what_is_given_up_does_not_count() {
    let mut desk = Desk::new();
    for _ in 0..100 {
        assert_eq!(desk.end("a", Ending::GivenUp), CircuitEffect::None);
    }
    assert_eq!(desk.circuit, Circuit::default());
    for _ in 0..10 {
        assert_eq!(desk.end("a", Ending::Succeeded), CircuitEffect::None);
    }
    for _ in 0..9 {
        assert_eq!(desk.end("a", Ending::Failed), CircuitEffect::None);
    }
    assert!(matches!(desk.end("a", Ending::Failed), CircuitEffect::Opened(_)));
}

proptest! {
    #[test]
    fn only_the_last_ten_seconds_count(events in prop::collection::vec((0..5_000u64, any::<bool>(), 1..6u32), 1..60)) {
        let mut desk = Desk::new();
        let mut list: Vec<(u64, u32, u32)> = Vec::new();
        for (pause, fails, count) in events {
            desk.now = desk.now.after(millis(pause));
            let slice = desk.now.0 / 2_000_000;
            list.push(if fails { (slice, 0, count) } else { (slice, count, 0) });
            let of_late = list.iter().filter(|event| event.0 + 5 > slice);
            let (succeeded, failed) = of_late.fold((0, 0), |sum, event| (sum.0 + event.1, sum.1 + event.2));
            let opens = succeeded + failed >= 20 && failed >= succeeded;
            let effect = if fails { desk.counted(0, count) } else { desk.counted(count, 0) };
            prop_assert_eq!(matches!(effect, CircuitEffect::Opened(_)), opens, "{} and {}", succeeded, failed);
            if opens {
                break;
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "1 (closed|open|probing)( [0-9]{1,21}| [0-9]{1,11}/[0-9]{1,11}){0,9}|\\PC{0,40}") {
        if let Some(circuit) = Circuit::from_text(&text) {
            let again = Circuit::from_text(&circuit.to_text());
            prop_assert_eq!(again, Some(circuit));
        }
    }
}

#[test]
fn while_it_is_open_nothing_is_granted_and_after_the_pause_exactly_one_is() {
    let mut desk = Desk::new();
    let pause = desk.open();
    assert!((millis(500)..=secs(1)).contains(&pause), "{pause:?}");
    desk.now = desk.now.after(pause - millis(1));
    assert_eq!(desk.ask("a"), CircuitEffect::KeepOff(millis(1)));
    desk.now = desk.now.after(millis(1));
    assert_eq!(desk.ask("a"), CircuitEffect::Probe);
    for name in ["a", "b"] {
        assert_eq!(desk.ask(name), CircuitEffect::KeepOff(LEASE));
    }
    assert_eq!(
        desk.end("b", Ending::Succeeded),
        CircuitEffect::None,
        "it was under way when the circuit opened"
    );
    assert_eq!(desk.counted(100, 0), CircuitEffect::None);
    assert!(desk.circuit.is_open());
    assert_eq!(desk.end("a", Ending::Succeeded), CircuitEffect::Closed);
    assert_eq!(desk.ask("b"), CircuitEffect::Let);
    // It begins with nothing on record.
    assert_eq!(desk.counted(0, 19), CircuitEffect::None);
}

#[test]
fn each_failed_probe_makes_the_pause_longer_up_to_the_longest() {
    let mut desk = Desk::new();
    let mut pauses = vec![desk.open()];
    for _ in 0..8 {
        desk.now = desk.now.after(pauses[pauses.len() - 1]);
        assert_eq!(desk.ask("a"), CircuitEffect::Probe);
        desk.now = desk.now.after(millis(100));
        match desk.end("a", Ending::Failed) {
            CircuitEffect::Opened(pause) => pauses.push(pause),
            other => panic!("{other:?}"),
        }
    }
    for (pause, ceiling) in pauses.iter().zip([1, 2, 4, 8, 16, 32, 60, 60, 60]) {
        assert!(
            (secs(ceiling) / 2..=secs(ceiling)).contains(pause),
            "{pause:?} of {ceiling} s"
        );
    }
}

#[test]
fn a_probe_that_does_not_come_back_counts_as_failed_when_its_lease_is_over() {
    let mut desk = Desk::new();
    let pause = desk.open();
    desk.now = desk.now.after(pause);
    assert_eq!(desk.ask("a"), CircuitEffect::Probe);
    desk.now = desk.now.after(secs(9));
    assert_eq!(desk.step(CircuitEvent::Renewed(&key("b"), LEASE)), CircuitEffect::None);
    assert_eq!(desk.ask("b"), CircuitEffect::KeepOff(secs(1)));
    assert_eq!(desk.step(CircuitEvent::Renewed(&key("a"), LEASE)), CircuitEffect::None);
    assert_eq!(desk.ask("b"), CircuitEffect::KeepOff(LEASE));
    desk.now = desk.now.after(LEASE);
    let CircuitEffect::KeepOff(pause) = desk.ask("b") else {
        panic!("not kept off");
    };
    assert!((secs(1)..=secs(2)).contains(&pause), "the second in a row: {pause:?}");
    assert_eq!(
        desk.end("a", Ending::Succeeded),
        CircuitEffect::None,
        "too late to say anything"
    );
    desk.now = desk.now.after(pause);
    assert_eq!(desk.ask("b"), CircuitEffect::Probe);
}

#[test]
fn a_probe_that_is_given_up_makes_the_next_caller_the_probe() {
    let mut desk = Desk::new();
    let pause = desk.open();
    desk.now = desk.now.after(pause);
    assert_eq!(desk.ask("a"), CircuitEffect::Probe);
    assert_eq!(desk.end("a", Ending::GivenUp), CircuitEffect::None);
    assert_eq!(desk.ask("b"), CircuitEffect::Probe);
    assert_eq!(desk.ask("a"), CircuitEffect::KeepOff(LEASE));
}

#[test]
fn what_opens_again_soon_goes_on_in_its_row_and_later_begins_a_new_one() {
    for (calm, ceiling) in [(secs(0), 2), (secs(59), 2), (secs(60), 1)] {
        let mut desk = Desk::new();
        let pause = desk.open();
        desk.now = desk.now.after(pause);
        assert_eq!(desk.ask("a"), CircuitEffect::Probe);
        assert_eq!(desk.end("a", Ending::Succeeded), CircuitEffect::Closed);
        desk.now = desk.now.after(calm);
        let pause = desk.open();
        assert!(
            (secs(ceiling) / 2..=secs(ceiling)).contains(&pause),
            "after {calm:?}: {pause:?}"
        );
    }
}

#[test]
fn of_many_replicas_that_share_it_by_compare_and_set_one_lets_the_probe_by() {
    let mut desk = Desk::new();
    let pause = desk.open();
    desk.now = desk.now.after(pause);
    // All have read it before any has written.
    let mut stored = desk.circuit.to_text();
    let seen = stored.clone();
    let mut effects = Vec::new();
    for replica in 0..5 {
        let mut mine = seen.clone();
        let effect = loop {
            let mut desk = Desk {
                circuit: Circuit::from_text(&mine).expect("readable"),
                ..desk.clone()
            };
            let effect = desk.ask(&format!("k{replica}"));
            let next = desk.circuit.to_text();
            if next == mine {
                break effect;
            }
            if stored == mine {
                stored = next;
                break effect;
            }
            mine.clone_from(&stored);
        };
        effects.push(effect);
    }
    assert_eq!(effects[0], CircuitEffect::Probe);
    assert!(
        effects[1..]
            .iter()
            .all(|effect| *effect == CircuitEffect::KeepOff(LEASE)),
        "{effects:?}"
    );
}

#[test]
fn its_written_forms_stay_readable() {
    for text in [
        "1 closed 0 0 0 0/0 0/0 0/0 0/0 0/0",
        "1 closed 3 1764500000000000 882250000 5/1 0/0 7/2 0/0 1/0",
        "1 open 1 1764500000000000",
        "1 probing 4294967295 18446744073709551615 12638153115695167471",
    ] {
        let circuit = Circuit::from_text(text).expect(text);
        assert_eq!(circuit.to_text(), text);
        assert!(text.len() < 120);
    }
    for text in [
        "",
        "2 open 1 5",
        "1 open 1",
        "1 open 1 5 6",
        "1 open -1 5",
        "1 closed 0 0 0 0/0 0/0 0/0 0/0",
        "1 closed 0 0 0 0/0 0/0 0/0 0/0 00",
        "1 probing 1 5",
    ] {
        assert_eq!(Circuit::from_text(text), None, "{text}");
    }
    let mut desk = Desk::new();
    desk.now = StoreTime(desk.now.0 + 7_000_000);
    desk.counted(1, 2);
    desk.now = StoreTime(desk.now.0 + 4_000_000);
    desk.counted(3, 0);
    assert_eq!(desk.circuit.to_text(), "1 closed 0 0 505 3/0 0/0 1/2 0/0 0/0");
}
