//! The adapter over a plain stream of requests.

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::*;
use crate::decision::{Key, Mode, Seq, StoreTime};
use crate::fanout::{Feed, HubLimits, Question};
use crate::proto::KeyHits;
use crate::proto::watch_response::Event as Sent;
use crate::store::{Event, Target};

type Requests = UnboundedReceiverStream<Result<WatchRequest, Status>>;
type Client = UnboundedSender<Result<WatchRequest, Status>>;

fn call(hub: &Arc<Hub>) -> (Client, Watch<Requests>) {
    let (client, requests) = unbounded_channel();
    (
        client,
        watch(hub, &Policies::default(), UnboundedReceiverStream::new(requests)),
    )
}

fn hub() -> (Arc<Feed>, Arc<Hub>) {
    let feed = Feed::new();
    let hub = Hub::new(&feed, HubLimits::default());
    (feed, hub)
}

fn say(client: &Client, kind: Kind) {
    client
        .send(Ok(WatchRequest { kind: Some(kind) }))
        .expect("the call is there");
}

fn shop() -> Subscribe {
    Subscribe {
        namespaces: vec!["shop".to_owned()],
        holder: "me".to_owned(),
        ..Subscribe::default()
    }
}

fn subscribe() -> Kind {
    Kind::Subscribe(shop())
}

fn ack(cursor: &str) -> Kind {
    Kind::Ack(Ack {
        cursor: cursor.to_owned(),
        hits: Vec::new(),
    })
}

fn invalidate(feed: &Feed, key: &str) -> u64 {
    let event = Event::Invalidated {
        namespace: "shop".into(),
        target: Target::Key(Key::new("shop", key)),
        mode: Mode::Drop,
    };
    let appended = feed.append(Seq(9), StoreTime(1), vec![event]);
    feed.announce(&appended);
    appended.place.at
}

/// The next answer, which must be there now.
fn now(call: &mut Watch<Requests>) -> Result<WatchResponse, Status> {
    call.next().now_or_never().flatten().expect("there is an answer")
}

fn sent(call: &mut Watch<Requests>) -> Sent {
    now(call).expect("an event").event.expect("set")
}

fn refused(call: &mut Watch<Requests>) -> (Code, String) {
    let status = now(call).expect_err("an error");
    assert!(matches!(call.next().now_or_never(), Some(None)), "an error is the end");
    let details = status.get_error_details();
    let info = details.error_info().expect("an ErrorInfo");
    assert_eq!(info.domain, "drover.v1");
    assert_eq!(
        status
            .metadata()
            .get("drover-reason")
            .and_then(|reason| reason.to_str().ok()),
        Some(&*info.reason)
    );
    (status.code(), info.reason.clone())
}

fn order() -> (Code, String) {
    (Code::FailedPrecondition, "STREAM_PROTOCOL".to_owned())
}

/// The fields that a first message is refused for.
fn bad_fields(request: WatchRequest) -> Vec<String> {
    let (_feed, hub) = hub();
    let (client, mut call) = call(&hub);
    client.send(Ok(request)).expect("the call is there");
    let status = now(&mut call).expect_err("an error");
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_error_details();
    assert_eq!(details.error_info().map(|info| &*info.reason), Some("INVALID_FIELD"));
    let violations = &details.bad_request().expect("a BadRequest").field_violations;
    violations.iter().map(|violation| violation.field.clone()).collect()
}

fn bad_subscription(change: impl FnOnce(&mut Subscribe)) -> Vec<String> {
    let mut subscribe = shop();
    change(&mut subscribe);
    bad_fields(WatchRequest {
        kind: Some(Kind::Subscribe(subscribe)),
    })
}

#[tokio::test(start_paused = true)]
async fn a_subscription_is_answered_with_started_and_then_with_what_happens() {
    let (feed, hub) = hub();
    let (client, mut call) = call(&hub);
    assert!(call.next().now_or_never().is_none(), "it waits for the subscription");
    say(&client, subscribe());
    assert!(matches!(sent(&mut call), Sent::Started(_)));
    invalidate(&feed, "a");
    let Sent::Invalidated(what) = sent(&mut call) else {
        panic!()
    };
    assert_eq!(
        (what.namespace, what.keys, what.version),
        ("shop".to_owned(), vec!["a".to_owned()], 9)
    );
    assert_eq!(what.mode, i32::from(crate::proto::Mode::Drop));
}

