//! Workers that are given refreshes, and refreshes that are planned.

use std::time::Duration;

use drover::decision::{Jitter, JitterAmount, JitterMode, Policy};
use drover::proto::pull_refreshes_request::Kind;
use drover::proto::pull_refreshes_response::Event;
use drover::proto::report_value_request::Outcome;
use drover::proto::{
    Cause, PullRefreshesRequest, PullRefreshesResponse, RefreshTask, Register, ReportValueRequest,
    ScheduleRefreshRequest, ScheduleRefreshResponse,
};
use drover::rpc::status::REASON_TRAILER;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Streaming};

use crate::statuses::fields;
use crate::support::{Drover, SHOP, abandoned, ask, eventually, failed, granted, hit, report, span, words};

/// Refreshed about half a second after it was stored.
fn short(policy: &mut Policy) {
    policy.fresh_ttl = Duration::from_millis(1_000);
    policy.stale_while_revalidate = Duration::from_secs(60);
    policy.jitter = Jitter {
        mode: JitterMode::Both,
        amount: JitterAmount::Ratio(0.0),
        level: false,
    };
    policy.backoff.base = Duration::from_millis(100);
    policy.lease_ttl = Duration::from_secs(1);
}

/// Rebuilt only as planned.
fn long(policy: &mut Policy) {
    short(policy);
    policy.fresh_ttl = Duration::from_secs(600);
}

struct Worker {
    requests: UnboundedSender<PullRefreshesRequest>,
    tasks: Streaming<PullRefreshesResponse>,
}

fn register(most: i32) -> Register {
    Register {
        namespaces: words(&[SHOP]),
        holder: "worker".to_owned(),
        max_in_flight: most,
        ..Register::default()
    }
}

impl Worker {
    async fn start(drover: &Drover, register: Register) -> Worker {
        let (requests, sent) = unbounded_channel();
        let mut calls = drover.calls.clone();
        let answer = calls.pull_refreshes(UnboundedReceiverStream::new(sent)).await;
        let mut worker = Worker {
            requests,
            tasks: answer.expect("headers at once").into_inner(),
        };
        worker.register(register);
        match worker.event().await {
            Event::Started(started) => assert_eq!(started.progress_interval, span(5_000)),
            other => panic!("not started: {other:?}"),
        }
        worker
    }

    fn register(&self, register: Register) {
        let kind = Some(Kind::Register(register));
        self.requests.send(PullRefreshesRequest { kind }).expect("it listens");
    }

    async fn event(&mut self) -> Event {
        let message = self.tasks.next().await.expect("it goes on").expect("no error");
        message.event.expect("set")
    }

    async fn task(&mut self) -> RefreshTask {
        loop {
            match self.event().await {
                Event::Task(task) => return task,
                Event::Progress(progress) => assert!(!progress.draining),
                Event::Started(_) => panic!("started twice"),
            }
        }
    }
}

fn done(task: &RefreshTask, outcome: Outcome) -> ReportValueRequest {
    ReportValueRequest {
        namespace: task.namespace.clone(),
        key: task.key.clone(),
        lease_id: task.lease.as_ref().expect("a lease").lease_id.clone(),
        outcome: Some(outcome),
        ..ReportValueRequest::default()
    }
}

fn value() -> Outcome {
    Outcome::Value("new".into())
}

fn plan(keys: &[&str]) -> ScheduleRefreshRequest {
    ScheduleRefreshRequest {
        namespace: SHOP.to_owned(),
        keys: words(keys),
        ..ScheduleRefreshRequest::default()
    }
}

async fn schedule(drover: &Drover, request: ScheduleRefreshRequest) -> ScheduleRefreshResponse {
    let answer = drover.calls.clone().schedule_refresh(request).await;
    answer.expect("an answer").into_inner()
}

