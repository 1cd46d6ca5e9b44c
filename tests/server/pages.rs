use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::{ask, client, granted, report, server};

/// Status line and body.
async fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: drover\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

#[tokio::test]
async fn readiness_ends_with_the_drain_and_liveness_does_not() {
    let running = server().await;
    let http = running.http.expect("on");
    assert_eq!(
        get(http, "/livez").await,
        ("HTTP/1.1 200 OK".to_owned(), "alive\n".to_owned())
    );
    assert_eq!(
        get(http, "/readyz").await,
        ("HTTP/1.1 200 OK".to_owned(), "serving\n".to_owned())
    );
    running.drain().await;
    let (status, why) = get(http, "/readyz").await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(why.starts_with("draining"), "{why}");
    assert_eq!(get(http, "/livez").await.0, "HTTP/1.1 200 OK");
    running.stop().await;
    assert!(TcpStream::connect(http).await.is_err());
}

#[tokio::test]
async fn an_unknown_path_is_told_which_there_are() {
    let running = server().await;
    let (status, body) = get(running.http.expect("on"), "/").await;
    assert_eq!(status, "HTTP/1.1 404 Not Found");
    for path in ["/livez", "/readyz", "/metrics"] {
        assert!(body.contains(path), "{body}");
    }
    running.stop().await;
}

#[tokio::test]
async fn the_metrics_page_parses_and_counts_what_was_called() {
    let running = server().await;
    let mut client = client(&running).await;
    let rebuild = granted(
        client
            .acquire_rebuild(ask("holder", 0))
            .await
            .expect("served")
            .into_inner(),
    );
    client.report_value(report(&rebuild, "value")).await.expect("served");
    client.acquire_rebuild(ask("holder", 0)).await.expect("served");
    let mut wrong = ask("holder", 0);
    wrong.namespace = "NOT A NAMESPACE".to_owned();
    client.acquire_rebuild(wrong).await.expect_err("refused");

    let (status, page) = get(running.http.expect("on"), "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("drover_") || name.starts_with("target_info"), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    for line in [
        r#"drover_acquires_total{drover_decision="rebuild",drover_namespace="shop"} 1"#,
        r#"drover_acquires_total{drover_decision="hit_fresh",drover_namespace="shop"} 1"#,
        r#"drover_grants_total{drover_cause="miss",drover_namespace="shop"} 1"#,
        r#"drover_reports_total{drover_namespace="shop",drover_outcome="value",drover_result="accepted"} 1"#,
        r#"drover_errors_total{drover_reason="INVALID_FIELD"} 1"#,
        "drover_store_entries 1",
        "drover_waiters 0",
        "drover_rebuild_duration_seconds_count 1",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
    running.stop().await;
}
