//! Sentences about what replicas write to each other.

use proptest::prelude::*;

use super::*;

fn name() -> impl Strategy<Value = String> {
    "[a-zé/:0-9]{1,12}"
}

fn question() -> impl Strategy<Value = Question> {
    let target = prop_oneof![
        name().prop_map(|name| (0, name)),
        name().prop_map(|name| (1, name)),
        Just((2, String::new())),
    ];
    let place = (0..16u16, any::<u64>()).prop_map(|(partition, at)| Place { partition, at });
    let parts = (
        "[a-z]{1,8}",
        prop::collection::vec(target, 0..6),
        prop::collection::vec(place, 0..=PARTITIONS),
        0..LONGEST.as_micros() as u64,
    );
    parts.prop_map(|(namespace, targets, places, wait)| Question {
        targets: targets
            .into_iter()
            .map(|(kind, name)| match kind {
                0 => Target::Key(Key::new(&namespace, &name)),
                1 => Target::Tag(name.into()),
                _ => Target::Everything,
            })
            .collect(),
        namespace: namespace.into(),
        places,
        wait: Duration::from_micros(wait),
    })
}

fn barrier() -> impl Strategy<Value = Barrier> {
    let parts = (0..9usize, 0..9usize, prop::collection::vec(name(), 0..=LAGGARDS));
    parts.prop_map(|(watchers, acknowledged, laggards)| Barrier {
        watchers,
        acknowledged,
        confirmed: watchers == acknowledged,
        laggards: laggards.into_iter().map(Arc::from).collect(),
    })
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![
        question().prop_map(Said::Question),
        (any::<u64>(), barrier()).prop_map(|(to, barrier)| Said::Answer { to, barrier }),
    ]
}

proptest! {
    #[test]
    fn a_message_survives_its_bytes(from: u64, round: u64, said in said()) {
        let message = Message { from, round, said };
        prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
    }

    #[test]
    fn any_bytes_are_refused_or_are_a_message_within_bounds(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(layout) = bytes.first_mut() {
            *layout = LAYOUT;
        }
        if let Ok(message) = Message::decode(&bytes) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
        count_of(&bytes, "shop");
    }

    #[test]
    fn a_message_with_one_byte_changed_is_refused_or_is_a_message_within_bounds(
        said in said(), at: prop::sample::Index, to: u8,
    ) {
        let mut bytes = Message { from: 1, round: 2, said }.encode();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if let Ok(Message { said: Said::Question(question), .. }) = Message::decode(&bytes) {
            prop_assert!(question.wait <= LONGEST && question.places.len() <= PARTITIONS);
        }
    }
}

#[test]
fn another_layout_is_not_guessed_at() {
    let said = Said::Answer {
        to: 1,
        barrier: Barrier::default(),
    };
    let mut bytes = Message {
        from: 2,
        round: 3,
        said,
    }
    .encode();
    bytes[0] = 9;
    assert_eq!(Message::decode(&bytes), Err(Unreadable::Layout(9)));
    assert!(matches!(Message::decode(&[]), Err(Unreadable::Damaged(_))));
}

#[test]
fn an_answer_that_contradicts_itself_confirms_nothing() {
    let said = Said::Answer {
        to: 1,
        barrier: Barrier {
            watchers: 3,
            acknowledged: 2,
            confirmed: true,
            laggards: Vec::new(),
        },
    };
    let message = Message {
        from: 2,
        round: 3,
        said,
    };
    let Ok(Message {
        said: Said::Answer { barrier, .. },
        ..
    }) = Message::decode(&message.encode())
    else {
        panic!("it is an answer");
    };
    assert!(!barrier.confirmed);
}

/// What this release writes stays readable.
#[test]
fn the_bytes_of_layout_1_are_these() {
    let question = Question {
        namespace: "shop".into(),
        targets: vec![
            Target::Key(Key::new("shop", "a")),
            Target::Tag("t".into()),
            Target::Everything,
        ],
        places: vec![Place { partition: 3, at: 300 }],
        wait: Duration::from_millis(2),
    };
    let message = Message {
        from: 0x0102_0304_0506_0708,
        round: 5,
        said: Said::Question(question),
    };
    let bytes: Vec<String> = message.encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        bytes.concat(),
        concat!(
            "01090807060504030201",
            "1005",
            "1a1e0a0473686f70",
            "12030a0161",
            "1203120174",
            "12021801",
            "1a05080310ac02",
            "20d00f",
        )
    );
}

#[test]
fn registered_watchers_are_counted_a_namespace_and_beyond_a_bound_by_the_most() {
    let counts = (0..300u32).map(|n| (format!("n{n}").into(), n)).collect();
    let says = encode_counts(counts, vec![("shop".into(), 3)]);
    assert!(says.len() < 8_192, "{}", says.len());
    assert_eq!(count_of(&says, "n299"), 299);
    assert_eq!(count_of(&says, "n44"), 44);
    assert_eq!(count_of(&says, "n43"), 43, "the largest that is not named");
    assert_eq!(count_of(&says, "n7"), 43);
    assert_eq!(count_of(&encode_counts(Vec::new(), Vec::new()), "shop"), 0);
}

#[test]
fn a_registration_that_cannot_be_read_counts_as_one_watcher() {
    assert_eq!(count_of(&[9, 9], "shop"), 1);
}
