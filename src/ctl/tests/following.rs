//! `watch`: resuming, acknowledging, and how it ends.

use tokio_stream::StreamExt as _;
use tonic::Status;

use super::fake::{Fake, Running, Script};
use super::*;
use crate::proto::watch_response::Event;
use crate::proto::{Invalidated, Progress, Started, WatchResponse};

fn event(cursor: &str, event: Event) -> Result<WatchResponse, Status> {
    Ok(WatchResponse {
        cursor: cursor.into(),
        event: Some(event),
    })
}

fn started(cursor: &str) -> Result<WatchResponse, Status> {
    event(cursor, Event::Started(Started::default()))
}

fn dropped(cursor: &str, key: &str) -> Result<WatchResponse, Status> {
    let keys = vec![key.to_owned()];
    event(
        cursor,
        Event::Invalidated(Invalidated {
            namespace: "orders".into(),
            keys,
            ..Invalidated::default()
        }),
    )
}

async fn serve(watches: impl IntoIterator<Item = Script>) -> Running {
    Fake {
        watches: Mutex::new(watches.into_iter().collect()),
        ..Fake::default()
    }
    .start()
    .await
}

/// Follows until stdout has so many lines.
async fn follow(url: &str, line: &[&str], lines: usize) -> (Exit, String, String) {
    let args = parse(url, line).unwrap_or_else(|error| panic!("{error}"));
    let (stdout, stderr) = (Paper::new(), Paper::new());
    let mut output = Output::to(args.json, Box::new(stdout.clone()), Box::new(stderr.clone()));
    let stop = stdout.has_lines(lines);
    let exit = run_with(args, still(), &mut output, stop)
        .await
        .expect("paper takes everything");
    (exit, stdout.text(), stderr.text())
}

#[tokio::test]
async fn a_lost_connection_is_resumed_after_the_last_event() {
    let server = serve([
        Script {
            events: vec![started("c1"), dropped("c2", "a")],
            stays: false,
        },
        Script {
            events: vec![Err(Status::unavailable("draining"))],
            stays: false,
        },
        Script {
            events: vec![dropped("c3", "b"), started("c4")],
            stays: true,
        },
    ])
    .await;
    let (exit, stdout, stderr) = follow(&server.url, &["watch", "orders"], 4).await;
    assert_eq!(exit, Exit::Yes);
    assert_eq!(
        stdout,
        "2026-11-30T12:00:00.000Z  started      live\n\
         2026-11-30T12:00:00.000Z  invalidated  orders  drop  key a\n\
         2026-11-30T12:00:00.000Z  invalidated  orders  drop  key b\n\
         2026-11-30T12:00:00.000Z  started      live\n"
    );
    assert_eq!(
        stderr,
        "connection lost (the server ended the stream), resuming in 0.0s\n\
         connection lost (draining), resuming in 0.0s\n\
         to go on from here: --resume-from c4\n"
    );
    assert_eq!(
        *server.fake.seen.borrow(),
        [
            r#"subscribe ["orders"] from "" observe true"#,
            r#"subscribe ["orders"] from "c2" observe true"#,
            r#"subscribe ["orders"] from "c2" observe true"#,
        ]
    );
}

#[tokio::test]
async fn a_watcher_that_was_told_to_acknowledges_what_it_printed() {
    let server = serve([Script {
        events: vec![started("c1"), dropped("c2", "a")],
        stays: true,
    }])
    .await;
    let args = parse(&server.url, &["watch", "orders", "--ack"]).unwrap_or_else(|error| panic!("{error}"));
    let stdout = Paper::new();
    let mut output = Output::to(true, Box::new(stdout.clone()), Box::new(Paper::new()));
    let mut seen = server.fake.seen.subscribe();
    let stop = async {
        let _ = seen
            .wait_for(|seen| seen.last().is_some_and(|last| last == "ack c2"))
            .await;
    };
    run_with(args, still(), &mut output, stop)
        .await
        .expect("paper takes everything");
    assert_eq!(stdout.text().lines().count(), 2);
    assert_eq!(
        server.fake.seen.borrow()[0],
        r#"subscribe ["orders"] from "" observe false"#
    );
}

#[tokio::test]
async fn a_watcher_that_only_observes_never_acknowledges() {
    use crate::ctl::Command;
    use crate::ctl::watch::Watcher;
    for (line, kinds) in [(&["watch", "orders"][..], 1), (&["watch", "orders", "--ack"][..], 2)] {
        let args = parse("http://127.0.0.1:1", line).unwrap_or_else(|error| panic!("{error}"));
        let Command::Watch(watch) = &args.command else {
            panic!("watch")
        };
        let (printed, acknowledged) = watch::channel(String::new());
        let requests = Watcher::new(watch, &args.server, still()).requests(acknowledged);
        printed.send_replace("c1".into());
        drop(printed);
        assert_eq!(requests.collect::<Vec<_>>().await.len(), kinds, "{line:?}");
    }
}

