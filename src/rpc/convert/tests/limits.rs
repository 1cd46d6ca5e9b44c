use std::time::Duration;

use super::*;
use crate::decision::{Content, LONGEST, LeaseId, Outcome, Seq};
use crate::proto::report_value_request::Outcome as Given;

/// Spoils one field of a request.
type Spoil<R> = fn(&mut R);

fn each_names_its_field<R: Clone, T>(
    good: &R,
    convert: impl Fn(R) -> Result<T, Violations>,
    cases: &[(&str, Spoil<R>)],
) {
    assert_eq!(fields(convert(good.clone())), Vec::<String>::new(), "the good request");
    for (number, (field, spoil)) in cases.iter().enumerate() {
        let mut request = good.clone();
        spoil(&mut request);
        assert_eq!(fields(convert(request)), [*field], "case {number}, {field}");
    }
}

#[test]
fn each_limit_of_a_question_names_its_field() {
    each_names_its_field(
        &question(),
        |request| acquire(request, None, None),
        &[
            ("namespace", |r| r.namespace.clear()),
            ("namespace", |r| r.namespace = "a".repeat(65)),
            ("namespace", |r| r.namespace = "Shop".to_owned()),
            ("namespace", |r| r.namespace = "-shop".to_owned()),
            ("namespace", |r| r.namespace = ".shop".to_owned()),
            ("namespace", |r| r.namespace = "sh/op".to_owned()),
            ("namespace", |r| r.namespace = "shöp".to_owned()),
            ("key", |r| r.key.clear()),
            ("key", |r| r.key = "k".repeat(1_025)),
            ("key", |r| r.key = "é".repeat(513)),
            ("holder", |r| r.holder = "h".repeat(257)),
            ("request_id", |r| r.request_id = "r".repeat(65)),
            ("request_id", |r| r.request_id = "ré".to_owned()),
            ("request_id", |r| r.request_id = "r\n".to_owned()),
            ("wait", |r| r.wait = span(-1, 0)),
            ("wait", |r| r.wait = span(0, -1)),
            ("intent", |r| r.intent = 4),
            ("intent", |r| r.intent = -1),
            ("known_version", |r| r.known_version = -1),
            ("lease_ttl", |r| r.lease_ttl = span(30 * 86_400, 1)),
            ("min_fencing_token", |r| r.min_fencing_token = i64::MIN),
            ("tags", |r| r.tags = numbered(17)),
            ("tags[1]", |r| r.tags = vec!["a".to_owned(), String::new()]),
            ("tags[0]", |r| r.tags = vec!["t".repeat(257)]),
            ("newer_than", |r| r.newer_than = -1),
            ("hits", |r| r.hits = -1),
        ],
    );
}

#[test]
fn each_limit_of_a_report_names_its_field() {
    each_names_its_field(
        &report_of(Given::Value(bytes::Bytes::from_static(b"v"))),
        report,
        &[
            ("namespace", |r| r.namespace.clear()),
            ("key", |r| r.key.clear()),
            ("lease_id", |r| r.lease_id.clear()),
            ("lease_id", |r| r.lease_id = "l".repeat(129)),
            ("lease_id", |r| r.lease_id = "l1-é".to_owned()),
            ("outcome", |r| r.outcome = None),
            ("external.locator", |r| {
                r.outcome = Some(Given::External(proto::External {
                    locator: "l".repeat(1_025),
                }));
            }),
            ("failure.retry_after", |r| {
                r.outcome = Some(Given::Failure(proto::Failure {
                    message: String::new(),
                    retry_after: span(-1, 0),
                }));
            }),
            ("rebuild_cost", |r| r.rebuild_cost = span(0, 1_000_000_000)),
            ("tags", |r| r.tags = numbered(17)),
            ("ttl.fresh_ttl", |r| {
                r.ttl = Some(proto::Lifetimes {
                    fresh_ttl: span(-1, 0),
                    ..Default::default()
                });
            }),
            ("ttl.stale_while_revalidate", |r| {
                r.ttl = Some(proto::Lifetimes {
                    stale_while_revalidate: span(i64::MAX, 0),
                    ..Default::default()
                });
            }),
            ("ttl.stale_if_error", |r| {
                r.ttl = Some(proto::Lifetimes {
                    stale_if_error: span(1, -1),
                    ..Default::default()
                });
            }),
            ("do_not_store", |r| {
                r.do_not_store = true;
                r.outcome = Some(Given::External(proto::External::default()));
            }),
        ],
    );
}

#[test]
fn each_limit_of_a_renewal_names_its_field() {
    each_names_its_field(
        &renewal(),
        renew,
        &[
            ("namespace", |r| r.namespace.clear()),
            ("key", |r| r.key.clear()),
            ("lease_id", |r| r.lease_id.clear()),
            ("ttl", |r| r.ttl = span(-5, 0)),
        ],
    );
}

