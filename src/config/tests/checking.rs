//! What `drover config check` prints.

use std::path::Path;

use super::read;
use crate::config::check::{complain, print};

fn printed(text: &str, full: bool) -> String {
    let mut out = anstream::StripStream::new(Vec::new());
    let path = Path::new("drover.toml");
    match read(text) {
        Ok(file) => print(&file, path, full, &mut out).expect("memory takes it"),
        Err(error) => complain(&error, &mut out).expect("memory takes it"),
    }
    String::from_utf8(out.into_inner()).expect("text")
}

#[test]
fn a_good_file_is_shown_as_what_it_means() {
    let text = "[server]\nmax_waiters = 5\n[namespaces.\"shop.eu\"]\n[namespaces.shop]\nbackoff.max = \"300s\"\n";
    let shown = printed(text, false);
    assert!(
        shown.starts_with("strict_namespaces       = false\n\n[server]\nmax_waiters             = 5\n\n[defaults]\n")
    );
    let end = r#"
[namespaces.shop] # the rest as in [defaults]
backoff                 = { max = "5m" }

[namespaces."shop.eu"] # all as in [defaults]

drover.toml: OK: 2 namespaces are listed, any other has the defaults
"#;
    assert!(shown.ends_with(end), "{shown}");
}

#[test]
fn what_is_shown_in_full_is_a_file_that_means_the_same() {
    let text = "strict_namespaces = true\n[server]\nhttp = \"off\"\nmax_waiters = 5\n[defaults]\njitter.spread = \"2s\"\n\
        [namespaces.\"shop.eu\"]\nbeta = 2\n";
    let shown = printed(text, true);
    let (shown, ok) = shown.trim_end().rsplit_once('\n').expect("lines");
    assert_eq!(ok, "drover.toml: OK: 1 namespace is listed, any other is refused");
    assert_eq!(read(shown), read(text));
}

#[test]
fn a_bad_file_is_told_like_a_compiler_would() {
    let text = "[namespaces.shop]\nlease_ttl = \"3 parsecs\"\nbeta = -1\n";
    let told = "drover.toml:2:1: namespaces.shop.lease_ttl: \"3 parsecs\" is not a duration; allowed: 100ms to max_hold, such as \"10s\"\n\
        drover.toml:3:1: namespaces.shop.beta: -1.0 is out of range; allowed: 0 to 100\n\
        error: drover.toml: 2 mistakes\n";
    assert_eq!(printed(text, false), told);
}

#[test]
fn a_file_that_would_refuse_every_call_says_so() {
    assert!(printed("strict_namespaces = true", false).ends_with("so every call will be refused\n"));
}
