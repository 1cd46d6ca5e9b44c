//! Every kind of mistake, with the words in which it is told.

use proptest::prelude::*;

use super::{complaints, read};

#[track_caller]
fn each_is_told(cases: &[(&str, &str)]) {
    for (text, told) in cases {
        assert_eq!(complaints(text), *told, "for this file:\n{text}");
    }
}

#[test]
fn an_unknown_name_is_told_with_the_near_one_or_with_all() {
    each_is_told(&[
        (
            "[defaults]\nleese_ttl = \"3s\"",
            "drover.toml:2:1: defaults.leese_ttl: unknown field; did you mean lease_ttl?",
        ),
        (
            "strict = true",
            "drover.toml:1:1: strict: unknown field; did you mean strict_namespaces?",
        ),
        (
            "[namespace.shop]",
            "drover.toml:1:2: namespace: unknown field; did you mean namespaces?",
        ),
        (
            "[defaults]\nfresh-ttl = \"3s\"",
            "drover.toml:2:1: defaults.fresh-ttl: unknown field; did you mean fresh_ttl?",
        ),
        (
            "[tls]",
            "drover.toml:1:2: tls: unknown field; allowed: strict_namespaces, server, defaults, namespaces",
        ),
        (
            "[namespaces.shop]\nbackoff = { first = \"1s\" }",
            "drover.toml:2:13: namespaces.shop.backoff.first: unknown field; allowed: base, max",
        ),
        (
            "[namespaces.shop]\nzzz = 1",
            "drover.toml:2:1: namespaces.shop.zzz: unknown field; allowed: fresh_ttl, stale_while_revalidate, \
             stale_if_error, negative_ttl, max_lifetime, jitter, beta, lease_ttl, max_hold, max_wait, backoff, \
             max_waiters_per_key, max_concurrent_rebuilds, idle_refreshes, max_value_bytes, store_down",
        ),
        (
            "[server]\nport = 7117",
            "drover.toml:2:1: server.port: unknown field; allowed: listen, http, max_connection_age, drain_delay, \
             drain_timeout, store, store_prefix, store_user, store_password_file, \
             store_ca_file, store_cert_file, store_key_file, store_timeout, store_connections, store_pool, max_entries, max_memory, max_waiters, max_watchers, max_workers, log, log_format, otlp",
        ),
        (
            "[namespaces.shop.eu]\nfresh_ttl = \"1s\"",
            "drover.toml:1:18: namespaces.shop.eu: unknown table; a name with a dot needs quotes: \
             [namespaces.\"shop.eu\"]",
        ),
    ]);
}

#[test]
fn a_value_of_the_wrong_form_is_told_with_what_is_allowed() {
    let field = |line: &str| complaints(&format!("[defaults]\n{line}")).replace("drover.toml:2:1: defaults.", "");
    let cases = [
        (
            "lease_ttl = \"3 parsecs\"",
            "lease_ttl: \"3 parsecs\" is not a duration; allowed: 100ms to max_hold, such as \"10s\"",
        ),
        (
            "max_wait = 10",
            "max_wait: 10 is a number without a unit; allowed: 0s to 30d, such as \"10s\"",
        ),
        (
            "max_wait = \"10\"",
            "max_wait: \"10\" is a number without a unit; allowed: 0s to 30d, such as \"10s\"",
        ),
        (
            "max_wait = \"\"",
            "max_wait: \"\" is empty; allowed: 0s to 30d, such as \"10s\"",
        ),
        (
            "max_wait = \"-1s\"",
            "max_wait: \"-1s\" is not a duration; allowed: 0s to 30d, such as \"10s\"",
        ),
        (
            "max_wait = \"99999999999999999999s\"",
            "max_wait: \"99999999999999999999s\" is too large or too fine for a duration; allowed: 0s to 30d, such as \"10s\"",
        ),
        (
            "max_wait = 1979-05-27",
            "max_wait: a date is not a duration; allowed: 0s to 30d, such as \"10s\"",
        ),
        (
            "idle_refreshes = -1",
            "idle_refreshes: -1 is negative; allowed: 0 to 4294967295",
        ),
        (
            "idle_refreshes = 4294967296",
            "idle_refreshes: 4294967296 is too large; allowed: 0 to 4294967295",
        ),
        (
            "idle_refreshes = 1.5",
            "idle_refreshes: 1.5 is not a whole number; allowed: 0 to 4294967295",
        ),
        (
            "max_value_bytes = \"1M\"",
            "max_value_bytes: \"1M\" is not a size; allowed: 1 to 3145728 (3 MiB), such as \"1MiB\"",
        ),
        (
            "max_value_bytes = \"8GiB\"",
            "max_value_bytes: \"8GiB\" is too large; allowed: 1 to 3145728 (3 MiB), such as \"1MiB\"",
        ),
        (
            "beta = \"1\"",
            "beta: \"1\" is not a number; allowed: 0 to 100, such as 1.0",
        ),
        (
            "store_down = \"panic\"",
            "store_down: \"panic\" is not a choice; allowed: \"local\" or \"refuse\"",
        ),
        (
            "jitter.level = 1",
            "jitter.level: 1 is neither true nor false; allowed: true or false",
        ),
        (
            "jitter.mode = \"up\"",
            "jitter.mode: \"up\" is not a mode of jitter; allowed: \"both\" or \"down\"",
        ),
        (
            "jitter = 0.1",
            "jitter: 0.1 is not a table; allowed: { mode, ratio, spread, level }",
        ),
    ];
    for (line, told) in cases {
        let told = if line.starts_with("jitter.") {
            format!("drover.toml:2:8: defaults.{told}")
        } else {
            told.to_owned()
        };
        assert_eq!(field(line), told, "{line}");
    }
}

