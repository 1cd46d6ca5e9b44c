//! Clients that break off, lie, or speak something else. Others are served, and nothing counts as a bug of the server.

use std::time::Duration;

use prost::Message as _;
use tonic::{Code, Request};

use crate::statuses::reason;
use crate::support::{Drover, ask, granted, report, until, wait};
use crate::wire::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RST_STREAM, Raw, SETTINGS, call, frame, message,
};

/// It still decides, on its old connection and on a new one.
async fn serves(drover: &Drover, key: &str) {
    let rebuild = drover.granted(ask(key)).await;
    drover.accept(report(key, &rebuild, "value")).await;
    let answer = drover
        .another()
        .await
        .acquire_rebuild(ask(key))
        .await
        .expect("an answer");
    crate::support::hit(answer.into_inner().decision.expect("a decision"));
}

#[tokio::test]
async fn bytes_that_are_no_http2_end_their_connection_alone() {
    let drover = Drover::start().await;
    let noise: Vec<u8> = (0..100_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let tls = [
        &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03][..],
        &[7; 512],
    ]
    .concat();
    let after_greeting = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &noise].concat();
    let huge_frame = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &[0xff; 9]].concat();
    let bad_headers = [
        PREFACE,
        &frame(SETTINGS, 0, 0, &[]),
        &frame(HEADERS, END_HEADERS, 1, &[0xff; 64]),
    ]
    .concat();
    for bytes in [
        &noise[..],
        b"GET /metrics HTTP/1.1\r\nhost: drover\r\n\r\n",
        b"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n",
        &[0; 1_000],
        &tls,
        &after_greeting,
        &huge_frame,
        &bad_headers,
    ] {
        let mut raw = Raw::connect(drover.running.grpc).await;
        raw.send(bytes).await;
        raw.closed().await;
    }
    serves(&drover, "item").await;
    drover.end().await;
}

#[tokio::test]
async fn half_a_request_holds_nobody_up_whether_it_stops_closes_or_ends_there() {
    let drover = Drover::start().await;
    let body = message(0, 1_000, &[0; 500]);
    let mut stopped = Raw::greeted(drover.running.grpc, &[]).await;
    stopped.send(&call(1, "AcquireRebuild", &[])).await;
    stopped.send(&frame(DATA, 0, 1, &body)).await;
    stopped.send(&call(3, "ReportValue", &[])[..20]).await;

    let mut closed = Raw::greeted(drover.running.grpc, &[]).await;
    closed.send(&call(1, "ReportValue", &[])).await;
    closed.send(&frame(DATA, 0, 1, &body)).await;
    closed.settled().await;
    drop(closed);

    let mut ended = Raw::greeted(drover.running.grpc, &[]).await;
    for (stream, bytes) in [(1, &body[..]), (3, &body[..3]), (5, &[][..])] {
        ended.send(&call(stream, "AcquireRebuild", &[])).await;
        ended.send(&frame(DATA, END_STREAM, stream, bytes)).await;
        ended.frame_of(HEADERS).await;
    }
    serves(&drover, "item").await;
    drop((stopped, ended));
    drover.end().await;
}

#[tokio::test]
async fn a_parked_caller_whose_connection_breaks_leaves_its_place() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let mut raw = Raw::greeted(drover.running.grpc, &[]).await;
    let question = wait("item").encode_to_vec();
    for stream in [1, 3, 5] {
        raw.send(&call(stream, "AcquireRebuild", &[])).await;
        raw.send(&frame(DATA, END_STREAM, stream, &message(0, question.len(), &question)))
            .await;
    }
    until(|| drover.parked() == 3).await;
    raw.send(&frame(RST_STREAM, 0, 3, &8_u32.to_be_bytes())).await;
    until(|| drover.parked() == 2).await;
    drop(raw);
    until(|| drover.parked() == 0).await;
    drover.accept(report("item", &rebuild, "value")).await;
    drover.end().await;
}

