//! What each answer looks like, to the character, for people and for scripts.

use prost_types::Duration;

use super::*;
use crate::ctl::output::Answer;
use crate::ctl::{Command, event};
use crate::proto::acquire_rebuild_response::Decision;
use crate::proto::hit::Content;
use crate::proto::invalidated_target::Target;
use crate::proto::watch_response::Event;
use crate::proto::*;

fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

fn command(line: &[&str]) -> Command {
    parse("http://127.0.0.1:1", line)
        .unwrap_or_else(|error| panic!("{error}"))
        .command
}

/// Both renderings; the page as one sees it without colours.
fn check(answer: Answer, page: &str, document: &str) {
    assert_eq!(plain(&answer.page), page);
    assert_eq!(answer.document, document);
}

fn acquired(decision: Option<Decision>) -> Answer {
    answered(AcquireRebuildResponse {
        decision,
        ..AcquireRebuildResponse::default()
    })
}

fn answered(response: AcquireRebuildResponse) -> Answer {
    let Command::Acquire(args) = command(&["acquire", "orders", "user:42"]) else {
        panic!("acquire")
    };
    args.answer(&response)
}

fn expiry() -> Expiry {
    Expiry {
        fresh_for: seconds(288),
        stale_for: seconds(348),
        stale_if_error_for: seconds(3_888),
        refresh_in: seconds(250),
        rebuild_cost: Some(Duration {
            seconds: 0,
            nanos: 200_000_000,
        }),
        beta: 1.5,
    }
}

