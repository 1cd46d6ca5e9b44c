//! What operators ask, and what they are told.

use super::answer::{self, big, length, number, small};
use super::page::PAGE;
use super::{Check, LeasePage, NamespacePage, Violations};
use crate::config::policy_toml;
use crate::coordinator::{Description, LeaseInfo, NamespaceInfo};
use crate::decision::{Hot, Key};
use crate::proto;

/// Hot keys that are listed unless another number is asked for.
const HOT_KEYS: usize = 20;

/// Checks which key is to be described.
pub fn describe(request: &proto::DescribeKeyRequest) -> Result<Key, Violations> {
    let mut check = Check::default();
    check.namespace("namespace", &request.namespace);
    check.key("key", &request.key);
    check.done()?;
    Ok(Key::new(&request.namespace, &request.key))
}

/// Everything known about a key. It never has bytes.
pub fn described(known: Description) -> proto::DescribeKeyResponse {
    proto::DescribeKeyResponse {
        current: known
            .current
            .map(|facts| answer::hit(facts, None))
            .map(|hit| proto::Hit {
                content: Some(proto::hit::Content::Omitted(proto::Omitted {})),
                ..hit
            }),
        lease: known.lease.map(lease),
        waiters: small(known.waiters),
        backoff: known.backoff.map(answer::backoff),
    }
}

/// Checks which leases are to be listed: of one namespace, or of all.
pub fn leases(request: proto::ListLeasesRequest) -> Result<(Option<String>, LeasePage), Violations> {
    let mut check = Check::default();
    if !request.namespace.is_empty() {
        check.namespace("namespace", &request.namespace);
    }
    let size = check.page_size(request.page_size, PAGE);
    let page = check.done_with(LeasePage::read(size, &request.page_token))?;
    Ok(((!request.namespace.is_empty()).then_some(request.namespace), page))
}

/// A page of all the leases that there are.
pub fn lease_page(page: LeasePage, all: Vec<LeaseInfo>) -> proto::ListLeasesResponse {
    let (leases, next_page_token) = page.cut(all);
    proto::ListLeasesResponse {
        leases: leases.into_iter().map(lease).collect(),
        next_page_token,
    }
}

/// Checks which namespaces are to be listed.
pub fn namespaces(request: &proto::ListNamespacesRequest) -> Result<NamespacePage, Violations> {
    let mut check = Check::default();
    let size = check.page_size(request.page_size, PAGE);
    check.done_with(NamespacePage::read(size, &request.page_token))
}

/// A page of all the namespaces that there are.
pub fn namespace_page(page: NamespacePage, all: Vec<NamespaceInfo>) -> proto::ListNamespacesResponse {
    let (namespaces, next_page_token) = page.cut(all, |info| &info.namespace);
    proto::ListNamespacesResponse {
        namespaces: namespaces.into_iter().map(namespace).collect(),
        next_page_token,
    }
}

/// Checks whose hot keys are to be listed, and how many.
pub fn hot_keys(request: &proto::ListHotKeysRequest) -> Result<usize, Violations> {
    let mut check = Check::default();
    check.namespace("namespace", &request.namespace);
    let count = check.page_size(request.page_size, HOT_KEYS);
    check.done()?;
    Ok(count)
}

/// The keys that are asked for most.
pub fn hottest(keys: Vec<Hot>) -> proto::ListHotKeysResponse {
    let hot_keys = keys.into_iter().map(|hot| proto::HotKey {
        key: hot.key.name().to_owned(),
        rate: hot.rate,
        error: hot.error,
    });
    proto::ListHotKeysResponse {
        hot_keys: hot_keys.collect(),
    }
}

fn lease(info: LeaseInfo) -> proto::LeaseInfo {
    proto::LeaseInfo {
        namespace: info.key.namespace().to_owned(),
        key: info.key.name().to_owned(),
        holder: info.holder.as_ref().to_owned(),
        fencing_token: number(info.token),
        cause: answer::cause(info.cause).into(),
        held: Some(length(info.held)),
        ttl: Some(length(info.ttl)),
        waiters: small(info.waiters),
        traceparent: info
            .traceparent
            .map_or_else(String::new, |parent| parent.as_ref().to_owned()),
    }
}

fn namespace(info: NamespaceInfo) -> proto::NamespaceInfo {
    proto::NamespaceInfo {
        policy: policy_toml(&info.policy),
        namespace: info.namespace,
        entries: big(info.entries),
        leases: big(info.leases),
        waiters: big(info.waiters),
        watchers: big(info.watchers),
        workers: big(info.workers),
        circuit_open: info.circuit_open,
    }
}
