//! What clients send to a Redis, as its MONITOR tells.
//!
//! *Owns* the reading of MONITOR's lines. What scripts call inside is left out: it is no trip.

use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use anyhow::{Context, bail};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Lines that may wait to be read.
const BACKLOG: usize = 1 << 16;
/// What was sent is told within this.
const TOLD: Duration = Duration::from_secs(10);

/// One command, as a client sent it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its name, then its arguments.
    pub words: Vec<Vec<u8>>,
}

impl Sent {
    /// In capitals.
    pub fn name(&self) -> String {
        self.words
            .first()
            .map_or_else(String::new, |word| String::from_utf8_lossy(word).to_uppercase())
    }

    /// Whether it runs a script.
    pub fn calls_a_script(&self) -> bool {
        matches!(self.name().as_str(), "EVALSHA" | "EVAL")
    }

    /// Whether a word holds this.
    pub fn mentions(&self, what: &[u8]) -> bool {
        self.words
            .iter()
            .any(|word| word.windows(what.len()).any(|part| part == what))
    }
}

/// Sees what the nodes of one Redis are sent.
pub struct Monitor {
    nodes: Vec<Watched>,
    /// They end with the monitor.
    _reading: JoinSet<()>,
    marks: u64,
}

struct Watched {
    lines: mpsc::Receiver<String>,
    asking: MultiplexedConnection,
}

impl Monitor {
    /// Of these nodes: where each is, and a connection to it.
    pub async fn start(nodes: impl Iterator<Item = (&str, MultiplexedConnection)>) -> anyhow::Result<Self> {
        let (mut watched, mut reading) = (Vec::new(), JoinSet::new());
        for (url, asking) in nodes {
            let monitor = ::redis::Client::open(url)?.get_async_monitor().await?;
            let (told, lines) = mpsc::channel(BACKLOG);
            reading.spawn(async move {
                let mut stream = std::pin::pin!(monitor.into_on_message::<String>());
                while let Some(line) = stream.next().await {
                    if told.send(line).await.is_err() {
                        break;
                    }
                }
            });
            watched.push(Watched { lines, asking });
        }
        let mut monitor = Self {
            nodes: watched,
            _reading: reading,
            marks: 0,
        };
        monitor.sent().await?;
        Ok(monitor)
    }

    /// What was sent since this was asked last, in order on each node.
    pub async fn sent(&mut self) -> anyhow::Result<Vec<Sent>> {
        self.marks += 1;
        let mark = format!("drover bench {:016x} {}", rand::random::<u64>(), self.marks);
        let mut all = Vec::new();
        for node in &mut self.nodes {
            let echo: String = ::redis::cmd("ECHO").arg(&mark).query_async(&mut node.asking).await?;
            if echo != mark {
                bail!("Redis echoed something else");
            }
            loop {
                let line = tokio::time::timeout(TOLD, node.lines.recv()).await.ok().flatten();
                let line = line.context("MONITOR has ended, or tells nothing any more")?;
                let Some(sent) = parse(&line) else { continue };
                if sent.words.last().is_some_and(|word| word == mark.as_bytes()) {
                    break;
                }
                all.push(sent);
            }
        }
        Ok(all)
    }
}

/// `1339518083.107412 [0 127.0.0.1:60866] "get" "key"`; `None` for what a script has called, and for what has another form.
fn parse(line: &str) -> Option<Sent> {
    let (_, rest) = line.split_once('[')?;
    let (client, rest) = rest.split_once("] ")?;
    if client.ends_with(" lua") {
        return None;
    }
    let mut words = Vec::new();
    let mut bytes = rest.bytes().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' => {}
            b'"' => words.push(quoted(&mut bytes)?),
            _ => return None,
        }
    }
    Some(Sent { words })
}

/// The rest of a quoted word, behind its first quote.
fn quoted(bytes: &mut impl Iterator<Item = u8>) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut word = Vec::new();
    loop {
        let byte = match bytes.next()? {
            b'"' => return Some(word),
            b'\\' => match bytes.next()? {
                b'x' => digit(bytes.next()?)? * 16 + digit(bytes.next()?)?,
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                other => other,
            },
            byte => byte,
        };
        word.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<Vec<Vec<u8>>> {
        parse(line).map(|sent| sent.words)
    }

    #[test]
    fn bytes_come_back_as_they_were_sent() {
        let line = r#"1339518083.107412 [0 127.0.0.1:60866] "evalsha" "a b" "\x00\xffk\"\\\n\r\t\a\b" """#;
        let expected: [&[u8]; 4] = [b"evalsha", b"a b", b"\x00\xffk\"\\\n\r\t\x07\x08", b""];
        assert_eq!(words(line), Some(expected.map(<[u8]>::to_vec).to_vec()));
    }

    #[test]
    fn what_a_script_calls_is_no_trip() {
        assert_eq!(words(r#"1339518083.107412 [0 lua] "get" "key""#), None);
        assert_eq!(
            words(r#"1339518083.107412 [0 unix:/a/b] "get" "key""#).map(|words| words.len()),
            Some(2)
        );
    }

    #[test]
    fn a_line_of_another_form_is_passed_over() {
        for line in ["OK", "", r#"1 [0 a] "cut"#, r#"1 [0 a] "cut\x0"#, "1 [0 a] get"] {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
