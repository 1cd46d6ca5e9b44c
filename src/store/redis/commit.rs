//! A commit as its script takes it, and what it wrote.

use std::sync::Arc;

use super::codec::{again_template, event_template, pack};
use super::shared::{LOG, draft_arguments, revision_text};
use crate::decision::{Draft, Seq, Stamp, StoreTime, When, micros};
use crate::store::schedule::NEAR;
use crate::store::{Commit, Committed, Event, NewBytes, Place, Revision, Snapshot};

/// The log of `Refreshed` holds at least so many records.
pub const REFRESHED: usize = 65_536;
/// Wake-ups: who has not read one before a thousand others came loads once a second in any case.
pub const RINGS: usize = 1_000;
/// An expiry is not later than this, µs: the year 2112.
const FOR_EVER: u64 = 1 << 52;

/// What was written, known from the stamp: the script fills the draft's slots by the same rule.
pub fn written(commit: Commit, stamp: Stamp, revision: Revision, place: Place) -> Committed {
    let snapshot = match commit.draft {
        None => Snapshot::absent(&commit.key),
        Some(draft) => Snapshot {
            key: commit.key,
            entry: draft.stamp(stamp),
            bytes: match commit.bytes {
                NewBytes::Put(bytes) => Some(bytes),
                NewBytes::Keep | NewBytes::Clear => None,
            },
            revision,
        },
    };
    Committed {
        snapshot: Arc::new(snapshot),
        number: stamp.number,
        now: stamp.now,
        place,
    }
}

/// For `commit.lua`, after the epoch. `had_lease`: the index of leases may have the key. `again`: what was lost is committed again.
pub fn commit_args(commit: &Commit, high: Seq, had_lease: bool, again: bool) -> Vec<Vec<u8>> {
    let text = |number: u64| number.to_string().into_bytes();
    let bound = |time: StoreTime, none: StoreTime| if time == none { Vec::new() } else { text(time.0) };
    let leased = commit.draft.as_ref().is_some_and(|draft| draft.lease.is_some());
    let (kept_for, kept_until) = commit.draft.as_ref().map_or((0, StoreTime::ZERO), Draft::kept);
    // Redis takes no expiry beyond what it can count in; nothing is meant to live that long.
    let (kept_for, kept_until) = (kept_for.min(FOR_EVER), kept_until.min(StoreTime(FOR_EVER)));
    let bytes = match &commit.bytes {
        NewBytes::Put(bytes) => bytes.to_vec(),
        NewBytes::Keep | NewBytes::Clear => Vec::new(),
    };
    let mut args = Vec::with_capacity(36);
    args.extend([
        flags(commit, leased, had_lease).into_bytes(),
        revision_text(commit.expected),
        bound(commit.not_before, StoreTime::ZERO),
        bound(commit.until, StoreTime::NEVER),
        text(commit.above.max(high).0),
        text(commit.guard.as_ref().map_or(0, |guard| guard.newest.0)),
        pack(commit.guard.as_ref().map_or(&[][..], |guard| &guard.tags)),
        commit.key.namespace().as_bytes().to_vec(),
        commit.key.text().as_bytes().to_vec(),
        bytes,
        text(kept_for),
        text(kept_until.0),
        text(LOG as u64),
        text(REFRESHED as u64),
        text(RINGS as u64),
    ]);
    let task = commit.draft.as_ref().and_then(Draft::task_at);
    args.extend([
        after(task).map(text).unwrap_or_default(),
        task.map(|task| bound(task.at_most, StoreTime::NEVER))
            .unwrap_or_default(),
        text(micros(NEAR)),
        text(commit.rings_within.as_millis() as u64),
        text(commit.events.len() as u64),
    ]);
    for event in &commit.events {
        let refreshed = matches!(event, Event::Refreshed { .. });
        args.push(if refreshed { b"r".to_vec() } else { b"m".to_vec() });
        let template = if again {
            again_template(event)
        } else {
            event_template(event)
        };
        template.arguments(&mut args);
    }
    if let Some(draft) = &commit.draft {
        draft_arguments(draft, &mut args);
    }
    args
}

/// How long after the commit a task is due, where that does not say the bound alone.
fn after(task: Option<When>) -> Option<u64> {
    Some(micros(task?.after?).min(FOR_EVER))
}

fn flags(commit: &Commit, leased: bool, had_lease: bool) -> String {
    let bytes = match &commit.bytes {
        NewBytes::Keep => 'k',
        NewBytes::Put(_) => 'p',
        NewBytes::Clear => 'c',
    };
    let mut flags = String::from(bytes);
    let all = [
        ('n', commit.takes_number()),
        ('d', commit.draft.is_some()),
        ('l', leased),
        ('u', had_lease && !leased),
        ('b', commit.bytes_on_conflict),
        ('g', commit.guard.is_some()),
        ('e', !leased),
        ('v', stores_value(commit)),
    ];
    flags.extend(all.iter().filter(|(_, set)| *set).map(|(flag, _)| flag));
    flags
}

/// Whether the value is new, and not the one that was there.
fn stores_value(commit: &Commit) -> bool {
    let value = commit.draft.as_ref().and_then(|draft| draft.value.as_ref());
    value.is_some_and(|value| value.stored_at.after.is_some())
}