#[tokio::test]
async fn calls_begun_and_taken_back_in_a_flood_end_that_connection() {
    let drover = Drover::start().await;
    let mut raw = Raw::greeted(drover.running.grpc, &[]).await;
    let question = wait("item").encode_to_vec();
    let body = message(0, question.len(), &question);
    for batch in 0..40_u32 {
        let mut bytes = Vec::new();
        for at in 0..250 {
            let stream = 1 + 2 * (batch * 250 + at);
            bytes.extend(call(stream, "AcquireRebuild", &[]));
            bytes.extend(frame(DATA, END_STREAM, stream, &body));
            bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
        raw.send(&bytes).await;
    }
    while let Some((kind, ..)) = raw.frame().await {
        if kind == GOAWAY {
            break;
        }
    }
    drop(raw);
    until(|| drover.parked() == 0).await;
    // Nobody was told of a lease, so none is left behind.
    crate::support::eventually(async || match drover.ask(ask("item")).await {
        drover::proto::acquire_rebuild_response::Decision::Rebuild(rebuild) => Some(rebuild),
        _ => None,
    })
    .await;
    serves(&drover, "other").await;
    drover.end().await;
}

/// Sends a call whose body is this, and waits for its answer. How it was refused is counted by the server.
async fn send(drover: &Drover, headers: &[(&str, &str)], body: &[u8]) {
    let mut raw = Raw::greeted(drover.running.grpc, &[]).await;
    raw.send(&call(1, "AcquireRebuild", headers)).await;
    let parts = body.chunks(16_000).count();
    for (at, part) in body.chunks(16_000).enumerate() {
        raw.send(&frame(DATA, if at + 1 == parts { END_STREAM } else { 0 }, 1, part))
            .await;
    }
    raw.frame_of(HEADERS).await;
}

#[tokio::test]
async fn a_message_that_lies_about_its_compression_is_the_caller_s_mistake() {
    let drover = Drover::start().await;
    let gzip = [("grpc-encoding", "gzip")];
    let bomb = bomb();
    assert!(bomb.len() < 1 << 20, "{}", bomb.len());
    for (headers, body) in [
        (&gzip[..], message(1, 20, b"this is not gzip....")),
        (&gzip[..], message(1, bomb.len(), &bomb)),
        (&[][..], message(1, 4, b"abcd")),
        (&[][..], message(2, 4, b"abcd")),
        (&[("grpc-encoding", "snappy")][..], message(1, 4, b"abcd")),
        (&[][..], message(0, 100, b"shorter")),
        (&[][..], message(0, 3, b"\xff\xff\xff")),
        (&[][..], message(0, 0, b"")),
    ] {
        send(&drover, headers, &body).await;
    }
    serves(&drover, "item").await;
    let metrics = drover.metrics().await;
    let counted = |name: &str| {
        let start = format!("drover_errors_total{{drover_reason=\"{name}\"}} ");
        metrics
            .lines()
            .find_map(|line| line.strip_prefix(&start))
            .map_or(0, |count| count.parse().expect("a count"))
    };
    assert_eq!((counted("INTERNAL"), counted("OTHER")), (0, 0), "{metrics}");
    assert_eq!(
        (counted("INVALID_FIELD"), counted("UNIMPLEMENTED")),
        (7, 1),
        "{metrics}"
    );
    drover.end().await;
}

/// 64 MiB of zeros in gzip, by deflate's longest matches over and over.
fn bomb() -> Vec<u8> {
    let mut bits = Bits::default();
    // One block of the fixed code: a literal 0, then matches of 258 bytes at distance 1.
    bits.put(0b1, 1);
    bits.put(0b01, 2);
    bits.put_code(0b0011_0000, 8);
    for _ in 0..(64 << 20) / 258 {
        bits.put_code(0b1100_0101, 8);
        bits.put_code(0, 5);
    }
    bits.put_code(0, 7);
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    bytes.extend(bits.bytes);
    bytes.extend([bits.current, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    current: u8,
    used: u32,
}

impl Bits {
    fn put(&mut self, value: u32, count: u32) {
        for at in 0..count {
            self.current |= ((value >> at & 1) as u8) << self.used;
            self.used += 1;
            if self.used == 8 {
                self.bytes.push(self.current);
                (self.current, self.used) = (0, 0);
            }
        }
    }

    /// Codes of deflate begin with their highest bit.
    fn put_code(&mut self, value: u32, count: u32) {
        for at in (0..count).rev() {
            self.put(value >> at & 1, 1);
        }
    }
}

#[tokio::test]
async fn a_message_over_four_mebibytes_is_refused_with_a_reason() {
    let drover = Drover::start().await;
    let rebuild = drover.granted(ask("item")).await;
    let large = report("item", &rebuild, &"x".repeat(5 << 20));
    let status = drover.calls.clone().report_value(large).await.expect_err("too long");
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::InvalidArgument, "INVALID_FIELD".to_owned()),
        "{status:?}"
    );
    drover.accept(report("item", &rebuild, "smaller")).await;
    let mut watching = drover.calls.clone();
    let first = drover::proto::WatchRequest {
        kind: Some(drover::proto::watch_request::Kind::Ack(drover::proto::Ack {
            cursor: "x".repeat(5 << 20),
            hits: Vec::new(),
        })),
    };
    let status = match watching.watch(tokio_stream::iter([first])).await {
        Ok(stream) => stream.into_inner().message().await.expect_err("too long"),
        Err(status) => status,
    };
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::InvalidArgument, "INVALID_FIELD".to_owned()),
        "{status:?}"
    );
    drover.end().await;
}

