use super::*;

/// The errors as servers send them; `tests/redis` provokes what a test can provoke.
const TABLE: [(&str, Condition, bool); 26] = [
    // Redis 7 and later, Valkey.
    (
        "OOM command not allowed when used memory > 'maxmemory'.",
        Condition::Full,
        true,
    ),
    (
        "OOM command not allowed when used memory > 'maxmemory'. script: 4ca2, on @user_script:1.",
        Condition::Full,
        true,
    ),
    (
        "WRONGTYPE Operation against a key holding the wrong kind of value script: 4ca2, on @user_script:7.",
        Condition::WrongType,
        false,
    ),
    (
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        Condition::WrongType,
        true,
    ),
    (
        "READONLY You can't write against a read only replica. script: 4ca2, on @user_script:1.",
        Condition::ReadOnly,
        true,
    ),
    (
        "READONLY You can't write against a read only replica.",
        Condition::ReadOnly,
        true,
    ),
    ("NOREPLICAS Not enough good replicas to write.", Condition::CutOff, true),
    (
        "NOREPLICAS Not enough good replicas to write. script: 4ca2, on @user_script:1.",
        Condition::CutOff,
        true,
    ),
    (
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. script: 4ca2, on \
         @user_script:1.",
        Condition::CannotSave,
        true,
    ),
    (
        "LOADING Redis is loading the dataset in memory",
        Condition::Loading,
        true,
    ),
    (
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        Condition::ReadOnly,
        true,
    ),
    (
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
        Condition::ReadOnly,
        true,
    ),
    ("CLUSTERDOWN The cluster is down", Condition::ClusterDown, true),
    ("CLUSTERDOWN Hash slot not served", Condition::ClusterDown, true),
    ("MOVED 3999 127.0.0.1:6381", Condition::ClusterDown, true),
    (
        "TRYAGAIN Multiple keys request during rehashing of slot",
        Condition::ClusterDown,
        true,
    ),
    ("NOAUTH Authentication required.", Condition::Forbidden, true),
    (
        "WRONGPASS invalid username-password pair or user is disabled.",
        Condition::Forbidden,
        true,
    ),
    (
        "NOPERM User drover has no permissions to run the 'evalsha' command",
        Condition::Forbidden,
        true,
    ),
    (
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        Condition::Busy,
        true,
    ),
    (
        "NOSCRIPT No matching script. Please use EVAL.",
        Condition::ScriptReloaded,
        true,
    ),
    (
        "ERR unknown command 'EVALSHA', with args beginning with: '4ca2' '1'",
        Condition::Other,
        true,
    ),
    // A script may have written before its error.
    (
        "ERR user_script:1: Script attempted to access nonexistent global variable 'oops' script: 4ca2, on @user_script:1.",
        Condition::Other,
        false,
    ),
    // Redis 6.2: the code is within.
    (
        "ERR Error running script (call to f_4ca2): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > \
         'maxmemory'. ",
        Condition::Full,
        true,
    ),
    (
        "ERR Error running script (call to f_4ca2): @user_script:1: @user_script: 1: -READONLY You can't write against a read only \
         replica. ",
        Condition::ReadOnly,
        true,
    ),
    (
        "ERR Error running script (call to f_4ca2): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value ",
        Condition::WrongType,
        false,
    ),
];

fn error(text: &str) -> RedisError {
    let value = ::redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("an error is a value");
    value.extract_error().expect_err("an error")
}

#[test]
fn every_error_has_its_name_and_tells_whether_something_can_have_changed() {
    for (text, condition, unapplied) in TABLE {
        assert_eq!(Verdict::of(&error(text)), Verdict { condition, unapplied }, "{text}");
    }
}

#[test]
fn only_a_write_that_may_have_been_applied_has_an_unknown_fate() {
    let verdict = |condition, unapplied| Verdict { condition, unapplied };
    let text = || "because".to_owned();
    let table = [
        (verdict(Condition::Broken, false), true, StoreError::Unknown(text())),
        (
            verdict(Condition::Broken, false),
            false,
            StoreError::Unavailable(text()),
        ),
        (
            verdict(Condition::ReadOnly, true),
            true,
            StoreError::Unavailable(text()),
        ),
        (verdict(Condition::Full, true), true, StoreError::Full(text())),
        (verdict(Condition::Full, true), false, StoreError::Full(text())),
    ];
    for (verdict, writes, told) in table {
        assert_eq!(verdict.told(writes, text()), told, "{verdict:?} {writes}");
    }
}

#[test]
fn what_no_server_said_is_a_broken_connection_or_a_time_limit() {
    let io = |kind: std::io::ErrorKind| RedisError::from(std::io::Error::from(kind));
    let table = [
        (io(std::io::ErrorKind::ConnectionRefused), Condition::Broken),
        (io(std::io::ErrorKind::UnexpectedEof), Condition::Broken),
        (io(std::io::ErrorKind::TimedOut), Condition::TimedOut),
        ((ErrorKind::Parse, "no such type").into(), Condition::Broken),
    ];
    for (error, condition) in table {
        let unapplied = false;
        assert_eq!(Verdict::of(&error), Verdict { condition, unapplied }, "{error}");
    }
}

#[test]
fn the_readme_explains_every_condition() {
    let readme = include_str!("../../../../README.md");
    for condition in Condition::ALL {
        let name = format!("`{}`", condition.as_str());
        let row = readme
            .lines()
            .any(|line| line.starts_with("| `") && line.contains(&name));
        assert!(row, "{name}");
    }
}

#[test]
fn names_are_all_different_and_each_is_counted_apart() {
    let names: std::collections::BTreeSet<_> = Condition::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(names.len(), Condition::ALL.len());
    let conditions = Conditions::default();
    for (times, condition) in Condition::ALL.into_iter().enumerate() {
        (0..times).for_each(|_| conditions.count(condition));
    }
    let counts: Vec<u64> = conditions.each().map(|(_, count)| count).collect();
    assert_eq!(counts, (0..Condition::ALL.len() as u64).collect::<Vec<_>>());
}
