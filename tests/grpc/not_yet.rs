//! What later releases bring says so, once the request is right.

use drover::proto::{ListHotKeysRequest, ScheduleRefreshRequest};
use tonic::Code;

use crate::statuses::fields;
use crate::support::{Drover, words};

#[tokio::test]
async fn it_is_unimplemented_and_says_what_is_missing() {
    let drover = Drover::start().await;
    let mut calls = drover.calls.clone();
    let schedule = |keys| ScheduleRefreshRequest {
        namespace: "shop".to_owned(),
        keys,
        ..ScheduleRefreshRequest::default()
    };
    let hot_keys = |page_size| ListHotKeysRequest {
        namespace: "shop".to_owned(),
        page_size,
    };
    let statuses = [
        calls
            .schedule_refresh(schedule(words(&["item"])))
            .await
            .expect_err("not yet"),
        calls.pull_refreshes(tokio_stream::empty()).await.expect_err("not yet"),
        drover
            .admin()
            .await
            .list_hot_keys(hot_keys(0))
            .await
            .expect_err("not yet"),
    ];
    for (status, call) in statuses.iter().zip(["ScheduleRefresh", "PullRefreshes", "ListHotKeys"]) {
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(
            status.message().contains(call) && status.message().contains("later"),
            "{status:?}"
        );
    }
    let status = calls.schedule_refresh(schedule(Vec::new())).await.expect_err("no keys");
    assert_eq!(fields(&status), ["keys"]);
    let status = drover
        .admin()
        .await
        .list_hot_keys(hot_keys(-1))
        .await
        .expect_err("negative");
    assert_eq!(fields(&status), ["page_size"]);
    drover.end().await;
}
