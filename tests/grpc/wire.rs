//! HTTP/2 by hand, for clients that no library would be.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
pub const ACK: u8 = 1;

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 + payload.len());
    bytes.extend(&u32::try_from(payload.len()).expect("short").to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A list of headers without any compression.
pub fn header_block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(text.len() as u8);
            block.extend(text.as_bytes());
        }
    }
    block
}

pub fn call(stream: u32, method: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let path = format!("/drover.v1.CoordinatorService/{method}");
    let mut headers = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path.as_str()),
        (":authority", "drover"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    headers.extend(more);
    frame(HEADERS, END_HEADERS, stream, &header_block(&headers))
}

/// A message as gRPC frames it.
pub fn message(compressed: u8, length: usize, bytes: &[u8]) -> Vec<u8> {
    let mut framed = vec![compressed];
    framed.extend(u32::try_from(length).expect("short").to_be_bytes());
    framed.extend(bytes);
    framed
}

/// A connection whose client says what it likes.
pub struct Raw(pub TcpStream);

impl Raw {
    pub async fn connect(address: SocketAddr) -> Raw {
        Raw(TcpStream::connect(address).await.expect("it listens"))
    }

    /// After the greeting of HTTP/2, with the settings given.
    pub async fn greeted(address: SocketAddr, settings: &[u8]) -> Raw {
        let mut raw = Raw::connect(address).await;
        raw.send(PREFACE).await;
        raw.send(&frame(SETTINGS, 0, 0, settings)).await;
        raw.frame_of(SETTINGS).await;
        raw.send(&frame(SETTINGS, ACK, 0, &[])).await;
        raw
    }

    /// A server that has closed already is no failure of the client.
    pub async fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
    }

    /// The next frame; `None`: the server has closed the connection.
    pub async fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).await.ok()?;
        Some((head[3], head[4], stream, payload))
    }

    pub async fn frame_of(&mut self, kind: u8) -> (u8, u8, u32, Vec<u8>) {
        loop {
            let frame = self.frame().await.expect("not closed");
            if frame.0 == kind {
                return frame;
            }
        }
    }

    /// Everything until the server closes.
    pub async fn closed(&mut self) {
        while self.frame().await.is_some() {}
    }

    /// The server has dealt with everything that was sent before.
    pub async fn settled(&mut self) {
        self.send(&frame(PING, 0, 0, b"any more")).await;
        while self.frame_of(PING).await.1 != ACK {}
    }
}