#[tokio::test]
async fn compressed_requests_are_read() {
    let drover = Drover::start().await;
    let mut calls = drover
        .another()
        .await
        .send_compressed(tonic::codec::CompressionEncoding::Gzip);
    let answer = calls
        .acquire_rebuild(ask("item"))
        .await
        .expect("an answer")
        .into_inner();
    let rebuild = granted(answer.decision.expect("a decision"));
    let large = report("item", &rebuild, &"x".repeat(1 << 20));
    assert!(
        calls
            .report_value(large)
            .await
            .expect("an answer")
            .into_inner()
            .accepted
    );
    drover.end().await;
}

#[tokio::test]
async fn metadata_of_any_kind_changes_nothing() {
    let drover = Drover::start().await;
    for (name, value) in [
        ("traceparent", "garbage"),
        ("grpc-timeout", "soon"),
        ("grpc-timeout", "99999999H"),
        ("grpc-encoding", "identity"),
        ("baggage", "a=b"),
    ] {
        let mut request = Request::new(ask(value));
        request.metadata_mut().insert(name, value.parse().expect("ASCII"));
        let answer = drover
            .calls
            .clone()
            .acquire_rebuild(request)
            .await
            .expect(value)
            .into_inner();
        let rebuild = granted(answer.decision.expect("a decision"));
        drover.accept(report(value, &rebuild, "value")).await;
    }
    let mut large = Request::new(ask("large"));
    large
        .metadata_mut()
        .insert("baggage", "x".repeat(30 << 10).parse().expect("ASCII"));
    drover
        .calls
        .clone()
        .acquire_rebuild(large)
        .await
        .expect_err("too many headers");
    serves(&drover, "item").await;
    drover.end().await;
}

#[tokio::test]
async fn calls_of_no_service_are_unimplemented() {
    let drover = Drover::start().await;
    let mut raw = Raw::greeted(drover.running.grpc, &[]).await;
    raw.send(&call(1, "BatchAcquireRebuild", &[])).await;
    raw.send(&frame(DATA, END_STREAM, 1, &message(0, 0, b""))).await;
    let (_, flags, _, _) = raw.frame_of(HEADERS).await;
    assert_eq!(flags & END_STREAM, END_STREAM, "an answer at once");
    drop(raw);
    tokio::time::timeout(Duration::from_secs(5), serves(&drover, "item"))
        .await
        .expect("quickly");
    drover.end().await;
}