#[test]
fn a_value_out_of_range_names_the_rule() {
    each_is_told(&[
        (
            "[defaults]\nstale_if_error = \"31d\"",
            "drover.toml:2:1: defaults.stale_if_error: \"31d\" is out of range; allowed: 0s to 30d",
        ),
        (
            "[defaults]\nbeta = nan",
            "drover.toml:2:1: defaults.beta: nan is out of range; allowed: 0 to 100",
        ),
        (
            "[defaults]\njitter = { ratio = 1.0 }",
            "drover.toml:2:12: defaults.jitter.ratio: 1.0 is out of range; allowed: 0 to less than 1, such as 0.1",
        ),
        (
            "[namespaces.shop]\nmax_value_bytes = 3145729",
            "drover.toml:2:1: namespaces.shop.max_value_bytes: \"3145729B\" is out of range; allowed: 1 to 3145728 (3 MiB)",
        ),
        (
            "[defaults]\njitter = { ratio = 0.1, spread = \"1s\" }",
            "drover.toml:2:25: defaults.jitter: ratio and spread are both given; allowed: one of them",
        ),
    ]);
}

#[test]
fn a_contradiction_is_told_at_the_line_that_made_it() {
    each_is_told(&[
        (
            "[defaults]\nmax_hold = \"1m\"\nlease_ttl = \"2m\"",
            "drover.toml:3:1: defaults.lease_ttl: \"2m\" is out of range; allowed: 100ms to max_hold (\"1m\"), \
             which is the longest that a holder may keep a lease",
        ),
        (
            "[defaults]\n\nmax_hold = \"5s\"",
            "drover.toml:3:1: defaults.lease_ttl: \"10s\" (built in) is out of range; allowed: 100ms to max_hold (\"5s\"), \
             which is the longest that a holder may keep a lease",
        ),
        (
            "[defaults]\nfresh_ttl = \"2h\"\n[namespaces.shop]\nmax_lifetime = \"1h\"",
            "drover.toml:4:1: namespaces.shop.fresh_ttl: \"2h\" (inherited) is out of range; allowed: at most max_lifetime (\"1h\")",
        ),
        (
            "[namespaces.shop]\nbackoff.base = \"2m\"",
            "drover.toml:2:9: namespaces.shop.backoff.max: \"1m\" (inherited) is out of range; allowed: backoff.base (\"2m\") to 30d",
        ),
    ]);
}

#[test]
fn what_is_wrong_with_the_defaults_is_not_told_again_for_those_who_inherit_it() {
    each_is_told(&[
        (
            "[defaults]\nlease_ttl = \"5m\"\n[namespaces.a]\n[namespaces.b]\nbeta = 2",
            "drover.toml:2:1: defaults.lease_ttl: \"5m\" is out of range; allowed: 100ms to max_hold (\"2m\"), \
             which is the longest that a holder may keep a lease",
        ),
        (
            "[defaults]\nlease_ttl = \"5m\"\n[namespaces.a]\nmax_hold = \"4m\"",
            "drover.toml:2:1: defaults.lease_ttl: \"5m\" is out of range; allowed: 100ms to max_hold (\"2m\"), \
             which is the longest that a holder may keep a lease",
        ),
        (
            "[defaults]\nmax_hold = \"x\"\n[namespaces.a]\nlease_ttl = \"5m\"",
            "drover.toml:2:1: defaults.max_hold: \"x\" is not a duration; allowed: 100ms to 30d, such as \"2m\"",
        ),
    ]);
}

#[test]
fn a_name_that_is_no_namespace_is_refused() {
    let long = "n".repeat(65);
    for name in ["Shop", "", "-shop", "shop/eu", "sh op", "läden", &long] {
        let told = complaints(&format!("[namespaces.{name:?}]"));
        let start = format!("drover.toml:1:13: namespaces: {name:?} is not a name of a namespace; allowed: ");
        let cut = name.chars().count() > 60;
        assert!(cut || told.starts_with(&start), "{name}: {told}");
        assert!(!told.is_empty() && !told.contains('\n'), "{name}: {told}");
    }
    for name in ["shop", "0", "shop.eu", "a-b_c.d", &long[..64]] {
        assert_eq!(complaints(&format!("[namespaces.{name:?}]")), "");
    }
}

