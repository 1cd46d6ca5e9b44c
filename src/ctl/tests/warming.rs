//! `warm`: what is asked for, what counts as progress, and how it ends.

use tonic::Status;

use super::fake::{Fake, Running, Script, with};
use super::*;
use crate::proto::watch_response::Event;
use crate::proto::{Refreshed, ScheduleRefreshResponse, Started, WatchResponse};

fn event(event: Event) -> Result<WatchResponse, Status> {
    Ok(WatchResponse {
        cursor: "c".into(),
        event: Some(event),
    })
}

fn rebuilt(key: &str) -> Result<WatchResponse, Status> {
    event(Event::Refreshed(Refreshed {
        namespace: "orders".into(),
        key: key.to_owned(),
        ..Refreshed::default()
    }))
}

async fn serve(workers: i32, keys: &[&str]) -> Running {
    let mut events = vec![event(Event::Started(Started::default()))];
    events.extend(keys.iter().map(|key| rebuilt(key)));
    let planned = ScheduleRefreshResponse {
        scheduled: 2,
        skipped: 1,
        workers,
    };
    Fake {
        schedule: with([Ok(planned)]),
        watches: Mutex::new([Script { events, stays: true }].into()),
        ..Fake::default()
    }
    .start()
    .await
}

async fn warm(server: &Running, line: &[&str]) -> (Exit, String) {
    let line: Vec<&str> = ["warm", "orders"].iter().chain(line).copied().collect();
    let args = parse(&server.url, &line).unwrap_or_else(|error| panic!("{error}"));
    let (stdout, stderr) = (Paper::new(), Paper::new());
    let mut output = Output::to(args.json, Box::new(stdout.clone()), Box::new(stderr));
    let exit = run_with(args, still(), &mut output, std::future::pending())
        .await
        .expect("paper takes everything");
    (exit, stdout.text())
}

#[tokio::test]
async fn it_ends_when_all_keys_are_rebuilt() {
    let server = serve(3, &["other", "b", "a", "a"]).await;
    let (exit, text) = warm(&server, &["a", "b", "c", "a"]).await;
    assert_eq!(exit, Exit::Yes, "{text}");
    assert!(
        text.starts_with("warm") && text.contains("2 keys of orders rebuilt in"),
        "{text}"
    );
    assert!(text.contains("skipped  1 key, fresh or scheduled already"), "{text}");
    assert!(text.contains("workers  3"), "{text}");
    let seen = server.fake.seen.borrow().clone();
    assert!(seen.contains(&"schedule a,b,c missing=true".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn it_ends_without_those_that_do_not_come() {
    let server = serve(3, &["b"]).await;
    let (exit, text) = warm(&server, &["a", "b", "c", "--all", "--wait", "50ms"]).await;
    assert_eq!(exit, Exit::Unconfirmed, "{text}");
    assert!(text.contains("1 of 2 keys of orders rebuilt"), "{text}");
    let seen = server.fake.seen.borrow().clone();
    assert!(seen.contains(&"schedule a,b,c missing=false".to_owned()), "{seen:?}");
}

#[tokio::test]
async fn without_workers_or_a_wait_it_only_plans() {
    for (workers, line) in [(0, &["a"][..]), (3, &["a", "--wait", "0s"])] {
        let server = serve(workers, &[]).await;
        let (exit, text) = warm(&server, line).await;
        assert_eq!(exit, Exit::Yes, "{text}");
        assert!(text.starts_with("scheduled"), "{text}");
        assert_eq!(
            text.contains("the next caller of each key rebuilds it"),
            workers == 0,
            "{text}"
        );
    }
}

#[tokio::test]
async fn keys_come_from_a_file_a_line_each() {
    let server = serve(0, &[]).await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "x 1\r\n\ny\nx 1\n").expect("written");
    let path = file.path().to_str().expect("text");
    let (exit, text) = warm(&server, &["a", "--file", path, "--json"]).await;
    assert_eq!(exit, Exit::Yes, "{text}");
    assert!(
        text.starts_with(r#"{"scheduled":2,"skipped":1,"workers":0,"rebuilt":0,"elapsed":""#),
        "{text}"
    );
    let seen = server.fake.seen.borrow().clone();
    assert!(seen.contains(&"schedule a,x 1,y missing=true".to_owned()), "{seen:?}");
    let (exit, _) = warm(&server, &["--file", "/nowhere/keys"]).await;
    assert_eq!(exit, Exit::Usage);
    assert!(parse(&server.url, &["warm", "orders"]).is_err(), "a key or a file");
}
