//! The same as the fuzz target `convert`, for every run of the tests.

use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::rpc::convert::fuzz::convert;

/// Some that are right, and some of every kind of wrong.
fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just("shop".to_owned()),
        1 => Just("l1-0000000000000001".to_owned()),
        1 => Just(String::new()),
        1 => ".{0,8}",
        1 => "[ -~]{60,130}",
        1 => (1_000..1_100_usize).prop_map(|length| "é".repeat(length)),
    ]
}

fn spans() -> impl Strategy<Value = Option<prost_types::Duration>> {
    prop_oneof![
        2 => Just(None),
        4 => (0..100_i64, 0..1_000_000_000).prop_map(|(seconds, nanos)| span(seconds, nanos)),
        1 => (any::<i64>(), any::<i32>()).prop_map(|(seconds, nanos)| span(seconds, nanos)),
    ]
}

fn numbers() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..10_i64, 1 => any::<i64>()]
}

prop_compose! {
    fn questions()(
        (namespace, key, holder, request_id) in (words(), words(), words(), words()),
        (wait, lease_ttl) in (spans(), spans()),
        intent in prop_oneof![8 => 0..4, 1 => any::<i32>()],
        (known_version, min_fencing_token, newer_than, hits) in (numbers(), numbers(), numbers(), numbers()),
        tags in vec(words(), 0..4),
    ) -> proto::AcquireRebuildRequest {
        proto::AcquireRebuildRequest {
            namespace, key, holder, request_id, wait, intent, accept_stale: None, known_version, omit_value: false,
            lease_ttl, min_fencing_token, tags, newer_than, hits,
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_conversion_panic(which in any::<u8>(), bytes in vec(any::<u8>(), 0..512)) {
        convert(which, &bytes);
    }

    #[test]
    fn a_question_is_either_refused_with_at_most_ten_fields_or_within_all_limits(question in questions()) {
        // It also survives the wire.
        let bytes = question.encode_to_vec();
        prop_assert_eq!(&proto::AcquireRebuildRequest::decode(&bytes[..]).expect("just encoded"), &question);
        match acquire(question, None, None) {
            Err(violations) => {
                prop_assert!((1..=MAX_VIOLATIONS).contains(&violations.list().len()));
                let text: usize = violations.list().iter().map(|found| found.field.len() + found.problem.len()).sum();
                prop_assert!(text < 2_048, "an error of {} bytes", text);
            }
            Ok(asked) => {
                prop_assert!((1..=MAX_NAMESPACE).contains(&asked.key.namespace().len()));
                prop_assert!((1..=MAX_KEY).contains(&asked.key.name().len()));
                prop_assert!(asked.ask.tags.is_none_or(|tags| tags.len() <= 16));
                prop_assert!(asked.wait.is_none_or(|wait| wait <= crate::decision::LONGEST));
            }
        }
    }
}
