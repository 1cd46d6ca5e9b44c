//! *Owns* which fields the answers have under `--json`: those of the proto, by its names, in its order.
//!
//! A oneof that arrived unset is something newer: none of its fields is there.

use serde::ser::SerializeMap;

use super::json::{Fields, Json, List, bytes, message, time, value_of};
use crate::proto::{
    AcquireRebuildResponse, Backoff, Busy, BusyCause, Cause, DescribeKeyResponse, Expiry, External, Freshness, Hints,
    Hit, HotKey, InvalidateResponse, Invalidated, InvalidatedTarget, Lease, LeaseInfo, LeaseRevoked,
    ListHotKeysResponse, ListLeasesResponse, ListNamespacesResponse, LostReason, Mode, NamespaceInfo, Progress,
    Rebuild, Refreshed, Rejection, RenewLeaseResponse, ReportValueResponse, Reset, ResetReason, Started, WatchResponse,
    acquire_rebuild_response::Decision, hit::Content, invalidated_target::Target, watch_response::Event,
};

/// A message without fields.
struct Empty;

impl Fields for Empty {
    fn fields<M: SerializeMap>(&self, _map: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
}

impl Fields for AcquireRebuildResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match &self.decision {
            Some(Decision::Rebuild(rebuild)) => map.serialize_entry("rebuild", &Json(rebuild))?,
            Some(Decision::Hit(hit)) => map.serialize_entry("hit", &Json(hit))?,
            Some(Decision::Busy(busy)) => map.serialize_entry("busy", &Json(busy))?,
            Some(Decision::Backoff(backoff)) => map.serialize_entry("backoff", &Json(backoff))?,
            Some(Decision::Miss(_)) => map.serialize_entry("miss", &Json(&Empty))?,
            None => {}
        }
        map.serialize_entry("degraded", &self.degraded)?;
        message(map, "hints", &self.hints)?;
        time(map, "waited", &self.waited)
    }
}

impl Fields for Rebuild {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        message(map, "lease", &self.lease)?;
        value_of(map, "cause", self.cause, Cause::as_str_name)?;
        message(map, "fallback", &self.fallback)?;
        map.serialize_entry("fallback_on_failure_only", &self.fallback_on_failure_only)?;
        message(map, "planned_expiry", &self.planned_expiry)?;
        map.serialize_entry("max_value_bytes", &self.max_value_bytes)
    }
}

impl Fields for Lease {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("lease_id", &self.lease_id)?;
        map.serialize_entry("fencing_token", &self.fencing_token)?;
        time(map, "ttl", &self.ttl)?;
        time(map, "max_hold", &self.max_hold)
    }
}

impl Fields for Hit {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("version", &self.version)?;
        value_of(map, "freshness", self.freshness, Freshness::as_str_name)?;
        match &self.content {
            Some(Content::Value(value)) => bytes(map, "value", value)?,
            Some(Content::External(external)) => map.serialize_entry("external", &Json(external))?,
            Some(Content::NotFound(_)) => map.serialize_entry("not_found", &Json(&Empty))?,
            Some(Content::Unchanged(_)) => map.serialize_entry("unchanged", &Json(&Empty))?,
            Some(Content::Omitted(_)) => map.serialize_entry("omitted", &Json(&Empty))?,
            None => {}
        }
        time(map, "age", &self.age)?;
        message(map, "expiry", &self.expiry)?;
        map.serialize_entry("rebuilding", &self.rebuilding)?;
        map.serialize_entry("tags", &self.tags)?;
        map.serialize_entry("rebuild_traceparent", &self.rebuild_traceparent)
    }
}

impl Fields for External {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("locator", &self.locator)
    }
}

impl Fields for Busy {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        time(map, "retry_after", &self.retry_after)?;
        time(map, "lease_remaining", &self.lease_remaining)?;
        value_of(map, "cause", self.cause, BusyCause::as_str_name)
    }
}

impl Fields for Backoff {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        time(map, "retry_after", &self.retry_after)?;
        map.serialize_entry("failures", &self.failures)?;
        map.serialize_entry("message", &self.message)?;
        map.serialize_entry("circuit_open", &self.circuit_open)
    }
}

impl Fields for Hints {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("hot", &self.hot)?;
        map.serialize_entry("replicas", &self.replicas)
    }
}

impl Fields for ListHotKeysResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("hot_keys", &List(&self.hot_keys))
    }
}

impl Fields for HotKey {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("rate", &self.rate)?;
        map.serialize_entry("error", &self.error)
    }
}

impl Fields for Expiry {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        time(map, "fresh_for", &self.fresh_for)?;
        time(map, "stale_for", &self.stale_for)?;
        time(map, "stale_if_error_for", &self.stale_if_error_for)?;
        time(map, "refresh_in", &self.refresh_in)?;
        time(map, "rebuild_cost", &self.rebuild_cost)?;
        map.serialize_entry("beta", &self.beta)
    }
}

