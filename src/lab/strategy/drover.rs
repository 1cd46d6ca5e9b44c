//! drover as a good SDK uses it (contract §9).
//!
//! *Invariants*: who is granted a lease reports, even if its caller is gone; a lease is renewed at a third of its time; a fallback
//! is served at once while the rebuild runs behind it, unless it is for failures only.
//!
//! *Why no early draws here*: the per-read rule is for local copies. These callers keep none and ask each time, so drover's own
//! central draw hands exactly one of them the early rebuild. Drawing again from what the last answer said would ask for a second
//! rebuild of a value that somebody has refreshed since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::Trouble;
use super::client::{Client, proto_duration};
use crate::lab::origin::{Failing, Origin};
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::hit::Content;
use crate::proto::report_value_request::Outcome;
use crate::proto::{Failure, Hit, Lease, Lifetimes, Rebuild};

mod ledger;
mod worker;

pub use ledger::{Ledger, Lives, Served};

/// The lease length that is renewed towards when an answer says none.
const USUAL_LEASE: Duration = Duration::from_secs(10);

/// Callers of one drover with one origin.
#[derive(Debug)]
pub struct Drover {
    client: Arc<Client>,
    origin: Arc<Origin>,
    lives: Lifetimes,
    background: TaskTracker,
    refused: AtomicU64,
    trouble: OnceLock<String>,
    ledger: Ledger,
}

impl Drover {
    /// Values live `lives`, the windows after it are the policy's.
    pub fn new(client: Arc<Client>, origin: Arc<Origin>, lives: Duration) -> Arc<Self> {
        Arc::new(Self {
            client,
            origin,
            lives: Lifetimes {
                fresh_ttl: proto_duration(lives),
                ..Default::default()
            },
            background: TaskTracker::new(),
            refused: AtomicU64::new(0),
            trouble: OnceLock::new(),
            ledger: Ledger::default(),
        })
    }

    /// See [`super::Strategy::get`].
    pub async fn get(self: &Arc<Self>, key: &str) -> Result<u64, Trouble> {
        let answer = self.client.acquire(key).await?;
        self.ledger.note(&answer);
        match answer.decision {
            Some(Decision::Hit(hit)) => read(&hit),
            Some(Decision::Rebuild(rebuild)) => self.rebuild(key, rebuild).await,
            Some(Decision::Backoff(backoff)) => Err(Trouble::Backoff(backoff.message)),
            // An unset decision is something newer: it counts as busy.
            Some(Decision::Busy(_) | Decision::Miss(_)) | None => Err(Trouble::Busy),
        }
    }

    async fn rebuild(self: &Arc<Self>, key: &str, rebuild: Rebuild) -> Result<u64, Trouble> {
        let lease = rebuild.lease.ok_or(Trouble::Nonsense("rebuild without a lease"))?;
        let fallback = rebuild.fallback.as_ref().and_then(|hit| read(hit).ok());
        let (answer, answered) = oneshot::channel();
        // A task of its own: the report is sent even if this caller goes away.
        self.background.spawn(self.clone().work(key.to_owned(), lease, answer));
        if let Some(data) = fallback.filter(|_| !rebuild.fallback_on_failure_only) {
            return Ok(data);
        }
        match (answered.await.unwrap_or(Err(Failing)), fallback) {
            (Ok(data), _) | (Err(_), Some(data)) => Ok(data),
            (Err(failing), None) => Err(failing.into()),
        }
    }

    async fn work(self: Arc<Self>, key: String, lease: Lease, answer: oneshot::Sender<Result<u64, Failing>>) {
        let built = tokio::select! {
            built = self.origin.query() => built,
            never = self.keep(&key, &lease) => match never {},
        };
        // The caller need not wait for the report; it may also be gone.
        let _ = answer.send(built);
        let outcome = match built {
            Ok(data) => Outcome::Value(Bytes::from(data.to_string())),
            Err(failing) => Outcome::Failure(Failure {
                message: failing.to_string(),
                retry_after: None,
            }),
        };
        match self.client.report(&key, &lease.lease_id, outcome, &self.lives).await {
            Ok(told) if told.accepted && built.is_err() => {}
            Ok(told) if told.accepted => {
                let fresh = told.expiry.and_then(|expiry| expiry.fresh_for);
                let fresh = fresh.and_then(|fresh| Duration::try_from(fresh).ok());
                self.ledger.stored(&key, fresh.unwrap_or_default());
            }
            Ok(_) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(trouble) => {
                let _ = self.trouble.set(trouble.to_string());
            }
        }
    }

    /// Keeps the lease for as long as it is polled; once it is lost, the work goes on and its report will be judged.
    async fn keep(&self, key: &str, lease: &Lease) -> std::convert::Infallible {
        let asked = lease
            .ttl
            .and_then(|ttl| Duration::try_from(ttl).ok())
            .filter(|ttl| !ttl.is_zero());
        let mut ttl = asked.unwrap_or(USUAL_LEASE);
        loop {
            // Not in a hurry even at the end of the longest hold, when what is left shrinks to nothing.
            tokio::time::sleep((ttl / 3).max(Duration::from_millis(100))).await;
            match self
                .client
                .renew(key, &lease.lease_id, asked.unwrap_or(USUAL_LEASE))
                .await
            {
                Ok(kept) if kept.renewed => {
                    ttl = kept.ttl.and_then(|left| Duration::try_from(left).ok()).unwrap_or(ttl);
                }
                // What cannot be renewed now is tried again until it is lost for good.
                Err(_) => {}
                Ok(_) => std::future::pending().await,
            }
        }
    }

