//! The written form: what is written is read, what was ever written is read for ever, and anything else is refused.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::decision::{
    Cause, Content, Draft, Drafted, Entry, Key, Labels, Lease, LeaseId, LostReason, Mark, Mode, Number, Refresh,
    Reported, Seq, Span, Stamp, StoreTime, Tag, Trouble, Value, When,
};
use crate::store::{Event, Revision, Target};

/// The text of an entry as the script writes it.
fn written(draft: &Draft, revision: u64, stamp: Stamp) -> Vec<u8> {
    let filled = entry_template(draft).filled(stamp);
    let mut text = vec![filled[0]];
    text.extend(revision.to_be_bytes());
    text.extend(*b"headerid");
    text.extend(&filled[1..]);
    text
}

fn when() -> impl Strategy<Value = When> {
    (
        prop::option::of(0..1_u64 << 50),
        prop_oneof![Just(u64::MAX), 0..1_u64 << 52],
    )
        .prop_map(|(after, at_most)| When {
            after: after.map(Duration::from_micros),
            at_most: StoreTime(at_most),
        })
}

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        Just(Number::Next),
        any::<u64>().prop_map(|number| Number::Is(Seq(number)))
    ]
}

fn text() -> impl Strategy<Value = Arc<str>> {
    "\\PC{0,20}".prop_map(Arc::from)
}

fn tags() -> impl Strategy<Value = Option<Arc<[Tag]>>> {
    prop::collection::vec("\\PC{1,9}".prop_map(Arc::from), 0..4)
        .prop_map(|tags: Vec<Tag>| (!tags.is_empty()).then(|| tags.into()))
}

fn traceparent() -> impl Strategy<Value = Option<Arc<str>>> {
    prop::option::of("[0-9a-f-]{1,55}".prop_map(Arc::from))
}

fn secret() -> impl Strategy<Value = NonZeroU64> {
    (1..=u64::MAX).prop_map(|secret| NonZeroU64::new(secret).expect("not 0"))
}

fn span() -> impl Strategy<Value = Span> {
    (0..1_u64 << 40).prop_map(|micros| Span::from(Duration::from_micros(micros)))
}

fn content() -> impl Strategy<Value = Content> {
    prop_oneof![
        any::<u32>().prop_map(Content::Bytes),
        text().prop_map(Content::External),
        Just(Content::NotFound)
    ]
}

fn cause() -> impl Strategy<Value = Cause> {
    prop::sample::select(vec![
        Cause::Miss,
        Cause::Expired,
        Cause::Stale,
        Cause::Invalidated,
        Cause::Early,
        Cause::Forced,
        Cause::Takeover,
        Cause::Scheduled,
        Cause::Lost,
    ])
}

fn value() -> impl Strategy<Value = Value<Drafted>> {
    (
        any::<(u64, u64)>(),
        content(),
        when(),
        when(),
        span(),
        span(),
        tags(),
        traceparent(),
    )
        .prop_map(
            |((version, since), content, stored_at, fresh_until, revalidate, on_error, tags, traceparent)| Value {
                version: Seq(version),
                since: Seq(since),
                content,
                stored_at,
                fresh_until,
                stale_while_revalidate: revalidate,
                stale_if_error: on_error,
                labels: Labels::of(tags, traceparent),
            },
        )
}

fn lease() -> impl Strategy<Value = Lease<Drafted>> {
    (
        (number(), secret()),
        (text(), text()),
        cause(),
        (when(), when(), when()),
        tags(),
        traceparent(),
    )
        .prop_map(
            |((token, secret), (holder, request_id), cause, (granted_at, deadline, hold_until), tags, traceparent)| {
                Lease {
                    token,
                    secret,
                    holder,
                    request_id,
                    cause,
                    granted_at,
                    deadline,
                    hold_until,
                    tags,
                    traceparent,
                }
            },
        )
}

