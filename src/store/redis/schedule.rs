//! The schedule of refreshes, in Redis: a sorted set a namespace and partition, beside the entries.
//!
//! *Owns* the written form of a planned refresh, and how a call is spread over the partitions. What the scripts keep is told in
//! `scripts/schedule.lua`.
//!
//! *Invariant.* A key's tasks are in its partition, so that the commit which ends a lease or stores a value says in the same script when the key is
//! to be looked at next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;

use super::commit::RINGS;
use super::partition::Partition;
use super::{Redis, StoreError};
use crate::decision::{Attempts, Key, Seq, StoreTime, micros};
use crate::store::schedule::{LOOKED_AT, NEAR, PLANNED_UNCLAIMED, UNCLAIMED};
use crate::store::{Claim, Claimed, Plan, Planned, Scheduled, Settled, Task, TaskKind};

/// So many keys are planned or settled in one call, which keeps the server busy for a few milliseconds.
const A_CALL: usize = 500;
/// A schedule lives on for so long after the last word of a worker, and what is planned for so long after its time.
const LIVES_ON: Duration = Duration::from_secs(24 * 3_600);

impl Redis {
    pub(super) async fn plan(&self, plan: Plan) -> Result<Planned, StoreError> {
        let longest = plan.keys.iter().map(|(_, after)| *after).max().unwrap_or_default();
        // First, so that whoever looks for what is planned finds it.
        self.plans(&plan.namespace, longest + PLANNED_UNCLAIMED).await?;
        let partitions = self.shared.partitions.len();
        let mut parts: BTreeMap<u16, Vec<&(Key, Duration)>> = BTreeMap::new();
        for one in &plan.keys {
            parts
                .entry(self.shared.partition(one.0.text()).number)
                .or_default()
                .push(one);
        }
        let most = share(plan.most, partitions);
        let mut all = Planned::default();
        // One after the other: nobody waits for a plan, and others wait for the server.
        for (number, keys) in parts {
            let partition = &self.shared.partitions[usize::from(number)];
            for keys in keys.chunks(A_CALL) {
                let planned = self.plan_some(partition, &plan, keys, most, longest).await?;
                all.new += planned.new;
                all.known += planned.known;
                all.refused += planned.refused;
            }
        }
        Ok(all)
    }

    async fn plan_some(
        &self,
        partition: &Partition,
        plan: &Plan,
        keys: &[&(Key, Duration)],
        most: usize,
        longest: Duration,
    ) -> Result<Planned, StoreError> {
        let fresh = plan.scheduled(StoreTime::ZERO);
        let mut args = vec![
            plan.namespace.as_bytes().to_vec(),
            text(most as u64),
            text(micros(NEAR)),
            text(RINGS as u64),
            if plan.only_if_missing {
                b"1".to_vec()
            } else {
                b"0".to_vec()
            },
            rest(&fresh).into_bytes(),
            millis(longest.saturating_add(LIVES_ON)),
        ];
        for (key, after) in keys {
            args.push(key.name().as_bytes().to_vec());
            args.push(text(micros(*after)));
        }
        let names = [
            partition.keys.header.clone(),
            partition.keys.schedule(&plan.namespace),
            partition.keys.planned(&plan.namespace),
            partition.keys.rings.clone(),
        ];
        let script = &self.shared.scripts.schedule;
        let reply = self
            .shared
            .ask(partition, script, &super::refs(&names), args, true)
            .await?;
        let mut words = reply.ok()?;
        let mut count = || words.number().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        Ok(Planned {
            new: count()?,
            known: count()?,
            refused: count()?,
        })
    }

    /// No more than was asked for: a task too many would be kept from other replicas' workers. So the places are dealt out to the partitions, in
    /// turn; a partition that gets none is only looked at, and what it has is asked for when others had less than their share. One that does not
    /// answer keeps nothing from those who take from the others.
    pub(super) async fn claim_all(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let partitions = &self.shared.partitions;
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut asked: Vec<usize> = (0..partitions.len())
            .map(|place| first.wrapping_add(place) % partitions.len())
            .collect();
        let mut next: Vec<Option<StoreTime>> = vec![None; partitions.len()];
        let (mut all, mut failed) = (Claimed::default(), None);
        while !asked.is_empty() {
            let shares = deal(claim.most - all.tasks.len(), asked.len());
            let calls = asked
                .iter()
                .zip(&shares)
                .map(|(number, share)| self.claim_some(&partitions[*number], &claim, *share));
            let answers = join_all(calls).await;
            let mut more = Vec::new();
            for ((number, share), claimed) in asked.into_iter().zip(shares).zip(answers) {
                let claimed = match claimed {
                    Ok(claimed) => claimed,
                    Err(error) => {
                        failed = Some(error);
                        continue;
                    }
                };
                if claimed.tasks.len() == share && claimed.next.is_some_and(|next| next <= claimed.now) {
                    more.push(number);
                }
                all.now = all.now.max(claimed.now);
                next[number] = claimed.next;
                all.tasks.extend(claimed.tasks);
            }
            asked = if all.tasks.len() < claim.most { more } else { Vec::new() };
        }
        if let Some(error) = failed {
            if all.now == StoreTime::ZERO {
                return Err(error);
            }
            tracing::debug!(%error, "a partition did not say which refreshes are due; the others did");
        }
        all.next = next.into_iter().flatten().min();
        all.tasks.sort_by_key(|task| task.due);
        Ok(all)
    }

