//! Follows a history of one key from outside, by what was asked and what was answered, and says what must not have happened: the
//! invariants of one key, written a second time and another way.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::properties::{Op, TAGS, What};
use super::room::Room;
use super::*;

/// A grant, as its holder and an onlooker know it.
struct Granted {
    id: LeaseId,
    holder: usize,
    request: u8,
    at: StoreTime,
    deadline: StoreTime,
    /// Its own and those of the value that stood when it was granted.
    tags: Vec<Tag>,
    ended: bool,
    /// The first answer to its report.
    reported: Option<Seq>,
}

/// A value whose report was accepted: until when it may be served at most.
struct Known {
    tags: Vec<Tag>,
    stored_at: StoreTime,
    fresh_until: StoreTime,
    windows: Duration,
}

struct Invalidated {
    number: Seq,
    named: Named,
    mode: Mode,
    settle_until: StoreTime,
}

impl Invalidated {
    fn names(&self, tags: &[Tag]) -> bool {
        match self.named {
            Named::Key | Named::Namespace => true,
            Named::Tag(name) => tags.iter().any(|tag| **tag == *name),
        }
    }

    fn makes_old(&self, token: Seq, tags: &[Tag]) -> bool {
        self.number > token && self.names(tags)
    }
}

pub(super) struct Witness {
    pub(super) room: Room,
    grants: Vec<Granted>,
    values: BTreeMap<Seq, Known>,
    invalidations: Vec<Invalidated>,
    parked: [Option<Seq>; 3],
    retry_at: StoreTime,
    newest_fresh: Seq,
    newest_number: Seq,
}

/// Nothing, or what must not have happened.
pub(super) type Checked = Result<(), TestCaseError>;

impl Witness {
    pub(super) fn new() -> Witness {
        let mut room = Room::new();
        room.policy.jitter.amount = JitterAmount::Ratio(0.1);
        room.policy.beta = 1.0;
        Witness {
            room,
            grants: Vec::new(),
            values: BTreeMap::new(),
            invalidations: Vec::new(),
            parked: [None; 3],
            retry_at: StoreTime::ZERO,
            newest_fresh: Seq::NONE,
            newest_number: Seq::NONE,
        }
    }

    fn is_old(&self, token: Seq, tags: &[Tag]) -> bool {
        self.invalidations.iter().any(|one| one.makes_old(token, tags))
    }

    /// The grant that excludes all others now.
    fn holder(&self) -> Option<&Granted> {
        let mut live = self.grants.iter().filter(|grant| {
            !grant.ended && self.room.now < grant.deadline && !self.is_old(grant.id.token, &grant.tags)
        });
        let one = live.next();
        assert!(live.next().is_none(), "two live leases");
        one
    }

    /// Takes a step and looks whether everything is as it must be.
    pub(super) fn run(&mut self, op: Op) -> Checked {
        let checked = self.step(op);
        self.holder();
        checked
    }

    fn step(&mut self, op: Op) -> Checked {
        match op {
            Op::Ask {
                who,
                intent,
                accept_stale,
                request,
                newer,
                tag,
            } => {
                let ask = Ask {
                    holder: ["a", "b", "c"][who].into(),
                    request_id: ["", "r1", "r2"][usize::from(request)].into(),
                    accept_stale,
                    newer_than: if newer { self.newest_fresh } else { Seq::NONE },
                    tags: tag.map(|tag| tags(&[tag]).into()),
                    parked_on: self.parked[who],
                    ..ask_to(intent)
                };
                self.ask(who, request, &ask)
            }
            Op::Report { back, what, tag } => self.report(back, what, tag),
            Op::Renew { back, ttl } => self.renew(back, ttl.map(secs)),
            Op::Invalidate { named, mode, settle } => self.invalidate(named, mode, secs(settle)),
            Op::Revoke => {
                self.room.revoke();
                Ok(())
            }
            Op::Pass { milliseconds } => {
                self.room.pass(millis(milliseconds));
                Ok(())
            }
            Op::Forget => {
                if self.room.entry.gone_at() <= self.room.now {
                    self.room.entry = Entry::default();
                    self.grants
                        .iter_mut()
                        .for_each(|grant| (grant.ended, grant.reported) = (true, None));
                }
                Ok(())
            }
        }
    }

