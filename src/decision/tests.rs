//! Tables and properties of the rules, one area a file. What they share: one key in a tiny store that stamps drafts as a real one
//! does ([`Room`]), and short texts for what was decided ([`said`]), so that a table reads like the one in the contract.

mod acquire;
mod arbitrary;
mod asking;
mod budgets;
mod circuits;
mod confirming;
mod endings;
mod fencing;
mod held_back;
mod hots;
mod invalidation;
mod keeping_off;
mod levels;
mod lifetimes;
mod offers;
mod properties;
mod refreshes;
mod renewals;
mod room;
mod strange;
mod tasks;
mod witness;

use std::time::Duration;

use super::*;
use room::Room;

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

/// Round numbers, no jitter, no refreshes ahead: fresh for 100 s, then stale for 50 s, on errors for 200 s.
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
        beta: 0.0,
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
        workers: false,
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
