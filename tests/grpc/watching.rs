//! What a watcher hears.

use drover::fanout::Cursor;
use drover::proto::watch_request::Kind;
use drover::proto::watch_response::Event;
use drover::proto::{
    Ack, AcquireRebuildRequest, Invalidated, LostReason, ResetReason, Subscribe, WatchRequest, WatchResponse,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::invalidation::soft;
use crate::statuses::{fields, reason};
use crate::support::{Drover, abandoned, ask, drop_everything, drop_keys, drop_tags, ended, lease, report, words};

/// A watcher and its two directions.
pub struct Watcher {
    say: Option<mpsc::Sender<WatchRequest>>,
    hear: Streaming<WatchResponse>,
    pub cursor: String,
}

pub fn subscribe() -> Subscribe {
    Subscribe {
        namespaces: words(&["shop"]),
        holder: "watcher".to_owned(),
        ..Subscribe::default()
    }
}

impl Watcher {
    pub async fn open(drover: &Drover, first: Option<Kind>) -> Watcher {
        let (say, said) = mpsc::channel(16);
        if let Some(kind) = first {
            say.send(WatchRequest { kind: Some(kind) }).await.expect("room");
        }
        let hear = drover.calls.clone().watch(ReceiverStream::new(said)).await;
        Watcher {
            say: Some(say),
            hear: hear.expect("headers").into_inner(),
            cursor: String::new(),
        }
    }

    pub async fn new(drover: &Drover, subscribe: Subscribe) -> Watcher {
        Watcher::open(drover, Some(Kind::Subscribe(subscribe))).await
    }

    /// Live: everything that was missed has come.
    pub async fn live(drover: &Drover, subscribe: Subscribe) -> Watcher {
        let mut watcher = Watcher::new(drover, subscribe).await;
        watcher.started().await;
        watcher
    }

    pub async fn say(&self, kind: Kind) {
        let say = self.say.as_ref().expect("not closed");
        say.send(WatchRequest { kind: Some(kind) }).await.expect("it listens");
    }

    pub async fn acknowledge(&self) {
        self.acknowledge_at(&self.cursor).await;
    }

    pub async fn acknowledge_at(&self, cursor: &str) {
        let cursor = cursor.to_owned();
        self.say(Kind::Ack(Ack {
            cursor,
            hits: Vec::new(),
        }))
        .await;
    }

    pub fn close(&mut self) {
        self.say = None;
    }

    pub async fn next(&mut self) -> Event {
        let message = self.hear.message().await.expect("no error").expect("not the end");
        assert!(message.cursor.len() <= 2_048 && message.cursor.is_ascii() && !message.cursor.is_empty());
        self.cursor = message.cursor;
        message.event.expect("an event")
    }

    pub async fn started(&mut self) {
        match self.next().await {
            Event::Started(started) => {
                assert_eq!(started.progress_interval.expect("a length").seconds, 5);
                assert_eq!(started.max_silence.expect("a length").seconds, 15);
            }
            other => panic!("no start but {other:?}"),
        }
    }

    pub async fn invalidated(&mut self) -> Invalidated {
        match self.next().await {
            Event::Invalidated(invalidated) => invalidated,
            other => panic!("no invalidation but {other:?}"),
        }
    }

    pub async fn reset(&mut self) -> ResetReason {
        match self.next().await {
            Event::Reset(reset) => reset.reason(),
            other => panic!("no reset but {other:?}"),
        }
    }

    pub async fn refused(&mut self) -> Status {
        loop {
            match self.hear.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it ended without an error"),
                Err(status) => return status,
            }
        }
    }
}

#[tokio::test]
async fn it_opens_with_started_and_then_tells_in_order() {
    let drover = Drover::start().await;
    let mut watcher = Watcher::live(&drover, subscribe()).await;
    drover.invalidate(drop_keys(&["a"])).await;
    let event = watcher.invalidated().await;
    assert_eq!(
        (event.namespace.as_str(), event.keys, event.mode),
        ("shop", words(&["a"]), 1)
    );
    assert!(event.version > 0 && event.tags.is_empty() && !event.everything);
    drover.invalidate(soft(drop_tags(&["t"]))).await;
    let event = watcher.invalidated().await;
    assert_eq!((event.tags, event.mode), (words(&["t"]), 2));
    drover.invalidate(drop_everything()).await;
    assert!(watcher.invalidated().await.everything);
    drover.end().await;
}