#[test]
fn a_hit_with_everything_a_server_can_say() {
    let hit = Hit {
        version: 1_796_045_722_123_456,
        freshness: Freshness::Fresh.into(),
        content: Some(Content::Value(r#"{"id": 42}"#.into())),
        age: Some(Duration {
            seconds: 12,
            nanos: 340_000_000,
        }),
        expiry: Some(expiry()),
        rebuilding: true,
        tags: vec!["customer:7".into(), "shop\x1b[2J".into()],
        rebuild_traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
    };
    let response = AcquireRebuildResponse {
        decision: Some(Decision::Hit(hit)),
        degraded: true,
        hints: Some(Hints { hot: true, replicas: 4 }),
        waited: Some(Duration {
            seconds: 1,
            nanos: 200_000_000,
        }),
    };
    check(
        answered(response),
        r#"hit  orders/user:42 is fresh
  value         {"id": 42}
  version       1796045722123456
  age           12.3s
  lifetimes     fresh 4m 48s, then stale 1m, or 1h if the origin fails
  refresh in    4m 10s
  rebuild cost  200ms, beta 1.5
  rebuilding    yes, somebody refreshes it now
  tags          customer:7, shop\u{1b}[2J
  trace         00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
  waited        1.2s
  hot           yes, among the namespace's most asked for
  spread        over 4 own keys
  degraded      yes, this replica decided alone: keep it out of local caches and fenced stores
"#,
        r#"{"hit":{"version":1796045722123456,"freshness":"FRESHNESS_FRESH","value":"{\"id\": 42}","value_encoding":"utf8","age":"12.34s","expiry":{"fresh_for":"288s","stale_for":"348s","stale_if_error_for":"3888s","refresh_in":"250s","rebuild_cost":"0.2s","beta":1.5},"rebuilding":true,"tags":["customer:7","shop\u001b[2J"],"rebuild_traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},"degraded":true,"hints":{"hot":true,"replicas":4},"waited":"1.2s"}"#,
    );
}

#[test]
fn the_contents_of_a_hit() {
    let external = |locator: &str| {
        Content::External(External {
            locator: locator.into(),
        })
    };
    let table = [
        (
            Some(Content::Value(b"\xff\x00".as_slice().into())),
            "ff 00 (binary, 2 bytes)",
            r#""value":"/wA=","value_encoding":"base64","#,
        ),
        (
            Some(external("")),
            "in the callers' own store",
            r#""external":{"locator":""},"#,
        ),
        (
            Some(external("s3://x/1")),
            "in the callers' own store, at s3://x/1",
            r#""external":{"locator":"s3://x/1"},"#,
        ),
        (
            Some(Content::NotFound(NotFound {})),
            "not found at the origin",
            r#""not_found":{},"#,
        ),
        (
            Some(Content::Unchanged(Unchanged {})),
            "unchanged, the version you have is current",
            r#""unchanged":{},"#,
        ),
        (
            Some(Content::Omitted(Omitted {})),
            "present, not sent",
            r#""omitted":{},"#,
        ),
        (None, "something this client does not know: not usable", ""),
    ];
    for (content, text, json) in table {
        let hit = Hit {
            version: 7,
            freshness: Freshness::Stale.into(),
            content,
            ..Hit::default()
        };
        check(
            acquired(Some(Decision::Hit(hit))),
            &format!("hit  orders/user:42 is stale\n  value    {text}\n  version  7\n"),
            &format!(
                r#"{{"hit":{{"version":7,"freshness":"FRESHNESS_STALE",{json}"rebuilding":false,"tags":[],"rebuild_traceparent":""}},"degraded":false}}"#
            ),
        );
    }
}

#[test]
fn a_rebuild_with_a_fallback_and_what_to_type_next() {
    let fallback = Hit {
        version: 6,
        freshness: Freshness::Stale.into(),
        content: Some(Content::Value("old".into())),
        age: seconds(400),
        ..Hit::default()
    };
    let rebuild = Rebuild {
        lease: Some(Lease {
            lease_id: "L-1".into(),
            fencing_token: 7,
            ttl: seconds(10),
            max_hold: seconds(120),
        }),
        cause: Cause::Stale.into(),
        fallback: Some(fallback),
        fallback_on_failure_only: true,
        planned_expiry: Some(Expiry {
            fresh_for: seconds(300),
            ..Expiry::default()
        }),
        max_value_bytes: 1 << 20,
    };
    check(
        acquired(Some(Decision::Rebuild(rebuild))),
        "rebuild  orders/user:42 is yours: the value is stale
  lease id       L-1
  fencing token  7
  lease time     10s, 2m at most with renewals
  value at most  1 MiB
  lifetimes      fresh 5m
  meanwhile      stale, 6m 40s old: old
  serve it       only if your rebuild fails

  Report it: drover ctl report orders user:42 L-1 --value TEXT
",
        r#"{"rebuild":{"lease":{"lease_id":"L-1","fencing_token":7,"ttl":"10s","max_hold":"120s"},"cause":"CAUSE_STALE","fallback":{"version":6,"freshness":"FRESHNESS_STALE","value":"old","value_encoding":"utf8","age":"400s","rebuilding":false,"tags":[],"rebuild_traceparent":""},"fallback_on_failure_only":true,"planned_expiry":{"fresh_for":"300s","beta":0.0},"max_value_bytes":1048576},"degraded":false}"#,
    );
}

#[test]
fn the_answers_without_a_value() {
    let busy = Busy {
        retry_after: seconds(1),
        lease_remaining: seconds(8),
        cause: BusyCause::WaitElapsed.into(),
    };
    check(
        acquired(Some(Decision::Busy(busy))),
        "busy  orders/user:42: the wait is over, somebody else rebuilds\n  ask again in  1s\n  lease left    8s\n",
        r#"{"busy":{"retry_after":"1s","lease_remaining":"8s","cause":"BUSY_CAUSE_WAIT_ELAPSED"},"degraded":false}"#,
    );
    let backoff = Backoff {
        retry_after: seconds(4),
        failures: 3,
        message: "no\nroute".into(),
        circuit_open: true,
    };
    check(
        acquired(Some(Decision::Backoff(backoff))),
        "backoff  orders/user:42: the origin is failing\n  ask again in  4s\n  failures      3 in a row\n  \
         last error    no\\nroute\n  circuit       open for the whole namespace\n",
        r#"{"backoff":{"retry_after":"4s","failures":3,"message":"no\nroute","circuit_open":true},"degraded":false}"#,
    );
    check(
        acquired(Some(Decision::Miss(Miss {}))),
        "miss  orders/user:42 has nothing usable\n",
        r#"{"miss":{},"degraded":false}"#,
    );
    check(
        acquired(None),
        "busy  orders/user:42: a decision that this client does not know, take it as busy\n",
        r#"{"degraded":false}"#,
    );
}

#[test]
fn an_enum_value_that_this_client_does_not_know_is_its_number_for_scripts() {
    let rebuild = Rebuild {
        cause: 99,
        ..Rebuild::default()
    };
    check(
        acquired(Some(Decision::Rebuild(rebuild))),
        "rebuild  orders/user:42 is yours: for a reason this client does not know\n",
        r#"{"rebuild":{"cause":99,"fallback_on_failure_only":false,"max_value_bytes":0},"degraded":false}"#,
    );
}

#[test]
fn a_key_that_could_steer_the_terminal_is_shown_spelled_out_and_without_a_command_to_copy() {
    let Command::Acquire(args) = command(&["acquire", "orders", "a\x1b[2Jb"]) else {
        panic!("acquire")
    };
    let rebuild = Rebuild {
        lease: Some(Lease {
            lease_id: "L".into(),
            ..Lease::default()
        }),
        ..Rebuild::default()
    };
    let decision = Some(Decision::Rebuild(rebuild));
    let answer = args.answer(&AcquireRebuildResponse {
        decision,
        ..AcquireRebuildResponse::default()
    });
    assert_eq!(
        plain(&answer.page),
        "rebuild  orders/a\\u{1b}[2Jb is yours: for a reason this client does not know\n  \
         lease id    L\n  lease time  0s\n"
    );
}

#[test]
fn reports_and_renewals() {
    let Command::Report(args) = command(&["report", "orders", "k", "L", "--value", "v"]) else {
        panic!("report")
    };
    let accepted = ReportValueResponse {
        accepted: true,
        version: 7,
        expiry: Some(expiry()),
        ..Default::default()
    };
    check(
        args.answer(&accepted),
        "accepted  orders/k
  version       7
  lifetimes     fresh 4m 48s, then stale 1m, or 1h if the origin fails
  refresh in    4m 10s
  rebuild cost  200ms, beta 1.5
",
        r#"{"accepted":true,"rejection":"REJECTION_UNSPECIFIED","version":7,"expiry":{"fresh_for":"288s","stale_for":"348s","stale_if_error_for":"3888s","refresh_in":"250s","rebuild_cost":"0.2s","beta":1.5},"degraded":false}"#,
    );
    let refused = ReportValueResponse {
        rejection: Rejection::NoValue.into(),
        ..Default::default()
    };
    check(
        args.answer(&refused),
        "refused  orders/k: no value: there is none left to confirm\n\n  \
         The lease goes on: report again with the value.\n",
        r#"{"accepted":false,"rejection":"REJECTION_NO_VALUE","version":0,"degraded":false}"#,
    );

    let Command::Renew(args) = command(&["renew", "orders", "k", "L"]) else {
        panic!("renew")
    };
    check(
        args.answer(&RenewLeaseResponse {
            renewed: true,
            ttl: seconds(10),
            max_hold: seconds(110),
            lost_reason: 0,
        }),
        "renewed  orders/k\n  lease time  10s\n  at most     1m 50s\n",
        r#"{"renewed":true,"ttl":"10s","lost_reason":"LOST_REASON_UNSPECIFIED","max_hold":"110s"}"#,
    );
    check(
        args.answer(&RenewLeaseResponse {
            lost_reason: LostReason::Superseded.into(),
            ..Default::default()
        }),
        "lost  orders/k: superseded: somebody else holds it\n",
        r#"{"renewed":false,"lost_reason":"LOST_REASON_SUPERSEDED"}"#,
    );
}

#[test]
fn invalidations() {
    let target = |target, version| InvalidatedTarget {
        target: Some(target),
        version,
    };
    let response = InvalidateResponse {
        invalidated: vec![
            target(Target::Key("user:42".into()), 8),
            target(Target::Tag("customer:7".into()), 9),
        ],
        leases_revoked: 1,
        watchers: 3,
        watchers_acknowledged: 2,
        confirmed: false,
        laggards: vec!["svc-2".into(), String::new()],
    };
    let json = r#"{"invalidated":[{"key":"user:42","version":8},{"tag":"customer:7","version":9}],"leases_revoked":1,"watchers":3,"watchers_acknowledged":2,"confirmed":false,"laggards":["svc-2",""]}"#;
    let waiting = ["invalidate", "orders", "user:42", "--tag", "customer:7", "--wait", "2s"];
    let Command::Invalidate(args) = command(&waiting) else {
        panic!("invalidate")
    };
    check(
        args.answer(&response),
        "invalidated  1 key and 1 tag of orders: dropped, nobody gets the old value again
  key       user:42  version 8
  tag       customer:7  version 9
  revoked   1 holder worked in vain
  watchers  not confirmed: 2 of 3 have acknowledged
  not yet   svc-2, (empty)
",
        json,
    );
    check(
        args.answer(&InvalidateResponse {
            confirmed: true,
            watchers: 3,
            watchers_acknowledged: 3,
            ..Default::default()
        }),
        "invalidated  0 keys of orders: dropped, nobody gets the old value again\n  watchers  confirmed by 3 watchers\n",
        r#"{"invalidated":[],"leases_revoked":0,"watchers":3,"watchers_acknowledged":3,"confirmed":true,"laggards":[]}"#,
    );
    let Command::Invalidate(args) = command(&["invalidate", "orders", "--everything", "--mode", "expire"]) else {
        panic!("invalidate")
    };
    let everything = vec![target(Target::Everything(true), 8)];
    check(
        args.answer(&InvalidateResponse {
            invalidated: everything,
            watchers: 1,
            ..Default::default()
        }),
        "invalidated  all of orders: expired, may be served stale meanwhile
  namespace  all of it  version 8
  watchers   1 watcher, not waited for
",
        r#"{"invalidated":[{"everything":true,"version":8}],"leases_revoked":0,"watchers":1,"watchers_acknowledged":0,"confirmed":false,"laggards":[]}"#,
    );
}

#[test]
fn descriptions() {
    let Command::Describe(args) = command(&["describe", "orders", "k"]) else {
        panic!("describe")
    };
    let lease = LeaseInfo {
        namespace: "orders".into(),
        key: "k".into(),
        holder: "svc-1".into(),
        fencing_token: 8,
        cause: Cause::Early.into(),
        held: seconds(2),
        ttl: seconds(8),
        waiters: 3,
        traceparent: "00-aa-bb-01".into(),
    };
    let current = Hit {
        version: 7,
        freshness: Freshness::Fresh.into(),
        content: Some(Content::Omitted(Omitted {})),
        age: seconds(280),
        ..Hit::default()
    };
    check(
        args.answer(&DescribeKeyResponse {
            current: Some(current),
            lease: Some(lease),
            waiters: 3,
            backoff: None,
        }),
        "fresh  orders/k, being rebuilt
  value           present, not sent
  version         7
  age             4m 40s
  holder          svc-1
  fencing token   8
  granted for     early
  held            2s
  lease left      8s
  holder's trace  00-aa-bb-01
  waiters         3
",
        r#"{"current":{"version":7,"freshness":"FRESHNESS_FRESH","omitted":{},"age":"280s","rebuilding":false,"tags":[],"rebuild_traceparent":""},"lease":{"namespace":"orders","key":"k","holder":"svc-1","fencing_token":8,"cause":"CAUSE_EARLY","held":"2s","ttl":"8s","waiters":3,"traceparent":"00-aa-bb-01"},"waiters":3}"#,
    );
    check(
        args.answer(&DescribeKeyResponse::default()),
        "absent  nothing is known of orders/k\n",
        r#"{"waiters":0}"#,
    );
}

#[test]
fn lists() {
    let Command::Leases(args) = command(&["leases"]) else {
        panic!("leases")
    };
    let lease = |key: &str, holder: &str, waiters| LeaseInfo {
        namespace: "orders".into(),
        key: key.into(),
        holder: holder.into(),
        fencing_token: 1_796_045_722_123_456,
        cause: Cause::Miss.into(),
        held: seconds(2),
        ttl: seconds(8),
        waiters,
        traceparent: String::new(),
    };
    let leases = vec![lease("user:42", "svc-1", 1_200), lease("k", "", 0)];
    check(
        args.answer(&ListLeasesResponse {
            leases,
            next_page_token: "p 2".into(),
        }),
        "NAMESPACE  KEY      HOLDER              TOKEN  CAUSE  HELD  LEFT  WAITERS
orders     user:42  svc-1    1796045722123456  miss     2s    8s    1,200
orders     k        (empty)  1796045722123456  miss     2s    8s        0

  There are more: --all, or --page-token 'p 2'
",
        r#"{"leases":[{"namespace":"orders","key":"user:42","holder":"svc-1","fencing_token":1796045722123456,"cause":"CAUSE_MISS","held":"2s","ttl":"8s","waiters":1200,"traceparent":""},{"namespace":"orders","key":"k","holder":"","fencing_token":1796045722123456,"cause":"CAUSE_MISS","held":"2s","ttl":"8s","waiters":0,"traceparent":""}],"next_page_token":"p 2"}"#,
    );
    check(
        args.answer(&ListLeasesResponse::default()),
        "no live leases\n",
        r#"{"leases":[],"next_page_token":""}"#,
    );

    let Command::Namespaces(args) = command(&["namespaces", "--policy"]) else {
        panic!("namespaces")
    };
    let orders = NamespaceInfo {
        namespace: "orders".into(),
        policy: "fresh_ttl = \"300s\"\nbeta = 1.0\n".into(),
        entries: 1_000_000,
        leases: 2,
        waiters: 1_200,
        watchers: 3,
        workers: 0,
        circuit_open: true,
    };
    check(
        args.answer(&ListNamespacesResponse {
            namespaces: vec![orders],
            next_page_token: String::new(),
        }),
        "NAMESPACE    ENTRIES  LEASES  WAITERS  WATCHERS  WORKERS  CIRCUIT
orders     1,000,000       2    1,200         3        0  open

orders
  fresh_ttl = \"300s\"
  beta = 1.0
",
        r#"{"namespaces":[{"namespace":"orders","policy":"fresh_ttl = \"300s\"\nbeta = 1.0\n","entries":1000000,"leases":2,"waiters":1200,"watchers":3,"workers":0,"circuit_open":true}],"next_page_token":""}"#,
    );
}

#[test]
fn events() {
    let expiry = Some(Expiry {
        fresh_for: seconds(300),
        ..Expiry::default()
    });
    let invalidated = Invalidated {
        namespace: "orders".into(),
        keys: vec!["a".into(), "b".into()],
        tags: vec!["t".into()],
        everything: false,
        mode: Mode::Expire.into(),
        version: 8,
    };
    let everything = Invalidated {
        namespace: "orders".into(),
        everything: true,
        mode: 99,
        ..Invalidated::default()
    };
    let started = Started {
        progress_interval: seconds(5),
        max_silence: seconds(15),
    };
    let refreshed = Refreshed {
        namespace: "orders".into(),
        key: "k".into(),
        version: 7,
        expiry,
    };
    let reason = LostReason::Invalidated.into();
    let revoked = LeaseRevoked {
        namespace: "orders".into(),
        key: "k".into(),
        lease_id: "L-1".into(),
        reason,
    };
    let reset = Reset {
        reason: ResetReason::CursorTooOld.into(),
    };
    let table = [
        (
            Some(Event::Started(started)),
            "started      live, a sign of life at least every 5s, lost after 15s without one",
            r#","started":{"progress_interval":"5s","max_silence":"15s"}"#,
        ),
        (
            Some(Event::Invalidated(invalidated)),
            "invalidated  orders  expire  keys a, b, tag t  version 8",
            r#","invalidated":{"namespace":"orders","keys":["a","b"],"tags":["t"],"everything":false,"mode":"MODE_EXPIRE","version":8}"#,
        ),
        (
            Some(Event::Invalidated(everything)),
            "invalidated  orders  drop  everything",
            r#","invalidated":{"namespace":"orders","keys":[],"tags":[],"everything":true,"mode":99,"version":0}"#,
        ),
        (
            Some(Event::Refreshed(refreshed)),
            "refreshed    orders/k  fresh 5m  version 7",
            r#","refreshed":{"namespace":"orders","key":"k","version":7,"expiry":{"fresh_for":"300s","beta":0.0}}"#,
        ),
        (
            Some(Event::LeaseRevoked(revoked)),
            "revoked      orders/k  invalidated: the work is futile  lease L-1",
            r#","lease_revoked":{"namespace":"orders","key":"k","lease_id":"L-1","reason":"LOST_REASON_INVALIDATED"}"#,
        ),
        (
            Some(Event::Progress(Progress { draining: true })),
            "draining     this replica is about to leave",
            r#","progress":{"draining":true}"#,
        ),
        (
            Some(Event::Reset(reset)),
            "reset        forget everything: the cursor is older than the log",
            r#","reset":{"reason":"RESET_REASON_CURSOR_TOO_OLD"}"#,
        ),
        (
            None,
            "reset        forget everything: an event that this client does not know",
            "",
        ),
    ];
    for (event, line, json) in table {
        check(
            event::answer(
                &WatchResponse {
                    cursor: "c1".into(),
                    event,
                },
                (still().now)(),
            ),
            &format!("2026-11-30T12:00:00.000Z  {line}\n"),
            &format!(r#"{{"received_at":"2026-11-30T12:00:00.000Z","cursor":"c1"{json}}}"#),
        );
    }
}
