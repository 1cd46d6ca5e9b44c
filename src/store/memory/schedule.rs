//! The embedded store's schedule: a sorted set of tasks a namespace.
//!
//! *Owns* which key is to be looked at when. *Never* looks at an entry.
//!
//! *Invariants.* A key has at most one task of each kind, and each task is in the order and beside its key alike. The own refreshes that are
//! kept are bounded by the entries that the store may hold; what does not fit is refreshed by the next caller who asks.
//!
//! *Why a sorted set and not a timer wheel*: tasks move with each commit, and are taken by prefix and a few at a time; both cost the same few
//! steps whether there are a thousand or a million.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::decision::{Draft, Key, StoreTime, When};
use crate::store::schedule::{
    Claim, Claimed, LOOKED_AT, NEAR, PLANNED_UNCLAIMED, Plan, Planned, Scheduled, Settled, Task, TaskKind, UNCLAIMED,
};

/// All namespaces' tasks.
pub struct Schedule {
    /// Whether there is any agenda at all: most stores need to know no more than that.
    any: AtomicBool,
    agendas: RwLock<HashMap<Arc<str>, Arc<Mutex<Agenda>>>>,
    staff: Mutex<HashMap<u64, Staff>>,
    /// Of the own refreshes of one namespace.
    most: usize,
}

/// The workers of a replica.
struct Staff {
    workers: Vec<(Arc<str>, u32)>,
    until: StoreTime,
}

/// The tasks of one namespace.
#[derive(Default)]
struct Agenda {
    tasks: HashMap<Key, Slot>,
    order: BTreeSet<(StoreTime, Kind, Key)>,
    planned: usize,
    /// Commits keep the schedule until then.
    kept_until: StoreTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Due,
    Planned,
}

/// The tasks of one key.
#[derive(Default)]
struct Slot {
    due: Option<StoreTime>,
    planned: Option<Box<(StoreTime, Scheduled)>>,
}

impl Schedule {
    /// Nothing to do yet, and never more than `most` own refreshes a namespace.
    pub fn new(most: usize) -> Schedule {
        Schedule {
            any: AtomicBool::new(false),
            agendas: RwLock::default(),
            staff: Mutex::default(),
            most,
        }
    }