/// A value that a caller has built, at a cost.
async fn fill(drover: &Drover, key: &str) -> i64 {
    let rebuild = drover.granted(ask(key)).await;
    let mut request = report(key, &rebuild, "value");
    request.rebuild_cost = span(200);
    drover.accept(request).await
}

#[tokio::test]
async fn a_value_is_refreshed_by_a_worker_before_its_readers_see_it_end() {
    let drover = Drover::with(short).await;
    let mut worker = Worker::start(&drover, register(4)).await;
    let mut version = fill(&drover, "item").await;
    for _ in 0..3 {
        let task = worker.task().await;
        assert_eq!((&*task.key, task.cause()), ("item", Cause::Early));
        assert_eq!(task.current_version, version);
        let read = drover.hit(ask("item")).await;
        assert!(
            read.rebuilding && read.freshness() == drover::proto::Freshness::Fresh,
            "{read:?}"
        );
        let lease = task.lease.clone().expect("a lease");
        assert!(lease.fencing_token > version);
        version = drover.accept(done(&task, value())).await;
        assert_eq!(version, lease.fencing_token);
    }
    drover.end().await;
}

#[tokio::test]
async fn each_refresh_goes_to_one_worker_and_again_to_one_when_it_is_given_back() {
    let drover = Drover::with(long).await;
    let mut one = Worker::start(&drover, register(1)).await;
    let mut other = Worker::start(&drover, register(1)).await;
    schedule(&drover, plan(&["a", "b"])).await;
    let (first, second) = (one.task().await, other.task().await);
    assert_ne!(first.key, second.key);
    assert_eq!((first.cause(), first.current_version), (Cause::Scheduled, 0));
    drover.accept(done(&first, value())).await;
    drover.accept(done(&second, abandoned())).await;
    let again = tokio::select! {
        again = one.task() => again,
        again = other.task() => again,
    };
    assert_eq!(again.key, second.key);
    drover.accept(done(&again, value())).await;
    drover.end().await;
}

#[tokio::test]
async fn what_a_lost_worker_had_and_what_failed_is_offered_again() {
    let drover = Drover::with(long).await;
    let mut lost = Worker::start(&drover, register(1)).await;
    schedule(&drover, plan(&["item"])).await;
    lost.task().await;
    drop(lost);
    let mut next = Worker::start(&drover, register(1)).await;
    let task = next.task().await;
    assert_eq!(task.cause(), Cause::Takeover);
    drover.accept(done(&task, failed("the origin is down"))).await;
    let task = next.task().await;
    drover.accept(done(&task, value())).await;
    assert_eq!(crate::support::text(&drover.hit(ask("item")).await), "new");
    drover.end().await;
}

#[tokio::test]
async fn a_worker_has_no_more_than_it_said_and_none_while_it_pauses() {
    let drover = Drover::with(long).await;
    let mut worker = Worker::start(&drover, register(0)).await;
    assert_eq!(schedule(&drover, plan(&["a", "b", "c"])).await.scheduled, 3);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), worker.task())
            .await
            .is_err()
    );
    worker.register(register(2));
    let (first, _second) = (worker.task().await, worker.task().await);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), worker.task())
            .await
            .is_err()
    );
    drover.accept(done(&first, value())).await;
    worker.task().await;
    drover.end().await;
}

#[tokio::test]
async fn the_fleet_s_workers_are_counted() {
    let drover = Drover::with(long).await;
    let later = || ScheduleRefreshRequest {
        spread_over: span(3_600_000),
        ..plan(&["a", "b", "a"])
    };
    let first = schedule(&drover, later()).await;
    assert_eq!((first.scheduled, first.skipped, first.workers), (2, 1, 0));
    let _one = Worker::start(&drover, register(1)).await;
    let _other = Worker::start(&drover, register(1)).await;
    let again = eventually(async || Some(schedule(&drover, later()).await).filter(|again| again.workers == 2)).await;
    assert_eq!((again.scheduled, again.skipped), (0, 3));
    drover.end().await;
}

