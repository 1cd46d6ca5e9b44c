//! Watchers of several replicas.

use std::time::Duration;

use drover::proto::watch_request::Kind;
use drover::proto::watch_response::Event;
use drover::proto::{Ack, InvalidateRequest, InvalidateResponse, Subscribe, WatchRequest, WatchResponse};
use prost_types::Duration as Span;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::fleet::{Calls, Fleet};

/// No test waits longer for what must come.
const SOON: Duration = Duration::from_secs(20);

struct Watcher {
    say: mpsc::UnboundedSender<WatchRequest>,
    hear: Streaming<WatchResponse>,
    cursor: String,
}

impl Watcher {
    /// It has heard its Started.
    async fn live(mut calls: Calls, subscribe: Subscribe) -> Watcher {
        let (say, said) = mpsc::unbounded_channel();
        let hear = calls
            .watch(UnboundedReceiverStream::new(said))
            .await
            .expect("headers")
            .into_inner();
        let mut watcher = Watcher {
            say,
            hear,
            cursor: String::new(),
        };
        watcher.say(Kind::Subscribe(subscribe));
        watcher.until(|event| matches!(event, Event::Started(_))).await;
        watcher
    }

    fn say(&self, kind: Kind) {
        self.say.send(WatchRequest { kind: Some(kind) }).expect("it listens");
    }

    fn acknowledge(&self) {
        self.say(Kind::Ack(Ack {
            cursor: self.cursor.clone(),
            hits: Vec::new(),
        }));
    }

    /// The first event that is like this; what comes before it is passed over.
    async fn until(&mut self, like: impl Fn(&Event) -> bool) -> Event {
        let found = async {
            loop {
                let message = self.hear.message().await.expect("no error").expect("no end");
                self.cursor = message.cursor;
                if let Some(event) = message.event.filter(&like) {
                    return event;
                }
            }
        };
        tokio::time::timeout(SOON, found).await.expect("it comes soon")
    }

    async fn keys(&mut self) -> Vec<String> {
        match self
            .until(|event| matches!(event, Event::Invalidated(_) | Event::Reset(_)))
            .await
        {
            Event::Invalidated(invalidated) => invalidated.keys,
            other => panic!("{other:?}"),
        }
    }
}

fn named(holder: &str) -> Subscribe {
    Subscribe {
        namespaces: vec!["shop".to_owned()],
        holder: holder.to_owned(),
        ..Subscribe::default()
    }
}

async fn drop_key(calls: &Calls, key: &str, wait: Duration) -> InvalidateResponse {
    let request = InvalidateRequest {
        namespace: "shop".to_owned(),
        keys: vec![key.to_owned()],
        wait_for_watchers: Some(Span::try_from(wait).expect("a short one")),
        ..InvalidateRequest::default()
    };
    calls.clone().invalidate(request).await.expect("an answer").into_inner()
}

fn counts(done: &InvalidateResponse) -> (bool, i32, i32) {
    (done.confirmed, done.watchers, done.watchers_acknowledged)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalidation_is_confirmed_when_the_watchers_of_all_replicas_have_acknowledged() {
    let fleet = Fleet::of(3).await;
    let mut watchers = Vec::new();
    for (replica, holder) in ["zero", "one", "two"].into_iter().enumerate() {
        watchers.push(Watcher::live(fleet.calls(replica).await, named(holder)).await);
    }
    let calls = fleet.calls(0).await;
    let asked = tokio::spawn(async move { drop_key(&calls, "a", SOON).await });
    for watcher in &mut watchers {
        assert_eq!(watcher.keys().await, ["a"]);
        assert!(!asked.is_finished());
        watcher.acknowledge();
    }
    assert_eq!(counts(&asked.await.expect("it runs")), (true, 3, 3));
    let late = drop_key(&fleet.calls(1).await, "b", Duration::from_millis(500)).await;
    assert_eq!(counts(&late), (false, 3, 0));
    let mut laggards = late.laggards;
    laggards.sort();
    assert_eq!(laggards, ["one", "two", "zero"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_of_a_replica_that_is_gone_stay_unacknowledged() {
    let mut fleet = Fleet::of(2).await;
    let _watcher = Watcher::live(fleet.calls(1).await, named("gone")).await;
    drop(fleet.replicas.pop());
    let done = drop_key(&fleet.calls(0).await, "a", Duration::from_millis(300)).await;
    assert_eq!(counts(&done), (false, 1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_one_replica_goes_on_at_another_and_a_client_may_move_to_and_fro() {
    let fleet = Fleet::of(2).await;
    let calls = fleet.calls(0).await;
    let mut cursor = String::new();
    for round in 0..6 {
        let subscribe = Subscribe {
            resume_from: cursor,
            ..named("me")
        };
        let mut watcher = Watcher::live(fleet.calls(round % 2).await, subscribe).await;
        let key = round.to_string();
        drop_key(&calls, &key, Duration::ZERO).await;
        assert_eq!(watcher.keys().await, [key]);
        cursor = watcher.cursor;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_resets_when_the_store_has_lost_everything_and_hears_what_comes_then() {
    let fleet = Fleet::of(2).await;
    let mut watcher = Watcher::live(fleet.calls(1).await, named("me")).await;
    fleet.server.ask::<()>(&["FLUSHALL"]);
    let calls = fleet.calls(0).await;
    drop_key(&calls, "a", Duration::ZERO).await;
    watcher.until(|event| matches!(event, Event::Reset(_))).await;
    drop_key(&calls, "b", Duration::ZERO).await;
    while watcher.keys().await != ["b"] {}
}
