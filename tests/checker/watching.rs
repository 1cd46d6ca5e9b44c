//! Promise 10: each invalidation is told, or there is a reset; and numbers grow.

use std::collections::HashMap;

use drover::decision::Mode;

use super::index::Seen;
use super::model::{Kind, Op, Target, Watcher, What};
use super::{Found, Promise};

/// When a stream told of a target: place, moment, version, mode.
type Tellings = HashMap<Target, Vec<(u64, u64, u64, Mode)>>;

/// What one watcher was told, by target.
struct Stream<'a> {
    watcher: &'a Watcher,
    /// From here it counts.
    from: u64,
    /// Place and moment of each reset.
    resets: Vec<(u64, u64)>,
    /// From which moment to which it was not live, or may not have been: a cable that was cut may have left it half open, until
    /// something is heard.
    broken: Vec<(u64, u64)>,
    told: Tellings,
}

/// At every replica, in order, across resumptions; and where nothing is broken, soon.
pub fn watchers_are_told(seen: &Seen<'_>, found: &mut Found) {
    for watcher in &seen.history.watchers {
        numbers_grow(seen, watcher, found);
        only_what_was_done_is_told(seen, watcher, found);
        let Some(stream) = Stream::of(seen, watcher) else {
            continue;
        };
        for (target, made) in &seen.made {
            if !stream.wants(seen, *target) {
                continue;
            }
            found.looked("tellings", made.certain.len());
            for index in &made.certain {
                if let Some(why) = stream.misses(seen, *target, &seen.ops[*index]) {
                    let what = format!("{} {why} of {target:?} in {:?}", watcher.name, seen.ops[*index]);
                    found.add(Promise::Watch, what);
                }
            }
        }
    }
}

impl<'a> Stream<'a> {
    fn of(seen: &Seen<'_>, watcher: &'a Watcher) -> Option<Stream<'a>> {
        let started = watcher.told.iter().find(|told| matches!(told.what, What::Started(_)))?;
        let mut stream = Stream {
            watcher,
            from: started.moment.place,
            resets: Vec::new(),
            broken: Vec::new(),
            told: HashMap::new(),
        };
        let mut broken_from = None;
        for told in &watcher.told {
            let (place, at) = (told.moment.place, told.moment.at);
            match &told.what {
                What::Started(_) => stream.broken.extend(broken_from.take().map(|from| (from, at))),
                What::Broken => broken_from = broken_from.or(Some(at)),
                What::Reset(_) => stream.resets.push((place, at)),
                What::Invalidated { targets, mode, version } => {
                    for target in targets {
                        let tellings = stream.told.entry(*target).or_default();
                        tellings.push((place, at, *version, *mode));
                    }
                }
                What::Refreshed { .. } | What::Revoked { .. } => {}
            }
        }
        stream.broken.extend(broken_from.map(|from| (from, u64::MAX)));
        for (from, to) in seen.history.lapses(|kind| matches!(kind, Kind::CutOff(_))) {
            let heard = watcher.told.iter().map(|told| told.moment.at).find(|at| *at > to);
            stream.broken.push((from, heard.unwrap_or(u64::MAX)));
        }
        Some(stream)
    }

    fn wants(&self, seen: &Seen<'_>, target: Target) -> bool {
        let has = |namespace: &u16| self.watcher.namespaces.contains(namespace);
        match target {
            Target::Key(key) => {
                let prefixed = self.watcher.keys.as_ref().is_none_or(|keys| keys.contains(&key));
                prefixed && has(&seen.history.keys[key as usize])
            }
            // A tag is of one namespace; the watchers of a history have all of them or the tag's.
            Target::Tag(tag) => seen
                .carried
                .iter()
                .zip(&seen.history.keys)
                .any(|(tags, namespace)| tags.contains(&tag) && has(namespace)),
            Target::Everything(namespace) => has(&namespace),
        }
    }

    fn misses(&self, seen: &Seen<'_>, target: Target, op: &Op) -> Option<&'static str> {
        let (targets, mode, done) = op.invalidated()?;
        let number = targets
            .iter()
            .zip(&done.numbers)
            .find(|(other, _)| **other == target)?
            .1;
        let counts = seen.history.terms.one_sequence || matches!(target, Target::Key(_));
        let tells = |(place, _, version, told): &&(u64, u64, u64, Mode)| {
            *place > op.invoked.place && (!counts || version >= number) && (*told == Mode::Drop || *told == mode)
        };
        let told = self.told.get(&target).and_then(|told| told.iter().find(tells));
        let reset = self.resets.iter().find(|(place, _)| *place > op.invoked.place);
        let first = [told.map(|(_, at, ..)| *at), reset.map(|(_, at)| *at)]
            .into_iter()
            .flatten()
            .min();
        if op.invoked.place <= self.from {
            return None;
        }
        let rested = self.watcher.rest.as_ref().map(|(rest, _)| rest.place);
        if first.is_none() && rested.is_some_and(|rest| op.ended.place < rest) {
            return Some("was never told");
        }
        let by = op.ended.at + seen.history.terms.notice;
        let over = rested.is_some() && !self.watcher.slow && first.is_none_or(|at| at > by);
        (over && self.is_healthy(seen, op.invoked.at, by)).then_some("was told too late")
    }

    /// Nothing was broken in a stretch of time, nor shortly before.
    fn is_healthy(&self, seen: &Seen<'_>, from: u64, to: u64) -> bool {
        let terms = &seen.history.terms;
        let around = from.saturating_sub(terms.recovery);
        let broken = self.broken.iter().any(|(begin, end)| *begin <= to && around <= *end);
        let harmless = |kind| matches!(kind, Kind::Evicting);
        let ended = self.watcher.rest.as_ref().is_some_and(|(rest, _)| rest.at < to);
        !broken && !ended && !seen.lapsed(around, to, |kind| !harmless(kind))
    }
}

