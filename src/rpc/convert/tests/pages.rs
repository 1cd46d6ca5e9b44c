use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::coordinator::{LeaseInfo, NamespaceInfo};
use crate::decision::{Cause, Key, Policy, Seq};

fn lease(token: u64, key: &str) -> LeaseInfo {
    LeaseInfo {
        key: Key::new("shop", key),
        holder: Arc::default(),
        token: Seq(token),
        cause: Cause::Miss,
        held: Duration::ZERO,
        ttl: Duration::ZERO,
        waiters: 0,
        traceparent: None,
    }
}

fn page(size: i32, token: &str, all: &[LeaseInfo]) -> (Vec<String>, String) {
    let (_, page) = leases(proto::ListLeasesRequest {
        page_size: size,
        page_token: token.to_owned(),
        ..Default::default()
    })
    .expect("a page");
    let answer = lease_page(page, all.to_vec());
    (
        answer.leases.into_iter().map(|lease| lease.key).collect(),
        answer.next_page_token,
    )
}

#[test]
fn pages_together_are_the_whole_list_with_the_longest_held_first() {
    let all = [lease(3, "c"), lease(1, "b"), lease(1, "a/x"), lease(4, "é")];
    let (first, next) = page(2, "", &all);
    assert_eq!(first, ["a/x", "b"]);
    let (second, end) = page(2, &next, &all);
    assert_eq!((second, end.as_str()), (vec!["c".to_owned(), "é".to_owned()], ""));
}

#[test]
fn leases_that_come_and_go_between_pages_neither_repeat_nor_hide_others() {
    let all = [lease(1, "a"), lease(2, "b"), lease(3, "c"), lease(4, "d")];
    let (first, next) = page(2, "", &all);
    assert_eq!(first, ["a", "b"]);
    // The last lease of the first page has ended, and a new one was granted.
    let (second, _) = page(10, &next, &[lease(1, "a"), lease(3, "c"), lease(4, "d"), lease(5, "e")]);
    assert_eq!(second, ["c", "d", "e"]);
}

#[test]
fn a_page_without_a_size_has_a_hundred() {
    let all: Vec<_> = (1..=101).map(|token| lease(token, "k")).collect();
    let (first, next) = page(0, "", &all);
    assert_eq!(first.len(), 100);
    assert_eq!(page(0, &next, &all).0.len(), 1);
}

#[test]
fn a_token_of_one_list_is_refused_by_another() {
    let (_, next) = page(1, "", &[lease(1, "a"), lease(2, "b")]);
    let refused = namespaces(&proto::ListNamespacesRequest {
        page_size: 0,
        page_token: next,
    });
    assert_eq!(fields(refused), ["page_token"]);
}

#[test]
fn the_token_of_the_largest_key_is_taken_back() {
    let key = "k".repeat(MAX_KEY);
    let wide = LeaseInfo {
        key: Key::new(&"n".repeat(MAX_NAMESPACE), &key),
        ..lease(u64::MAX - 1, "")
    };
    let (_, next) = page(1, "", &[wide.clone(), lease(u64::MAX, "last")]);
    assert_eq!(page(1, &next, &[wide, lease(u64::MAX, "last")]).0, ["last"]);
}

#[test]
fn namespaces_are_paged_by_name() {
    let info = |name: &str| NamespaceInfo {
        namespace: name.to_owned(),
        policy: Arc::new(Policy::default()),
        entries: u64::MAX,
        leases: 0,
        waiters: 0,
        watchers: 0,
        workers: 0,
        circuit_open: false,
    };
    let all = || vec![info("c"), info("a"), info("b")];
    let read = |token: &str| {
        namespaces(&proto::ListNamespacesRequest {
            page_size: 2,
            page_token: token.to_owned(),
        })
        .expect("a page")
    };
    let first = namespace_page(read(""), all());
    assert_eq!(
        (first.namespaces[0].namespace.as_str(), first.namespaces[0].entries),
        ("a", i64::MAX)
    );
    let second = namespace_page(read(&first.next_page_token), all());
    assert_eq!(
        (second.namespaces.len(), second.namespaces[0].namespace.as_str()),
        (1, "c")
    );
    assert_eq!(second.next_page_token, "");
}