    /// Takes note of a commit of a key, under the lock that orders its commits. `true`: a task is near that was not before.
    pub fn committed(&self, key: &Key, draft: Option<&Draft>, now: StoreTime) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        let Some(agenda) = self.agendas.read().get(key.namespace()).cloned() else {
            return false;
        };
        let mut agenda = agenda.lock();
        let at = draft.and_then(Draft::task_at).map(|when: When| when.resolve(now));
        let kept = agenda.kept_until > now && (agenda.order.len() < self.most || at.is_none());
        let near = kept && agenda.keep(key, at, now);
        let ended = draft.is_none_or(|draft| draft.lease.is_none());
        (ended && agenda.wake(key, now)) || near
    }

    pub fn staff(&self, replica: u64, workers: &[(Arc<str>, u32)], until: StoreTime, now: StoreTime) {
        for (namespace, _) in workers {
            let agenda = self.agenda(namespace);
            let mut agenda = agenda.lock();
            agenda.kept_until = agenda.kept_until.max(until);
        }
        let mut staff = self.staff.lock();
        staff.retain(|_, staff| staff.until > now);
        staff.insert(
            replica,
            Staff {
                workers: workers.to_vec(),
                until,
            },
        );
        drop(staff);
        self.agendas.write().retain(|_, agenda| {
            let mut agenda = agenda.lock();
            if agenda.kept_until <= now {
                agenda.forget_due();
            }
            agenda.kept_until > now || agenda.planned > 0
        });
    }

    /// By name.
    pub fn workers(&self, now: StoreTime) -> Vec<(Arc<str>, u32)> {
        let staff = self.staff.lock();
        let live = staff.values().filter(|staff| staff.until > now);
        let mut counts = BTreeMap::new();
        for (namespace, count) in live.flat_map(|staff| &staff.workers) {
            *counts.entry(namespace.clone()).or_default() += count;
        }
        counts.into_iter().collect()
    }

    /// Plans; and whether a task is near that was not before.
    pub fn plan(&self, plan: &Plan, now: StoreTime) -> (Planned, bool) {
        let agenda = self.agenda(&plan.namespace);
        let mut agenda = agenda.lock();
        let (mut planned, mut near) = (Planned::default(), false);
        for (key, after) in &plan.keys {
            let at = now.after(*after);
            let known = agenda.merge(key, at, plan.only_if_missing);
            match known {
                Some(moved) => {
                    planned.known += 1;
                    near |= moved && at < now.after(NEAR);
                }
                None if agenda.planned >= plan.most => planned.refused += 1,
                None => {
                    agenda.put_planned(key, at, plan.scheduled(at));
                    planned.new += 1;
                    near |= at < now.after(NEAR);
                }
            }
        }
        (planned, near)
    }

    pub fn claim(&self, claim: &Claim, now: StoreTime) -> Claimed {
        let agenda = self.agendas.read().get(&*claim.namespace).cloned();
        agenda.map_or_else(
            || Claimed {
                now,
                ..Claimed::default()
            },
            |agenda| agenda.lock().claim(claim, now),
        )
    }

    pub fn settle(&self, settled: Vec<Settled>) {
        for one in settled {
            let agenda = self.agendas.read().get(one.task.key.namespace()).cloned();
            if let Some(agenda) = agenda {
                agenda.lock().settle(one);
            }
        }
    }

    /// Namespaces with planned tasks, by name.
    pub fn planned(&self) -> Vec<Arc<str>> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let agendas = self.agendas.read();
        let with_planned = agendas.iter().filter(|(_, agenda)| agenda.lock().planned > 0);
        let mut names: Vec<Arc<str>> = with_planned.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Tasks of all kinds and namespaces.
    pub fn len(&self) -> usize {
        self.agendas
            .read()
            .values()
            .map(|agenda| agenda.lock().order.len())
            .sum()
    }

    fn agenda(&self, namespace: &Arc<str>) -> Arc<Mutex<Agenda>> {
        if let Some(agenda) = self.agendas.read().get(namespace) {
            return agenda.clone();
        }
        let agenda = self.agendas.write().entry(namespace.clone()).or_default().clone();
        self.any.store(true, Ordering::Release);
        agenda
    }
}

impl Agenda {
    /// The own refresh of a key, from now on. `true`: it is near.
    fn keep(&mut self, key: &Key, at: Option<StoreTime>, now: StoreTime) -> bool {
        let before = self.tasks.get(key).and_then(|slot| slot.due);
        if before == at {
            return false;
        }
        if let Some(before) = before {
            self.order.remove(&(before, Kind::Due, key.clone()));
        }
        if let Some(at) = at {
            self.order.insert((at, Kind::Due, key.clone()));
        }
        match (self.tasks.get_mut(key), at) {
            (Some(slot), at) => slot.due = at,
            (None, Some(_)) => {
                let slot = Slot { due: at, planned: None };
                self.tasks.insert(key.clone(), slot);
            }
            (None, None) => {}
        }
        self.tidy(key);
        at.is_some_and(|at| at < now.after(NEAR))
    }

    /// A planned task that was given out is looked at once its lease has ended. `true`: it is now.
    fn wake(&mut self, key: &Key, now: StoreTime) -> bool {
        let Some((at, planned)) = self.tasks.get_mut(key).and_then(|slot| slot.planned.as_deref_mut()) else {
            return false;
        };
        if planned.attempts.given == 0 || *at <= now {
            return false;
        }
        let before = std::mem::replace(at, now);
        self.order.remove(&(before, Kind::Planned, key.clone()));
        self.order.insert((now, Kind::Planned, key.clone()));
        true
    }

    /// A key that is planned already. `Some(true)`: it is moved; `None`: it is not planned.
    fn merge(&mut self, key: &Key, at: StoreTime, only_if_missing: bool) -> Option<bool> {
        let (before, planned) = self.tasks.get_mut(key)?.planned.as_deref_mut()?;
        if planned.attempts.given > 0 {
            return Some(false);
        }
        planned.only_if_missing &= only_if_missing;
        planned.at = planned.at.min(at);
        let moved = at < *before;
        if moved {
            let before = std::mem::replace(before, at);
            self.order.remove(&(before, Kind::Planned, key.clone()));
            self.order.insert((at, Kind::Planned, key.clone()));
        }
        Some(moved)
    }

