//! What later releases bring says so, once the request is right.

use drover::proto::ScheduleRefreshRequest;
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
    let statuses = [
        calls
            .schedule_refresh(schedule(words(&["item"])))
            .await
            .expect_err("not yet"),
        calls.pull_refreshes(tokio_stream::empty()).await.expect_err("not yet"),
    ];
    for (status, call) in statuses.iter().zip(["ScheduleRefresh", "PullRefreshes"]) {
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(
            status.message().contains(call) && status.message().contains("later"),
            "{status:?}"
        );
    }
    let status = calls.schedule_refresh(schedule(Vec::new())).await.expect_err("no keys");
    assert_eq!(fields(&status), ["keys"]);
    drover.end().await;
}