#[test]
fn each_limit_of_an_invalidation_names_its_field() {
    each_names_its_field(
        &invalidation(),
        |request| invalidate(request, None),
        &[
            ("namespace", |r| r.namespace.clear()),
            ("keys", |r| r.keys.clear()),
            ("keys", |r| r.keys = numbered(1_001)),
            ("tags", |r| r.tags = numbered(1_000)),
            ("keys[1]", |r| r.keys.push(String::new())),
            ("keys[1]", |r| r.keys.push("k".repeat(1_025))),
            ("tags[0]", |r| r.tags.push("t".repeat(257))),
            ("everything", |r| r.everything = true),
            ("mode", |r| r.mode = 3),
            ("reason", |r| r.reason = "r".repeat(257)),
            ("wait_for_watchers", |r| r.wait_for_watchers = span(-1, 0)),
            ("settle", |r| r.settle = span(30 * 86_400 + 1, 0)),
        ],
    );
}

#[test]
fn each_limit_of_watch_and_of_schedule_refresh_names_its_field() {
    let subscribe = proto::Subscribe {
        namespaces: vec!["shop".to_owned()],
        key_prefixes: vec![String::new()],
        ..Default::default()
    };
    each_names_its_field(
        &subscribe,
        |request| check_subscribe(&request),
        &[
            ("subscribe.namespaces", |r| r.namespaces.clear()),
            ("subscribe.namespaces[1]", |r| r.namespaces.push("A".to_owned())),
            ("subscribe.key_prefixes[1]", |r| r.key_prefixes.push("k".repeat(1_025))),
            ("subscribe.holder", |r| r.holder = "h".repeat(257)),
            ("subscribe.namespaces", |r| r.namespaces = numbered(65)),
            ("subscribe.key_prefixes", |r| r.key_prefixes = numbered(101)),
        ],
    );
    let ack = proto::Ack {
        cursor: String::new(),
        hits: vec![proto::KeyHits {
            namespace: "shop".to_owned(),
            key: "k".to_owned(),
            hits: 1,
        }],
    };
    each_names_its_field(
        &ack,
        |request| check_ack(&request),
        &[
            ("ack.cursor", |r| r.cursor = "c".repeat(2_049)),
            ("ack.hits[0].namespace", |r| r.hits[0].namespace.clear()),
            ("ack.hits[0].key", |r| r.hits[0].key.clear()),
            ("ack.hits[0].hits", |r| r.hits[0].hits = -1),
        ],
    );
    let schedule = proto::ScheduleRefreshRequest {
        namespace: "shop".to_owned(),
        keys: vec!["k".to_owned()],
        ..Default::default()
    };
    each_names_its_field(
        &schedule,
        |request| check_schedule(&request).map(drop),
        &[
            ("namespace", |r| r.namespace.clear()),
            ("keys", |r| r.keys.clear()),
            ("keys", |r| r.keys = numbered(10_001)),
            ("keys", |r| r.keys = vec!["k".repeat(1_000); 2_098]),
            ("keys[0]", |r| r.keys[0].clear()),
            ("spread_over", |r| r.spread_over = span(0, -1)),
        ],
    );
}

#[test]
fn each_limit_of_an_operators_question_names_its_field() {
    each_names_its_field(
        &proto::DescribeKeyRequest {
            namespace: "shop".to_owned(),
            key: "k".to_owned(),
        },
        |request| describe(&request),
        &[("namespace", |r| r.namespace.clear()), ("key", |r| r.key.clear())],
    );
    each_names_its_field(
        &proto::ListLeasesRequest::default(),
        leases,
        &[
            ("namespace", |r| r.namespace = "A".to_owned()),
            ("page_size", |r| r.page_size = -1),
            ("page_size", |r| r.page_size = 1_001),
            ("page_token", |r| r.page_token = "?".to_owned()),
        ],
    );
    each_names_its_field(
        &proto::ListNamespacesRequest::default(),
        |request| namespaces(&request),
        &[
            ("page_size", |r| r.page_size = 1_001),
            ("page_token", |r| r.page_token = "bA".to_owned()),
            ("page_token", |r| r.page_token = "n".repeat(100_000)),
        ],
    );
    each_names_its_field(
        &proto::ListHotKeysRequest {
            namespace: "shop".to_owned(),
            page_size: 0,
        },
        |request| hot_keys(&request).map(drop),
        &[
            ("namespace", |r| r.namespace.clear()),
            ("page_size", |r| r.page_size = -1),
        ],
    );
}

#[test]
fn what_lies_exactly_on_a_limit_passes() {
    let request = proto::AcquireRebuildRequest {
        namespace: format!("0{}", "._-z".repeat(16))[..64].to_owned(),
        key: "k".repeat(1_024),
        holder: "h".repeat(256),
        request_id: "r ~".repeat(21),
        wait: span(30 * 86_400, 0),
        lease_ttl: span(0, 0),
        tags: (0..16).map(|number| format!("{number:0>256}")).collect(),
        known_version: i64::MAX,
        ..Default::default()
    };
    let asked = acquire(request, None, None).expect("all limits are kept");
    assert_eq!(asked.wait, Some(LONGEST));
    assert_eq!(asked.ask.lease_ttl, Some(Duration::ZERO));
    assert_eq!(asked.ask.tags.map(|tags| tags.len()), Some(16));
    assert!(
        invalidate(
            proto::InvalidateRequest {
                keys: numbered(1_000),
                ..invalidation()
            },
            None
        )
        .is_ok()
    );
    let keys = vec!["k".repeat(1_024); 2_048];
    let namespace = "shop".to_owned();
    assert!(
        check_schedule(&proto::ScheduleRefreshRequest {
            namespace,
            keys,
            ..Default::default()
        })
        .is_ok()
    );
}

