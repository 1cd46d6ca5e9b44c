//! What a replica is made of, put together: store, fan-out, coordinator.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::readiness::Readiness;
use crate::config::{Limits, Policies, Settings, StoreKind};
use crate::coordinator::{Coordinator, Dice};
use crate::fanout::{Hub, HubLimits, LocalHits};
use crate::metrics::{Levels, Metrics};
use crate::store::Store;
use crate::store::memory::{self, Memory};
use crate::store::redis::Redis;
use crate::store::redis::link::Link;

/// A store that has not answered is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(250);
/// It is in the log once, and again after this.
const SAY_AGAIN: Duration = Duration::from_secs(10);

/// The parts that serve requests.
pub(super) struct Parts {
    pub(super) store: Arc<dyn Store>,
    pub(super) hub: Arc<Hub>,
    pub(super) policies: Policies,
    pub(super) coordinator: Arc<Coordinator>,
}

impl Parts {
    /// As the settings want them. What they do on the side runs in `tasks` until `cut`.
    pub(super) fn new(
        settings: &Settings,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
        cut: &CancellationToken,
    ) -> anyhow::Result<Parts> {
        Ok(match &settings.store {
            StoreKind::Memory => {
                let memory = Memory::new(bounds(&settings.limits));
                tasks.spawn(cut.clone().run_until_cancelled_owned(memory.clone().sweep()));
                Parts::over(memory.clone(), Some(&memory), settings, metrics)
            }
            StoreKind::Redis(redis) => {
                let link = Link::new(redis)?;
                link.told_to(metrics);
                tasks.spawn(link.clone().tend(cut.clone()));
                let store = Redis::new(link, &redis.prefix, tasks);
                let parts = Parts::over(store.clone(), None, settings, metrics);
                tasks.spawn(store.run(cut.clone()));
                parts
            }
        })
    }

    /// Over this store; `memory` is the same one, where it is of this process.
    pub(super) fn over(
        store: Arc<dyn Store>,
        memory: Option<&Arc<Memory>>,
        settings: &Settings,
        metrics: &Arc<Metrics>,
    ) -> Parts {
        let limits = HubLimits {
            watchers: settings.limits.max_watchers,
            ..HubLimits::default()
        };
        let heard: Arc<OnceLock<Weak<Coordinator>>> = Arc::default();
        let hub = Hub::with_hits(store.feed(), limits, local_hits(heard.clone()));
        if let Some(peers) = store.peers() {
            peers.answer_for(hub.respondent());
        }
        let policies = Policies::new(settings.policies.clone());
        let coordinator = Coordinator::new(
            store.clone(),
            policies.clone(),
            hub.clone(),
            Dice::random(),
            settings.limits.max_waiters,
        );
        let _ = heard.set(Arc::downgrade(&coordinator));
        coordinator.allow_workers(settings.limits.max_workers);
        let counted = metrics.clone();
        coordinator.on_refresh(move |namespace, news| counted.refreshed(namespace, news));
        observe(metrics, memory, &hub, &coordinator);
        Parts {
            store,
            hub,
            policies,
            coordinator,
        }
    }
}

/// What is read from local copies goes to the coordinator, which is made after the hub.
fn local_hits(coordinator: Arc<OnceLock<Weak<Coordinator>>>) -> LocalHits {
    Box::new(move |namespace, key, hits| {
        if let Some(coordinator) = coordinator.get().and_then(Weak::upgrade) {
            coordinator.read_locally(namespace, key, hits);
        }
    })
}

/// Asks the store until it answers, and then says that this replica serves.
pub(super) async fn serve_when_answered(store: Arc<dyn Store>, readiness: Readiness) {
    let mut said: Option<Instant> = None;
    while let Err(error) = store.ping().await {
        if said.is_none_or(|said| said.elapsed() >= SAY_AGAIN) {
            tracing::warn!(%error, "not serving yet; asking the store until it answers");
            said = Some(Instant::now());
        }
        sleep(ASK_AGAIN).await;
    }
    if said.is_some() {
        tracing::info!("the store answers: serving");
    }
    readiness.serving().await;
}

fn bounds(limits: &Limits) -> memory::Limits {
    memory::Limits {
        entries: limits.max_entries,
        bytes: usize::try_from(limits.max_memory).unwrap_or(usize::MAX),
    }
}

/// The parts count these themselves. Held weakly: figures keep nothing alive.
fn observe(metrics: &Arc<Metrics>, memory: Option<&Arc<Memory>>, hub: &Arc<Hub>, coordinator: &Arc<Coordinator>) {
    let (memory, hub) = (memory.map(Arc::downgrade), Arc::downgrade(hub));
    let coordinator = Arc::downgrade(coordinator);
    metrics.observe(move || {
        let memory = memory.as_ref().and_then(Weak::upgrade);
        let usage = memory.map(|memory| memory.usage()).unwrap_or_default();
        let hub = hub.upgrade();
        let stats = hub.as_deref().map(Hub::stats);
        let coordinator = coordinator.upgrade();
        let (workers, in_flight) = coordinator.as_deref().map(Coordinator::workers).unwrap_or_default();
        let of = |count: fn(&Coordinator) -> usize| coordinator.as_deref().map_or(0, count) as u64;
        Levels {
            waiters: of(Coordinator::parked),
            workers: workers as u64,
            in_flight: in_flight as u64,
            scheduled: usage.scheduled as u64,
            in_line: of(Coordinator::in_line),
            open_circuits: of(Coordinator::open_circuits),
            watchers: hub.as_deref().map_or(0, Hub::watchers) as u64,
            events: stats.into_iter().flat_map(|stats| stats.events()).collect(),
            resets: stats
                .into_iter()
                .flat_map(|stats| stats.resets())
                .map(|(reason, count)| (reason.as_str(), count))
                .collect(),
            entries: usage.entries as u64,
            bytes: usage.bytes as u64,
            evictions: usage.evicted,
        }
    });
}
