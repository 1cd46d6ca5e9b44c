//! Promise 11: what subscribers keep in their own caches.

use super::index::Seen;
use super::model::{Op, Read, Watcher};
use super::{Found, Promise};

/// No subscriber that obeys serves what was invalidated: once all are said to have obeyed, or the longest silence is over; and at
/// rest none holds it.
pub fn local_copies_obey(seen: &Seen<'_>, found: &mut Found) {
    for watcher in &seen.history.watchers {
        found.looked("local reads", watcher.reads.len());
        for read in &watcher.reads {
            if let Some((bound, by)) = is_too_old(seen, read) {
                tell(found, watcher, read, bound, by);
            }
        }
        let Some((rest, held)) = &watcher.rest else { continue };
        found.looked("copies at rest", held.len());
        for copy in held {
            if let Some(by) = seen.undone(copy.key, copy.version, &copy.tags, rest.place, false) {
                tell(found, watcher, copy, "at rest", by);
            }
        }
    }
}

fn tell(found: &mut Found, watcher: &Watcher, read: &Read, bound: &str, by: &Op) {
    let what = format!("{} serves {read:?} {bound}:\n  {by:?}", watcher.name);
    found.add(Promise::LocalCopies, what);
}

fn is_too_old<'a>(seen: &Seen<'a>, read: &Read) -> Option<(&'static str, &'a Op)> {
    let terms = &seen.history.terms;
    if let Some(by) = seen.undone_for_all(read.key, read.version, &read.tags, read.moment.place) {
        return Some(("although it was confirmed", by));
    }
    let bound = read.moment.at.checked_sub(terms.max_silence + terms.slack)?;
    let place = seen.ops.partition_point(|op| op.invoked.at < bound);
    let place = seen.ops.get(place)?.invoked.place;
    let by = seen.undone(read.key, read.version, &read.tags, place, false)?;
    Some(("after the longest silence", by))
}
