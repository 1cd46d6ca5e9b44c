//! Sentences about the fan-out, on paused time and a plain feed.

mod barrier;
mod coalescing;
mod covering;
mod fleet;
mod leaving;
mod opening;
mod refreshed;
mod remote;
mod resets;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};

use super::*;
use crate::decision::{Key, LeaseId, LostReason, Mode, Seq, StoreTime, When};
use crate::store::{Event, Target};

/// A feed with a hub, and a sequence of numbers.
struct World {
    feed: Arc<Feed>,
    hub: Arc<Hub>,
    number: std::cell::Cell<u64>,
}

impl World {
    fn new() -> World {
        World::bounded(Bounds::default())
    }

    fn bounded(bounds: Bounds) -> World {
        let feed = Feed::bounded(bounds);
        World {
            hub: Hub::new(&feed, HubLimits::default()),
            feed,
            number: std::cell::Cell::new(100),
        }
    }

    /// Commits an event, and says its position.
    fn commit(&self, event: Event) -> u64 {
        self.number.set(self.number.get() + 1);
        let appended = self
            .feed
            .append(Seq(self.number.get()), StoreTime(1_000_000), vec![event]);
        self.feed.announce(&appended);
        appended.place.at
    }

    fn drop_key(&self, key: &str) -> u64 {
        self.commit(invalidated(key, Mode::Drop))
    }

    fn watch(&self, subscription: Subscription) -> Watching {
        self.hub.watch(&subscription).expect("there is room")
    }

    /// A watcher that has seen its Started.
    fn live(&self, subscription: Subscription) -> Watching {
        let mut watching = self.watch(subscription);
        let opening = seen(&mut watching);
        assert!(matches!(opening.last(), Some(event) if started(event)), "{opening:?}");
        watching
    }
}

fn shop() -> Subscription {
    Subscription {
        namespaces: vec!["shop".into()],
        ..Subscription::default()
    }
}

fn named(holder: &str) -> Subscription {
    Subscription {
        holder: holder.into(),
        ..shop()
    }
}

fn resuming(cursor: &str) -> Subscription {
    Subscription {
        resume_from: cursor.to_owned(),
        ..shop()
    }
}

fn invalidated(key: &str, mode: Mode) -> Event {
    invalidated_target(Target::Key(Key::new("shop", key)), mode)
}

fn invalidated_target(target: Target, mode: Mode) -> Event {
    Event::Invalidated {
        namespace: "shop".into(),
        target,
        mode,
    }
}

fn refreshed(key: &str, version: u64) -> Event {
    Event::Refreshed {
        key: Key::new("shop", key),
        version: Seq(version),
        fresh_until: When::after(Duration::from_secs(60)),
        stale_while_revalidate: Duration::from_secs(10),
        stale_if_error: Duration::ZERO,
    }
}

fn revoked(namespace: &str, holder: &str) -> Event {
    Event::LeaseRevoked {
        key: Key::new(namespace, "k"),
        lease: LeaseId {
            token: Seq(7),
            secret: std::num::NonZeroU64::MIN,
        },
        holder: holder.into(),
        reason: LostReason::Invalidated,
    }
}

/// The next message, if there is one now.
fn next(watching: &mut Watching) -> Option<WatchEvent> {
    watching.next().now_or_never().flatten()
}

/// All messages that there are now.
fn seen(watching: &mut Watching) -> Vec<WatchEvent> {
    std::iter::from_fn(|| next(watching)).collect()
}

/// The next message, which must be there now.
fn must(watching: &mut Watching) -> WatchEvent {
    next(watching).expect("there is a message")
}

fn started(event: &WatchEvent) -> bool {
    matches!(event.what, What::Started { .. })
}

fn reset(event: &WatchEvent) -> Option<ResetReason> {
    match event.what {
        What::Reset { reason } => Some(reason),
        _ => None,
    }
}

/// The keys that a message drops or expires.
fn keys(event: &WatchEvent) -> Vec<&str> {
    match &event.what {
        What::Invalidated(invalidation) => invalidation.keys.iter().map(Key::name).collect(),
        _ => Vec::new(),
    }
}

/// In short: what came.
fn words(events: &[WatchEvent]) -> Vec<String> {
    let word = |event: &WatchEvent| match &event.what {
        What::Started { .. } => "started".to_owned(),
        What::Invalidated(what) => {
            let mut names: Vec<_> = what.keys.iter().map(|key| key.name().to_owned()).collect();
            names.extend(what.tags.iter().map(|tag| format!("#{tag}")));
            names.extend(what.everything.then(|| "*".to_owned()));
            format!("{} {}", what.mode.as_str(), names.join(" "))
        }
        What::Refreshed { key, version, .. } => format!("refreshed {} {}", key.name(), version.0),
        What::LeaseRevoked { key, .. } => format!("revoked {}", key.name()),
        What::Progress { draining: true } => "draining".to_owned(),
        What::Progress { draining: false } => "progress".to_owned(),
        What::Reset { reason } => format!("reset {}", reason.as_str()),
    };
    events.iter().map(word).collect()
}