    async fn claim_some(&self, partition: &Partition, claim: &Claim, most: usize) -> Result<Claimed, StoreError> {
        let mut args = vec![
            claim.namespace.as_bytes().to_vec(),
            text(micros(claim.hold)),
            text(most as u64),
            text(LOOKED_AT as u64),
            text(micros(UNCLAIMED)),
            text(micros(PLANNED_UNCLAIMED)),
        ];
        args.extend(claim.prefixes.iter().map(|prefix| prefix.as_bytes().to_vec()));
        let names = task_names(partition, &claim.namespace);
        let script = &self.shared.scripts.claim;
        let reply = self
            .shared
            .ask(partition, script, &super::refs(&names), args, true)
            .await?;
        let mut words = reply.ok()?;
        let now = words.time()?;
        self.shared.told(partition, now);
        let next = words.bytes()?;
        let next = std::str::from_utf8(&next)
            .ok()
            .and_then(|text| text.parse().ok())
            .map(StoreTime);
        let mut tasks = Vec::with_capacity(words.left() / 4);
        while words.left() > 0 {
            let member = words.bytes()?;
            let due = words.time()?;
            let asked_for = words.number()? > 0;
            let record = words.bytes()?;
            let kind = match member.first() {
                Some(b'd') => TaskKind::Due,
                _ => match read_record(&record) {
                    Some(scheduled) => TaskKind::Scheduled(Box::new(scheduled)),
                    // Of another release, or no record at all: it comes back, and is taken out in an hour.
                    None => continue,
                },
            };
            let name = String::from_utf8_lossy(member.get(1..).unwrap_or_default()).into_owned();
            tasks.push(Task {
                key: Key::new(&claim.namespace, &name),
                kind,
                due,
                held_until: now.after(claim.hold),
                asked_for,
            });
        }
        Ok(Claimed { tasks, now, next })
    }

    pub(super) async fn settle_all(&self, settled: Vec<Settled>) -> Result<(), StoreError> {
        let mut parts: BTreeMap<(u16, &str), Vec<&Settled>> = BTreeMap::new();
        for one in &settled {
            let key = &one.task.key;
            let number = self.shared.partition(key.text()).number;
            parts.entry((number, key.namespace())).or_default().push(one);
        }
        let mut calls = Vec::new();
        for ((number, namespace), settled) in &parts {
            let partition = &self.shared.partitions[usize::from(*number)];
            calls.extend(
                settled
                    .chunks(A_CALL)
                    .map(|some| self.settle_some(partition, namespace, some)),
            );
        }
        every(calls).await
    }

    async fn settle_some(
        &self,
        partition: &Partition,
        namespace: &str,
        settled: &[&Settled],
    ) -> Result<(), StoreError> {
        let rings = settled.iter().any(|settled| settled.for_others);
        let mut args = vec![
            namespace.as_bytes().to_vec(),
            if rings { text(RINGS as u64) } else { Vec::new() },
        ];
        for Settled { task, at, .. } in settled {
            let name = task.key.name();
            let (letter, record) = match &task.kind {
                TaskKind::Due => ('d', String::new()),
                TaskKind::Scheduled(scheduled) => (letter(scheduled), record(scheduled)),
            };
            args.extend([
                name.as_bytes().to_vec(),
                text(task.held_until.0),
                at.map(|at| text(at.0)).unwrap_or_default(),
                letter.to_string().into_bytes(),
                record.into_bytes(),
            ]);
        }
        let [header, schedule, records, asked] = task_names(partition, namespace);
        let names = [header, schedule, records, asked, partition.keys.rings.clone()];
        let script = &self.shared.scripts.settle;
        let reply = self
            .shared
            .ask(partition, script, &super::refs(&names), args, true)
            .await?;
        reply.ok().map(drop)
    }

    pub(super) async fn staff_all(&self, workers: &[(Arc<str>, u32)], lasts: Duration) -> Result<(), StoreError> {
        let calls = self.shared.partitions.iter().map(|partition| async move {
            let mut args = vec![
                text(micros(lasts)),
                partition.keys.schedules().into_bytes(),
                millis(LIVES_ON),
            ];
            args.extend(workers.iter().map(|(namespace, _)| namespace.as_bytes().to_vec()));
            let names = [&*partition.keys.header];
            let script = &self.shared.scripts.staff;
            self.shared
                .ask(partition, script, &names, args, true)
                .await?
                .ok()
                .map(drop)
        });
        let told = every(calls).await;
        self.peers.has_workers(workers).await?;
        told
    }

