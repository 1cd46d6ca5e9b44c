//! Promise 12, which begins with refreshes that are due: each is offered at most the bound late, to one worker at a time, never for
//! an invalidated grant. There are none yet.

use super::Found;
use super::index::Seen;

/// Nothing is scheduled, so nothing is late.
pub fn refreshes_are_offered_in_time(_seen: &Seen<'_>, _found: &mut Found) {}
