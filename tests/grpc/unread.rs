//! A watcher that does not read.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use drover::proto::watch_request::Kind;
use drover::proto::watch_response::Event;
use drover::proto::{InvalidateRequest, Subscribe, WatchRequest, WatchResponse};
use prost::Message as _;

use crate::child::Process;
use crate::support::{ask, calls_over, connect_to, drop_keys, words};
use crate::wire::{DATA, Raw, call, frame, message};

/// So much is told that the log cannot keep it all: 80,000 keys of 1,000 bytes.
const CALLS: usize = 80;
const KEYS: usize = 1_000;

#[tokio::test]
async fn it_is_reset_when_it_reads_again_and_costs_nobody_anything() {
    let process = Process::start().await;
    let mut watcher = Raw::greeted(process.grpc, &[]).await;
    let subscribe = WatchRequest {
        kind: Some(Kind::Subscribe(Subscribe {
            namespaces: words(&["shop"]),
            ..Subscribe::default()
        })),
    }
    .encode_to_vec();
    watcher.send(&call(1, "Watch", &[])).await;
    watcher
        .send(&frame(DATA, 0, 1, &message(0, subscribe.len(), &subscribe)))
        .await;
    assert!(matches!(watcher.frame_of(DATA).await, (_, _, 1, _)), "it has started");

    let mut calls = calls_over(connect_to(process.grpc).await);
    let memory = process.resident();
    let mut slowest = Duration::ZERO;
    for call in 0..CALLS {
        let keys = (0..KEYS).map(|at| format!("{call}/{at}/{}", "x".repeat(980))).collect();
        let request = InvalidateRequest { keys, ..drop_keys(&[]) };
        calls.invalidate(request).await.expect("done");
        let began = Instant::now();
        calls
            .acquire_rebuild(ask(&format!("item {call}")))
            .await
            .expect("an answer");
        slowest = slowest.max(began.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "another caller waited {slowest:?}");
    let grown = process.resident().saturating_sub(memory);
    assert!(grown < 200, "{grown} MiB more for a log of 64 MiB");

    // It reads again, and lets the server send on.
    let window = |stream| frame(8, 0, stream, &0x3000_0000_u32.to_be_bytes());
    watcher.send(&window(0)).await;
    watcher.send(&window(1)).await;
    let mut received = Vec::new();
    let reset = loop {
        let (_, _, _, payload) = watcher.frame_of(DATA).await;
        received.extend(payload);
        if let Some(reset) = messages(&received).into_iter().find_map(|message| match message.event {
            Some(Event::Reset(reset)) => Some(reset),
            _ => None,
        }) {
            break reset;
        }
    };
    assert_eq!(reset.reason().as_str_name(), "RESET_REASON_SLOW_CONSUMER");
    calls.invalidate(drop_keys(&["after"])).await.expect("done");
    loop {
        let (_, _, _, payload) = watcher.frame_of(DATA).await;
        received.extend(payload);
        let after = messages(&received).into_iter().any(
            |message| matches!(message.event, Some(Event::Invalidated(invalidated)) if invalidated.keys == ["after"]),
        );
        if after {
            break;
        }
    }
    drop((watcher, calls));
    process.end().await;
}

/// The whole messages in what was received.
fn messages(mut bytes: &[u8]) -> Vec<WatchResponse> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((message, rest)) = rest.split_at_checked(length) else {
            break;
        };
        found.push(WatchResponse::decode(message).expect("a message"));
        bytes = rest;
    }
    found
}