    /// See [`super::Strategy::invalidate`].
    pub async fn invalidate(&self, key: &str) -> Result<(), Trouble> {
        self.client.invalidate(key).await
    }

    /// See [`super::Strategy::settle`].
    pub async fn settle(&self) {
        self.background.close();
        self.background.wait().await;
        self.background.reopen();
    }

    /// Reports that were not accepted.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What its answers said.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// See [`super::Strategy::background_trouble`].
    pub fn background_trouble(&self) -> Option<String> {
        self.trouble.get().cloned()
    }
}

/// The number in a hit's bytes.
fn read(hit: &Hit) -> Result<u64, Trouble> {
    match &hit.content {
        Some(Content::Value(bytes)) => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or(Trouble::Nonsense("a value that the lab did not write")),
        _ => Err(Trouble::Nonsense("a hit without a value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::strategy::fake;
    use tokio::time::{Instant, sleep};

    const QUERY: Duration = Duration::from_millis(200);
    const LIVES: Duration = Duration::from_secs(3);

    #[tokio::test(start_paused = true)]
    async fn a_herd_on_an_empty_key_costs_one_query() {
        let (_fake, client) = fake::start().await;
        let origin = Arc::new(Origin::new(QUERY, 20));
        let drover = Drover::new(client, origin.clone(), LIVES);
        let herd: Vec<_> = (0..200)
            .map(|_| {
                TaskTracker::new().spawn({
                    let drover = drover.clone();
                    async move { drover.get("k").await }
                })
            })
            .collect();
        for one in herd {
            assert_eq!(one.await.unwrap().unwrap(), 1);
        }
        drover.settle().await;
        assert_eq!(
            (origin.count(), drover.refused(), drover.background_trouble()),
            (1, 0, None)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_fallback_is_served_at_once_and_the_rebuild_goes_on_behind() {
        let (_fake, client) = fake::start().await;
        let origin = Arc::new(Origin::new(QUERY, 20));
        let drover = Drover::new(client, origin.clone(), LIVES);
        drover.get("k").await.unwrap();
        drover.settle().await;
        sleep(LIVES).await;
        origin.change_data();
        let asked = Instant::now();
        assert_eq!(drover.get("k").await.unwrap(), 1);
        assert!(asked.elapsed() < Duration::from_millis(10));
        drover.settle().await;
        assert_eq!((drover.get("k").await.unwrap(), origin.count()), (2, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fallback_for_failures_only_waits_for_the_failure() {
        let (fake, client) = fake::start().await;
        let origin = Arc::new(Origin::new(QUERY, 20));
        let drover = Drover::new(client, origin.clone(), LIVES);
        drover.get("k").await.unwrap();
        drover.settle().await;
        sleep(LIVES).await;
        origin.change_data();
        origin.set_failing(true);
        fake.fallback_on_failure_only.store(true, Ordering::Relaxed);
        let asked = Instant::now();
        assert_eq!(drover.get("k").await.unwrap(), 1);
        assert!(asked.elapsed() >= QUERY);
        origin.set_failing(false);
        drover.settle().await;
        assert_eq!(drover.get("k").await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_report_is_sent_although_its_caller_is_gone() {
        let (_fake, client) = fake::start().await;
        let origin = Arc::new(Origin::new(QUERY, 20));
        let drover = Drover::new(client, origin.clone(), LIVES);
        assert!(tokio::time::timeout(QUERY / 2, drover.get("k")).await.is_err());
        drover.settle().await;
        assert_eq!((drover.get("k").await.unwrap(), origin.count()), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_rebuild_keeps_its_lease_at_a_third_of_its_time() {
        let (fake, client) = fake::start().await;
        let origin = Arc::new(Origin::new(fake::LEASE * 2, 20));
        let drover = Drover::new(client, origin, LIVES);
        drover.get("k").await.unwrap();
        drover.settle().await;
        assert!((5..=6).contains(&fake.renewals.load(Ordering::Relaxed)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_report_is_refused_and_counted() {
        let (_fake, client) = fake::start().await;
        let origin = Arc::new(Origin::new(QUERY, 20));
        let drover = Drover::new(client, origin.clone(), LIVES);
        let slow = TaskTracker::new().spawn({
            let drover = drover.clone();
            async move { drover.get("k").await }
        });
        sleep(QUERY / 2).await;
        origin.change_data();
        drover.invalidate("k").await.unwrap();
        assert_eq!(drover.get("k").await.unwrap(), 2);
        assert_eq!(slow.await.unwrap().unwrap(), 1);
        drover.settle().await;
        assert_eq!((drover.refused(), drover.get("k").await.unwrap()), (1, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unavailable_server_is_asked_again_with_patience() {
        let (fake, client) = fake::start().await;
        let drover = Drover::new(client, Arc::new(Origin::new(QUERY, 20)), LIVES);
        fake.unavailable.store(2, Ordering::Relaxed);
        assert_eq!(drover.get("k").await.unwrap(), 1);
        fake.unavailable.store(3, Ordering::Relaxed);
        assert!(matches!(
            drover.get("other").await,
            Err(Trouble::Rpc {
                call: "AcquireRebuild",
                ..
            })
        ));
    }
}