#[tokio::test]
async fn headers_come_before_subscribe_and_events_after_the_client_closed_its_side() {
    let drover = Drover::start().await;
    let mut watcher = Watcher::open(&drover, None).await;
    watcher.say(Kind::Subscribe(subscribe())).await;
    watcher.started().await;
    watcher.close();
    drover.invalidate(drop_keys(&["a"])).await;
    assert_eq!(watcher.invalidated().await.keys, words(&["a"]));
    drover.end().await;
}

#[tokio::test]
async fn a_filter_leaves_out_single_keys_and_other_namespaces_and_nothing_else() {
    let drover = Drover::start().await;
    let filtered = Subscribe {
        key_prefixes: words(&["a/", "b/"]),
        namespaces: words(&["shop", "shop", "s"]),
        ..subscribe()
    };
    let mut watcher = Watcher::live(&drover, filtered).await;
    for request in [
        drop_keys(&["c/1", "a"]),
        drover::proto::InvalidateRequest {
            namespace: "shop2".to_owned(),
            ..drop_everything()
        },
        drop_keys(&["c/1", "b/1"]),
    ] {
        drover.invalidate(request).await;
    }
    assert_eq!(watcher.invalidated().await.keys, words(&["b/1"]));
    drover.invalidate(drop_tags(&["c/1"])).await;
    assert_eq!(watcher.invalidated().await.tags, words(&["c/1"]));
    drover.invalidate(drop_everything()).await;
    assert!(watcher.invalidated().await.everything);
    drover.end().await;
}

#[tokio::test]
async fn a_cursor_resumes_with_what_was_missed_with_any_filter() {
    let drover = Drover::start().await;
    let mut watcher = Watcher::live(&drover, subscribe()).await;
    drover.invalidate(drop_keys(&["seen"])).await;
    watcher.invalidated().await;
    let cursor = watcher.cursor.clone();
    drop(watcher);
    drover.invalidate(drop_keys(&["a/missed"])).await;
    drover.invalidate(drop_keys(&["b/missed"])).await;
    for (prefix, expected) in [("", words(&["a/missed", "b/missed"])), ("b/", words(&["b/missed"]))] {
        let resuming = Subscribe {
            resume_from: cursor.clone(),
            key_prefixes: words(&[prefix]),
            ..subscribe()
        };
        let mut watcher = Watcher::new(&drover, resuming).await;
        let mut missed = Vec::new();
        while missed.len() < expected.len() {
            missed.extend(watcher.invalidated().await.keys);
        }
        // Order is promised a key.
        missed.sort();
        assert_eq!(missed, expected);
        watcher.started().await;
    }
    drover.end().await;
}

#[tokio::test]
async fn a_cursor_that_says_nothing_here_is_a_reset_and_then_a_start() {
    let drover = Drover::start().await;
    let elsewhere = Drover::start().await;
    let own = Watcher::live(&drover, subscribe()).await.cursor;
    let foreign = Watcher::live(&elsewhere, subscribe()).await.cursor;
    let forged = |change: fn(&mut Cursor)| {
        let mut cursor = Cursor::decode(&own).expect("a cursor");
        change(&mut cursor);
        cursor.encode().to_string()
    };
    for cursor in [
        "garbage".to_owned(),
        "\0\u{1F980}".to_owned(),
        "A".repeat(2_048),
        "A".repeat(100_000),
        own[..own.len() - 1].to_owned(),
        foreign,
        forged(|cursor| cursor.positions = vec![u64::MAX]),
        forged(|cursor| cursor.epoch = u64::MAX),
        forged(|cursor| cursor.epoch = 0),
        forged(|cursor| cursor.positions = vec![1, 2]),
    ] {
        let resuming = Subscribe {
            resume_from: cursor.clone(),
            ..subscribe()
        };
        let mut watcher = Watcher::new(&drover, resuming).await;
        let reason = watcher.reset().await;
        assert!(
            matches!(reason, ResetReason::UnknownCursor | ResetReason::LogLost),
            "{reason:?} for {cursor:.40}"
        );
        watcher.started().await;
        drover.invalidate(drop_keys(&["after"])).await;
        assert_eq!(watcher.invalidated().await.keys, words(&["after"]), "{cursor:.40}");
    }
    elsewhere.end().await;
    drover.end().await;
}

