//! The program itself over a Redis: what it prints, which never holds a password.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines};
use tokio::process::{Child, Command};

use crate::support::Server;

struct Process {
    _child: Child,
    opening: String,
    log: Lines<BufReader<Box<dyn AsyncRead + Unpin>>>,
}

impl Process {
    async fn start(store: &str, password: &str) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
                "--log",
                "debug",
            ])
            .env("DROVER_STORE", store)
            .env("DROVER_STORE_PASSWORD", password)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it is built");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut opening = String::new();
        while !opening.contains("namespaces") {
            let line = lines.next_line().await.expect("text").expect("it says where it serves");
            opening.push_str(&line);
            opening.push('\n');
        }
        let log: Box<dyn AsyncRead + Unpin> = Box::new(child.stderr.take().expect("piped"));
        Process {
            log: BufReader::new(log).lines(),
            _child: child,
            opening,
        }
    }

    /// The log up to a line that has this in it.
    async fn log_until(&mut self, part: &str) -> String {
        let mut log = String::new();
        while !log.contains(part) {
            let line = self.log.next_line().await.expect("text");
            log.push_str(&line.unwrap_or_else(|| panic!("{part:?} not in:\n{log}")));
            log.push('\n');
        }
        log
    }
}

#[tokio::test]
async fn it_serves_from_a_redis_whose_password_is_in_the_environment() {
    let server = Server::with(&["requirepass s3cret"]);
    let process = Process::start(&server.url(), "s3cret").await;
    let store = format!("  store       {}  prefix drover", server.url());
    assert!(process.opening.contains(&store), "{}", process.opening);
}

#[tokio::test]
async fn a_password_that_is_refused_is_told_and_not_shown() {
    let server = Server::with(&["requirepass s3cret"]);
    let url = server.url().replace("//", "//app:in-the-url@");
    let mut process = Process::start(&url, "in-the-environment").await;
    let store = format!(
        "//app:***@{}  prefix drover  no answer yet: see the log",
        server.address()
    );
    assert!(process.opening.contains(&store), "{}", process.opening);
    let log = process
        .log_until("look at --store-user, and at --store-password-file")
        .await;
    assert!(log.contains("WRONGPASS"), "{log}");
    for secret in ["in-the-url", "in-the-environment", "s3cret"] {
        assert!(
            !log.contains(secret) && !process.opening.contains(secret),
            "{secret} in {log}"
        );
    }
}
