//! MERGE: stands in for `config::policy_toml`.

use crate::decision::Policy;

pub(super) fn toml(policy: &Policy) -> String {
    format!("fresh_ttl = \"{}\"\n", humantime::format_duration(policy.fresh_ttl))
}
