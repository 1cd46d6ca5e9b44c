//! Which keys are asked for most.

use drover::proto::{
    Ack, AcquireRebuildRequest, Intent, KeyHits, ListHotKeysRequest, Subscribe, WatchRequest, watch_request::Kind,
};

use crate::statuses::fields;
use crate::support::{Drover, SHOP, ask, eventually};

fn hottest(page_size: i32) -> ListHotKeysRequest {
    ListHotKeysRequest {
        namespace: SHOP.to_owned(),
        page_size,
    }
}

/// A question that changes nothing, of a caller with a local copy.
fn read(key: &str, hits: i64) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        intent: Intent::Read.into(),
        hits,
        ..ask(key)
    }
}

#[tokio::test]
async fn hot_keys_are_hinted_at_and_listed_the_hottest_first() {
    let drover = Drover::start().await.at_one_replica().await;
    let cold = drover.answer(read("rare", 0)).await;
    assert_eq!(cold.hints, None);
    // A local copy was read so often since the caller last asked.
    let hot = drover.answer(read("front page", 100_000)).await;
    let hints = hot.hints.expect("it is asked for much");
    assert!(hints.hot && hints.replicas > 1, "{hints:?}");
    let mut admin = drover.admin().await;
    let listed = admin.list_hot_keys(hottest(0)).await.expect("a list").into_inner();
    let keys: Vec<&str> = listed.hot_keys.iter().map(|hot| hot.key.as_str()).collect();
    assert_eq!(keys, ["front page", "rare"]);
    assert!(listed.hot_keys[0].rate > 1_000.0 && listed.hot_keys[0].error == 0.0);
    let one = admin.list_hot_keys(hottest(1)).await.expect("a list").into_inner();
    assert_eq!(one.hot_keys.len(), 1);
    let refused = admin.list_hot_keys(hottest(-1)).await.expect_err("negative");
    assert_eq!(fields(&refused), ["page_size"]);
    drop(admin);
    drover.end().await;
}

#[tokio::test]
async fn what_a_watcher_says_it_read_locally_counts() {
    let drover = Drover::start().await.at_one_replica().await;
    let (say, requests) = tokio::sync::mpsc::channel(4);
    let subscribe = Kind::Subscribe(Subscribe {
        namespaces: vec![SHOP.to_owned()],
        ..Subscribe::default()
    });
    let send = async |kind| say.send(WatchRequest { kind: Some(kind) }).await.expect("it listens");
    send(subscribe).await;
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut events = drover
        .calls
        .clone()
        .watch(requests)
        .await
        .expect("a stream")
        .into_inner();
    let started = events.message().await.expect("a message").expect("a start");
    send(Kind::Ack(Ack {
        cursor: started.cursor,
        hits: vec![KeyHits {
            namespace: SHOP.to_owned(),
            key: "copied".to_owned(),
            hits: 7,
        }],
    }))
    .await;
    let mut admin = drover.admin().await;
    let listed = eventually(async || {
        let listed = admin.list_hot_keys(hottest(0)).await.expect("a list").into_inner();
        listed.hot_keys.into_iter().next()
    })
    .await;
    assert_eq!(listed.key, "copied");
    drop((say, events, admin));
    drover.end().await;
}