#[tokio::test(start_paused = true)]
async fn closing_the_request_side_keeps_the_events_coming() {
    let (feed, hub) = hub();
    let (client, mut call) = call(&hub);
    say(&client, subscribe());
    drop(client);
    assert!(matches!(sent(&mut call), Sent::Started(_)));
    invalidate(&feed, "a");
    assert!(matches!(sent(&mut call), Sent::Invalidated(_)));
    assert!(matches!(call.next().await, Some(Ok(_))), "a sign of life");
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_is_heard_while_nothing_is_sent() {
    let (feed, hub) = hub();
    let (client, mut call) = call(&hub);
    say(&client, subscribe());
    sent(&mut call);
    let position = invalidate(&feed, "a");
    let cursor = now(&mut call).expect("an event").cursor;
    say(&client, ack(&cursor));
    let place = crate::store::Place {
        partition: 0,
        at: position,
    };
    let question = Question {
        namespace: "shop".into(),
        targets: vec![Target::Key(Key::new("shop", "a"))],
        places: vec![place],
        wait: Duration::from_secs(1),
    };
    let barrier = hub.barrier(&question);
    let (barrier, sent) = tokio::join!(barrier, async { call.next().now_or_never() });
    assert!(sent.is_none() && barrier.confirmed);
}

#[tokio::test(start_paused = true)]
async fn messages_out_of_order_are_refused() {
    let (_feed, hub) = hub();
    let (client, mut early) = call(&hub);
    say(&client, ack("x"));
    assert_eq!(refused(&mut early), order());

    let (client, mut twice) = call(&hub);
    say(&client, subscribe());
    sent(&mut twice);
    say(&client, subscribe());
    assert_eq!(refused(&mut twice), order());

    let (client, mut nothing) = call(&hub);
    drop(client);
    assert_eq!(refused(&mut nothing), order());
    assert_eq!(hub.watchers(), 0, "who was refused watches no more");
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_subscription_ends_after_ten_seconds() {
    let (_feed, hub) = hub();
    let (_client, mut call) = call(&hub);
    tokio::time::sleep(PATIENCE - Duration::from_millis(1)).await;
    assert!(call.next().now_or_never().is_none());
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(refused(&mut call), order());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_says_nothing_is_refused() {
    assert_eq!(bad_fields(WatchRequest { kind: None }), ["kind"]);
}

#[tokio::test(start_paused = true)]
async fn each_limit_of_a_subscription_names_its_field() {
    assert_eq!(
        bad_subscription(|given| given.namespaces.clear()),
        ["subscribe.namespaces"]
    );
    assert_eq!(
        bad_subscription(|given| given.namespaces = vec!["n".to_owned(); 65]),
        ["subscribe.namespaces"]
    );
    assert_eq!(
        bad_subscription(|given| given.namespaces.push("A".to_owned())),
        ["subscribe.namespaces[1]"]
    );
    assert_eq!(
        bad_subscription(|given| given.namespaces.push("n".repeat(65))),
        ["subscribe.namespaces[1]"]
    );
    assert_eq!(
        bad_subscription(|given| given.key_prefixes = vec![String::new(); 101]),
        ["subscribe.key_prefixes"]
    );
    assert_eq!(
        bad_subscription(|given| given.key_prefixes = vec!["p".repeat(1_025)]),
        ["subscribe.key_prefixes[0]"]
    );
    assert_eq!(
        bad_subscription(|given| given.holder = "h".repeat(257)),
        ["subscribe.holder"]
    );
}

#[tokio::test(start_paused = true)]
async fn everything_at_its_limit_is_taken() {
    let (_feed, hub) = hub();
    let (client, mut call) = call(&hub);
    let limit = Subscribe {
        namespaces: (0..64).map(|n| format!("{n:n<64}", n = n)).collect(),
        key_prefixes: vec!["p".repeat(1_024); 100],
        holder: "h".repeat(256),
        ..Subscribe::default()
    };
    say(&client, Kind::Subscribe(limit));
    assert!(matches!(sent(&mut call), Sent::Started(_)));
}

#[tokio::test(start_paused = true)]
async fn no_more_than_ten_violations_are_told() {
    assert_eq!(
        bad_subscription(|given| given.namespaces = vec![String::new(); 30]).len(),
        10
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_cursor_resets_a_subscription_and_refuses_an_acknowledgement() {
    let (_feed, hub) = hub();
    let (client, mut call) = call(&hub);
    let resume_from = "nonsense".to_owned();
    say(&client, Kind::Subscribe(Subscribe { resume_from, ..shop() }));
    let Sent::Reset(reset) = sent(&mut call) else { panic!() };
    assert_eq!(reset.reason, i32::from(crate::proto::ResetReason::UnknownCursor));
    assert!(matches!(sent(&mut call), Sent::Started(_)));
    say(&client, ack("nonsense"));
    assert_eq!(refused(&mut call), (Code::InvalidArgument, "INVALID_FIELD".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn local_hits_are_passed_on_and_their_limits_hold() {
    let (told, mut heard) = unbounded_channel();
    let note = move |namespace: &str, key: &str, hits| drop(told.send((namespace.to_owned(), key.to_owned(), hits)));
    let hub = Hub::with_hits(&Feed::new(), HubLimits::default(), Box::new(note));
    let (client, mut call) = call(&hub);
    say(&client, subscribe());
    let cursor = now(&mut call).expect("started").cursor;
    let mut hits = vec![KeyHits {
        namespace: "shop".to_owned(),
        key: "k".to_owned(),
        hits: 3,
    }];
    say(
        &client,
        Kind::Ack(Ack {
            cursor: cursor.clone(),
            hits: hits.clone(),
        }),
    );
    assert!(call.next().now_or_never().is_none());
    assert_eq!(heard.try_recv(), Ok(("shop".to_owned(), "k".to_owned(), 3)));
    hits[0].hits = -1;
    say(&client, Kind::Ack(Ack { cursor, hits }));
    let status = now(&mut call).expect_err("an error");
    assert!(
        status.message().contains("ack.hits[0].hits is negative"),
        "{}",
        status.message()
    );
    assert!(heard.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_full_hub_one_without_its_store_and_a_draining_one_say_when_to_try_again() {
    let feed = Feed::new();
    let full = Hub::new(
        &feed,
        HubLimits {
            watchers: 0,
            ..HubLimits::default()
        },
    );
    let (client, mut refused_one) = call(&full);
    say(&client, subscribe());
    let status = now(&mut refused_one).expect_err("an error");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.get_error_details().retry_info().is_some());
    assert!(status.metadata().contains_key("grpc-retry-pushback-ms"));

    let down = Hub::new(&Feed::remote(1), HubLimits::default());
    let (client, mut refused_one) = call(&down);
    say(&client, subscribe());
    let status = now(&mut refused_one).expect_err("an error");
    assert_eq!(status.code(), Code::Unavailable);
    assert_eq!(
        status.get_error_details().error_info().map(|info| &*info.reason),
        Some("STORE_UNAVAILABLE")
    );
    assert!(status.get_error_details().retry_info().is_some());

    let (_feed, stopping) = hub();
    let (_client, mut waiting) = call(&stopping);
    assert!(waiting.next().now_or_never().is_none());
    stopping.drain();
    assert_eq!(refused(&mut waiting), (Code::Unavailable, "DRAINING".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_acknowledgements_does_not_hold_up_events() {
    let (feed, hub) = hub();
    let (client, mut call) = call(&hub);
    say(&client, subscribe());
    let cursor = now(&mut call).expect("started").cursor;
    (0..10 * TURN).for_each(|_| say(&client, ack(&cursor)));
    invalidate(&feed, "a");
    assert!(matches!(sent(&mut call), Sent::Invalidated(_)));
}

#[tokio::test(start_paused = true)]
async fn a_broken_request_side_ends_the_call_and_the_subscription() {
    let (_feed, hub) = hub();
    let (client, mut call) = call(&hub);
    say(&client, subscribe());
    sent(&mut call);
    client.send(Err(Status::cancelled("gone"))).expect("the call is there");
    assert_eq!(now(&mut call).expect_err("an error").code(), Code::Cancelled);
    assert_eq!(hub.watchers(), 0);
}
