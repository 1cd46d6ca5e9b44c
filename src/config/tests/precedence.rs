//! Which source wins. The environment's part is clap's, which puts it into the same arguments below the flags; that every option
//! names its variable is seen here.

use std::io::Write as _;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};

use crate::config::{LogFormat, RedisSettings, ServeArgs, Settings, StoreKind, write_duration, write_size};

#[derive(Parser)]
struct Serve {
    #[command(flatten)]
    args: ServeArgs,
}

fn args(flags: &[&str]) -> ServeArgs {
    let line = std::iter::once("drover").chain(flags.iter().copied());
    Serve::try_parse_from(line)
        .unwrap_or_else(|error| panic!("{error}"))
        .args
}

fn with_file(text: &str, flags: &[&str]) -> Settings {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    let mut args = args(flags);
    args.config = Some(file.path().to_owned());
    Settings::resolve(args).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_nobody_says_is_the_default() {
    let settings = Settings::resolve(args(&[])).expect("the defaults");
    assert_eq!(settings, Settings::default());
    assert_eq!(with_file("", &[]).limits, Settings::default().limits);
}

#[test]
fn the_file_wins_over_the_defaults_in_every_option() {
    let settings = with_file(
        r#"
        [server]
        listen = "0.0.0.0:1"
        http = "off"
        store = "memory"
        max_connection_age = "off"
        drain_timeout = "3s"
        max_entries = 5_000
        max_memory = "64MiB"
        max_waiters = 7
        max_watchers = 8
        max_workers = 9
        log = "warn,drover=debug"
        log_format = "json"
        otlp = "http://collector:4317"
        "#,
        &[],
    );
    assert_eq!(settings.listen.to_string(), "0.0.0.0:1");
    assert_eq!(settings.http, None);
    assert_eq!(settings.store, StoreKind::Memory);
    assert_eq!(settings.max_connection_age, None);
    assert_eq!(settings.drain_timeout, Duration::from_secs(3));
    assert_eq!(settings.limits.max_entries, 5_000);
    assert_eq!(settings.limits.max_memory, 64 << 20);
    assert_eq!(settings.limits.max_waiters, 7);
    assert_eq!(settings.limits.max_watchers, 8);
    assert_eq!(settings.limits.max_workers, 9);
    assert_eq!(settings.log, "warn,drover=debug");
    assert_eq!(settings.log_format, LogFormat::Json);
    assert_eq!(settings.otlp.as_deref(), Some("http://collector:4317"));
}

#[test]
fn a_flag_wins_over_the_file_also_to_switch_something_off() {
    let file = "[server]\nhttp = \"0.0.0.0:2\"\notlp = \"http://collector:4317\"\nmax_waiters = 7\n";
    let settings = with_file(file, &["--http", "off", "--otlp", "off", "--max-waiters", "9"]);
    assert_eq!(settings.http, None);
    assert_eq!(settings.otlp, None);
    assert_eq!(settings.limits.max_waiters, 9);
}

#[test]
fn a_flag_wins_over_the_defaults_of_the_file_but_not_over_what_a_namespace_says_for_itself() {
    let file = "[defaults]\nbeta = 2\nmax_wait = \"3s\"\n[namespaces.shop]\nbeta = 3\n";
    let flags = [
        "--default",
        "beta=4",
        "--default",
        "jitter.spread=2s",
        "--strict-namespaces",
    ];
    let policies = with_file(file, &flags).policies;
    let shop = policies.of("shop").expect("listed");
    assert_eq!((policies.defaults.beta, shop.beta), (4.0, 3.0));
    assert_eq!(shop.jitter, policies.defaults.jitter);
    assert_eq!(shop.max_wait, Duration::from_secs(3));
    assert!(policies.of("other").is_none());
    let lenient = with_file("strict_namespaces = true", &["--strict-namespaces=false"]).policies;
    assert!(lenient.of("other").is_some());
}

#[test]
fn a_flag_that_contradicts_the_file_is_told_as_the_flag() {
    let error = Settings::resolve(args(&["--default", "lease_ttl=1h"])).expect_err("longer than the longest hold");
    assert_eq!(
        error.to_string(),
        "--default lease_ttl=1h: defaults.lease_ttl: \"1h\" is out of range; allowed: 100ms to max_hold (\"2m\"), \
         which is the longest that a holder may keep a lease"
    );
}

#[test]
fn a_namespace_inherits_field_by_field_also_within_tables() {
    let policies = with_file(
        "[defaults]\nbackoff.base = \"2s\"\njitter = { mode = \"down\", level = false }\n\
         [namespaces.shop]\nbackoff = { max = \"5m\" }\njitter.ratio = 0.3\n",
        &[],
    )
    .policies;
    let shop = policies.of("shop").expect("listed");
    assert_eq!(shop.backoff.base, Duration::from_secs(2));
    assert_eq!(shop.backoff.max, Duration::from_secs(300));
    assert_eq!(policies.defaults.backoff.max, Duration::from_secs(60));
    assert_eq!(
        (shop.jitter.mode, shop.jitter.level),
        (policies.defaults.jitter.mode, false)
    );
}

#[test]
fn a_file_that_is_not_there_is_told_by_its_name() {
    let mut args = args(&[]);
    args.config = Some("/nowhere/drover.toml".into());
    let error = Settings::resolve(args).expect_err("no such file").to_string();
    assert!(error.starts_with("/nowhere/drover.toml: "), "{error}");
}

#[test]
fn every_option_has_its_variable_and_the_help_tells_the_true_default() {
    let settings = Settings::default();
    let redis = RedisSettings::at("redis://cache").expect("a good URL");
    let without = [
        "config",
        "default",
        "store-user",
        "store-password-file",
        "store-ca-file",
        "store-cert-file",
        "store-key-file",
    ];
    let http = settings.http.map(|address| address.to_string());
    let age = settings.max_connection_age.map(write_duration);
    let defaults = [
        ("listen", settings.listen.to_string()),
        ("http", http.unwrap_or_else(|| "off".to_owned())),
        ("store", settings.store.as_str().to_owned()),
        ("store-prefix", redis.prefix),
        ("store-timeout", write_duration(redis.timeout)),
        ("store-connections", redis.connections.to_string()),
        ("store-pool", redis.pool.to_string()),
        ("max-connection-age", age.unwrap_or_else(|| "off".to_owned())),
        ("drain-delay", write_duration(settings.drain_delay)),
        ("drain-timeout", write_duration(settings.drain_timeout)),
        ("max-entries", settings.limits.max_entries.to_string()),
        ("max-memory", write_size(settings.limits.max_memory)),
        ("max-waiters", settings.limits.max_waiters.to_string()),
        ("max-watchers", settings.limits.max_watchers.to_string()),
        ("max-workers", settings.limits.max_workers.to_string()),
        ("log", settings.log),
        ("log-format", "text".to_owned()),
        ("otlp", settings.otlp.unwrap_or_else(|| "off".to_owned())),
        ("strict-namespaces", settings.policies.strict.to_string()),
    ];
    let command = Serve::command();
    for option in command.get_arguments() {
        let name = option.get_long().expect("a long name");
        let variable = option.get_env().and_then(|name| name.to_str()).unwrap_or_default();
        let expected = format!("DROVER_{}", name.replace('-', "_").to_uppercase());
        assert!(variable == expected || name == "default", "{name}: {variable}");
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        match defaults.iter().find(|(option, _)| *option == name) {
            Some((_, default)) => assert!(help.ends_with(&format!("[default: {default}]")), "{name}: {help}"),
            None => assert!(without.contains(&name), "{name} has no default in this test"),
        }
    }
}

#[test]
fn flags_refuse_in_the_words_of_the_file() {
    let cases: [(&[&str], &str); 6] = [
        (
            &["--store", "mongodb://cache"],
            "what is given for '--store <STORE>' is not a store; allowed: memory, redis://HOST:PORT,",
        ),
        (
            &["--max-memory", "1M"],
            "not a size; allowed: 16MiB or more, such as 1GiB",
        ),
        (
            &["--drain-timeout", "soon"],
            "not a duration; allowed: 0s to 1h, such as 20s",
        ),
        (
            &["--default", "lease_tll=1s"],
            "unknown field \"lease_tll\"; did you mean lease_ttl?",
        ),
        (
            &["--default", "max_wait=1"],
            "\"1\" is a number without a unit; allowed: 0s to 30d",
        ),
        (&["--listen", "example.org:1"], "not an address; allowed: IP:PORT"),
    ];
    for (flags, told) in cases {
        let line = std::iter::once("drover").chain(flags.iter().copied());
        let error = Serve::try_parse_from(line)
            .map(|_| ())
            .expect_err("refused")
            .to_string();
        assert!(error.contains(told), "{flags:?}: {error}");
    }
}

#[test]
fn an_address_may_say_localhost() {
    assert_eq!(args(&["--listen", "localhost:80"]).listen, "127.0.0.1:80".parse().ok());
}
