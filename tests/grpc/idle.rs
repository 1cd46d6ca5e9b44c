//! Connections on which nothing happens.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;

use crate::child::Process;
use crate::support::{ask, calls_over, connect_to, eventually};
use crate::wire::{PREFACE, Raw};

/// Of the descriptors that there may be, so many are left to other tests and to the server itself.
const LEFT: usize = 2_000;

#[tokio::test]
async fn ten_thousand_idle_connections_hold_nobody_up_and_leave_nothing_behind() {
    let process = Process::start().await;
    let count = 10_000.min(process.most_descriptors() - LEFT);
    let mut calls = calls_over(connect_to(process.grpc).await);
    calls.acquire_rebuild(ask("first")).await.expect("an answer");
    let (before, memory_before) = (process.descriptors(), process.resident());
    let opening = futures_util::stream::iter(0..count).map(|at| {
        let address = process.grpc;
        async move {
            // Some say nothing, some half a greeting, and most are answered theirs: then the server has them.
            match at % 20 {
                0 => Raw::connect(address).await,
                1 => {
                    let mut raw = Raw::connect(address).await;
                    raw.send(&PREFACE[..12]).await;
                    raw
                }
                _ => Raw::greeted(address, &[]).await,
            }
        }
    });
    let idle: Vec<Raw> = opening.buffer_unordered(100).collect().await;
    // Those that have not greeted may have been sent away by now.
    assert!(process.descriptors() >= before + count / 20 * 18);
    let memory_full = process.resident();

    let began = Instant::now();
    for at in 0..20 {
        calls
            .acquire_rebuild(ask(&format!("item {at}")))
            .await
            .expect("an answer");
    }
    let mut newcomer = calls_over(connect_to(process.grpc).await);
    newcomer.acquire_rebuild(ask("newcomer")).await.expect("an answer");
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "others wait {:?}",
        began.elapsed()
    );
    let each = (memory_full - memory_before) * 1_024 / count;
    assert!(each < 64, "{each} KiB a connection that only is there");

    drop((idle, newcomer));
    eventually(async || {
        tokio::task::yield_now().await;
        (process.descriptors() <= before + 1).then_some(())
    })
    .await;
    calls.acquire_rebuild(ask("last")).await.expect("an answer");
    // What the allocator keeps for the next ones is far less than what they took.
    let kept = process.resident().saturating_sub(memory_before);
    assert!(
        kept < (memory_full - memory_before) / 2 + 10,
        "{kept} MiB stay of {memory_full}"
    );
    drop(calls);
    process.end().await;
}
