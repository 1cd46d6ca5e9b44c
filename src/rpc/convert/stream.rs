//! What watchers send, and what is to be refreshed later. Checked here, used elsewhere.

use std::time::Duration;

use super::check::grouped;
use super::{Check, MAX_HOLDER, MAX_KEY, Violations};
use crate::fanout::MAX_CURSOR;
use crate::proto;

/// Namespaces of one subscription.
pub const MAX_NAMESPACES: usize = 64;
/// Prefixes of one subscription.
pub const MAX_PREFIXES: usize = 100;
/// Keys of one ScheduleRefresh.
pub const MAX_SCHEDULED: usize = 10_000;
/// Bytes of all keys of one ScheduleRefresh: 2 MiB.
pub const MAX_SCHEDULED_BYTES: usize = 2 * 1024 * 1024;

/// Checks what a watcher wants to see. The cursor is not looked at: one that cannot be read is answered by a Reset.
pub fn check_subscribe(subscribe: &proto::Subscribe) -> Result<(), Violations> {
    let mut check = Check::default();
    check.rule(
        !subscribe.namespaces.is_empty(),
        "subscribe.namespaces",
        "is empty; name at least one namespace",
    );
    check.rule(
        subscribe.namespaces.len() <= MAX_NAMESPACES,
        "subscribe.namespaces",
        "has more than 64 namespaces; use several streams",
    );
    for (at, namespace) in subscribe.namespaces.iter().enumerate() {
        check.namespace(("subscribe.namespaces", at), namespace);
    }
    check.rule(
        subscribe.key_prefixes.len() <= MAX_PREFIXES,
        "subscribe.key_prefixes",
        "has more than 100 prefixes; use shorter ones, or none",
    );
    for (at, prefix) in subscribe.key_prefixes.iter().enumerate() {
        check.at_most(("subscribe.key_prefixes", at), prefix, MAX_KEY);
        if check.is_full() {
            break;
        }
    }
    check.at_most("subscribe.holder", &subscribe.holder, MAX_HOLDER);
    check.done()
}

/// Checks an acknowledgement. An unreadable cursor acknowledges nothing, which is not for this check to say.
pub fn check_ack(ack: &proto::Ack) -> Result<(), Violations> {
    let mut check = Check::default();
    check.at_most("ack.cursor", &ack.cursor, MAX_CURSOR);
    for (at, read) in ack.hits.iter().enumerate() {
        check.namespace(("ack.hits", at, "namespace"), &read.namespace);
        check.key(("ack.hits", at, "key"), &read.key);
        check.count(("ack.hits", at, "hits"), read.hits);
        if check.is_full() {
            break;
        }
    }
    check.done()
}

/// Checks which keys are to be rebuilt later, and over which length of time.
pub fn check_schedule(request: &proto::ScheduleRefreshRequest) -> Result<Option<Duration>, Violations> {
    let mut check = Check::default();
    check.namespace("namespace", &request.namespace);
    let bytes: usize = request.keys.iter().map(String::len).sum();
    if request.keys.is_empty() {
        check.refuse("keys", "is empty; name at least one key");
    } else if request.keys.len() > MAX_SCHEDULED {
        let count = grouped(request.keys.len());
        check.refuse(
            "keys",
            format!("has {count} keys; allowed are 10,000, so split them into several calls"),
        );
    } else if bytes > MAX_SCHEDULED_BYTES {
        let bytes = grouped(bytes);
        check.refuse(
            "keys",
            format!("has {bytes} bytes; allowed are 2,097,152 (2 MiB), so split them into several calls"),
        );
    } else {
        check.keys("keys", &request.keys);
    }
    let spread_over = check.duration("spread_over", request.spread_over);
    check.done()?;
    Ok(spread_over)
}