    fn ask(&mut self, who: usize, request: u8, ask: &Ask) -> Checked {
        let stored = self
            .room
            .entry
            .value
            .as_ref()
            .map_or(Vec::new(), |value| value.tags().to_vec());
        let Some(answer) = self.room.acquire(ask) else {
            let Some(holder) = self.holder() else {
                return Err(TestCaseError::fail("parked, and nobody holds the lease"));
            };
            self.parked[who] = self.parked[who].or(Some(holder.id.token));
            return Ok(());
        };
        if let Some(hit) = answer.hit() {
            self.served(hit, ask)?;
        }
        self.parked[who] = None;
        let Answer::Rebuild(rebuild) = answer else {
            let in_back_off = self.room.now < self.retry_at;
            prop_assert!(in_back_off || !matches!(answer, Answer::KeepOff(_)));
            prop_assert!(ask.intent == Intent::Read || answer != Answer::Miss);
            return Ok(());
        };
        prop_assert!(ask.intent != Intent::Read, "a read was granted a lease");
        if let Some(holder) = self.holder() {
            let same = (holder.id, holder.holder, holder.request) == (rebuild.lease, who, request);
            prop_assert!(same && request > 0, "granted while somebody holds the lease");
            prop_assert_eq!(rebuild.ttl, holder.deadline.since(self.room.now));
            return Ok(());
        }
        prop_assert!(self.room.now >= self.retry_at, "granted during a back-off");
        prop_assert!(rebuild.lease.token > self.newest_number, "tokens must grow");
        self.newest_number = rebuild.lease.token;
        self.grants.iter_mut().for_each(|grant| grant.ended = true);
        self.grants.push(Granted {
            id: rebuild.lease,
            holder: who,
            request,
            at: self.room.now,
            deadline: self.room.now.after(rebuild.ttl),
            tags: stored
                .into_iter()
                .chain(ask.tags.iter().flat_map(|tags| tags.iter().cloned()))
                .collect(),
            ended: false,
            reported: None,
        });
        Ok(())
    }

    /// Was this value, as fresh or as stale, one that may be served now?
    fn served(&mut self, hit: &Hit, ask: &Ask) -> Checked {
        let now = self.room.now;
        let Some(known) = self.values.get(&hit.version) else {
            return Err(TestCaseError::fail("served what was never accepted"));
        };
        let end = known.fresh_until.after(known.windows);
        prop_assert!(hit.version > ask.newer_than);
        if hit.fresh {
            prop_assert!(
                !self.is_old(hit.version, &known.tags),
                "fresh, but built before an invalidation"
            );
            prop_assert!(hit.version >= self.newest_fresh, "versions went down");
            let handed = ask.parked_on.is_some_and(|on| hit.version >= on) && now < known.stored_at.after(HAND_OVER);
            prop_assert!(handed || now < known.fresh_until, "fresh beyond its end");
            self.newest_fresh = hit.version;
        } else {
            let mut hard = self.invalidations.iter().filter(|one| one.mode == Mode::Drop);
            prop_assert!(
                !hard.any(|one| one.makes_old(hit.version, &known.tags)),
                "served after a drop"
            );
            prop_assert!(
                ask.accept_stale && now < end,
                "stale beyond its window, or to one who wants none"
            );
        }
        let told = hit.expiry;
        prop_assert!(now.after(told.fresh_for) <= known.fresh_until.max(now));
        prop_assert!(now.after(told.stale_for.max(told.stale_if_error_for)) <= end.max(now));
        Ok(())
    }

