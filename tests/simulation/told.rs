//! A run in the words of the shared checker.

use std::time::Duration;

use drover::coordinator::{Acquire, Acquired, Error, Invalidated, RefreshTask, ReportValue, Reported};
use drover::decision::{Answer, Hit, HitContent, Key, LeaseId, Outcome, ReportAnswer, SHORTEST_LEASE, Tag};
use drover::fanout::What;
use drover::store::{StoreError, Target};

use crate::client::{LONGEST_LEASE, LONGEST_LIFE};
use crate::history::{Asked, Call, Ended, Moment, Records};
use crate::shared::model;
use crate::truth::Done;
use crate::world::{Run, START};

/// In one namespace, of which the keys are `k0`, `k1`, … and the tags `t0`, `t1`, …
pub fn history(run: &Run) -> model::History {
    let plan = &run.plan;
    let policy = &plan.policy;
    let windows = policy
        .stale_while_revalidate
        .max(policy.stale_if_error)
        .max(LONGEST_LIFE);
    let terms = model::Terms {
        slack: micros(plan.slack()),
        notice: micros(plan.notice()),
        // A look that failed is repeated a little later.
        recovery: 200_000,
        one_sequence: true,
        longest_lease: micros(LONGEST_LEASE.max(policy.lease_ttl)),
        shortest_lease: micros(SHORTEST_LEASE),
        windows: vec![micros(windows)],
        max_silence: micros(drover::fanout::MAX_SILENCE),
        budgets: vec![policy.max_concurrent_rebuilds],
        place_is_back: None,
    };
    model::History {
        terms,
        keys: vec![0; plan.keys],
        ops: ops(run),
        watchers: (0..plan.replicas).map(|replica| watcher(run, replica)).collect(),
        lapses: lapses(&run.records),
        stuck: run.records.stuck.clone(),
    }
}

fn micros(length: Duration) -> u64 {
    length.as_micros() as u64
}

fn moment(moment: Moment) -> model::Moment {
    model::Moment {
        place: moment.place,
        at: moment.at,
    }
}

/// The number in the name of a key, a tag, a client or its question.
fn number(name: &str) -> u32 {
    let digits = name.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    digits.parse().unwrap_or_default()
}

fn key(key: &Key) -> u32 {
    number(key.name())
}

fn tags<'a>(tags: impl IntoIterator<Item = &'a Tag>) -> Box<[u32]> {
    tags.into_iter().map(|tag| number(tag)).collect()
}

fn target(target: &Target) -> model::Target {
    match target {
        Target::Key(named) => model::Target::Key(key(named)),
        Target::Tag(tag) => model::Target::Tag(number(tag)),
        Target::Everything => model::Target::Everything(0),
    }
}

fn lapses(records: &Records) -> Vec<model::Lapse> {
    let away = |replica, from, to| model::Lapse {
        kind: model::Kind::Away(replica),
        from,
        to,
    };
    let jumps = records.jumps.iter().map(|(at, by)| away(None, at.at, at.at + by));
    let downs = records.downs.iter().map(|(replica, from, to)| {
        // Calls that were under way when it went.
        away(Some(*replica as u16), from.saturating_sub(200_000), *to)
    });
    jumps.chain(downs).collect()
}

/// In the order in which they began.
fn ops(run: &Run) -> Vec<model::Op> {
    let mut moments: Vec<Moment> = run.records.calls.iter().map(|call| call.invoked).collect();
    moments.extend(run.records.calls.iter().filter_map(Call::ended_at));
    moments.sort_unstable_by_key(|moment| moment.place);
    let mut ops: Vec<model::Op> = Vec::with_capacity(run.records.calls.len());
    for call in &run.records.calls {
        let mut op = op(call, run);
        if let Some((_, Ended::Pulled(task))) = &call.ended {
            op.invoked = granted_at(run, task, &moments).unwrap_or(op.invoked);
        }
        ops.push(op);
    }
    ops.extend(undelivered(run, &moments));
    ops.sort_by_key(|op| op.invoked);
    ops
}

/// Leases of workers that never heard of them: somebody held the key all the same. The account tells, and no call.
fn undelivered(run: &Run, moments: &[Moment]) -> Vec<model::Op> {
    let heard = |lease: LeaseId| {
        let pulled = |call: &Call| matches!(&call.ended, Some((_, Ended::Pulled(task))) if task.lease == lease);
        run.records.calls.iter().any(pulled)
    };
    let granted = run.account.iter().filter_map(|done| match done {
        Done::Written { key, at, entry } => {
            let lease = entry.lease.as_ref().filter(|lease| lease.granted_at == *at)?;
            let unheard = lease.holder.starts_with('w') && !heard(lease.id());
            unheard.then_some((key, at.0 - START.0))
        }
        Done::Covered { .. } | Done::Circuit { .. } => None,
    });
    let op = |(named, at): (&Key, u64)| {
        let at = at_place(at, moments);
        model::Op {
            client: 0,
            replica: 0,
            asked: model::Asked::Acquire(model::Question::pull(key(named))),
            invoked: at,
            ended: at,
            end: model::End::Unknown(""),
            degraded: false,
            until: at,
        }
    };
    granted.map(op).collect()
}