/// Of each target by itself: between keys there is no order.
fn numbers_grow(seen: &Seen<'_>, watcher: &Watcher, found: &mut Found) {
    let mut last: HashMap<Target, u64> = HashMap::new();
    for told in &watcher.told {
        match &told.what {
            What::Invalidated { targets, version, .. } => {
                // Of several names in one event only the largest number is told; and numbers of tags come from where their home is.
                let [target] = targets[..] else { continue };
                if !seen.history.terms.one_sequence && !matches!(target, Target::Key(_)) {
                    continue;
                }
                let before = last.insert(target, *version);
                if before.is_some_and(|before| before >= *version) {
                    let what = format!("{}: {told:?} was told after {before:?}", watcher.name);
                    found.add(Promise::Watch, what);
                }
            }
            What::Reset(_) => last.clear(),
            _ => {}
        }
    }
}

/// A new value that is told of was reported.
fn only_what_was_done_is_told(seen: &Seen<'_>, watcher: &Watcher, found: &mut Found) {
    for told in &watcher.told {
        let wrong = match &told.what {
            What::Refreshed { key, version } => {
                let reports = seen.keys[*key as usize].reports.iter().map(|index| &seen.ops[*index]);
                !reports
                    .filter(|op| op.may_have_been_done() && op.invoked.place < told.moment.place)
                    .any(|op| op.report().is_some_and(|report| report.lease.token.0 == *version))
            }
            // Whoever was granted it may never hear of it: its call failed, or somebody's invalidation was faster.
            What::Revoked { key, .. } => {
                let mut acquires = seen.keys[*key as usize].acquires.iter().map(|index| &seen.ops[*index]);
                !acquires.any(|op| op.invoked.place < told.moment.place)
            }
            _ => false,
        };
        if wrong {
            let what = format!("{}: {told:?}, and nobody did that", watcher.name);
            found.add(Promise::Watch, what);
        }
    }
}
