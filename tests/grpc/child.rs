//! A server in a process of its own: what it holds can be counted.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::support::{assert_no_bug, page};

pub struct Process {
    child: Child,
    pub grpc: SocketAddr,
    http: SocketAddr,
}

impl Process {
    pub async fn start() -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
                "--drain-timeout",
                "2s",
            ])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it is built");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut address = async |name: &str| loop {
            let line = lines
                .next_line()
                .await
                .expect("text")
                .expect("it says where it listens");
            let mut words = line.split_whitespace();
            if words.next() == Some(name) {
                break words.next().expect("an address").parse().expect("an address");
            }
        };
        // The rest of what it says is not read: that must not matter to it.
        let grpc = address("gRPC").await;
        let http = address("HTTP").await;
        Process { child, grpc, http }
    }

    fn of_proc(&self, file: &str) -> std::path::PathBuf {
        format!("/proc/{}/{file}", self.child.id().expect("it runs")).into()
    }

    /// Open file descriptors.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(self.of_proc("fd")).expect("a directory").count()
    }

    /// Resident memory in MiB.
    pub fn resident(&self) -> usize {
        let status = std::fs::read_to_string(self.of_proc("status")).expect("text");
        let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a line");
        let kibibytes: usize = line
            .split_whitespace()
            .nth(1)
            .expect("a number")
            .parse()
            .expect("a number");
        kibibytes / 1_024
    }

    /// Files that it, and a client of it, may have open.
    pub fn most_descriptors(&self) -> usize {
        let limits = std::fs::read_to_string(self.of_proc("limits")).expect("text");
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))
            .expect("a line");
        line.split_whitespace()
            .nth(3)
            .expect("a number")
            .parse()
            .unwrap_or(usize::MAX)
    }

    pub async fn metrics(&self) -> String {
        page(self.http, "/metrics").await
    }

    pub async fn end(mut self) {
        assert_no_bug(&self.metrics().await);
        self.child.kill().await.expect("it ran to the end");
    }
}
