//! What operators see: a key, the live leases, the namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Coordinator, Description, Error, LeaseInfo, NamespaceInfo};
use crate::decision::{self, Key, Lease, StoreTime};
use crate::store::Want;

impl Coordinator {
    /// Everything known about a key.
    pub async fn describe(self: &Arc<Self>, key: &Key) -> Result<Description, Error> {
        let policy = self.policy(key.namespace())?;
        let loaded = self.store.load(key, &[], Want::default()).await?;
        let view = loaded.view();
        let waiters = u32::try_from(self.flights.parked_for(key)).unwrap_or(u32::MAX);
        let own = decision::trouble(&view, self.dice.draw());
        Ok(Description {
            current: decision::facts(&view, &policy),
            lease: view.lease().map(|lease| info(key, lease, loaded.now, waiters)),
            waiters,
            backoff: self.kept_off(key, own, loaded.now, &policy),
        })
    }

    /// The live leases, of a namespace or of all, longest held first.
    pub async fn leases(self: &Arc<Self>, namespace: Option<&str>) -> Result<Vec<LeaseInfo>, Error> {
        if let Some(namespace) = namespace {
            self.policy(namespace)?;
        }
        let (snapshots, now) = (self.store.leases(namespace).await?, self.store.ping().await?);
        let mut leases: Vec<&crate::store::Snapshot> = snapshots.iter().map(Arc::as_ref).collect();
        leases.sort_by_key(|snapshot| {
            (
                snapshot.entry.lease.as_ref().map(|lease| lease.token),
                snapshot.key.clone(),
            )
        });
        let with_waiters = |snapshot: &&crate::store::Snapshot| {
            let waiters = u32::try_from(self.flights.parked_for(&snapshot.key)).unwrap_or(u32::MAX);
            snapshot
                .entry
                .live_lease(now)
                .map(|lease| info(&snapshot.key, lease, now, waiters))
        };
        Ok(leases.iter().filter_map(with_waiters).collect())
    }

    /// The namespaces that are configured or in use, by name.
    pub async fn namespaces(self: &Arc<Self>) -> Result<Vec<NamespaceInfo>, Error> {
        let mut found: BTreeMap<String, NamespaceInfo> = BTreeMap::new();
        let set = self.policies.load().clone();
        let mut of = |name: &str, set_counts: &dyn Fn(&mut NamespaceInfo)| {
            let policy = set.of(name).unwrap_or(&set.defaults).clone();
            set_counts(
                found
                    .entry(name.to_owned())
                    .or_insert_with(|| NamespaceInfo::empty(name, policy)),
            );
        };
        for name in set.names() {
            of(name, &|_| ());
        }
        for census in self.store.census().await? {
            of(&census.namespace, &|info| {
                (info.entries, info.leases) = (census.entries, census.leases)
            });
        }
        for (name, parked) in self.flights.census() {
            of(&name, &|info| info.waiters = parked);
        }
        for name in self.shaping.circuits.open() {
            of(&name, &|info| info.circuit_open = true);
        }
        for (name, watchers) in self.hub.census() {
            of(&name, &|info| info.watchers = watchers as u64);
        }
        for (name, workers) in self.store.fleet().await? {
            of(&name, &|info| info.workers = u64::from(workers));
        }
        Ok(found.into_values().collect())
    }
}

impl NamespaceInfo {
    fn empty(namespace: &str, policy: Arc<decision::Policy>) -> NamespaceInfo {
        NamespaceInfo {
            namespace: namespace.to_owned(),
            policy,
            entries: 0,
            leases: 0,
            waiters: 0,
            watchers: 0,
            workers: 0,
            circuit_open: false,
        }
    }
}

fn info(key: &Key, lease: &Lease, now: StoreTime, waiters: u32) -> LeaseInfo {
    LeaseInfo {
        key: key.clone(),
        holder: lease.holder.clone(),
        token: lease.token,
        cause: lease.cause,
        held: now.since(lease.granted_at),
        ttl: lease.deadline.since(now),
        waiters,
        traceparent: lease.traceparent.clone(),
    }
}
