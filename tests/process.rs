//! The program itself: what it prints, and how it ends.
#![cfg(unix)]

use std::process::Stdio;

use drover::proto::AcquireRebuildRequest;
use drover::proto::coordinator_service_client::CoordinatorServiceClient;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tonic::Code;

struct Process {
    child: Child,
    out: Lines<BufReader<ChildStdout>>,
    opening: Vec<String>,
    grpc: String,
}

impl Process {
    async fn start(options: &[&str]) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it is built");
        let mut out = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut opening = Vec::new();
        while let Some(line) = out.next_line().await.expect("text") {
            let last = line.trim_start().starts_with("namespaces");
            opening.push(line);
            if last {
                break;
            }
        }
        let words = opening.get(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let grpc = match words.as_deref() {
            Some(["gRPC", address]) => format!("http://{address}"),
            _ => panic!("{opening:?}, {}", stderr(&mut child).await),
        };
        Process {
            child,
            out,
            opening,
            grpc,
        }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().expect("it runs").to_string();
        let sent = std::process::Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    async fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().await.expect("it ends");
        let said = stderr(&mut self.child).await;
        assert_eq!(
            self.out.next_line().await.expect("text"),
            None,
            "nothing but the opening on stdout"
        );
        (status.code(), said)
    }
}

async fn stderr(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        pipe.read_to_string(&mut text).await.expect("text");
    }
    text
}

fn ask(wait: i64) -> AcquireRebuildRequest {
    AcquireRebuildRequest {
        namespace: "shop".to_owned(),
        key: "item".to_owned(),
        holder: format!("waits {wait}"),
        wait: Some(prost_types::Duration {
            seconds: wait,
            nanos: 0,
        }),
        ..AcquireRebuildRequest::default()
    }
}

#[tokio::test]
async fn it_says_where_it_serves_from_which_store_to_which_namespaces() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("drover.toml");
    std::fs::write(&file, "[namespaces.shop]\n[namespaces.news]\n").expect("written");
    let process = Process::start(&["--config", file.to_str().expect("text"), "--max-entries", "5000"]).await;
    let [first, grpc, http, store, namespaces] = &process.opening[..] else {
        panic!("{:?}", process.opening);
    };
    assert_eq!(first, &format!("drover {} is serving", env!("CARGO_PKG_VERSION")));
    assert!(grpc.starts_with("  gRPC        127.0.0.1:"), "{grpc}");
    assert!(
        http.starts_with("  HTTP        127.0.0.1:") && http.ends_with("/livez /readyz /metrics"),
        "{http}"
    );
    assert!(store.starts_with("  store       memory"), "{store}");
    assert_eq!(namespaces, "  namespaces  news, shop; any other, with the defaults");
    process.signal("-TERM");
    assert_eq!(process.end().await.0, Some(0));
}

#[tokio::test]
async fn sigterm_answers_who_is_parked_and_ends_with_success() {
    let process = Process::start(&["--log-format", "json"]).await;
    let mut holder = CoordinatorServiceClient::connect(process.grpc.clone())
        .await
        .expect("it listens");
    let mut waiter = CoordinatorServiceClient::connect(process.grpc.clone())
        .await
        .expect("it listens");
    holder.acquire_rebuild(ask(0)).await.expect("served");
    // Parked before or after the signal arrives: it must be told that the replica leaves either way.
    let parked = waiter.acquire_rebuild(ask(3_600));
    let (told, ()) = tokio::join!(parked, async { process.signal("-TERM") });
    assert_eq!(told.expect_err("draining").code(), Code::Unavailable);
    let (code, said) = process.end().await;
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(
        lines
            .iter()
            .any(|line| line["message"] == "draining" && line["signal"] == "SIGTERM"),
        "{said}"
    );
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_with_failure() {
    let process = Process::start(&["--drain-delay", "1h"]).await;
    process.signal("-INT");
    let mut child = process;
    let mut errors = BufReader::new(child.child.stderr.take().expect("piped")).lines();
    let first = errors.next_line().await.expect("text").unwrap_or_default();
    assert!(first.contains("draining"), "{first}");
    child.signal("-INT");
    assert_eq!(child.end().await.0, Some(1));
}

#[tokio::test]
async fn a_port_that_is_taken_is_named_with_its_option() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["serve", "--http", "off", "--listen", &address])
        .output()
        .await
        .expect("it is built");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.starts_with(&format!("error: --listen {address}: can't listen there (")),
        "{said}"
    );
}

#[tokio::test]
async fn a_collector_that_is_not_there_does_not_hold_up_the_end() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("http://{}", nobody.local_addr().expect("bound"));
    // It listens and never answers: worse than a port where nobody is.
    let process = Process::start(&["--otlp", &address]).await;
    let mut client = CoordinatorServiceClient::connect(process.grpc.clone())
        .await
        .expect("it listens");
    client.acquire_rebuild(ask(0)).await.expect("served");
    let begun = tokio::time::Instant::now();
    process.signal("-TERM");
    let (code, said) = process.end().await;
    assert_eq!(code, Some(0), "{said}");
    // Traces and figures are given up together, after 2 s.
    assert!(begun.elapsed().as_secs() < 5, "{:?}: {said}", begun.elapsed());
}