#[tokio::test]
async fn a_revocation_comes_to_its_holder_alone_whatever_the_filter() {
    let drover = Drover::start().await;
    let watching = |holder: &str| Subscribe {
        namespaces: words(&["elsewhere"]),
        holder: holder.to_owned(),
        ..Subscribe::default()
    };
    let mut concerned = Watcher::live(&drover, watching("a")).await;
    let mut others = Watcher::live(&drover, watching("b")).await;
    let mut nameless = Watcher::live(&drover, watching("")).await;
    let held = |key: &str| AcquireRebuildRequest {
        holder: "a".to_owned(),
        tags: words(&["tag"]),
        ..ask(key)
    };
    for (key, request) in [
        ("by-key", drop_keys(&["by-key"])),
        ("by-tag", soft(drop_tags(&["tag"]))),
        ("by-all", drop_everything()),
    ] {
        let rebuild = drover.granted(held(key)).await;
        let unnamed = drover.granted(AcquireRebuildRequest {
            holder: String::new(),
            ..held(&format!("{key} of nobody"))
        });
        unnamed.await;
        drover.invalidate(request).await;
        let Event::LeaseRevoked(revoked) = concerned.next().await else {
            panic!("no revocation");
        };
        assert_eq!(
            (revoked.key.as_str(), revoked.lease_id.clone()),
            (key, lease(&rebuild).lease_id)
        );
        assert_eq!(revoked.reason(), LostReason::Invalidated);
        // So that the next case has no lease of before that it covers too.
        drover.invalidate(drop_everything()).await;
    }
    let elsewhere = drover::proto::InvalidateRequest {
        namespace: "elsewhere".to_owned(),
        ..drop_keys(&["end"])
    };
    drover.invalidate(elsewhere).await;
    for watcher in [&mut others, &mut nameless, &mut concerned] {
        assert_eq!(watcher.invalidated().await.keys, words(&["end"]));
    }
    drover.end().await;
}

#[tokio::test]
async fn refreshed_comes_on_request_for_values_that_are_kept() {
    let drover = Drover::start().await;
    let mut plain = Watcher::live(&drover, subscribe()).await;
    let mut curious = Watcher::live(
        &drover,
        Subscribe {
            include_refreshed: true,
            ..subscribe()
        },
    )
    .await;
    let rebuild = drover.granted(ask("given-up")).await;
    drover.accept(ended("given-up", &rebuild, abandoned())).await;
    let rebuild = drover.granted(ask("item")).await;
    let version = drover.accept(report("item", &rebuild, "value")).await;
    let Event::Refreshed(refreshed) = curious.next().await else {
        panic!("not refreshed");
    };
    assert_eq!((refreshed.key.as_str(), refreshed.version), ("item", version));
    assert!(
        refreshed
            .expiry
            .expect("an expiry")
            .fresh_for
            .expect("a length")
            .seconds
            > 100
    );
    drover.invalidate(drop_keys(&["item"])).await;
    for watcher in [&mut plain, &mut curious] {
        assert_eq!(watcher.invalidated().await.keys, words(&["item"]));
    }
    drover.end().await;
}

#[tokio::test]
async fn messages_in_a_wrong_order_end_the_stream_and_say_why() {
    let drover = Drover::start().await;
    let ack = || Kind::Ack(Ack::default());

    let mut early = Watcher::open(&drover, Some(ack())).await;
    let mut twice = Watcher::live(&drover, subscribe()).await;
    twice.say(Kind::Subscribe(subscribe())).await;
    let mut silent = Watcher::open(&drover, None).await;
    silent.close();
    for watcher in [&mut early, &mut twice, &mut silent] {
        let status = watcher.refused().await;
        assert_eq!(
            (status.code(), reason(&status)),
            (Code::FailedPrecondition, "STREAM_PROTOCOL".to_owned())
        );
    }

    let mut nothing = Watcher::open(&drover, None).await;
    nothing
        .say
        .as_ref()
        .expect("open")
        .send(WatchRequest { kind: None })
        .await
        .expect("room");
    assert_eq!(fields(&nothing.refused().await), ["kind"]);
    let mut garbage = Watcher::live(&drover, subscribe()).await;
    garbage.acknowledge_at("garbage").await;
    assert_eq!(fields(&garbage.refused().await), ["ack.cursor"]);
    drover.end().await;
}

#[tokio::test]
async fn a_drain_is_told_before_the_stream_ends() {
    let drover = Drover::start().await;
    let mut watcher = Watcher::live(&drover, subscribe()).await;
    drover.drain().await;
    loop {
        match watcher.next().await {
            Event::Progress(progress) if progress.draining => break,
            Event::Progress(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(
        watcher.hear.message().await.expect("no error").is_none(),
        "it ends well"
    );
    let mut late = Watcher::new(&drover, subscribe()).await;
    let status = late.refused().await;
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::Unavailable, "DRAINING".to_owned())
    );
    drover.end().await;
}