#[tokio::test]
async fn without_workers_the_next_caller_of_a_planned_key_rebuilds_it() {
    let drover = Drover::start().await;
    drover.fill("item", "value").await;
    let only_missing = ScheduleRefreshRequest {
        only_if_missing: true,
        ..plan(&["item"])
    };
    assert_eq!(schedule(&drover, only_missing).await.skipped, 1);
    assert_eq!(schedule(&drover, plan(&["item"])).await.scheduled, 1);
    let rebuild = eventually(async || match drover.ask(ask("item")).await {
        drover::proto::acquire_rebuild_response::Decision::Rebuild(rebuild) => Some(rebuild),
        other => {
            hit(other);
            None
        }
    })
    .await;
    assert_eq!(rebuild.cause(), Cause::Early);
    assert!(rebuild.fallback.is_some());
    drover.end().await;
}

#[tokio::test]
async fn a_worker_that_closes_its_side_finishes_what_it_has() {
    let drover = Drover::with(long).await;
    let mut worker = Worker::start(&drover, register(1)).await;
    schedule(&drover, plan(&["a", "b"])).await;
    let task = worker.task().await;
    let Worker { requests, mut tasks } = worker;
    drop(requests);
    drover.accept(done(&task, value())).await;
    assert!(tasks.next().await.is_none(), "the stream ends");
    drover.end().await;
}

#[tokio::test]
async fn a_draining_replica_tells_its_workers() {
    let drover = Drover::with(short).await;
    let mut worker = Worker::start(&drover, register(1)).await;
    drover.drain().await;
    match worker.event().await {
        Event::Progress(progress) => assert!(progress.draining),
        other => panic!("no word of it: {other:?}"),
    }
    assert!(worker.tasks.next().await.is_none());
    drover.end().await;
}

#[tokio::test]
async fn a_worker_that_says_something_wrong_is_told_what() {
    let drover = Drover::start().await;
    let refused = async |requests: Vec<PullRefreshesRequest>| {
        let answer = drover.calls.clone().pull_refreshes(tokio_stream::iter(requests)).await;
        let mut tasks = answer.expect("headers at once").into_inner();
        tasks.next().await.expect("an answer").expect_err("a refusal")
    };
    let status = refused(Vec::new()).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(
        status.metadata().get(REASON_TRAILER).expect("a reason"),
        "STREAM_PROTOCOL"
    );
    assert!(status.message().contains("register"), "{}", status.message());
    let status = refused(vec![PullRefreshesRequest { kind: None }]).await;
    assert_eq!(fields(&status), ["kind"]);
    let wrong = Register {
        namespaces: Vec::new(),
        key_prefixes: vec!["x".repeat(1_025)],
        holder: "h".repeat(257),
        max_in_flight: -1,
    };
    let kind = Some(Kind::Register(wrong));
    let status = refused(vec![PullRefreshesRequest { kind }]).await;
    let expected = [
        "register.namespaces",
        "register.key_prefixes[0]",
        "register.holder",
        "register.max_in_flight",
    ];
    assert_eq!(fields(&status), expected);
    let status = drover
        .calls
        .clone()
        .schedule_refresh(plan(&[]))
        .await
        .expect_err("no keys");
    assert_eq!(fields(&status), ["keys"]);
    drover.end().await;
}

#[tokio::test]
async fn a_key_that_was_dropped_is_no_task() {
    let drover = Drover::with(short).await;
    let mut worker = Worker::start(&drover, register(4)).await;
    fill(&drover, "dropped").await;
    fill(&drover, "kept").await;
    drover.invalidate(crate::support::drop_keys(&["dropped"])).await;
    let task = worker.task().await;
    assert_eq!(task.key, "kept");
    drover.accept(done(&task, value())).await;
    let task = worker.task().await;
    assert_eq!(task.key, "kept");
    granted(drover.ask(ask("dropped")).await);
    drover.end().await;
}