    /// Refreshes are planned in this namespace from now on, for so long. All of them are read with each registration too, so that looking for
    /// them costs no trip.
    async fn plans(&self, namespace: &str, lasts: Duration) -> Result<(), StoreError> {
        let Some(partition) = self.shared.partitions.first() else {
            return Ok(());
        };
        let args = [namespace.as_bytes().to_vec(), text(micros(lasts))];
        let names = [&*partition.keys.header, &*partition.keys.plans];
        let script = &self.shared.scripts.plans;
        let reply = self.shared.ask(partition, script, &names, args, true).await?;
        let mut words = reply.ok()?;
        let mut planned = Vec::with_capacity(words.left());
        while words.left() > 0 {
            planned.push(String::from_utf8_lossy(&words.bytes()?).into());
        }
        *self.shared.planned.lock() = planned;
        Ok(())
    }

    pub(super) async fn asked_for(&self, keys: Vec<Key>) -> Result<(), StoreError> {
        let mut parts: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
        for key in keys {
            let number = self.shared.partition(key.text()).number;
            parts.entry(number).or_default().push(key.text().as_bytes().to_vec());
        }
        let calls = parts.into_iter().map(|(number, keys)| async move {
            let partition = &self.shared.partitions[usize::from(number)];
            let mut args = vec![partition.keys.schedules().into_bytes(), millis(LIVES_ON)];
            args.extend(keys);
            let names = [&*partition.keys.header, &*partition.keys.asked];
            let script = &self.shared.scripts.asked;
            self.shared
                .ask(partition, script, &names, args, true)
                .await?
                .ok()
                .map(drop)
        });
        every(calls).await
    }
}

/// All of them, whatever becomes of one; then the first error.
async fn every(
    calls: impl IntoIterator<Item = impl Future<Output = Result<(), StoreError>>>,
) -> Result<(), StoreError> {
    join_all(calls).await.into_iter().collect()
}

/// How many of so many a partition may have. Where there are several, about a quarter more than an even part: keys do not spread evenly.
fn share(most: usize, partitions: usize) -> usize {
    if partitions > 1 {
        ((most + most / 4) / partitions).max(1)
    } else {
        most
    }
}

/// So many places for so many partitions: as evenly as can be, the first get more.
fn deal(places: usize, partitions: usize) -> Vec<usize> {
    let (each, more) = (places / partitions, places % partitions);
    (0..partitions)
        .map(|number| each + usize::from(number < more))
        .collect()
}

fn task_names(partition: &Partition, namespace: &str) -> [String; 4] {
    [
        partition.keys.header.clone(),
        partition.keys.schedule(namespace),
        partition.keys.planned(namespace),
        partition.keys.asked.clone(),
    ]
}

fn text(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

fn millis(length: Duration) -> Vec<u8> {
    text(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
}

fn letter(scheduled: &Scheduled) -> char {
    if scheduled.attempts.given == 0 { 's' } else { 't' }
}

/// A planned refresh as it is written: `at only_if_missing given failed failures token traceparent`, the last as `-` where there is none.
fn record(scheduled: &Scheduled) -> String {
    let only_if_missing = u8::from(scheduled.only_if_missing);
    format!("{} {only_if_missing} {}", scheduled.at.0, rest(scheduled))
}

fn rest(scheduled: &Scheduled) -> String {
    let Attempts {
        given,
        failed,
        failures,
        token,
    } = scheduled.attempts;
    let traceparent = scheduled.traceparent.as_deref().unwrap_or("-");
    format!("{given} {failed} {failures} {} {traceparent}", token.0)
}

fn read_record(text: &[u8]) -> Option<Scheduled> {
    let mut words = std::str::from_utf8(text).ok()?.splitn(7, ' ');
    let at = StoreTime(words.next()?.parse().ok()?);
    let only_if_missing = words.next()? == "1";
    let attempts = Attempts {
        given: words.next()?.parse().ok()?,
        failed: words.next()?.parse().ok()?,
        failures: words.next()?.parse().ok()?,
        token: Seq(words.next()?.parse().ok()?),
    };
    let traceparent = words.next().filter(|text| *text != "-").map(Arc::from);
    Some(Scheduled {
        at,
        only_if_missing,
        attempts,
        traceparent,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_refresh_is_read_as_it_was_written() {
        for (given, traceparent) in [(0, None), (3, Some("00-planned"))] {
            let scheduled = Scheduled {
                at: StoreTime(1_700_000_000_000_000),
                only_if_missing: given == 0,
                attempts: Attempts {
                    given,
                    failed: 1,
                    failures: 7,
                    token: Seq(9),
                },
                traceparent: traceparent.map(Arc::from),
            };
            assert_eq!(read_record(record(&scheduled).as_bytes()), Some(scheduled));
        }
    }

    #[test]
    fn what_is_no_record_is_not_taken_for_one() {
        for text in ["", "1", "x 1 0 0 0 0 -", "1 1 999 0 0 0 -", "1 1 0 0 0"] {
            assert_eq!(read_record(text.as_bytes()), None, "{text}");
        }
    }
}
