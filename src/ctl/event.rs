//! *Owns* how one Watch event reads: a line for people, a document for scripts.

use std::time::SystemTime;

use anstyle::Style;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::exit::Exit;
use super::json::{self, Fields};
use super::output::Answer;
use super::text::{self, BAD, BOLD, CARE, DIM, GOOD, paint};
use super::{units, words};
use crate::proto::{Invalidated, LeaseRevoked, Progress, Refreshed, Started, WatchResponse, watch_response::Event};

/// An event and when it arrived here.
struct Received<'a> {
    time: &'a str,
    event: &'a WatchResponse,
}

impl Serialize for Received<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("received_at", self.time)?;
        self.event.fields(&mut map)?;
        map.end()
    }
}

pub fn answer(response: &WatchResponse, at: SystemTime) -> Answer {
    let time = humantime::format_rfc3339_millis(at).to_string();
    let (style, word, sentence) = match &response.event {
        Some(Event::Started(event)) => (GOOD, "started", started(event)),
        Some(Event::Invalidated(event)) => (CARE, "invalidated", invalidated(event)),
        Some(Event::Refreshed(event)) => (GOOD, "refreshed", refreshed(event)),
        Some(Event::LeaseRevoked(event)) => (CARE, "revoked", revoked(event)),
        Some(Event::Progress(event)) => progress(event),
        Some(Event::Reset(event)) => (
            BAD,
            "reset",
            format!("forget everything: {}", words::reset(event.reason)),
        ),
        None => (
            BAD,
            "reset",
            "forget everything: an event that this client does not know".into(),
        ),
    };
    let document = json::document(&Received {
        time: &time,
        event: response,
    });
    let page = format!(
        "{}  {}  {sentence}\n",
        paint(DIM, &time),
        paint(style, &format!("{word:<11}"))
    );
    Answer {
        page,
        document,
        exit: Exit::Yes,
    }
}

fn started(event: &Started) -> String {
    let interval = units::some(&event.progress_interval)
        .map(|interval| format!(", a sign of life at least every {}", units::people(interval)))
        .unwrap_or_default();
    let silence = units::some(&event.max_silence)
        .map(|silence| format!(", lost after {} without one", units::people(silence)))
        .unwrap_or_default();
    format!("live{interval}{silence}")
}

fn invalidated(event: &Invalidated) -> String {
    let namespace = text::safe(&event.namespace);
    let mode = words::mode(event.mode);
    let mut what = Vec::new();
    if event.everything {
        what.push("everything".to_owned());
    }
    if !event.keys.is_empty() {
        what.push(format!(
            "{} {}",
            plural("key", event.keys.len()),
            text::names(&event.keys)
        ));
    }
    if !event.tags.is_empty() {
        what.push(format!(
            "{} {}",
            plural("tag", event.tags.len()),
            text::names(&event.tags)
        ));
    }
    format!("{namespace}  {mode}  {}{}", what.join(", "), version(event.version))
}

fn plural(word: &str, count: usize) -> String {
    format!("{word}{}", if count == 1 { "" } else { "s" })
}

fn version(version: i64) -> String {
    if version == 0 {
        String::new()
    } else {
        format!("  {}", paint(DIM, &format!("version {version}")))
    }
}

fn refreshed(event: &Refreshed) -> String {
    let lifetimes = event
        .expiry
        .as_ref()
        .map(|expiry| format!("  {}", words::lifetimes(expiry)))
        .unwrap_or_default();
    format!(
        "{}{lifetimes}{}",
        text::subject(&event.namespace, &event.key),
        version(event.version)
    )
}

fn revoked(event: &LeaseRevoked) -> String {
    let lease = paint(DIM, &format!("lease {}", text::name(&event.lease_id)));
    format!(
        "{}  {}  {lease}",
        text::subject(&event.namespace, &event.key),
        words::lost(event.reason)
    )
}

fn progress(event: &Progress) -> (Style, &'static str, String) {
    match event.draining {
        true => (CARE, "draining", "this replica is about to leave".into()),
        false => (BOLD, "alive", "nothing happened".into()),
    }
}
