//! Where a store is: the forms of its URL, and that no password is ever shown.

use std::path::Path;

use clap::Parser;

use super::{complaints, read};
use crate::config::check::{complain, print};
use crate::config::{Address, RedisSettings, Secret, ServeArgs, Settings, StoreChoice, StoreKind, StoreUrl, Topology};

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
}

fn url(text: &str) -> StoreUrl {
    StoreUrl::read(text).unwrap_or_else(|refusal| panic!("{text}: {refusal}"))
}

fn at(host: &str, port: u16) -> Address {
    let host = host.to_owned();
    Address { host, port }
}

#[test]
fn each_form_of_the_url_says_where_the_store_is() {
    let table = [
        ("redis://cache", Topology::Single(at("cache", 6379)), false, 0),
        ("redis://cache:1/", Topology::Single(at("cache", 1)), false, 0),
        (
            "rediss://cache.example.org:65535/7",
            Topology::Single(at("cache.example.org", 65535)),
            true,
            7,
        ),
        ("redis://[::1]", Topology::Single(at("::1", 6379)), false, 0),
        (
            "redis://[2001:db8::1]:7/2",
            Topology::Single(at("2001:db8::1", 7)),
            false,
            2,
        ),
        (
            "redis+unix:///run/redis.sock",
            Topology::Socket("/run/redis.sock".into()),
            false,
            0,
        ),
        ("redis+unix:///a%20b?db=3", Topology::Socket("/a b".into()), false, 3),
        (
            "redis+sentinel://a,b:1,[::1]/my%2Fmaster/2",
            Topology::Sentinel {
                sentinels: vec![at("a", 26379), at("b", 1), at("::1", 26379)],
                master: "my/master".to_owned(),
            },
            false,
            2,
        ),
        (
            "rediss+sentinel://a/main",
            Topology::Sentinel {
                sentinels: vec![at("a", 26379)],
                master: "main".to_owned(),
            },
            true,
            0,
        ),
        (
            "redis+cluster://a,b:1",
            Topology::Cluster(vec![at("a", 6379), at("b", 1)]),
            false,
            0,
        ),
        ("rediss+cluster://a:2/0", Topology::Cluster(vec![at("a", 2)]), true, 0),
    ];
    for (text, topology, tls, database) in table {
        let read = url(text);
        let (user, password) = (None, None);
        assert_eq!(
            read,
            StoreUrl {
                topology,
                tls,
                database,
                user,
                password
            },
            "{text}"
        );
        assert_eq!(
            url(&read.to_string()),
            read,
            "as it is shown, it means the same: {read}"
        );
    }
}

#[test]
fn user_and_password_are_read_and_the_password_is_never_shown() {
    let table = [
        ("redis://app:pw@h", Some("app"), Some("pw"), "redis://app:***@h:6379"),
        ("redis://:pw@h", None, Some("pw"), "redis://:***@h:6379"),
        ("redis://app@h", Some("app"), None, "redis://app@h:6379"),
        (
            "redis://a%3Ab:p%40%2F%25@h",
            Some("a:b"),
            Some("p@/%"),
            "redis://a%3Ab:***@h:6379",
        ),
        (
            "redis://app:p@/?x@h",
            Some("app"),
            Some("p@/?x"),
            "redis://app:***@h:6379",
        ),
        (
            "redis+unix://:pw@/s?db=1",
            None,
            Some("pw"),
            "redis+unix://:***@/s?db=1",
        ),
        (
            "redis+cluster://u:pw@a,b",
            Some("u"),
            Some("pw"),
            "redis+cluster://u:***@a:6379,b:6379",
        ),
        (
            "redis+sentinel://u:pw@a/m",
            Some("u"),
            Some("pw"),
            "redis+sentinel://u:***@a:26379/m",
        ),
    ];
    for (text, user, password, shown) in table {
        let read = url(text);
        assert_eq!(read.user.as_deref(), user, "{text}");
        assert_eq!(read.password.as_ref().map(Secret::reveal), password, "{text}");
        assert_eq!(read.to_string(), shown);
        assert!(!format!("{read:?}").contains("pw"), "{read:?}");
    }
}

#[test]
fn a_bad_url_is_refused_with_what_is_wrong_and_without_itself() {
    let table = [
        ("sqlite", "not a store"),
        ("http://:s3cret@h", "not a store"),
        ("redis+proxy://:s3cret@h", "not a kind of Redis that drover knows"),
        ("rediss+unix://:s3cret@/s", "not a kind of Redis that drover knows"),
        (
            "redis://:s3cret@",
            "without a good host name or IP address (IPv6 in brackets)",
        ),
        (
            "redis://:s3cret@2001:db8::1",
            "without a good host name or IP address (IPv6 in brackets)",
        ),
        (
            "redis://:s3cret@a b",
            "without a good host name or IP address (IPv6 in brackets)",
        ),
        ("redis://:s3cret@h:0", "with a port that is not 1 to 65535"),
        ("redis://:s3cret@h:99999", "with a port that is not 1 to 65535"),
        ("redis://:s3cret@h/x", "with a database that is not a number"),
        (
            "redis://:s3cret%zz@h",
            "with a % that two hexadecimal digits should follow (% itself is %25)",
        ),
        (
            "redis+cluster://:s3cret@h/1",
            "with a database, of which a Cluster has only number 0",
        ),
        (
            "redis+sentinel://:s3cret@h",
            "without the name by which the sentinels know the primary",
        ),
        ("redis+unix://:s3cret@run", "without the path of a socket"),
    ];
    for (text, problem) in table {
        let refusal = StoreUrl::read(text).expect_err(text);
        assert!(refusal.problem.starts_with(problem), "{text}: {refusal}");
        let flag = Serve::try_parse_from(["drover", "--store", text])
            .map(|_| ())
            .expect_err(text)
            .to_string();
        let file = complaints(&format!("[server]\nstore = {text:?}\n"));
        assert!(flag.contains(problem) && file.contains(problem), "{flag}\n{file}");
        assert!(!format!("{refusal}{flag}{file}").contains("s3cret"), "{flag}\n{file}");
    }
}