impl Fields for RenewLeaseResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("renewed", &self.renewed)?;
        time(map, "ttl", &self.ttl)?;
        value_of(map, "lost_reason", self.lost_reason, LostReason::as_str_name)?;
        time(map, "max_hold", &self.max_hold)
    }
}

impl Fields for ReportValueResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("accepted", &self.accepted)?;
        value_of(map, "rejection", self.rejection, Rejection::as_str_name)?;
        map.serialize_entry("version", &self.version)?;
        message(map, "expiry", &self.expiry)?;
        map.serialize_entry("degraded", &self.degraded)
    }
}

impl Fields for InvalidateResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("invalidated", &List(&self.invalidated))?;
        map.serialize_entry("leases_revoked", &self.leases_revoked)?;
        map.serialize_entry("watchers", &self.watchers)?;
        map.serialize_entry("watchers_acknowledged", &self.watchers_acknowledged)?;
        map.serialize_entry("confirmed", &self.confirmed)?;
        map.serialize_entry("laggards", &self.laggards)
    }
}

impl Fields for InvalidatedTarget {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match &self.target {
            Some(Target::Key(key)) => map.serialize_entry("key", key)?,
            Some(Target::Tag(tag)) => map.serialize_entry("tag", tag)?,
            Some(Target::Everything(everything)) => map.serialize_entry("everything", everything)?,
            None => {}
        }
        map.serialize_entry("version", &self.version)
    }
}

impl Fields for WatchResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("cursor", &self.cursor)?;
        match &self.event {
            Some(Event::Started(started)) => map.serialize_entry("started", &Json(started)),
            Some(Event::Invalidated(event)) => map.serialize_entry("invalidated", &Json(event)),
            Some(Event::Refreshed(event)) => map.serialize_entry("refreshed", &Json(event)),
            Some(Event::LeaseRevoked(event)) => map.serialize_entry("lease_revoked", &Json(event)),
            Some(Event::Progress(progress)) => map.serialize_entry("progress", &Json(progress)),
            Some(Event::Reset(reset)) => map.serialize_entry("reset", &Json(reset)),
            None => Ok(()),
        }
    }
}

impl Fields for Started {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        time(map, "progress_interval", &self.progress_interval)?;
        time(map, "max_silence", &self.max_silence)
    }
}

impl Fields for Invalidated {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("namespace", &self.namespace)?;
        map.serialize_entry("keys", &self.keys)?;
        map.serialize_entry("tags", &self.tags)?;
        map.serialize_entry("everything", &self.everything)?;
        value_of(map, "mode", self.mode, Mode::as_str_name)?;
        map.serialize_entry("version", &self.version)
    }
}

impl Fields for Refreshed {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("namespace", &self.namespace)?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("version", &self.version)?;
        message(map, "expiry", &self.expiry)
    }
}

impl Fields for LeaseRevoked {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("namespace", &self.namespace)?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("lease_id", &self.lease_id)?;
        value_of(map, "reason", self.reason, LostReason::as_str_name)
    }
}

impl Fields for Progress {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("draining", &self.draining)
    }
}

impl Fields for Reset {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        value_of(map, "reason", self.reason, ResetReason::as_str_name)
    }
}

impl Fields for DescribeKeyResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        message(map, "current", &self.current)?;
        message(map, "lease", &self.lease)?;
        map.serialize_entry("waiters", &self.waiters)?;
        message(map, "backoff", &self.backoff)
    }
}

impl Fields for LeaseInfo {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("namespace", &self.namespace)?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("holder", &self.holder)?;
        map.serialize_entry("fencing_token", &self.fencing_token)?;
        value_of(map, "cause", self.cause, Cause::as_str_name)?;
        time(map, "held", &self.held)?;
        time(map, "ttl", &self.ttl)?;
        map.serialize_entry("waiters", &self.waiters)?;
        map.serialize_entry("traceparent", &self.traceparent)
    }
}

impl Fields for ListLeasesResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("leases", &List(&self.leases))?;
        map.serialize_entry("next_page_token", &self.next_page_token)
    }
}

impl Fields for NamespaceInfo {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("namespace", &self.namespace)?;
        map.serialize_entry("policy", &self.policy)?;
        map.serialize_entry("entries", &self.entries)?;
        map.serialize_entry("leases", &self.leases)?;
        map.serialize_entry("waiters", &self.waiters)?;
        map.serialize_entry("watchers", &self.watchers)?;
        map.serialize_entry("workers", &self.workers)?;
        map.serialize_entry("circuit_open", &self.circuit_open)
    }
}

impl Fields for ListNamespacesResponse {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry("namespaces", &List(&self.namespaces))?;
        map.serialize_entry("next_page_token", &self.next_page_token)
    }
}