fn draft() -> impl Strategy<Value = Draft> {
    let reported = (any::<u64>(), secret(), when()).prop_map(|(token, secret, at)| Reported {
        lease: LeaseId {
            token: Seq(token),
            secret,
        },
        at,
    });
    let trouble = (any::<u32>(), when(), when(), text()).prop_map(|(failures, retry_at, remember_until, message)| {
        Box::new(Trouble {
            failures,
            retry_at,
            remember_until,
            message,
        })
    });
    let mark = (number(), when(), when()).prop_map(|(number, settle_until, keep_until)| {
        Box::new(Mark {
            number,
            settle_until,
            keep_until,
        })
    });
    (
        prop::option::of(value()),
        prop::option::of(lease().prop_map(Box::new)),
        prop::option::of(reported),
        prop::option::of(trouble),
        prop::option::of(mark),
        span(),
        any::<u32>(),
    )
        .prop_map(|(value, lease, reported, trouble, mark, cost, refresh)| Draft {
            value,
            lease,
            reported,
            trouble,
            mark,
            cost: cost.length().into(),
            refresh: Refresh::from_bits(refresh),
        })
}

proptest! {
    #[test]
    fn what_is_written_of_a_draft_is_read_as_the_draft_stamped(draft in draft(), revision: u64, now in 0..1_u64 << 51, number: u64) {
        let stamp = Stamp { now: StoreTime(now), number: Seq(number) };
        let read = read_entry(&written(&draft, revision, stamp)).expect("a prefix");
        prop_assert_eq!(read.revision, Revision(revision));
        prop_assert_eq!(read.entry, Ok(draft.stamp(stamp)));
    }

    #[test]
    fn a_text_that_was_cut_or_prolonged_is_damaged_and_no_panic(draft in draft(), cut in 0..200_usize, more in 1..9_usize) {
        let stamp = Stamp { now: StoreTime(5), number: Seq(6) };
        let text = written(&draft, 7, stamp);
        let shorter = &text[..text.len() - cut.clamp(1, text.len())];
        prop_assert!(read_entry(shorter).is_none_or(|read| read.entry.is_err()));
        let longer = [&text[..], &vec![0; more]].concat();
        prop_assert_eq!(read_entry(&longer).map(|read| read.entry), Some(Err(Unreadable::Damaged)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..300)) {
        read_entry(&text);
        let _ = read_record(&text);
        for layout in [1, 2] {
            read_entry(&[&[layout][..], &text].concat());
        }
    }
}

/// An entry with everything in it.
fn everything() -> Entry {
    Entry {
        value: Some(Value {
            version: Seq(1_764_500_000_000_001),
            since: Seq(1_764_500_000_000_000),
            content: Content::Bytes(3),
            stored_at: StoreTime(1_764_500_000_000_010),
            fresh_until: StoreTime(1_764_500_300_000_010),
            stale_while_revalidate: Duration::from_secs(60).into(),
            stale_if_error: Duration::from_secs(3_600).into(),
            labels: Labels::of(Some(["red".into(), "blue".into()].into()), Some("00-ab-cd-01".into())),
        }),
        lease: Some(Box::new(Lease {
            token: Seq(1_764_500_000_000_020),
            secret: NonZeroU64::new(0xfeed).expect("not 0"),
            holder: "web-1".into(),
            request_id: "q7".into(),
            cause: Cause::Takeover,
            granted_at: StoreTime(1_764_500_000_000_020),
            deadline: StoreTime(1_764_500_010_000_020),
            hold_until: StoreTime(1_764_500_120_000_020),
            tags: Some(["green".into()].into()),
            traceparent: None,
        })),
        reported: Some(Reported {
            lease: LeaseId {
                token: Seq(1_764_500_000_000_001),
                secret: NonZeroU64::new(0xbeef).expect("not 0"),
            },
            at: StoreTime(1_764_500_000_000_010),
        }),
        trouble: Some(Box::new(Trouble {
            failures: 2,
            retry_at: StoreTime(1_764_500_002_000_000),
            remember_until: StoreTime(1_764_500_062_000_000),
            message: "origin down".into(),
        })),
        mark: Some(Box::new(Mark {
            number: Seq(1_764_500_000_000_000),
            settle_until: StoreTime::ZERO,
            keep_until: StoreTime(1_764_500_120_000_000),
        })),
        cost: Duration::from_millis(200).into(),
        refresh: Refresh::NONE
            .with_gap(Duration::from_micros(650_000))
            .not_asked_for()
            .not_asked_for(),
    }
}

/// Entries of every layout that a release has written, and what they say. Layouts are added here and never changed.
#[test]
fn an_entry_of_every_layout_that_was_ever_written_can_be_read() {
    let unplanned = Entry {
        refresh: Refresh::NONE,
        ..everything()
    };
    let layouts = [
        (include_str!("fixtures/entry-1.hex"), unplanned),
        (include_str!("fixtures/entry-2.hex"), everything()),
    ];
    for (hex, entry) in &layouts {
        let read = read_entry(&bytes(hex)).expect("a prefix");
        assert_eq!(read.revision, Revision(1_764_500_000_000_030));
        assert_eq!(read.entry.as_ref(), Ok(entry));
    }
    let stamp = Stamp {
        now: StoreTime::ZERO,
        number: Seq::NONE,
    };
    let now = written(&everything().draft(), 1_764_500_000_000_030, stamp);
    assert_eq!(
        hex(&now),
        layouts[layouts.len() - 1].0.split_whitespace().collect::<String>(),
        "today's is the last of them"
    );
}

#[test]
fn an_entry_of_a_later_release_is_not_taken_for_a_damaged_one() {
    let stamp = Stamp {
        now: StoreTime::ZERO,
        number: Seq::NONE,
    };
    let mut text = written(&everything().draft(), 9, stamp);
    text[0] = 3;
    let read = read_entry(&text).expect("a prefix");
    assert_eq!((read.revision, read.entry), (Revision(9), Err(Unreadable::Newer(3))));
}

fn record(event: &Event) -> Vec<u8> {
    let mut text = Vec::new();
    for number in [41_u64, 42, 40] {
        text.extend(number.to_be_bytes());
    }
    text.extend(event_template(event).filled(Stamp {
        now: StoreTime(42),
        number: Seq(41),
    }));
    text
}

fn events() -> Vec<Event> {
    let key = Key::new("shop", "cart/7");
    let invalidated = |target| Event::Invalidated {
        namespace: "shop".into(),
        target,
        mode: Mode::Expire,
    };
    vec![
        invalidated(Target::Key(key.clone())),
        invalidated(Target::Tag("red".into())),
        invalidated(Target::Everything),
        Event::Refreshed {
            key: key.clone(),
            version: Seq(41),
            fresh_until: When::at(StoreTime(1_000)),
            stale_while_revalidate: Duration::from_secs(1),
            stale_if_error: Duration::from_secs(2),
        },
        Event::LeaseRevoked {
            key,
            lease: LeaseId {
                token: Seq(40),
                secret: NonZeroU64::new(9).expect("not 0"),
            },
            holder: "web-1".into(),
            reason: LostReason::Superseded,
        },
    ]
}

#[test]
fn an_event_is_read_as_it_was_written() {
    for event in events() {
        let read = read_record(&record(&event)).expect("a record");
        assert_eq!((read.number, read.at, read.before), (Seq(41), StoreTime(42), 40));
        assert_eq!((read.event, read.again), (Some(event), false));
    }
}

#[test]
fn an_invalidation_that_is_committed_again_is_told_from_one_that_is_new() {
    for event in &events()[..3] {
        let mut text = record(event);
        text.truncate(24);
        text.extend(again_template(event).literal());
        let read = read_record(&text).expect("a record");
        assert_eq!((read.event.as_ref(), read.again), (Some(event), true));
    }
}

#[test]
fn a_record_of_every_layout_that_was_ever_written_can_be_read() {
    let written: Vec<String> = events().iter().map(|event| hex(&record(event))).collect();
    let fixture: Vec<&str> = include_str!("fixtures/records-1.hex").split_whitespace().collect();
    assert_eq!(written, fixture);
}

#[test]
fn a_record_of_a_later_release_is_refused_and_not_skipped() {
    let mut text = record(&events()[0]);
    text[24] = 9;
    assert_eq!(read_record(&text), Err(Unreadable::Newer(9)));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: String = hex.split_whitespace().collect();
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("hexadecimal"))
        .collect()
}
