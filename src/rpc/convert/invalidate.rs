//! What to make old, and what was made old.

use std::time::Duration;

use super::answer::{number, small};
use super::check::grouped;
use super::{Check, Violations};
use crate::coordinator::{Invalidate, Invalidated};
use crate::decision::{Key, Mode};
use crate::proto;
use crate::proto::invalidated_target::Target as Named;
use crate::store::Target;

/// Keys and tags of one call.
pub const MAX_TARGETS: usize = 1_000;
/// Bytes of a reason.
pub const MAX_REASON: usize = 256;
/// Laggards of an answer.
const MAX_LAGGARDS: usize = 10;

/// Checks an invalidation. The wait for watchers is cut to `left`, the time until the answer must be on its way; `None`: the call
/// has no deadline.
pub fn invalidate(request: proto::InvalidateRequest, left: Option<Duration>) -> Result<Invalidate, Violations> {
    let mut check = Check::default();
    check.namespace("namespace", &request.namespace);
    check_targets(&mut check, &request);
    let mode = mode(check.known("mode", request.mode));
    check.at_most("reason", &request.reason, MAX_REASON);
    let wait = check.duration("wait_for_watchers", request.wait_for_watchers);
    let settle = check.duration("settle", request.settle);
    check.done()?;
    let mut targets = Vec::with_capacity(request.keys.len() + request.tags.len() + usize::from(request.everything));
    targets.extend(
        request
            .keys
            .iter()
            .map(|key| Target::Key(Key::new(&request.namespace, key))),
    );
    targets.extend(request.tags.into_iter().map(|tag| Target::Tag(tag.into())));
    if request.everything {
        targets.push(Target::Everything);
    }
    Ok(Invalidate {
        namespace: request.namespace.into(),
        targets,
        mode,
        reason: request.reason,
        wait_for_watchers: wait.unwrap_or_default().min(left.unwrap_or(Duration::MAX)),
        settle: settle.unwrap_or_default(),
    })
}

/// The answer to an invalidation.
pub fn invalidated(done: Invalidated) -> proto::InvalidateResponse {
    let named = |target: Target| match target {
        Target::Key(key) => Named::Key(key.name().to_owned()),
        Target::Tag(tag) => Named::Tag(tag.as_ref().to_owned()),
        Target::Everything => Named::Everything(true),
    };
    proto::InvalidateResponse {
        invalidated: done
            .targets
            .into_iter()
            .map(|(target, version)| proto::InvalidatedTarget {
                target: Some(named(target)),
                version: number(version),
            })
            .collect(),
        leases_revoked: small(done.leases_revoked),
        watchers: small(done.watchers),
        watchers_acknowledged: small(done.acknowledged),
        confirmed: done.confirmed,
        laggards: done
            .laggards
            .iter()
            .take(MAX_LAGGARDS)
            .map(|holder| holder.as_ref().to_owned())
            .collect(),
    }
}

fn check_targets(check: &mut Check, request: &proto::InvalidateRequest) {
    let named = request.keys.len() + request.tags.len();
    if request.everything && named > 0 {
        check.refuse(
            "everything",
            "is not allowed together with keys or tags: it covers them already",
        );
    }
    if !request.everything && named == 0 {
        check.refuse("keys", "is empty, and so is tags; name something, or set everything");
    }
    if named > MAX_TARGETS {
        let field = if request.keys.len() > MAX_TARGETS {
            "keys"
        } else {
            "tags"
        };
        check.refuse(
            field,
            format!(
                "makes {} keys and tags; allowed are 1,000 together, so split them into several calls",
                grouped(named)
            ),
        );
        return;
    }
    check.keys("keys", &request.keys);
    for (at, tag) in request.tags.iter().enumerate() {
        check.tag(at, tag);
    }
}

/// What an invalidation does.
pub fn mode(given: proto::Mode) -> Mode {
    match given {
        proto::Mode::Unspecified | proto::Mode::Drop => Mode::Drop,
        proto::Mode::Expire => Mode::Expire,
    }
}
