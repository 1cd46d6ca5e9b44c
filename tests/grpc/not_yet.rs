//! What later releases bring says so, once the request is right.

use drover::proto::ListHotKeysRequest;
use tonic::Code;

use crate::statuses::fields;
use crate::support::Drover;

#[tokio::test]
async fn it_is_unimplemented_and_says_what_is_missing() {
    let drover = Drover::start().await;
    let hot_keys = |page_size| ListHotKeysRequest {
        namespace: "shop".to_owned(),
        page_size,
    };
    let status = drover
        .admin()
        .await
        .list_hot_keys(hot_keys(0))
        .await
        .expect_err("not yet");
    assert_eq!(status.code(), Code::Unimplemented);
    let said = status.message();
    assert!(said.contains("ListHotKeys") && said.contains("later"), "{status:?}");
    let status = drover
        .admin()
        .await
        .list_hot_keys(hot_keys(-1))
        .await
        .expect_err("negative");
    assert_eq!(fields(&status), ["page_size"]);
    drover.end().await;
}
