//! One key in a tiny store that stamps drafts as a real one does.

use super::*;

/// One key in a store: facts, generations, a clock and a sequence.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub(super) entry: Entry,
    pub(super) generations: Generations,
    pub(super) now: StoreTime,
    pub(super) last: Seq,
    pub(super) policy: Policy,
    pub(super) seed: u64,
}

impl Room {
    pub(super) fn new() -> Room {
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
    pub(super) fn with_value(age: Duration, names: &[&str]) -> Room {
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

    pub(super) fn view(&self) -> View<'_> {
        View {
            entry: &self.entry,
            generations: &self.generations,
            now: self.now,
        }
    }

    pub(super) fn draw(&mut self) -> Draw {
        self.seed += 1;
        Draw {
            secret: self.seed,
            seed: self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
        }
    }

    pub(super) fn pass(&mut self, length: Duration) {
        self.now = self.now.after(length);
    }

    pub(super) fn number(&mut self, above: Seq) -> Seq {
        self.last = Seq::next(self.last, self.now, above);
        self.last
    }

    pub(super) fn commit(&mut self, draft: Draft, above: Seq) {
        let number = if draft.takes_number() {
            self.number(above)
        } else {
            Seq::NONE
        };
        self.entry = draft.stamp(Stamp { now: self.now, number });
    }

    /// What would be decided; nothing is written.
    pub(super) fn decide(&mut self, ask: &Ask) -> Decision {
        let draw = self.draw();
        acquire(&self.view(), ask, &self.policy, draw)
    }

    pub(super) fn say(&mut self, ask: &Ask) -> String {
        said(&self.decide(ask))
    }

    /// Decides and writes a grant, if it comes to one. `None`: the caller is to be parked.
    pub(super) fn acquire(&mut self, ask: &Ask) -> Option<Answer> {
        match self.decide(ask) {
            Decision::Answer(answer) => Some(answer),
            Decision::Wait(_) => None,
            Decision::Grant(grant) => {
                assert!(self.now >= grant.not_before, "a grant that the store would refuse");
                self.commit(grant.draft.clone(), grant.above);
                let lease = self.entry.lease.clone().expect("a grant writes a lease");
                Some(granted(
                    &grant,
                    &lease,
                    self.now,
                    self.entry.cost.length(),
                    &self.policy,
                ))
            }
        }
    }

    /// A question that must be granted.
    pub(super) fn grant(&mut self, ask: &Ask) -> LeaseId {
        self.rebuild(ask).lease
    }

    pub(super) fn rebuild(&mut self, ask: &Ask) -> Rebuild {
        match self.acquire(ask) {
            Some(Answer::Rebuild(rebuild)) => *rebuild,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// A question that must be answered with a value.
    pub(super) fn hit(&mut self, ask: &Ask) -> Hit {
        match self.acquire(ask) {
            Some(Answer::Hit(hit)) => hit,
            other => panic!("not a hit: {other:?}"),
        }
    }

    pub(super) fn report(&mut self, body: &Report) -> ReportAnswer {
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
    pub(super) fn store(&mut self, lease: LeaseId) {
        let answer = self.report(&ended(lease, bytes()));
        assert!(matches!(answer, ReportAnswer::Accepted { .. }), "{answer:?}");
    }

    /// How a report is answered, in a word.
    pub(super) fn verdict(&mut self, body: &Report) -> &'static str {
        match self.report(body) {
            ReportAnswer::Accepted { .. } => "accepted",
            ReportAnswer::Rejected(rejection) => rejection.as_str(),
        }
    }

    /// How a renewal is answered, in a word.
    pub(super) fn renew(&mut self, id: LeaseId, ttl: Option<Duration>) -> &'static str {
        match renew(&self.view(), id, ttl, &self.policy) {
            RenewDecision::Keep(draft) => {
                self.commit(*draft, Seq::NONE);
                "kept"
            }
            RenewDecision::Lost { reason, .. } => reason.as_str(),
        }
    }

    pub(super) fn invalidate(&mut self, named: Named, mode: Mode) -> Seq {
        self.invalidate_settling(named, mode, Duration::ZERO)
    }

    pub(super) fn invalidate_settling(&mut self, named: Named, mode: Mode, settle: Duration) -> Seq {
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
    pub(super) fn revoke(&mut self) -> bool {
        let draft = revoke(&self.view());
        let done = draft.is_some();
        if let Some(draft) = draft {
            self.commit(draft, Seq::NONE);
        }
        done
    }
}
