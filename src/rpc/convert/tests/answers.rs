use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::coordinator::{Acquired, Description, Invalidated, LeaseInfo, Renewed, Reported};
use crate::decision::{
    Answer, Busy, BusyCause, Cause, Expiry, Hit, HitContent, KeepOff, Key, LeaseId, LostReason, Rebuild, Rejection,
    ReportAnswer, Seq,
};
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::hit::Content;
use crate::proto::invalidated_target::Target as Named;
use crate::store::Target;

fn hit(content: HitContent) -> Hit {
    Hit {
        version: Seq(7),
        fresh: true,
        content,
        age: Duration::from_millis(1_500),
        expiry: Expiry {
            fresh_for: Duration::from_secs(100),
            stale_for: Duration::from_secs(160),
            stale_if_error_for: Duration::from_secs(3_700),
            refresh_in: Some(Duration::from_secs(99)),
            rebuild_cost: Duration::from_millis(200),
            beta: 1.0,
        },
        rebuilding: true,
        tags: Some(Arc::from([Arc::from("a"), Arc::from("b")])),
        traceparent: Some(Arc::from("00-x")),
    }
}

fn answered(answer: Answer, bytes: Option<&[u8]>) -> Option<Decision> {
    acquired(Acquired {
        answer,
        bytes: bytes.map(Arc::from),
        degraded: false,
        waited: Duration::ZERO,
        hint: None,
    })
    .decision
}

#[test]
fn a_hit_says_all_that_is_known_of_the_value() {
    let Some(Decision::Hit(told)) = answered(Answer::Hit(hit(HitContent::Bytes)), Some(b"bytes")) else {
        panic!("it is a hit");
    };
    let expected = proto::Hit {
        version: 7,
        freshness: proto::Freshness::Fresh.into(),
        content: Some(Content::Value(bytes::Bytes::from_static(b"bytes"))),
        age: span(1, 500_000_000),
        expiry: Some(proto::Expiry {
            fresh_for: span(100, 0),
            stale_for: span(160, 0),
            stale_if_error_for: span(3_700, 0),
            refresh_in: span(99, 0),
            rebuild_cost: span(0, 200_000_000),
            beta: 1.0,
        }),
        rebuilding: true,
        tags: vec!["a".to_owned(), "b".to_owned()],
        rebuild_traceparent: "00-x".to_owned(),
    };
    assert_eq!(told, expected);
}

#[test]
fn each_kind_of_content_is_told() {
    let cases = [
        (
            HitContent::External(Arc::from("s3")),
            Content::External(proto::External {
                locator: "s3".to_owned(),
            }),
        ),
        (HitContent::NotFound, Content::NotFound(proto::NotFound {})),
        (HitContent::Unchanged, Content::Unchanged(proto::Unchanged {})),
        (HitContent::Omitted, Content::Omitted(proto::Omitted {})),
    ];
    for (content, expected) in cases {
        let Some(Decision::Hit(told)) = answered(Answer::Hit(hit(content)), None) else {
            panic!("it is a hit");
        };
        assert_eq!(told.content, Some(expected));
    }
}

#[test]
fn an_empty_value_is_a_value() {
    let Some(Decision::Hit(told)) = answered(Answer::Hit(hit(HitContent::Bytes)), Some(b"")) else {
        panic!("it is a hit");
    };
    assert_eq!(told.content, Some(Content::Value(bytes::Bytes::new())));
}

#[test]
fn a_grant_carries_its_lease_and_the_bytes_of_its_fallback() {
    let granted = Rebuild {
        lease: LeaseId {
            token: Seq(10),
            secret: 3.try_into().expect("not zero"),
        },
        ttl: Duration::from_secs(10),
        max_hold: Duration::from_secs(120),
        cause: Cause::Takeover,
        fallback: Some(hit(HitContent::Bytes)),
        fallback_on_failure_only: true,
        planned: Expiry::default(),
        max_value_bytes: 1_048_576,
    };
    let Some(Decision::Rebuild(told)) = answered(Answer::Rebuild(Box::new(granted)), Some(b"old")) else {
        panic!("it is a grant");
    };
    let lease = told.lease.clone().expect("a lease");
    assert_eq!(
        lease.lease_id.parse(),
        Ok(LeaseId {
            token: Seq(10),
            secret: 3.try_into().expect("not zero")
        })
    );
    assert_eq!(
        (lease.fencing_token, lease.ttl, lease.max_hold),
        (10, span(10, 0), span(120, 0))
    );
    assert_eq!(told.cause(), proto::Cause::Takeover);
    assert!(told.fallback_on_failure_only);
    assert_eq!(told.max_value_bytes, 1_048_576);
    let fallback = told.fallback.expect("a fallback").content;
    assert_eq!(fallback, Some(Content::Value(bytes::Bytes::from_static(b"old"))));
}

