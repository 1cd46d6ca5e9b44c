//! Tables and properties of the rules, one area a file. What they share: one key in a tiny store that stamps drafts as a real one
//! does ([`Room`]), and short texts for what was decided ([`said`]), so that a table reads like the one in the contract.

mod acquire;
mod asking;
mod endings;
mod fencing;
mod invalidation;
mod keeping_off;
mod lifetimes;
mod properties;
mod renewals;
mod strange;

use std::time::Duration;

use super::*;

/// Where the clock of these tests starts.
const START: StoreTime = StoreTime(1_000_000_000);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn millis(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn tags(names: &[&str]) -> Vec<Tag> {
    names.iter().map(|name| Tag::from(*name)).collect()
}

/// Round numbers, no jitter: fresh for 100 s, then stale for 50 s, on errors for 200 s.
fn policy() -> Policy {
    Policy {
        fresh_ttl: secs(100),
        stale_while_revalidate: secs(50),
        stale_if_error: secs(200),
        negative_ttl: secs(30),
        jitter: Jitter {
            mode: JitterMode::Both,
            amount: JitterAmount::Ratio(0.0),
            level: false,
        },
        lease_ttl: secs(10),
        max_hold: secs(60),
        ..Policy::default()
    }
}

/// A plain question.
fn ask(holder: &str) -> Ask {
    Ask {
        holder: holder.into(),
        request_id: "".into(),
        intent: Intent::Use,
        accept_stale: true,
        known_version: Seq::NONE,
        omit_value: false,
        lease_ttl: None,
        min_token: Seq::NONE,
        tags: None,
        newer_than: Seq::NONE,
        traceparent: None,
        parked_on: None,
    }
}

/// A question with an intent.
fn ask_to(intent: Intent) -> Ask {
    Ask { intent, ..ask("b") }
}

/// The question of a caller that was parked on a grant.
fn parked(holder: &str, on: LeaseId) -> Ask {
    Ask {
        parked_on: Some(on.token),
        ..ask(holder)
    }
}

/// A plain report.
fn ended(lease: LeaseId, outcome: Outcome) -> Report {
    Report {
        lease,
        outcome,
        cost: None,
        tags: Vec::new(),
        lifetimes: Lifetimes::default(),
        do_not_store: false,
    }
}

fn bytes() -> Outcome {
    Outcome::Built(Content::Bytes(4))
}

fn failed(retry_after: Duration) -> Outcome {
    Outcome::Failed {
        message: "origin down".into(),
        retry_after: Some(retry_after),
    }
}

/// What an invalidation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Key,
    Tag(&'static str),
    Namespace,
}

/// One key in a store: facts, generations, a clock and a sequence.
#[derive(Clone, Debug)]
struct Room {
    entry: Entry,
    generations: Generations,
    now: StoreTime,
    last: Seq,
    policy: Policy,
    seed: u64,
}

impl Room {
    fn new() -> Room {
        Room {
            entry: Entry::default(),
            generations: Generations::default(),
            now: START,
            last: Seq::NONE,
            policy: policy(),
            seed: 1,
        }
    }

    /// With a value that was reported `age` ago and has these tags.
    fn with_value(age: Duration, names: &[&str]) -> Room {
        let mut room = Room::new();
        let lease = room.grant(&ask("first"));
        let report = Report {
            tags: tags(names),
            ..ended(lease, bytes())
        };
        assert!(matches!(room.report(&report), ReportAnswer::Accepted { .. }));
        room.pass(age);
        room
    }

    fn view(&self) -> View<'_> {
        View {
            entry: &self.entry,
            generations: &self.generations,
            now: self.now,
        }
    }

    fn draw(&mut self) -> Draw {
        self.seed += 1;
        Draw {
            secret: self.seed,
            seed: self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    fn pass(&mut self, length: Duration) {
        self.now = self.now.after(length);
    }

    fn number(&mut self, above: Seq) -> Seq {
        self.last = Seq::next(self.last, self.now, above);
        self.last
    }

    fn commit(&mut self, draft: Draft, above: Seq) {
        let number = if draft.takes_number() {
            self.number(above)
        } else {
            Seq::NONE
        };
        self.entry = draft.stamp(Stamp { now: self.now, number });
    }

    /// What would be decided; nothing is written.
    fn decide(&mut self, ask: &Ask) -> Decision {
        let draw = self.draw();
        acquire(&self.view(), ask, &self.policy, draw)
    }

    fn say(&mut self, ask: &Ask) -> String {
        said(&self.decide(ask))
    }

    /// Decides and writes a grant, if it comes to one. `None`: the caller is to be parked.
    fn acquire(&mut self, ask: &Ask) -> Option<Answer> {
        match self.decide(ask) {
            Decision::Answer(answer) => Some(answer),
            Decision::Wait(_) => None,
            Decision::Grant(grant) => {
                assert!(self.now >= grant.not_before, "a grant that the store would refuse");
                self.commit(grant.draft.clone(), grant.above);
                let lease = self.entry.lease.clone().expect("a grant writes a lease");
                Some(granted(&grant, &lease, self.now, self.entry.cost, &self.policy))
            }
        }
    }

    /// A question that must be granted.
    fn grant(&mut self, ask: &Ask) -> LeaseId {
        self.rebuild(ask).lease
    }

    fn rebuild(&mut self, ask: &Ask) -> Rebuild {
        match self.acquire(ask) {
            Some(Answer::Rebuild(rebuild)) => *rebuild,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// A question that must be answered with a value.
    fn hit(&mut self, ask: &Ask) -> Hit {
        match self.acquire(ask) {
            Some(Answer::Hit(hit)) => hit,
            other => panic!("not a hit: {other:?}"),
        }
    }

    fn report(&mut self, body: &Report) -> ReportAnswer {
        let draw = self.draw();
        match report(&self.view(), body, &self.policy, draw) {
            ReportDecision::Accept { draft, .. } => {
                self.commit(*draft, Seq::NONE);
                accepted(&self.view(), body.lease, &self.policy)
            }
            ReportDecision::Repeat => accepted(&self.view(), body.lease, &self.policy),
            ReportDecision::Refuse { rejection, revoke } => {
                if let Some(draft) = revoke {
                    self.commit(*draft, Seq::NONE);
                }
                ReportAnswer::Rejected(rejection)
            }
        }
    }

    /// Reports a value that must be accepted.
    fn store(&mut self, lease: LeaseId) {
        let answer = self.report(&ended(lease, bytes()));
        assert!(matches!(answer, ReportAnswer::Accepted { .. }), "{answer:?}");
    }

    /// How a report is answered, in a word.
    fn verdict(&mut self, body: &Report) -> &'static str {
        match self.report(body) {
            ReportAnswer::Accepted { .. } => "accepted",
            ReportAnswer::Rejected(rejection) => rejection.as_str(),
        }
    }

    /// How a renewal is answered, in a word.
    fn renew(&mut self, id: LeaseId, ttl: Option<Duration>) -> &'static str {
        match renew(&self.view(), id, ttl, &self.policy) {
            RenewDecision::Keep(draft) => {
                self.commit(*draft, Seq::NONE);
                "kept"
            }
            RenewDecision::Lost { reason, .. } => reason.as_str(),
        }
    }

    fn invalidate(&mut self, named: Named, mode: Mode) -> Seq {
        self.invalidate_settling(named, mode, Duration::ZERO)
    }

    fn invalidate_settling(&mut self, named: Named, mode: Mode, settle: Duration) -> Seq {
        if named == Named::Key {
            match invalidate(&self.view(), mode, settle, &self.policy).draft {
                Some(draft) => self.commit(draft, Seq::NONE),
                None => _ = self.number(Seq::NONE),
            }
            return self.last;
        }
        let number = self.number(Seq::NONE);
        let settle_until = if settle.is_zero() {
            StoreTime::ZERO
        } else {
            self.now.after(settle)
        };
        let generation = match named {
            Named::Tag(tag) => {
                let known = self.generations.tags.iter().position(|(name, _)| **name == *tag);
                let at = known.unwrap_or_else(|| {
                    self.generations.tags.push((tag.into(), Generation::default()));
                    self.generations.tags.len() - 1
                });
                &mut self.generations.tags[at].1
            }
            Named::Namespace | Named::Key => self.generations.namespace.get_or_insert_default(),
        };
        generation.invalidate(mode, number, self.now, settle_until);
        number
    }

    /// The lease's replica commits the revocation, as it does when an invalidation of a tag or a namespace reaches it.
    fn revoke(&mut self) -> bool {
        let draft = revoke(&self.view());
        let done = draft.is_some();
        if let Some(draft) = draft {
            self.commit(draft, Seq::NONE);
        }
        done
    }
}

/// A decision in a few words.
fn said(decision: &Decision) -> String {
    match decision {
        Decision::Answer(answer) => said_answer(answer),
        Decision::Wait(wait) => format!("wait, then {}", said_answer(&wait.when_over)),
        Decision::Grant(grant) => said_rebuild(grant.cause, grant.fallback.as_ref(), grant.fallback_on_failure_only),
    }
}

fn said_answer(answer: &Answer) -> String {
    match answer {
        Answer::Hit(hit) => {
            let running = if hit.rebuilding { ", rebuilding" } else { "" };
            format!("hit {}{running}", freshness(hit))
        }
        Answer::Rebuild(rebuild) => {
            let fallback = rebuild.fallback.as_ref();
            format!(
                "same lease: {}",
                said_rebuild(rebuild.cause, fallback, rebuild.fallback_on_failure_only)
            )
        }
        Answer::Busy(_) | Answer::KeepOff(_) | Answer::Miss => answer.as_str().to_owned(),
    }
}

fn said_rebuild(cause: Cause, fallback: Option<&Hit>, on_failure_only: bool) -> String {
    let cause = cause.as_str();
    match fallback {
        None => format!("rebuild {cause}"),
        Some(hit) if on_failure_only => format!("rebuild {cause}, {} if it fails", freshness(hit)),
        Some(hit) => format!("rebuild {cause}, {} meanwhile", freshness(hit)),
    }
}

fn freshness(hit: &Hit) -> &'static str {
    if hit.fresh { "fresh" } else { "stale" }
}