#[test]
fn config_check_shows_the_store_without_its_password() {
    let text = "[server]\nstore = \"rediss://app:s3cret@cache\"\nstore_prefix = \"shop\"\nstore_timeout = \"2s\"\n";
    let file = read(text).expect("a good file");
    let mut out = anstream::StripStream::new(Vec::new());
    print(&file, Path::new("drover.toml"), true, &mut out).expect("memory takes it");
    let shown = String::from_utf8(out.into_inner()).expect("text");
    let server =
        "[server]\nstore                   = \"rediss://app:***@cache:6379\"\nstore_prefix            = \"shop\"\n";
    assert!(shown.contains(server), "{shown}");
    assert!(!format!("{shown}{file:?}").contains("s3cret"), "{shown}");

    let bad =
        "[server]\nstore = \"redis://:s3cret@\"\nstore_prefix = \"a{b}\"\nstore_pool = 0\nstore_timeout = \"1ms\"\n";
    let error = read(bad).expect_err("four mistakes");
    let mut out = anstream::StripStream::new(Vec::new());
    complain(&error, &mut out).expect("memory takes it");
    let told = String::from_utf8(out.into_inner()).expect("text");
    for line in [
        "drover.toml:2:1: server.store: what is given is without a good host name",
        "drover.toml:3:1: server.store_prefix: \"a{b}\" is not a prefix of keys; allowed: 1 to 64 of A-Z,",
        "drover.toml:4:1: server.store_pool: 0 is too small; allowed: 1 to 64",
        "drover.toml:5:1: server.store_timeout: \"1ms\" is too small; allowed: 10ms to 30s, such as 500ms",
    ] {
        assert!(told.contains(line), "{line} in\n{told}");
    }
    assert!(!told.contains("s3cret"), "{told}");
}

#[test]
fn another_password_in_the_file_wants_a_restart_like_any_other_option() {
    let server = |text: &str| read(text).expect("a good file").server;
    let before = server("[server]\nstore = \"redis://:one@h\"\n");
    let after = server("[server]\nstore = \"redis://:two@h\"\n");
    assert_eq!(before.differences(&after), ["store"]);
    assert!(before.differences(&before.clone()).is_empty());
}

#[test]
fn a_flag_for_redis_wins_over_the_file() {
    use std::io::Write as _;
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let text = r#"
        [server]
        store = "redis://:s3cret@cache/1"
        store_prefix = "shop"
        store_user = "app"
        store_password_file = "/run/secrets/redis"
        store_ca_file = "/etc/ca.pem"
        store_cert_file = "/etc/cert.pem"
        store_key_file = "/etc/key.pem"
        store_timeout = "1s"
        store_connections = 3
        store_pool = 5
    "#;
    file.write_all(text.as_bytes()).expect("written");
    let settings = |flags: &[&str]| {
        let path = file.path().to_str().expect("text");
        let line = ["drover", "--config", path].into_iter().chain(flags.iter().copied());
        let settings = Settings::resolve(Serve::parse_from(line).args).expect("a good file");
        assert!(!format!("{settings:?}").contains("s3cret"), "{settings:?}");
        match settings.store {
            StoreKind::Redis(redis) => *redis,
            StoreKind::Memory => panic!("it is a Redis"),
        }
    };
    let of_file = RedisSettings {
        prefix: "shop".to_owned(),
        user: Some("app".to_owned()),
        password: None,
        password_file: Some("/run/secrets/redis".into()),
        ca_file: Some("/etc/ca.pem".into()),
        cert_file: Some("/etc/cert.pem".into()),
        key_file: Some("/etc/key.pem".into()),
        timeout: std::time::Duration::from_secs(1),
        connections: 3,
        pool: 5,
        url: url("redis://:s3cret@cache/1"),
    };
    assert_eq!(settings(&[]), of_file);
    let flags = [
        "--store",
        "redis://other",
        "--store-prefix",
        "p",
        "--store-pool",
        "6",
        "--store-timeout",
        "50ms",
    ];
    let flagged = settings(&flags);
    assert_eq!(
        (flagged.url, flagged.prefix.as_str(), flagged.pool),
        (url("redis://other"), "p", 6)
    );
    assert_eq!((flagged.timeout.as_millis(), flagged.connections), (50, 3));
    let memory = Serve::parse_from(["drover", "--store", "memory"]).args.store;
    assert_eq!(memory, Some(StoreChoice::Memory));
}