#[test]
fn the_server_table_keeps_the_rules_of_the_flags() {
    let cases = [
        (
            "listen = 7117",
            "listen: 7117 is not an address; allowed: IP:PORT, such as 127.0.0.1:7117 or [::]:7117",
        ),
        (
            "http = \"no\"",
            "http: \"no\" is not an address; allowed: off or IP:PORT, such as 127.0.0.1:7117 or [::]:7117",
        ),
        (
            "store = \"sqlite\"",
            "store: what is given is not a store; allowed: memory, redis://HOST:PORT, redis+unix:///PATH, \
             redis+sentinel://HOST:PORT,…/MASTER or redis+cluster://HOST:PORT,…; with TLS, rediss instead of redis \
             (see drover serve --help)",
        ),
        (
            "max_memory = \"lots\"",
            "max_memory: \"lots\" is not a size; allowed: 16MiB or more, such as 1GiB",
        ),
        (
            "max_memory = 1024",
            "max_memory: 1024 is too small; allowed: 16MiB or more, such as 1GiB",
        ),
        ("max_waiters = 0", "max_waiters: 0 is too small; allowed: 1 to 10000000"),
        (
            "max_watchers = -3",
            "max_watchers: -3 is not a whole number; allowed: 1 to 10000000",
        ),
        (
            "max_entries = [1]",
            "max_entries: a list is not a whole number; allowed: 1000 to 1000000000",
        ),
        (
            "drain_timeout = \"2h\"",
            "drain_timeout: \"2h\" is too large; allowed: 0s to 1h, such as 20s",
        ),
        (
            "max_connection_age = \"0s\"",
            "max_connection_age: \"0s\" is too small; allowed: off or 1s to 30d, such as 30m",
        ),
        (
            "log_format = \"xml\"",
            "log_format: \"xml\" is not a log format; allowed: text, json",
        ),
        (
            "log = \"loud\"",
            "log: \"loud\" is not a log filter; allowed: off, error, warn, info, debug or trace, also for parts, such as \
             info,drover::store=debug",
        ),
        (
            "otlp = \"collector\"",
            "otlp: \"collector\" is not an OTLP address; allowed: off or http(s)://HOST:PORT, such as http://localhost:4317",
        ),
    ];
    for (line, told) in cases {
        let all = complaints(&format!("[server]\n{line}"));
        assert_eq!(all, format!("drover.toml:2:1: server.{told}"), "{line}");
    }
}

#[test]
fn broken_syntax_is_told_with_its_place_and_nothing_is_guessed_from_the_rest() {
    each_is_told(&[
        (
            "[defaults]\nfresh_ttl = 10s\nzzz = 1",
            "drover.toml:2:13: string values must be quoted, expected literal string",
        ),
        (
            "[defaults]\nbeta = 1\nbeta = 2",
            "drover.toml:3:1: beta is given twice; allowed: once",
        ),
        (
            "[defaults]\n[defaults]",
            "drover.toml:2:2: defaults is given twice; allowed: once",
        ),
    ]);
}

#[test]
fn all_mistakes_are_told_together_in_the_order_of_the_lines() {
    let text = "[namespaces.b]\nbeta = \"x\"\n[server]\nport = 1\n[defaults]\nbeta = 101\n[namespaces.a]\nbeta = 102\n";
    let places: Vec<String> = complaints(text)
        .lines()
        .map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        places,
        [
            "drover.toml:2:1 namespaces.b.beta",
            "drover.toml:4:1 server.port",
            "drover.toml:6:1 defaults.beta",
            "drover.toml:8:1 namespaces.a.beta",
        ]
    );
}

#[test]
fn columns_count_characters_not_bytes() {
    assert_eq!(
        complaints("namespaces = { \"ä\" = { }, b = 3 }").lines().last(),
        Some("drover.toml:1:27: namespaces.b: 3 is not a table; allowed: a table [namespaces.NAME]")
    );
}

#[test]
fn an_empty_file_is_a_good_one() {
    assert_eq!(complaints(""), "");
    assert_eq!(complaints("# nothing\n[defaults]\n[server]\n[namespaces]\n"), "");
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        _ = read(&text);
    }

    #[test]
    fn no_broken_file_makes_the_reader_panic(cut in 0usize..400, junk in "[\\[\\]{}=\"'.,#\\n a-z0-9-]{0,6}", at in 0usize..400) {
        let good = "strict_namespaces = true\n[server]\nlisten = \"[::]:1\"\nmax_waiters = 0x10\n[defaults]\nfresh_ttl = \"10m\"\n\
            jitter = { mode = \"down\", spread = \"2s\" }\nbackoff.max = \"3m\"\n[namespaces.shop]\nlease_ttl = \"20s\"\n\
            max_value_bytes = \"2MiB\"\n[namespaces.\"shop.eu\"]\nbeta = 1e1\nmax_hold = '''1h'''\n";
        let mut text = good.to_owned();
        text.insert_str(at.min(good.len()), &junk);
        text.truncate(text.len() - cut.min(text.len()) / 4);
        if let Err(error) = read(&text) {
            prop_assert!(error.to_string().lines().all(|line| line.starts_with("drover.toml:")), "{error}");
        }
    }
}
