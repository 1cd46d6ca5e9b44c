//! The circuits of namespaces as this replica knows them, and how rebuilds ended of late.
//!
//! *Owns* a copy of each circuit that the store has, and counts that have not been told yet. The rule is [`Circuit::step`]; the store compares and sets, so
//! of many that ask after a pause one is the probe.
//!
//! *Trips.* A closed circuit costs a call nothing: successes are only counted here. Where rebuilds fail, a replica takes one step a second with all
//! that it counted. Replicas hear of a change by a ring, and while a circuit is open look once a second in any case.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::{Coordinator, MOST_CONFLICTS, RETRY_SOON};
use super::table::Table;
use crate::decision::{Backoff, Circuit, CircuitEffect, CircuitEvent, Ending, Key, StoreTime};
use crate::store::StoreError;

/// Failures are told to the store together, so often; and a copy of an open circuit is no older.
const EVERY: Duration = Duration::from_secs(1);
/// Successes are remembered for one to two of these, for when a failure comes. What was before counts no more: an origin that has been
/// well for long must not seem well for as long as its window lasts, now that every rebuild fails.
const SLICE: Duration = Duration::from_secs(1);
/// Copies of circuits that are kept whatever they are.
const KEPT: usize = 1_000;

/// What a replica knows.
pub(in crate::coordinator) struct Circuits {
    known: Mutex<HashMap<Arc<str>, Known>>,
    /// How many of them are open: nobody takes the lock where none is.
    open: AtomicUsize,
    counts: Table<Counts>,
    birth: Instant,
}

struct Known {
    circuit: Circuit,
    /// As the store has it.
    text: Arc<str>,
    looked: Instant,
}

/// What has not been told to the store.
#[derive(Default)]
struct Counts {
    slice: u64,
    /// Of this slice, and the one before.
    succeeded: [u32; 2],
    failed: u32,
    /// It is about to be told.
    telling: bool,
}

/// What a namespace's circuit says to somebody who asks.
pub(super) enum Says {
    /// As far as is known here: go on.
    Go,
    /// Keep off for so long.
    KeepOff(Duration),
}

impl Circuits {
    pub fn new() -> Circuits {
        Circuits {
            known: Mutex::default(),
            open: AtomicUsize::new(0),
            counts: Table::new(),
            birth: Instant::now(),
        }
    }

    /// Whether any is open.
    pub fn is_any(&self) -> bool {
        self.count_open() > 0
    }

    /// How many are open.
    pub fn count_open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Whether a namespace's is.
    pub fn is_open(&self, namespace: &str) -> bool {
        self.is_any() && self.of(namespace, |known| known.circuit.is_open()).unwrap_or_default()
    }

    /// Those that are open, by name.
    pub fn open(&self) -> Vec<Arc<str>> {
        let known = self.known.lock();
        let mut open: Vec<Arc<str>> = known
            .iter()
            .filter(|(_, known)| known.circuit.is_open())
            .map(|(name, _)| name.clone())
            .collect();
        open.sort_unstable();
        open
    }

    fn of<T>(&self, namespace: &str, look: impl FnOnce(&Known) -> T) -> Option<T> {
        self.known.lock().get(namespace).map(look)
    }

    /// The circuit and its written form.
    fn known(&self, namespace: &str) -> (Circuit, Arc<str>) {
        self.of(namespace, |known| (known.circuit.clone(), known.text.clone()))
            .unwrap_or_default()
    }

    /// The store has this.
    fn learn(&self, namespace: &str, text: Arc<str>) {
        let circuit = Circuit::from_text(&text).unwrap_or_default();
        let mut known = self.known.lock();
        if known.len() >= KEPT {
            known.retain(|_, known| known.circuit.is_open());
        }
        let looked = Instant::now();
        let now = Known { circuit, text, looked };
        let opens = now.circuit.is_open();
        let was_open = known
            .insert(namespace.into(), now)
            .is_some_and(|before| before.circuit.is_open());
        match (was_open, opens) {
            (false, true) => drop(self.open.fetch_add(1, Ordering::AcqRel)),
            (true, false) => drop(self.open.fetch_sub(1, Ordering::AcqRel)),
            _ => {}
        }
    }

    /// Counts a rebuild that was granted while the circuit was closed. `true`: it is to be told to the store.
    fn count(&self, namespace: &str, failed: bool) -> bool {
        let slice = self.birth.elapsed().as_secs() / SLICE.as_secs();
        let count = |counts: &mut Counts| {
            counts.enter(slice);
            if !failed {
                counts.succeeded[0] = counts.succeeded[0].saturating_add(1);
                return false;
            }
            counts.failed = counts.failed.saturating_add(1);
            !std::mem::replace(&mut counts.telling, true)
        };
        self.counts.with(namespace, Counts::default, count).unwrap_or_default()
    }

    /// What there is to tell; from now on it counts as told.
    fn take_counted(&self, namespace: &str) -> Option<(u32, u32)> {
        let slice = self.birth.elapsed().as_secs() / SLICE.as_secs();
        self.counts.look(namespace, |counts| {
            counts.enter(slice);
            let told = std::mem::take(counts);
            counts.slice = slice;
            (told.succeeded[0].saturating_add(told.succeeded[1]), told.failed)
        })
    }
}

impl Counts {
    fn enter(&mut self, slice: u64) {
        match slice.saturating_sub(self.slice) {
            0 => return,
            1 => self.succeeded = [0, self.succeeded[0]],
            _ => self.succeeded = [0, 0],
        }
        self.slice = slice;
    }
}