#[tokio::test]
async fn for_scripts_each_event_is_a_line_and_signs_of_life_come_on_request() {
    let alive = || event("c2", Event::Progress(Progress { draining: false }));
    let script = || Script {
        events: vec![started("c1"), alive(), dropped("c3", "a")],
        stays: true,
    };
    let server = serve([script(), script()]).await;
    let (_, stdout, stderr) = follow(&server.url, &["watch", "orders", "--json"], 2).await;
    assert_eq!(
        stdout,
        r#"{"received_at":"2026-11-30T12:00:00.000Z","cursor":"c1","started":{}}
{"received_at":"2026-11-30T12:00:00.000Z","cursor":"c3","invalidated":{"namespace":"orders","keys":["a"],"tags":[],"everything":false,"mode":"MODE_UNSPECIFIED","version":0}}
"#
    );
    assert_eq!(stderr, "");
    let (_, stdout, _) = follow(&server.url, &["watch", "orders", "--json", "--progress"], 3).await;
    let line = r#"{"received_at":"2026-11-30T12:00:00.000Z","cursor":"c2","progress":{"draining":false}}"#;
    assert_eq!(stdout.lines().nth(1), Some(line));
}

#[tokio::test]
async fn a_refusal_for_good_ends_the_watch_even_after_it_was_live() {
    // The fake refuses what was not prepared.
    let server = serve([Script {
        events: vec![started("c1")],
        stays: false,
    }])
    .await;
    let (exit, stdout, stderr) = follow(&server.url, &["watch", "orders"], usize::MAX).await;
    assert_eq!(exit, Exit::Broken);
    assert_eq!(stdout.lines().count(), 1);
    assert!(
        stderr.contains("error: no watch was prepared (PERMISSION_DENIED)\n"),
        "{stderr}"
    );
}

#[tokio::test]
async fn a_first_connection_that_fails_ends_the_watch_at_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let (exit, _, stderr) = follow(&url, &["watch", "orders"], usize::MAX).await;
    assert_eq!(exit, Exit::Broken);
    assert!(stderr.starts_with("error: no drover answers at"), "{stderr}");
}

#[tokio::test]
async fn a_reader_that_leaves_ends_the_watch_in_silence() {
    struct Gone;
    impl Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let server = serve([Script {
        events: vec![started("c1")],
        stays: true,
    }])
    .await;
    let args = parse(&server.url, &["watch", "orders", "--json"]).unwrap_or_else(|error| panic!("{error}"));
    let stderr = Paper::new();
    let mut output = Output::to(true, Box::new(Gone), Box::new(stderr.clone()));
    let exit = run_with(args, still(), &mut output, std::future::pending())
        .await
        .expect("no error");
    assert_eq!((exit, stderr.text().as_str()), (Exit::Yes, ""));
}

mod on_paused_time {
    use tokio::time::Instant;

    use super::*;
    use crate::ctl::Command;
    use crate::ctl::watch::{Broken, End, Watcher};

    /// Reads one connection that says `events` and then nothing more; how it ended, and after how long.
    async fn read(events: Vec<Result<WatchResponse, Status>>, draw: fn() -> f64) -> (Result<End, Broken>, Duration) {
        let args = parse("http://127.0.0.1:1", &["watch", "orders"]).unwrap_or_else(|error| panic!("{error}"));
        let Command::Watch(watch) = &args.command else {
            panic!("watch")
        };
        let mut watcher = Watcher::new(watch, &args.server, Ambient { draw, ..still() });
        let mut output = Output::to(true, Box::new(Paper::new()), Box::new(Paper::new()));
        let begin = Instant::now();
        let stream = tokio_stream::iter(events).chain(tokio_stream::pending());
        let result = watcher
            .read(stream, &watch::Sender::new(String::new()), &mut output)
            .await;
        (result, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn silence_longer_than_the_server_promised_counts_as_a_lost_connection() {
        let told = Started {
            max_silence: Some(prost_types::Duration { seconds: 15, nanos: 0 }),
            ..Started::default()
        };
        for (events, seconds) in [(vec![event("c1", Event::Started(told))], 15), (vec![], 30)] {
            let (result, elapsed) = read(events, || 0.0).await;
            let Err(Broken::Refused(failure)) = result else {
                panic!("lost")
            };
            assert_eq!(failure.sentence(), format!("nothing was heard for {seconds}s"));
            assert!(failure.passes());
            assert_eq!(elapsed.as_secs(), seconds);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_draining_replica_is_left_at_a_random_moment_within_seconds() {
        for (draw, seconds) in [((|| 0.5) as fn() -> f64, 1.5), (|| 0.9, 2.7)] {
            let draining = event("c1", Event::Progress(Progress { draining: true }));
            let (result, elapsed) = read(vec![draining], draw).await;
            assert!(matches!(result, Ok(End::Moved)));
            assert!((elapsed.as_secs_f64() - seconds).abs() < 0.01, "{elapsed:?}");
        }
    }
}
