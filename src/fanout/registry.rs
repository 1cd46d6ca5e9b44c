//! Who watches what.
//!
//! *Owns* the indexes by which an event finds its watchers, and the *ghosts*: watchers that have left but whose clients may trust
//! their copies for a while yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use indexmap::IndexMap;
use tokio::time::Instant;

use super::stream::MAX_SILENCE;
use super::watcher::Watcher;
use crate::store::{Event, Target};

/// Watchers by their ids: dense to walk, and one leaves without a walk.
type Watchers = IndexMap<u64, Arc<Watcher>>;

/// The indexes; under the hub's lock.
#[derive(Default)]
pub(super) struct Registry {
    live: usize,
    by_namespace: HashMap<Arc<str>, Watchers>,
    /// Those of them that want `Refreshed`, so that a report does not walk over all.
    refreshed: HashMap<Arc<str>, Watchers>,
    by_holder: HashMap<Arc<str>, Watchers>,
    /// In the order in which they left.
    ghosts: VecDeque<(Instant, Arc<Watcher>)>,
}

impl Registry {
    /// How many are connected.
    pub fn live(&self) -> usize {
        self.live
    }

    /// How many have left that still count.
    pub fn ghosts(&self) -> usize {
        self.ghosts.len()
    }

    pub fn join(&mut self, watcher: &Arc<Watcher>) {
        self.live += 1;
        for namespace in &watcher.filter.namespaces {
            insert(&mut self.by_namespace, namespace, watcher);
            if watcher.filter.refreshed {
                insert(&mut self.refreshed, namespace, watcher);
            }
        }
        if !watcher.filter.holder.is_empty() {
            insert(&mut self.by_holder, &watcher.filter.holder, watcher);
        }
    }

    pub fn leave(&mut self, watcher: &Arc<Watcher>, now: Instant) {
        self.live = self.live.saturating_sub(1);
        for namespace in &watcher.filter.namespaces {
            remove(&mut self.by_namespace, namespace, watcher.id);
            remove(&mut self.refreshed, namespace, watcher.id);
        }
        remove(&mut self.by_holder, &watcher.filter.holder, watcher.id);
        self.forget_silent(now);
        watcher.leave(now);
        if !watcher.observe_only {
            self.ghosts.push_back((now, watcher.clone()));
        }
    }

    /// Ghosts whose clients have stopped trusting their copies go.
    pub fn forget_silent(&mut self, now: Instant) {
        while self.ghosts.front().is_some_and(|(left, _)| now >= *left + MAX_SILENCE) {
            self.ghosts.pop_front();
        }
    }

    /// Those that are to be woken for an event.
    pub fn wanting<'a>(&'a self, event: &'a Event) -> impl Iterator<Item = &'a Arc<Watcher>> {
        let watchers = match event {
            Event::Invalidated { namespace, .. } => self.by_namespace.get(namespace),
            Event::Refreshed { key, .. } => self.refreshed.get(key.namespace()),
            Event::LeaseRevoked { holder, .. } => self.by_holder.get(holder),
        };
        let watchers = watchers.into_iter().flat_map(Watchers::values);
        watchers.filter(move |watcher| watcher.filter.wants(event))
    }

    /// Everybody who is connected; some more than once.
    pub fn everybody(&self) -> impl Iterator<Item = &Arc<Watcher>> {
        self.by_namespace.values().flat_map(Watchers::values)
    }

    /// Those that may have copies of what is invalidated, ghosts too.
    pub fn covering(&self, namespace: &str, targets: &[Target]) -> Vec<Arc<Watcher>> {
        let live = self.by_namespace.get(namespace).into_iter().flat_map(Watchers::values);
        let ghosts = self.ghosts.iter().map(|(_, watcher)| watcher);
        live.chain(ghosts)
            .filter(|watcher| !watcher.observe_only)
            .filter(|watcher| targets.iter().any(|target| watcher.filter.covers(namespace, target)))
            .cloned()
            .collect()
    }

    /// How many of each namespace may trust their copies: observers aside, ghosts too.
    pub fn trusting(&self) -> HashMap<Arc<str>, u32> {
        let mut counts = HashMap::new();
        let ghosts = self.ghosts.iter().map(|(_, watcher)| watcher);
        let ghosts = ghosts.flat_map(|watcher| watcher.filter.namespaces.iter().map(move |name| (name, watcher)));
        let live = self.by_namespace.iter();
        let live = live.flat_map(|(name, watchers)| watchers.values().map(move |watcher| (name, watcher)));
        for (name, _) in live.chain(ghosts).filter(|(_, watcher)| !watcher.observe_only) {
            *counts.entry(name.clone()).or_insert(0) += 1;
        }
        counts
    }

    /// How many watch each namespace, observers too.
    pub fn census(&self) -> Vec<(Arc<str>, usize)> {
        self.by_namespace
            .iter()
            .map(|(namespace, watchers)| (namespace.clone(), watchers.len()))
            .collect()
    }

    /// How many watch a namespace, observers too.
    pub fn watching(&self, namespace: &str) -> usize {
        self.by_namespace.get(namespace).map_or(0, Watchers::len)
    }
}

fn insert(index: &mut HashMap<Arc<str>, Watchers>, name: &Arc<str>, watcher: &Arc<Watcher>) {
    let watchers = index.entry(name.clone()).or_default();
    watchers.insert(watcher.id, watcher.clone());
}

fn remove(index: &mut HashMap<Arc<str>, Watchers>, name: &str, id: u64) {
    if let Some(watchers) = index.get_mut(name) {
        watchers.swap_remove(&id);
        if watchers.is_empty() {
            index.remove(name);
        }
    }
}