impl Coordinator {
    /// What the circuit of a key's namespace says as far as is known here, without a trip.
    pub(super) fn circuit_says(self: &Arc<Self>, key: &Key, now: StoreTime, backoff: &Backoff) -> Says {
        let circuits = &self.shaping.circuits;
        if !circuits.is_any() {
            return Says::Go;
        }
        let namespace = key.namespace();
        let Some((circuit, looked)) = circuits.of(namespace, |known| (known.circuit.clone(), known.looked)) else {
            return Says::Go;
        };
        if circuit.is_open() && looked.elapsed() >= EVERY {
            self.look_at_circuit(namespace);
        }
        let asked = CircuitEvent::Asked(key, Duration::ZERO);
        match circuit.step(asked, now, backoff, self.dice.draw()) {
            (next, CircuitEffect::KeepOff(pause)) if next == circuit => Says::KeepOff(pause),
            _ => Says::Go,
        }
    }

    /// Takes a step with the circuit of a namespace, from what the store has.
    pub(super) async fn step_circuit(
        &self,
        namespace: &str,
        event: CircuitEvent<'_>,
        now: StoreTime,
        backoff: &Backoff,
    ) -> Result<CircuitEffect, StoreError> {
        let circuits = &self.shaping.circuits;
        for _ in 0..MOST_CONFLICTS {
            let (circuit, text) = circuits.known(namespace);
            let (next, effect) = circuit.step(event, now, backoff, self.dice.draw());
            if next == circuit {
                return Ok(effect);
            }
            let new = next.to_text();
            let is = self.store.circuit(namespace, &text, Some(&new)).await?;
            circuits.learn(namespace, is.clone());
            if *is == *new {
                tell(namespace, effect);
                return Ok(effect);
            }
        }
        Ok(CircuitEffect::KeepOff(RETRY_SOON))
    }

    /// Takes note of what the store has.
    pub(super) fn look_at_circuit(self: &Arc<Self>, namespace: &str) {
        let (coordinator, namespace) = (self.clone(), Arc::<str>::from(namespace));
        self.on_the_side(async move {
            if let Ok(text) = coordinator.store.circuit(&namespace, "", None).await {
                coordinator.shaping.circuits.learn(&namespace, text);
            }
        });
    }

    /// A rebuild has ended: that of a probe, or one of many.
    pub(super) fn circuit_hears(self: &Arc<Self>, key: &Key, ending: Ending, now: StoreTime) {
        let circuits = &self.shaping.circuits;
        let namespace = key.namespace();
        if circuits.is_open(namespace) {
            self.tell_of_probe(key, now, move |key| CircuitEvent::Ended(key, ending));
            return;
        }
        let failed = match ending {
            Ending::Succeeded => false,
            Ending::Failed => true,
            Ending::GivenUp => return,
        };
        if circuits.count(namespace, failed) {
            let (coordinator, namespace) = (self.clone(), Arc::<str>::from(namespace));
            self.on_the_side(async move { coordinator.tell_counted(&namespace, now).await });
        }
    }

    /// A lease was renewed, which may be that of a probe.
    pub(super) fn circuit_hears_renewed(self: &Arc<Self>, key: &Key, length: Duration, now: StoreTime) {
        if self.shaping.circuits.is_open(key.namespace()) {
            self.tell_of_probe(key, now, move |key| CircuitEvent::Renewed(key, length));
        }
    }

    fn tell_of_probe(
        self: &Arc<Self>,
        key: &Key,
        now: StoreTime,
        event: impl FnOnce(&Key) -> CircuitEvent<'_> + Send + 'static,
    ) {
        let (coordinator, key) = (self.clone(), key.clone());
        self.on_the_side(async move {
            let namespace = key.namespace();
            // The probe may have been granted elsewhere a moment ago.
            let Ok(text) = coordinator.store.circuit(namespace, "", None).await else {
                return;
            };
            coordinator.shaping.circuits.learn(namespace, text);
            let Ok(policy) = coordinator.policy(namespace) else {
                return;
            };
            if coordinator.shaping.circuits.is_open(namespace) {
                let told = coordinator.step_circuit(namespace, event(&key), now, &policy.backoff);
                if let Err(error) = told.await {
                    tracing::debug!(namespace, %error, "a circuit could not be told how its probe ended; it waits for its time");
                }
            }
        });
    }

    async fn tell_counted(&self, namespace: &str, now: StoreTime) {
        let began = Instant::now();
        if self.store.peers().is_some() {
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = self.draining.cancelled() => {}
            }
        }
        let Some((succeeded, failed)) = self.shaping.circuits.take_counted(namespace) else {
            return;
        };
        let Ok(policy) = self.policy(namespace) else {
            return;
        };
        let counted = CircuitEvent::Counted { succeeded, failed };
        let now = now.after(began.elapsed());
        if let Err(error) = self.step_circuit(namespace, counted, now, &policy.backoff).await {
            tracing::debug!(namespace, %error, "a circuit could not be told how rebuilds ended");
        }
    }
}

fn tell(namespace: &str, effect: CircuitEffect) {
    match effect {
        CircuitEffect::Opened(pause) => {
            tracing::warn!(
                namespace,
                ?pause,
                "too many rebuilds fail: the circuit is open, nothing is granted"
            )
        }
        CircuitEffect::Closed => tracing::info!(namespace, "a rebuild has succeeded: the circuit is closed"),
        CircuitEffect::Probe => tracing::debug!(namespace, "the pause of the circuit is over: one rebuild is let by"),
        CircuitEffect::None | CircuitEffect::Let | CircuitEffect::KeepOff(_) => {}
    }
}