/// Not before the last thing that was recorded until then.
fn at_place(at: u64, moments: &[Moment]) -> model::Moment {
    let before = moments.partition_point(|moment| moment.at < at);
    let place = before.checked_sub(1).map_or(0, |last| moments[last].place);
    model::Moment { place, at }
}

/// When a worker's lease was granted, by the store's account.
fn granted_at(run: &Run, task: &RefreshTask, moments: &[Moment]) -> Option<model::Moment> {
    let at = run.account.iter().find_map(|done| match done {
        Done::Written { at, entry, .. } => entry
            .lease
            .as_ref()
            .filter(|lease| lease.id() == task.lease && lease.granted_at == *at)
            .map(|_| at.0 - START.0),
        Done::Covered { .. } | Done::Circuit { .. } => None,
    })?;
    Some(at_place(at, moments))
}

fn op(call: &Call, run: &Run) -> model::Op {
    let never = model::Moment {
        place: u64::MAX,
        at: u64::MAX,
    };
    let ended = call.ended_at().map_or(never, moment);
    let (end, degraded) = end(call, run);
    let client = match &call.asked {
        Asked::Acquire(asked) => number(&asked.ask.holder),
        _ => 0,
    };
    // Whoever left does not know what goes on without it.
    let goes_on = matches!(call.ended, Some((_, Ended::Aborted)) | None);
    model::Op {
        client,
        replica: call.replica as u16,
        asked: asked(call, run),
        invoked: moment(call.invoked),
        ended,
        end,
        degraded,
        until: if goes_on { never } else { ended },
    }
}

fn asked(call: &Call, run: &Run) -> model::Asked {
    match &call.asked {
        Asked::Acquire(asked) => model::Asked::Acquire(question(asked, run)),
        Asked::Report(asked) => model::Asked::Report(model::Report {
            key: key(&asked.key),
            lease: asked.report.lease,
            outcome: outcome(asked),
            tags: tags(&asked.report.tags),
        }),
        Asked::Pull(pulled) => model::Asked::Acquire(model::Question::pull(key(pulled))),
        Asked::Renew(asked) => model::Asked::Renew {
            key: key(&asked.key),
            lease: asked.lease,
        },
        Asked::Invalidate(asked) => model::Asked::Invalidate {
            targets: asked.targets.iter().map(target).collect(),
            mode: asked.mode,
        },
    }
}

fn question(asked: &Acquire, run: &Run) -> model::Question {
    let ask = &asked.ask;
    let most = run.plan.policy.max_wait;
    model::Question {
        key: key(&asked.key),
        intent: ask.intent,
        wait: micros(asked.wait.unwrap_or(most).min(most)),
        newer_than: ask.newer_than.0,
        // `c3-17`: the client is told apart elsewhere.
        request: ask
            .request_id
            .split_once('-')
            .map_or(0, |(_, number)| number.parse().unwrap_or_default()),
        tags: tags(ask.tags.iter().flat_map(|tags| tags.iter())),
    }
}

fn outcome(asked: &ReportValue) -> model::Outcome {
    match &asked.report.outcome {
        Outcome::Failed { .. } => model::Outcome::Failed,
        Outcome::Abandoned => model::Outcome::Abandoned,
        _ if asked.report.do_not_store => model::Outcome::NotStored,
        Outcome::NotModified => model::Outcome::NotModified,
        Outcome::Built(_) => model::Outcome::Built,
    }
}

fn end(call: &Call, run: &Run) -> (model::End, bool) {
    match &call.ended {
        Some((_, Ended::Acquired(acquired))) => (answered(call, acquired, run), acquired.degraded),
        Some((ended, Ended::Pulled(task))) => (pulled(task, ended.at, run), false),
        Some((_, Ended::Reported(reported))) => (reported_as(reported), reported.degraded),
        Some((_, Ended::Renewed(renewed))) => match renewed.lost {
            Some(why) => (model::End::Lost(why.as_str()), false),
            None => (model::End::Renewed(micros(renewed.ttl)), false),
        },
        Some((_, Ended::Invalidated(done))) => (made_old(done, run), false),
        Some((_, Ended::Failed(error))) => (failed(call, error), false),
        Some((_, Ended::Aborted)) => (model::End::Unknown("left"), false),
        None => (model::End::Unknown("without an end"), false),
    }
}

fn failed(call: &Call, error: &Error) -> model::End {
    match error {
        // One write, which did not reach the store. (An invalidation is several.)
        Error::Store(StoreError::Unavailable(_)) if call.report().is_some() => model::End::Failed("store_unavailable"),
        Error::Store(_) => model::End::Unknown("store"),
        _ => model::End::Failed("refused"),
    }
}

