//! Where only configured namespaces are served.

use std::sync::Arc;

use drover::config::PolicySet;
use drover::decision::Policy;
use drover::proto::watch_request::Kind;
use drover::proto::{
    AcquireRebuildRequest, DescribeKeyRequest, InvalidateRequest, ListLeasesRequest, RenewLeaseRequest,
    ReportValueRequest, Subscribe,
};
use tonic::{Code, Status};

use crate::statuses::reason;
use crate::support::{Drover, ask, drop_everything, report, words};
use crate::watching::{Watcher, subscribe};

async fn strict() -> Drover {
    Drover::under(PolicySet {
        namespaces: [("shop".to_owned(), Arc::new(Policy::default()))].into(),
        strict: true,
        ..PolicySet::default()
    })
    .await
}

fn unknown(status: &Status) {
    assert_eq!(
        (status.code(), reason(status)),
        (Code::NotFound, "UNKNOWN_NAMESPACE".to_owned()),
        "{status:?}"
    );
    assert!(status.message().contains("other"), "it says which: {status:?}");
}

#[tokio::test]
async fn every_call_about_another_one_is_not_found() {
    let drover = strict().await;
    let rebuild = drover.granted(ask("item")).await;
    let mut calls = drover.calls.clone();
    let mut admin = drover.admin().await;
    let namespace = || "other".to_owned();
    unknown(
        &calls
            .acquire_rebuild(AcquireRebuildRequest {
                namespace: namespace(),
                ..ask("item")
            })
            .await
            .expect_err("strict"),
    );
    let wrong = ReportValueRequest {
        namespace: namespace(),
        ..report("item", &rebuild, "value")
    };
    unknown(&calls.report_value(wrong).await.expect_err("strict"));
    let wrong = RenewLeaseRequest {
        namespace: namespace(),
        key: "item".to_owned(),
        lease_id: crate::support::lease(&rebuild).lease_id,
        ttl: None,
    };
    unknown(&calls.renew_lease(wrong).await.expect_err("strict"));
    unknown(
        &calls
            .invalidate(InvalidateRequest {
                namespace: namespace(),
                ..drop_everything()
            })
            .await
            .expect_err("strict"),
    );
    let wrong = DescribeKeyRequest {
        namespace: namespace(),
        key: "item".to_owned(),
    };
    unknown(&admin.describe_key(wrong).await.expect_err("strict"));
    let wrong = ListLeasesRequest {
        namespace: namespace(),
        ..ListLeasesRequest::default()
    };
    unknown(&admin.list_leases(wrong).await.expect_err("strict"));
    drop((calls, admin));
    drover.accept(report("item", &rebuild, "value")).await;
    drover.end().await;
}

/// It would hear of nothing, and trust its copies for ever.
#[tokio::test]
async fn nobody_can_watch_another_one() {
    let drover = strict().await;
    let wrong = Subscribe {
        namespaces: words(&["shop", "other"]),
        ..subscribe()
    };
    let mut watcher = Watcher::open(&drover, Some(Kind::Subscribe(wrong))).await;
    unknown(&watcher.refused().await);
    Watcher::live(&drover, subscribe()).await;
    drover.end().await;
}