    fn put_planned(&mut self, key: &Key, at: StoreTime, planned: Scheduled) {
        let slot = self.tasks.entry(key.clone()).or_default();
        if let Some(before) = slot.planned.replace(Box::new((at, planned))) {
            self.order.remove(&(before.0, Kind::Planned, key.clone()));
        } else {
            self.planned += 1;
        }
        self.order.insert((at, Kind::Planned, key.clone()));
    }

    fn remove(&mut self, at: StoreTime, kind: Kind, key: &Key) {
        self.order.remove(&(at, kind, key.clone()));
        if let Some(slot) = self.tasks.get_mut(key) {
            match kind {
                Kind::Due => slot.due = None,
                Kind::Planned => self.planned -= usize::from(slot.planned.take().is_some()),
            }
        }
        self.tidy(key);
    }

    fn tidy(&mut self, key: &Key) {
        if self
            .tasks
            .get(key)
            .is_some_and(|slot| slot.due.is_none() && slot.planned.is_none())
        {
            self.tasks.remove(key);
        }
    }

    fn claim(&mut self, claim: &Claim, now: StoreTime) -> Claimed {
        let (mut taken, mut late) = (Vec::new(), Vec::new());
        let mut next = None;
        for (looked, one) in self.order.iter().enumerate() {
            let (at, kind, key) = one;
            if *at > now || taken.len() >= claim.most || looked >= LOOKED_AT + claim.most {
                next = Some(*at);
                break;
            }
            if claim.takes(key.name()) {
                taken.push(one.clone());
            } else if at.after(unclaimed(*kind)) <= now {
                late.push(one.clone());
            }
        }
        for (at, kind, key) in late {
            self.remove(at, kind, &key);
        }
        let held_until = now.after(claim.hold);
        let tasks = taken.into_iter().filter_map(|one| self.take(one, held_until)).collect();
        Claimed { tasks, now, next }
    }

    fn take(&mut self, (at, kind, key): (StoreTime, Kind, Key), held_until: StoreTime) -> Option<Task> {
        let slot = self.tasks.get_mut(&key)?;
        let (due, taken) = match kind {
            Kind::Due => {
                slot.due = Some(held_until);
                (at, TaskKind::Due)
            }
            Kind::Planned => {
                let (time, planned) = slot.planned.as_deref_mut()?;
                *time = held_until;
                (at, TaskKind::Scheduled(Box::new(planned.clone())))
            }
        };
        self.order.remove(&(at, kind, key.clone()));
        self.order.insert((held_until, kind, key.clone()));
        Some(Task {
            key,
            kind: taken,
            due,
            held_until,
            asked_for: false,
        })
    }

    fn settle(&mut self, settled: Settled) {
        let Settled { task, at, .. } = settled;
        let Some(slot) = self.tasks.get(&task.key) else {
            return;
        };
        let (kind, stands) = match task.kind {
            TaskKind::Due => (Kind::Due, slot.due),
            TaskKind::Scheduled(_) => (Kind::Planned, slot.planned.as_ref().map(|planned| planned.0)),
        };
        if stands != Some(task.held_until) {
            return;
        }
        match (at, task.kind) {
            (None, _) => self.remove(task.held_until, kind, &task.key),
            (Some(at), TaskKind::Due) => drop(self.keep(&task.key, Some(at), at)),
            (Some(at), TaskKind::Scheduled(planned)) => self.put_planned(&task.key, at, *planned),
        }
    }

    fn forget_due(&mut self) {
        if self.order.len() == self.planned {
            return;
        }
        self.order.retain(|(_, kind, _)| *kind == Kind::Planned);
        self.tasks.retain(|_, slot| {
            slot.due = None;
            slot.planned.is_some()
        });
        self.tasks.shrink_to_fit();
    }
}

fn unclaimed(kind: Kind) -> Duration {
    match kind {
        Kind::Due => UNCLAIMED,
        Kind::Planned => PLANNED_UNCLAIMED,
    }
}