#[test]
fn busy_backoff_and_miss_are_told() {
    let busy = Busy {
        retry_after: Duration::from_millis(100),
        lease_remaining: Duration::ZERO,
        cause: BusyCause::RebuildBudget,
    };
    let Some(Decision::Busy(told)) = answered(Answer::Busy(busy), None) else {
        panic!("it is busy");
    };
    assert_eq!((told.retry_after, told.lease_remaining), (span(0, 100_000_000), None));
    assert_eq!(told.cause(), proto::BusyCause::RebuildBudget);
    let pause = KeepOff {
        retry_after: Duration::from_secs(2),
        failures: u32::MAX,
        message: Arc::from("503"),
        circuit_open: true,
    };
    let Some(Decision::Backoff(told)) = answered(Answer::KeepOff(pause), None) else {
        panic!("it is a pause");
    };
    assert_eq!(
        (told.failures, told.message.as_str(), told.circuit_open),
        (i32::MAX, "503", true)
    );
    assert_eq!(answered(Answer::Miss, None), Some(Decision::Miss(proto::Miss {})));
}

#[test]
fn a_renewal_says_whether_the_lease_is_kept_or_why_not() {
    let kept = renewed(Renewed {
        lost: None,
        ttl: Duration::from_secs(10),
        max_hold: Duration::from_secs(110),
    });
    assert_eq!(
        (kept.renewed, kept.lost_reason()),
        (true, proto::LostReason::Unspecified)
    );
    assert_eq!((kept.ttl, kept.max_hold), (span(10, 0), span(110, 0)));
    let lost = renewed(Renewed {
        lost: Some(LostReason::Superseded),
        ttl: Duration::ZERO,
        max_hold: Duration::ZERO,
    });
    assert_eq!(
        (lost.renewed, lost.lost_reason()),
        (false, proto::LostReason::Superseded)
    );
    assert_eq!(lost.ttl, None);
}

#[test]
fn a_report_says_whether_it_was_accepted_or_why_not() {
    let accepted = reported(Reported {
        answer: ReportAnswer::Accepted {
            version: Seq(9),
            expiry: Some(Expiry::default()),
        },
        degraded: true,
    });
    assert!(accepted.accepted && accepted.degraded);
    assert_eq!(
        (accepted.version, accepted.expiry.and_then(|life| life.fresh_for)),
        (9, span(0, 0))
    );
    let refused = reported(Reported {
        answer: ReportAnswer::Rejected(Rejection::NoValue),
        degraded: false,
    });
    assert_eq!(
        (refused.accepted, refused.rejection()),
        (false, proto::Rejection::NoValue)
    );
    assert_eq!((refused.version, refused.expiry), (0, None));
}

#[test]
fn an_invalidation_names_its_targets_in_their_order_and_at_most_ten_laggards() {
    let told = invalidated(Invalidated {
        targets: vec![
            (Target::Key(Key::new("shop", "a/b")), Seq(1)),
            (Target::Tag(Arc::from("t")), Seq(2)),
            (Target::Everything, Seq(3)),
        ],
        leases_revoked: 4,
        watchers: 20,
        acknowledged: 5,
        confirmed: false,
        laggards: vec![Arc::from("slow"); 15],
    });
    let named: Vec<_> = told.invalidated.into_iter().map(|it| (it.target, it.version)).collect();
    let expected = [
        (Some(Named::Key("a/b".to_owned())), 1),
        (Some(Named::Tag("t".to_owned())), 2),
        (Some(Named::Everything(true)), 3),
    ];
    assert_eq!(named, expected);
    assert_eq!(
        (told.leases_revoked, told.watchers, told.watchers_acknowledged),
        (4, 20, 5)
    );
    assert_eq!(told.laggards.len(), 10);
}

#[test]
fn a_description_never_has_the_bytes() {
    let told = described(Description {
        current: Some(hit(HitContent::Bytes)),
        lease: Some(LeaseInfo {
            key: Key::new("shop", "k"),
            holder: Arc::from("h"),
            token: Seq(5),
            cause: Cause::Miss,
            held: Duration::from_secs(1),
            ttl: Duration::from_secs(9),
            waiters: 2,
            traceparent: None,
        }),
        waiters: 2,
        backoff: None,
    });
    let current = told.current.expect("a value");
    assert_eq!(current.content, Some(Content::Omitted(proto::Omitted {})));
    let lease = told.lease.expect("a lease");
    assert_eq!(
        (lease.namespace.as_str(), lease.key.as_str(), lease.fencing_token),
        ("shop", "k", 5)
    );
}

#[test]
fn numbers_beyond_the_protos_range_stop_at_its_end() {
    assert_eq!(
        length(Duration::MAX),
        prost_types::Duration {
            seconds: i64::MAX,
            nanos: 999_999_999
        }
    );
}
