//! What a client asks, and how: plainly or with everything that a question may carry, once, twice, or giving up.

use std::time::Duration;

use drover::decision::Intent;
use drover::proto;
use futures_util::future::join;
use rand::RngExt;
use tokio::time::sleep;

use super::{Client, holder};
use crate::calls::{Who, intent_of, span};
use crate::checker::model::{End, Op, Question};
use crate::names::{LONGEST_LEASE, MAX_WAIT, SHOP};

impl Client {
    pub(super) fn plain(
        &mut self,
        key: u32,
        intent: Intent,
        wait: Option<u64>,
    ) -> (proto::AcquireRebuildRequest, Question) {
        let (namespace, name) = self.lines.names.key(key);
        let request = proto::AcquireRebuildRequest {
            namespace: namespace.to_owned(),
            key: name.to_owned(),
            holder: holder(self.number),
            wait: wait.and_then(span),
            intent: intent_of(intent).into(),
            ..Default::default()
        };
        let question = Question {
            key,
            intent,
            wait: wait.unwrap_or(MAX_WAIT).min(MAX_WAIT),
            newer_than: 0,
            request: 0,
            tags: Box::default(),
        };
        (request, question)
    }

    pub(super) fn question(&mut self) -> (proto::AcquireRebuildRequest, Question) {
        let key = self.key(SHOP);
        let seen = self.seen.get(&key).copied().unwrap_or_default();
        let intent = match self.rng.random_range(0..100) {
            0..76 => Intent::Use,
            76..84 => Intent::Early,
            84..90 => Intent::Force,
            _ => Intent::Read,
        };
        let wait = self.one_of(&[
            None,
            None,
            Some(0),
            Some(0),
            Some(30_000),
            Some(250_000),
            Some(1_500_000),
        ]);
        let (mut request, mut question) = self.plain(key, intent, wait);
        self.questions += 1;
        if self.chance(0.3) || self.manners.twice {
            request.request_id = format!("c{}-{}", self.number, self.questions);
            question.request = self.questions;
        }
        if self.chance(0.15) {
            request.accept_stale = Some(false);
        }
        request.omit_value = self.chance(0.1);
        if self.chance(0.2) {
            request.known_version = seen as i64;
        }
        if self.chance(0.05) {
            request.newer_than = seen as i64;
            question.newer_than = seen;
        }
        if self.chance(0.1) {
            request.min_fencing_token = seen as i64;
        }
        if self.chance(0.4) {
            request.lease_ttl = span(self.rng.random_range(100_000..=LONGEST_LEASE));
        }
        question.tags = self.tags(key);
        request.tags = question.tags.iter().map(|tag| self.lines.names.tag(*tag)).collect();
        (request, question)
    }

    /// Only what is in `shop` carries any.
    pub(super) fn tags(&mut self, key: u32) -> Box<[u32]> {
        if self.lines.names.namespace_of(key) != SHOP {
            return Box::default();
        }
        let [one, other] = self.lines.names.tags_for(key);
        match self.rng.random_range(0..5) {
            0 => Box::new([one]),
            1 => Box::new([other]),
            2 => Box::new([one, other]),
            _ => Box::default(),
        }
    }

    pub(super) async fn ask(&mut self) {
        let (request, question) = self.question();
        let mut replica = 0;
        let mut granted = None;
        let tries = if question.request == 0 { 1 } else { 2 };
        for number in 0..tries {
            let who = self.somewhere();
            replica = who.replica;
            let op = self.try_once(who, &request, &question, number == 0).await;
            granted = op.granted_or_degraded().cloned();
            let unanswered = matches!(op.end, End::Unknown(_) | End::Failed(_));
            self.keep(op);
            if !unanswered {
                break;
            }
            let pause = self.one_of(&[0, 1, 20]);
            sleep(Duration::from_millis(pause)).await;
        }
        if let Some(grant) = granted {
            self.rebuild(replica, question.key, grant).await;
        }
    }

    /// Asks, and perhaps leaves before there is an answer; or asks twice at once, as one does who takes the first for lost.
    pub(super) async fn try_once(
        &mut self,
        mut who: Who,
        request: &proto::AcquireRebuildRequest,
        question: &Question,
        first: bool,
    ) -> Op {
        if self.chance(0.03) {
            let patience = self.one_of(&[0, 1, 2, 10, 60, 400]);
            who.leaves = Some(Duration::from_millis(patience));
        }
        let twice = first && question.request != 0 && (self.manners.twice || self.chance(0.2));
        if !twice {
            return self.lines.acquire(who, request.clone(), question.clone()).await;
        }
        let gap = self.one_of(&[0, 0, 1, 5, 50]);
        let there = self.somewhere();
        let lines = self.lines.clone();
        let again = async {
            sleep(Duration::from_millis(gap)).await;
            lines.acquire(there, request.clone(), question.clone()).await
        };
        let asking = lines.acquire(who, request.clone(), question.clone());
        let (first, second) = join(asking, again).await;
        let (lost, kept) = if first.granted().is_some() {
            (second, first)
        } else {
            (first, second)
        };
        self.keep(lost);
        kept
    }
}
