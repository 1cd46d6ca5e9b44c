//! Promise 10, as far as one stream can show it: each invalidation is told, or there is a reset; and numbers grow.

use drover::decision::Mode;
use drover::fanout::{Invalidation, What};
use drover::store::Target;

use super::{Checked, Gone, Promise, Seen, violation};
use crate::history::{Ended, Moment};

/// At every replica, in order; and with a barrier that was confirmed, before the answer.
pub fn watchers_see_every_invalidation(seen: &Seen<'_>) -> Checked {
    for replica in 0..seen.plan.replicas {
        let told: Vec<(Moment, &What)> = seen
            .records
            .watched
            .iter()
            .filter(|(by, ..)| *by == replica)
            .map(|(_, moment, what)| (*moment, what))
            .collect();
        numbers_grow(&told)?;
        for gone in seen.gone() {
            let confirmed = match &gone.call.ended {
                Some((_, Ended::Invalidated(done))) => {
                    done.confirmed && gone.call.replica == replica && done.watchers > 0
                }
                _ => false,
            };
            let by = if confirmed { gone.answered.place } else { u64::MAX };
            let is_told = |(moment, what): &(Moment, &What)| match what {
                What::Invalidated(told) => moment.place < by && tells(told, &gone),
                What::Reset { .. } => moment.place > gone.call.invoked.place,
                _ => false,
            };
            if !told.iter().any(is_told) {
                let what = format!(
                    "the watcher at replica {replica} was not told in time of {:?}",
                    gone.call
                );
                return Err(violation(Promise::Watch, what));
            }
        }
    }
    Ok(())
}

fn numbers_grow(told: &[(Moment, &What)]) -> Checked {
    let mut last = None;
    for (_, what) in told {
        match what {
            What::Invalidated(told) => {
                if Some(told.version) <= last {
                    let what = format!("{told:?} was told after {last:?}");
                    return Err(violation(Promise::Watch, what));
                }
                last = Some(told.version);
            }
            What::Reset { .. } => last = None,
            _ => {}
        }
    }
    Ok(())
}

fn tells(told: &Invalidation, gone: &Gone<'_>) -> bool {
    let names = match gone.target {
        Target::Key(key) => told.keys.contains(key),
        Target::Tag(tag) => told.tags.contains(tag),
        Target::Everything => told.everything,
    };
    names && told.version >= gone.number && (told.mode == Mode::Drop || told.mode == gone.mode)
}