fn answered(call: &Call, acquired: &Acquired, run: &Run) -> model::End {
    let named = acquired.bytes.as_deref();
    match &acquired.answer {
        Answer::Rebuild(rebuild) => {
            let (invoked, ended) = (call.invoked.at, call.ended_at().map_or(0, |end| end.at));
            // What is left of it was counted from the commit: before the answer, by what an answer may take.
            let slack = micros(run.plan.slack());
            let late = slack + run.records.jumped(invoked, ended);
            let counted_from = invoked.max(ended.saturating_sub(late));
            let ttl = micros(rebuild.ttl);
            model::End::Granted(model::Grant {
                lease: rebuild.lease,
                sure_until: counted_from + ttl,
                over_by: ended + ttl + slack,
                fallback: rebuild.fallback.as_ref().map(|value| hit(value, named)),
            })
        }
        Answer::Hit(value) => model::End::Hit(hit(value, named)),
        Answer::Busy(_) => model::End::Busy,
        Answer::KeepOff(_) => model::End::Backoff,
        Answer::Miss => model::End::Miss,
    }
}

/// What is left of its lease was counted when it was handed over.
fn pulled(task: &RefreshTask, at: u64, run: &Run) -> model::End {
    let ttl = micros(task.ttl);
    model::End::Granted(model::Grant {
        lease: task.lease,
        sure_until: at.saturating_sub(micros(run.plan.slack())) + ttl,
        over_by: at + ttl + micros(run.plan.slack()),
        fallback: None,
    })
}

fn hit(value: &Hit, bytes: Option<&[u8]>) -> model::Hit {
    let named = || {
        let text = std::str::from_utf8(bytes?).ok()?;
        text.parse::<LeaseId>().ok().map(|lease| lease.token.0)
    };
    model::Hit {
        version: value.version.0,
        fresh: value.fresh,
        fresh_for: micros(value.expiry.fresh_for),
        named: (value.content == HitContent::Bytes).then(|| named().unwrap_or_default()),
        tags: tags(value.tags.iter().flat_map(|tags| tags.iter())),
    }
}

fn reported_as(reported: &Reported) -> model::End {
    match &reported.answer {
        ReportAnswer::Accepted { version, expiry } => model::End::Accepted(model::Accepted {
            version: version.0,
            fresh_for: expiry.as_ref().map(|expiry| micros(expiry.fresh_for)),
            left_alone_for: expiry
                .as_ref()
                .map(|expiry| micros(expiry.refresh_in.unwrap_or(expiry.fresh_for))),
            stale_for: expiry
                .as_ref()
                .map_or(0, |expiry| micros(expiry.stale_for.max(expiry.stale_if_error_for))),
        }),
        ReportAnswer::Rejected(why) => model::End::Refused(why.as_str()),
    }
}

fn made_old(done: &Invalidated, run: &Run) -> model::End {
    model::End::Invalidated(model::Invalidated {
        numbers: done.targets.iter().map(|(_, number)| number.0).collect(),
        // Here a replica knows its own watchers only.
        confirmed: done.confirmed && run.plan.replicas == 1,
    })
}

fn watcher(run: &Run, replica: usize) -> model::Watcher {
    let told = run.records.watched.iter().filter(|(by, ..)| *by == replica);
    let told = told.filter_map(|(_, at, what)| {
        let what = match what {
            What::Started { .. } => model::What::Started(replica as u16),
            What::Invalidated(told) => {
                let keys = told.keys.iter().map(|named| model::Target::Key(key(named)));
                let tags = told.tags.iter().map(|tag| model::Target::Tag(number(tag)));
                let all = told.everything.then_some(model::Target::Everything(0));
                model::What::Invalidated {
                    targets: keys.chain(tags).chain(all).collect(),
                    mode: told.mode,
                    version: told.version.0,
                }
            }
            What::Refreshed {
                key: named, version, ..
            } => model::What::Refreshed {
                key: key(named),
                version: version.0,
            },
            What::LeaseRevoked { key: named, lease, .. } => model::What::Revoked {
                key: key(named),
                lease: *lease,
            },
            What::Reset { reason } => model::What::Reset(reason.as_str()),
            What::Progress { .. } => return None,
        };
        Some(model::Told {
            moment: moment(*at),
            what,
        })
    });
    let told: Vec<model::Told> = told.collect();
    // It was told everything by the end of the run.
    let last = run.records.calls.iter().filter_map(Call::ended_at).map(moment).max();
    let last = last.max(told.last().map(|told| told.moment)).unwrap_or_default();
    model::Watcher {
        name: format!("the watcher at replica {replica}"),
        namespaces: [0].into(),
        told,
        rest: Some((
            model::Moment {
                place: last.place + 1,
                ..last
            },
            Vec::new(),
        )),
        ..model::Watcher::default()
    }
}