    fn report(&mut self, back: usize, what: What, tag: Option<&'static str>) -> Checked {
        let Some(at) = self.grants.len().checked_sub(back + 1) else {
            return Ok(());
        };
        let grant = &self.grants[at];
        let (id, reported) = (grant.id, grant.reported);
        let body = Report {
            tags: tags(tag.as_slice()),
            do_not_store: what == What::NotStored,
            lifetimes: Lifetimes {
                fresh_ttl: (what == What::ShortValue).then(|| secs(3)),
                ..Lifetimes::default()
            },
            ..ended(
                id,
                match what {
                    What::Value | What::ShortValue | What::NotStored => bytes(),
                    What::NotFound => Outcome::Built(Content::NotFound),
                    What::NotModified => Outcome::NotModified,
                    What::Failure => failed(secs(1)),
                    What::Abandon => Outcome::Abandoned,
                },
            )
        };
        let all: Vec<Tag> = grant.tags.iter().chain(&body.tags).cloned().collect();
        let current = !grant.ended && !self.is_old(id.token, &all);
        let before = self.room.entry.clone();
        match self.room.report(&body) {
            ReportAnswer::Accepted { version, .. } if reported.is_some() => {
                let gone = self
                    .room
                    .entry
                    .value
                    .as_ref()
                    .is_none_or(|value| value.version != id.token);
                prop_assert!(Some(version) == reported || gone, "another answer than the first");
                prop_assert_eq!(&self.room.entry, &before);
            }
            ReportAnswer::Accepted { version, .. } => {
                prop_assert!(current, "accepted, but its grant was not current");
                self.grants[at].ended = true;
                self.grants[at].reported = Some(version);
                self.accepted(at, version, what)?;
            }
            ReportAnswer::Rejected(Rejection::NoValue) => {
                prop_assert!(current && what == What::NotModified);
                prop_assert_eq!(&self.room.entry, &before);
            }
            ReportAnswer::Rejected(rejection) => {
                prop_assert!(!current, "a current grant was refused: {rejection:?}");
                // A report may be the first to name the tag that makes it old: then its lease ends with it.
                if rejection == Rejection::Invalidated && before.lease.as_ref().is_some_and(|lease| lease.id() == id) {
                    self.grants[at].ended = true;
                }
                prop_assert_eq!(&self.room.entry.value, &before.value);
                prop_assert_eq!(&self.room.entry.trouble, &before.trouble);
            }
        }
        Ok(())
    }

    fn accepted(&mut self, at: usize, version: Seq, what: What) -> Checked {
        let (token, granted_at) = (self.grants[at].id.token, self.grants[at].at);
        if matches!(what, What::Failure | What::Abandon) {
            prop_assert_eq!(version, Seq::NONE);
            if what == What::Failure {
                self.retry_at = self.room.view().retry_at().unwrap_or_default();
                prop_assert!(self.retry_at >= self.room.now.after(secs(1)));
            }
            return Ok(());
        }
        prop_assert_eq!(version, token);
        self.retry_at = StoreTime::ZERO;
        let Some(value) = &self.room.entry.value else {
            return Err(TestCaseError::fail("accepted, and nothing is there"));
        };
        let known = Known {
            tags: value.tags().to_vec(),
            stored_at: self.room.now,
            fresh_until: value.fresh_until,
            windows: value.stale_while_revalidate.max(value.stale_if_error).length(),
        };
        prop_assert!(known.fresh_until <= self.room.now.after(secs(110)) && known.windows <= secs(200));
        let lagging = self
            .invalidations
            .iter()
            .filter(|one| one.names(&known.tags))
            .map(|one| one.settle_until)
            .max();
        if let Some(until) = lagging.filter(|until| granted_at < *until) {
            prop_assert!(known.fresh_until <= until, "fresh for longer than the origin may lag");
        }
        self.values.insert(version, known);
        Ok(())
    }

    fn renew(&mut self, back: usize, ttl: Option<Duration>) -> Checked {
        let Some(at) = self.grants.len().checked_sub(back + 1) else {
            return Ok(());
        };
        let id = self.grants[at].id;
        let holds = self.holder().is_some_and(|holder| holder.id == id);
        match self.room.renew(id, ttl) {
            "kept" => {
                prop_assert!(holds, "renewed what was not held any more");
                let deadline = self
                    .room
                    .entry
                    .lease
                    .as_ref()
                    .map_or(StoreTime::ZERO, |lease| lease.deadline);
                prop_assert!(deadline <= self.grants[at].at.after(secs(60)), "held for too long");
                self.grants[at].deadline = deadline;
            }
            "max_hold" => prop_assert_eq!(self.grants[at].deadline, self.grants[at].at.after(secs(60))),
            reason => prop_assert!(!holds, "lost while it was held: {reason}"),
        }
        Ok(())
    }

    fn invalidate(&mut self, named: Named, mode: Mode, settle: Duration) -> Checked {
        let number = self.room.invalidate_settling(named, mode, settle);
        prop_assert!(
            number > self.newest_number,
            "invalidations are in one order with grants"
        );
        self.newest_number = number;
        let now = self.room.now;
        let settle_until = if settle.is_zero() {
            StoreTime::ZERO
        } else {
            now.after(settle)
        };
        let done = Invalidated {
            number,
            named,
            mode,
            settle_until,
        };
        for (version, known) in &mut self.values {
            if done.makes_old(*version, &known.tags) {
                known.fresh_until = known.fresh_until.min(now);
            }
        }
        self.invalidations.push(done);
        prop_assert!(named == Named::Tag(TAGS[0]) || named == Named::Tag(TAGS[1]) || self.holder().is_none());
        Ok(())
    }
}
