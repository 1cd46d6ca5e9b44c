//! Command lines: the request that each makes, and those that are refused before anything is sent.

use super::*;
use crate::ctl::Command;
use crate::proto::report_value_request::Outcome;
use crate::proto::*;

fn command(line: &[&str]) -> Command {
    parse("http://127.0.0.1:1", line)
        .unwrap_or_else(|error| panic!("{error}"))
        .command
}

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

#[test]
fn an_acquire_says_everything_that_the_proto_can() {
    let line = [
        "acquire",
        "orders",
        "user:42",
        "--wait",
        "1s 500ms",
        "--intent",
        "force",
        "--no-stale",
        "--omit-value",
        "--known-version",
        "7",
        "--newer-than",
        "8",
        "--min-fencing-token",
        "9",
        "--lease-ttl",
        "30s",
        "--tag",
        "a",
        "--tag",
        "b",
        "--holder",
        "me",
        "--request-id",
        "q1",
    ];
    let Command::Acquire(args) = command(&line) else {
        panic!("acquire")
    };
    let expected = AcquireRebuildRequest {
        namespace: "orders".into(),
        key: "user:42".into(),
        holder: "me".into(),
        request_id: "q1".into(),
        wait: Some(prost_types::Duration {
            seconds: 1,
            nanos: 500_000_000,
        }),
        intent: Intent::Force.into(),
        accept_stale: Some(false),
        known_version: 7,
        omit_value: true,
        lease_ttl: seconds(30),
        min_fencing_token: 9,
        tags: vec!["a".into(), "b".into()],
        newer_than: 8,
        hits: 0,
    };
    assert_eq!(args.request(), expected);
}

#[test]
fn what_an_acquire_leaves_out_is_left_to_the_policy_but_holder_and_question_are_its_own() {
    let Command::Acquire(args) = command(&["acquire", "orders", "k"]) else {
        panic!("acquire")
    };
    let (one, other) = (args.request(), args.request());
    assert_eq!(
        (one.wait, one.lease_ttl, one.accept_stale, one.intent),
        (None, None, None, 0)
    );
    assert!(
        one.holder.starts_with("ctl-") && one.holder != other.holder,
        "{}",
        one.holder
    );
    assert!(
        one.request_id.starts_with("ctl-") && one.request_id != other.request_id,
        "{}",
        one.request_id
    );
    assert!(one.request_id.len() <= 64);
}

#[test]
fn a_report_has_exactly_one_outcome() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), b"\xff\x00").expect("written");
    let path = file.path().to_str().expect("a path in UTF-8");
    let failed = Failure {
        message: "down".into(),
        retry_after: seconds(10),
    };
    let table: [(&[&str], Outcome); 9] = [
        (&["--value", "text"], Outcome::Value("text".into())),
        (&["--value", ""], Outcome::Value("".into())),
        (&["--value-file", path], Outcome::Value(b"\xff\x00".as_slice().into())),
        (&["--external"], Outcome::External(External::default())),
        (
            &["--external", "s3://x/1"],
            Outcome::External(External {
                locator: "s3://x/1".into(),
            }),
        ),
        (&["--not-found"], Outcome::NotFound(NotFound {})),
        (&["--not-modified"], Outcome::NotModified(NotModified {})),
        (&["--failed", "down", "--retry-after", "10s"], Outcome::Failure(failed)),
        (&["--abandon"], Outcome::Abandon(Abandon {})),
    ];
    for (outcome, expected) in table {
        let line = [&["report", "orders", "k", "lease"], outcome].concat();
        let Command::Report(args) = command(&line) else {
            panic!("report")
        };
        let request = args.request().expect("a request");
        assert_eq!((request.outcome, request.ttl), (Some(expected), None), "{line:?}");
    }
}

#[test]
fn a_report_says_lifetimes_cost_and_tags_only_when_told() {
    let line = [
        "report",
        "orders",
        "k",
        "lease",
        "--value",
        "v",
        "--fresh-ttl",
        "0",
        "--stale-if-error",
        "1h",
        "--cost",
        "2s",
        "--tag",
        "a",
        "--do-not-store",
    ];
    let Command::Report(args) = command(&line) else {
        panic!("report")
    };
    let request = args.request().expect("a request");
    let lifetimes = Lifetimes {
        fresh_ttl: seconds(0),
        stale_while_revalidate: None,
        stale_if_error: seconds(3_600),
    };
    assert_eq!(request.ttl, Some(lifetimes));
    assert_eq!(
        (request.rebuild_cost, request.tags, request.do_not_store),
        (seconds(2), vec!["a".into()], true)
    );
}

#[test]
fn a_value_that_no_policy_allows_is_refused_here_where_it_does_not_cost_the_lease() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len((3 << 20) + 1).expect("a large file");
    let path = file.path().to_str().expect("a path in UTF-8");
    for (path, part) in [
        (path, "larger than 3 MiB"),
        ("/nonexistent/file", "cannot read the value"),
    ] {
        let Command::Report(args) = command(&["report", "o", "k", "l", "--value-file", path]) else {
            panic!("report")
        };
        let failure = args.request().expect_err("refused");
        assert!(failure.sentence().contains(part), "{}", failure.sentence());
        assert_eq!(failure.exit(), Exit::Usage);
    }
}

#[test]
fn an_invalidation_names_keys_and_tags_or_everything() {
    let line = [
        "invalidate",
        "orders",
        "a",
        "b",
        "--tag",
        "t",
        "--mode",
        "expire",
        "--reason",
        "why",
        "--wait",
        "2s",
        "--settle",
        "3s",
    ];
    let Command::Invalidate(args) = command(&line) else {
        panic!("invalidate")
    };
    let expected = InvalidateRequest {
        namespace: "orders".into(),
        keys: vec!["a".into(), "b".into()],
        tags: vec!["t".into()],
        everything: false,
        mode: Mode::Expire.into(),
        reason: "why".into(),
        wait_for_watchers: seconds(2),
        settle: seconds(3),
    };
    assert_eq!(args.request(), expected);
    let Command::Invalidate(args) = command(&["invalidate", "orders", "--everything"]) else {
        panic!("invalidate")
    };
    assert!(args.request().everything);
}

#[test]
fn wrong_command_lines_are_refused_with_exit_code_two() {
    let table: [&[&str]; 14] = [
        &[],
        &["acquire", "orders"],
        &["acquire", "orders", "k", "--wait", "5 parsecs"],
        &["acquire", "orders", "k", "--intent", "maybe"],
        &["acquire", "orders", "k", "--known-version=-1"],
        &["report", "orders", "k", "lease"],
        &["report", "orders", "k", "lease", "--value", "v", "--abandon"],
        &["report", "orders", "k", "lease", "--abandon", "--retry-after", "1s"],
        &["report", "orders", "k", "lease", "--external", "--do-not-store"],
        &["invalidate", "orders"],
        &["invalidate", "orders", "k", "--everything"],
        &["watch"],
        &["leases", "--page-size", "1001"],
        &["namespaces", "--server", "https://drover"],
    ];
    for line in table {
        let error = parse("http://127.0.0.1:1", line).expect_err(&format!("{line:?}"));
        assert_eq!(error.exit_code(), 2, "{line:?}: {error}");
    }
}

#[test]
fn the_command_line_is_consistent() {
    use clap::CommandFactory as _;
    Cli::command().debug_assert();
}