#[test]
fn a_duration_is_refused_for_what_is_wrong_with_it() {
    let cases = [
        ((1, -1), "different signs"),
        ((-1, 1), "different signs"),
        ((-1, 0), "negative"),
        ((0, -1), "negative"),
        ((-1, -1), "negative"),
        ((0, 1_000_000_000), "nanos outside"),
        ((0, i32::MIN), "nanos outside"),
        ((i64::MIN, i32::MIN), "nanos outside"),
        ((30 * 86_400, 1), "30 days"),
        ((i64::MAX, 0), "30 days"),
    ];
    for ((seconds, nanos), problem) in cases {
        let request = proto::AcquireRebuildRequest {
            wait: span(seconds, nanos),
            ..question()
        };
        let violations = acquire(request, None, None).expect_err("a bad duration");
        let [found] = violations.list() else {
            panic!("{violations:?}")
        };
        assert!(
            found.problem.contains(problem),
            "{seconds} s {nanos} ns: {}",
            found.problem
        );
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once_but_at_most_ten() {
    let request = proto::AcquireRebuildRequest {
        namespace: String::new(),
        key: String::new(),
        wait: span(-1, 0),
        intent: 77,
        ..Default::default()
    };
    assert_eq!(
        fields(acquire(request, None, None)),
        ["namespace", "key", "wait", "intent"]
    );
    let request = proto::InvalidateRequest {
        namespace: String::new(),
        keys: vec![String::new(); 1_000],
        ..Default::default()
    };
    let found = fields(invalidate(request, None));
    assert_eq!(
        (found.len(), found[0].as_str(), found[9].as_str()),
        (10, "namespace", "keys[8]")
    );
}

#[test]
fn a_tag_given_twice_counts_once() {
    let mut tags = numbered(16);
    tags.extend(numbered(16));
    let request = proto::AcquireRebuildRequest { tags, ..question() };
    let tags = acquire(request, None, None).expect("16 different tags").ask.tags;
    assert_eq!(
        tags.map(|tags| tags.iter().map(|tag| tag.to_string()).collect()),
        Some(numbered(16))
    );
}

#[test]
fn a_lease_id_of_another_kind_is_one_that_no_grant_has() {
    for text in ["x", "l1", "some other id"] {
        let request = proto::RenewLeaseRequest {
            lease_id: text.to_owned(),
            ..renewal()
        };
        let lease = renew(request).expect("printable ASCII").lease;
        assert_eq!(
            lease,
            LeaseId {
                token: Seq(u64::MAX),
                secret: std::num::NonZeroU64::MIN
            },
            "{text}"
        );
    }
}

#[test]
fn a_failures_message_is_cut_between_characters() {
    let message = format!("{}é!", "m".repeat(1_023));
    let given = report_of(Given::Failure(proto::Failure {
        message,
        retry_after: None,
    }));
    let Outcome::Failed { message, .. } = report(given).expect("long messages are cut").report.outcome else {
        panic!("it is a failure");
    };
    assert_eq!(&*message, "m".repeat(1_023));
}

#[test]
fn a_value_is_copied_out_of_the_receive_buffer_and_an_empty_one_is_a_value() {
    let buffer = bytes::Bytes::from(vec![7_u8; 100_000]);
    let given = report_of(Given::Value(buffer.slice(10..13)));
    let reported = report(given).expect("a value");
    assert_eq!(reported.bytes.as_deref(), Some(&[7, 7, 7][..]));
    assert_eq!(reported.report.outcome, Outcome::Built(Content::Bytes(3)));
    assert!(buffer.is_unique(), "the buffer is still shared");
    let empty = report(report_of(Given::Value(bytes::Bytes::new()))).expect("an empty value");
    assert_eq!(empty.bytes.as_deref(), Some(&[][..]));
}

#[test]
fn the_wait_for_watchers_ends_with_the_time_of_the_call() {
    let wait = |left| {
        let request = proto::InvalidateRequest {
            wait_for_watchers: span(10, 0),
            ..invalidation()
        };
        invalidate(request, left).expect("valid").wait_for_watchers
    };
    assert_eq!(wait(None), Duration::from_secs(10));
    assert_eq!(wait(Some(Duration::from_secs(3))), Duration::from_secs(3));
    assert_eq!(wait(Some(Duration::from_secs(30))), Duration::from_secs(10));
}

#[test]
fn what_a_question_leaves_out_has_its_default() {
    let asked = acquire(question(), None, None).expect("valid");
    assert!(asked.ask.accept_stale);
    assert_eq!((asked.wait, asked.ask.lease_ttl, asked.ask.tags), (None, None, None));
    assert_eq!((&*asked.ask.holder, &*asked.ask.request_id), ("", ""));
}
