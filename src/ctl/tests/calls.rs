//! Each command over the wire: its answer, its exit code, its deadline.

use super::fake::{Fake, with};
use super::*;
use crate::proto::*;

#[tokio::test]
async fn every_answer_has_its_exit_code() {
    use acquire_rebuild_response::Decision;
    let decided = |decision| {
        Ok(AcquireRebuildResponse {
            decision,
            ..AcquireRebuildResponse::default()
        })
    };
    let invalidated = |confirmed| {
        Ok(InvalidateResponse {
            watchers: 2,
            confirmed,
            ..InvalidateResponse::default()
        })
    };
    let server = Fake {
        acquire: with([
            decided(Some(Decision::Hit(Hit::default()))),
            decided(Some(Decision::Rebuild(Rebuild::default()))),
            decided(Some(Decision::Busy(Busy::default()))),
            decided(Some(Decision::Backoff(Backoff::default()))),
            decided(Some(Decision::Miss(Miss {}))),
            decided(None),
        ]),
        report: with([true, false].map(|accepted| {
            Ok(ReportValueResponse {
                accepted,
                ..ReportValueResponse::default()
            })
        })),
        renew: with([true, false].map(|renewed| {
            Ok(RenewLeaseResponse {
                renewed,
                ..RenewLeaseResponse::default()
            })
        })),
        invalidate: with([invalidated(true), invalidated(false), invalidated(false)]),
        describe: with([
            Ok(DescribeKeyResponse {
                current: Some(Hit::default()),
                ..DescribeKeyResponse::default()
            }),
            Ok(DescribeKeyResponse::default()),
        ]),
        leases: with([Ok(ListLeasesResponse::default())]),
        namespaces: with([Ok(ListNamespacesResponse::default())]),
        ..Fake::default()
    }
    .start()
    .await;
    let acquire: &[&str] = &["acquire", "orders", "k"];
    let report: &[&str] = &["report", "orders", "k", "lease", "--value", "v"];
    let renew: &[&str] = &["renew", "orders", "k", "lease"];
    let table: [(&[&str], Exit); 17] = [
        (acquire, Exit::Yes),
        (acquire, Exit::Yes),
        (acquire, Exit::Busy),
        (acquire, Exit::Backoff),
        (acquire, Exit::Miss),
        (acquire, Exit::Busy),
        (report, Exit::Yes),
        (report, Exit::Refused),
        (renew, Exit::Yes),
        (renew, Exit::Refused),
        (&["invalidate", "orders", "k", "--wait", "1s"], Exit::Yes),
        (&["invalidate", "orders", "k", "--wait", "1s"], Exit::Unconfirmed),
        (&["invalidate", "orders", "k"], Exit::Yes),
        (&["describe", "orders", "k"], Exit::Yes),
        (&["describe", "orders", "k"], Exit::Miss),
        (&["leases"], Exit::Yes),
        (&["namespaces"], Exit::Yes),
    ];
    for (line, expected) in table {
        let (exit, stdout, stderr) = run(&server.url, line).await;
        assert_eq!((exit, stderr.as_str()), (expected, ""), "{line:?}");
        assert!(!stdout.is_empty(), "{line:?}");
    }
}

#[tokio::test]
async fn the_deadline_leaves_room_for_the_wait() {
    for (wait, deadline) in [(Some("2s"), "7000000u"), (None, "65000000u")] {
        let server = Fake {
            acquire: with([Ok(AcquireRebuildResponse::default())]),
            ..Fake::default()
        }
        .start()
        .await;
        let mut line = vec!["acquire", "orders", "k"];
        line.extend(wait.map(|wait| ["--wait", wait]).into_iter().flatten());
        run(&server.url, &line).await;
        assert_eq!(server.fake.deadline.lock().as_deref(), Some(deadline));
    }
}

#[tokio::test]
async fn all_pages_make_one_list() {
    let page = |key: &str, next: &str| {
        let lease = LeaseInfo {
            namespace: "orders".into(),
            key: key.into(),
            ..LeaseInfo::default()
        };
        Ok(ListLeasesResponse {
            leases: vec![lease],
            next_page_token: next.into(),
        })
    };
    let server = Fake {
        leases: with([page("a", "p2"), page("b", "")]),
        ..Fake::default()
    }
    .start()
    .await;
    let (exit, stdout, _) = run(&server.url, &["leases", "--all", "--json"]).await;
    assert_eq!(exit, Exit::Yes);
    assert_eq!(stdout.lines().count(), 1);
    let document: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        (&document["leases"][0]["key"], &document["leases"][1]["key"]),
        (&"a".into(), &"b".into())
    );
    assert_eq!(document["next_page_token"], "");
    assert_eq!(*server.fake.seen.borrow(), [r#"page """#, r#"page "p2""#]);
}
