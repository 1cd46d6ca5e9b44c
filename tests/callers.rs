//! Callers that are not Rust: the Python example and the walk in the README, against a real server.

#![allow(clippy::disallowed_methods, reason = "tests end with what they start")]

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use drover::config::Settings;
use drover::server::{self, Running};
use tokio::process::Command;

/// No run of a caller takes longer; it is killed then.
const BOUND: Duration = Duration::from_secs(60);

async fn server() -> Running {
    server::start(Settings::ephemeral()).await.expect("a free port")
}

async fn run(mut command: Command) -> (String, Output) {
    let running = command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(BOUND, running)
        .await
        .expect("it ends")
        .expect("it starts");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (text, output)
}

/// What `tests/run` has installed. Missing, it is an error and no reason to skip.
fn installed(path: &str) -> &str {
    assert!(
        Path::new(env!("CARGO_MANIFEST_DIR")).join(path).exists(),
        "{path} is missing: run the tests with `tests/run`"
    );
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_python_callers_are_reduced_to_one_query() {
    let running = server().await;
    let mut command = Command::new(installed("target/python/bin/python"));
    command.args(["examples/python/herd.py", "--server", &running.grpc.to_string()]);
    let (text, output) = run(command).await;
    assert!(output.status.success(), "{text}");
    assert!(
        text.starts_with("200 callers, 1 query, everybody served after"),
        "{text}"
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_python_caller_is_told_that_nobody_answers() {
    let mut command = Command::new(installed("target/python/bin/python"));
    // Port 1 is nobody's.
    command.args(["examples/python/herd.py", "--server", "127.0.0.1:1"]);
    let (text, output) = run(command).await;
    assert!(
        !output.status.success() && text.contains("is `drover serve` running?"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_walk_in_the_readme_works_as_printed() {
    let running = server().await;
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).expect("a README");
    let walk = readme
        .split("<!-- walk -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- /walk -->").next())
        .expect("a walk");
    let folder = tempfile::tempdir().expect("a folder");
    let commands = blocks(walk, "sh").replace("127.0.0.1:7117", &running.grpc.to_string());
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/bin");
    installed("target/tools/bin/grpcurl");

    let mut command = Command::new("bash");
    command.args([
        "-euo",
        "pipefail",
        "-c",
        &format!("cd {}\n{commands}", folder.path().display()),
    ]);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", tools.display()));
    let (text, output) = run(command).await;
    assert!(output.status.success(), "{text}");
    assert_eq!(shape(&text), shape(&blocks(walk, "json")));
    running.stop().await;
}

/// The contents of all fenced blocks in a language, one after the other.
fn blocks(text: &str, language: &str) -> String {
    let opening = format!("```{language}\n");
    let inside = text
        .split(opening.as_str())
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    inside.collect()
}

/// Text with what differs from run to run made alike: numbers and lease ids.
fn shape(text: &str) -> String {
    let mut shape = String::new();
    for line in text.lines() {
        let line = match line.split_once("\"leaseId\": ") {
            Some((before, _)) => format!("{before}\"leaseId\""),
            None => line.to_owned(),
        };
        let mut digits = false;
        for character in line.chars() {
            let digit = character.is_ascii_digit() || (digits && character == '.');
            match (digit, digits) {
                (true, true) => {}
                (true, false) => shape.push('#'),
                (false, _) => shape.push(character),
            }
            digits = digit;
        }
        shape.push('\n');
    }
    shape
}
