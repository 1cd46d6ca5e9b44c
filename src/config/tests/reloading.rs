//! Policies follow their file; a bad version of it changes nothing.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::config::reload::{Because, Reloader, Step, watch};
use crate::config::{ConfigError, Policies, ServeArgs, Settings};

const START: &str = "[server]\nmax_waiters = 5\n[defaults]\nbeta = 2\n[namespaces.shop]\n";

struct Replica {
    /// Removed with the replica.
    _folder: tempfile::TempDir,
    path: PathBuf,
    settings: Settings,
    policies: Policies,
}

fn start(flags: ServeArgs) -> Replica {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("drover.toml");
    std::fs::write(&path, START).expect("written");
    let settings = Settings::resolve(ServeArgs {
        config: Some(path.clone()),
        ..flags
    })
    .expect("a good file");
    Replica {
        _folder: folder,
        path,
        policies: Policies::new(settings.policies.clone()),
        settings,
    }
}

impl Replica {
    fn reloader(&self) -> Reloader {
        Reloader::new(&self.settings, self.policies.clone()).expect("there is a file")
    }

    fn beta(&self, namespace: &str) -> Option<f64> {
        self.policies.of(namespace).map(|policy| policy.beta)
    }
}

fn text(text: &str) -> Result<String, ConfigError> {
    Ok(text.to_owned())
}

fn replaced(changes: &[&str], restart_for: &[&'static str]) -> Step {
    Step::Replaced {
        changes: changes.iter().map(|change| (*change).to_owned()).collect(),
        restart_for: restart_for.to_vec(),
    }
}

#[test]
fn a_good_version_is_in_force_once_it_was_seen_twice() {
    let replica = start(ServeArgs::default());
    let mut reloader = replica.reloader();
    assert_eq!(reloader.step(text(START), Because::Timer), Step::Same);
    let next = START.replace("beta = 2", "beta = 3\nmax_wait = \"1m\"") + "[namespaces.new]\nbeta = 4\n";
    assert_eq!(reloader.step(text(&next), Because::Timer), Step::Settling);
    assert_eq!(replica.beta("shop"), Some(2.0));
    let changes = [
        "defaults.beta 2.0 → 3.0",
        "defaults.max_wait \"10s\" → \"1m\"",
        "new added",
        "shop.beta 2.0 → 3.0",
        "shop.max_wait \"10s\" → \"1m\"",
    ];
    assert_eq!(reloader.step(text(&next), Because::Timer), replaced(&changes, &[]));
    assert_eq!((replica.beta("shop"), replica.beta("new")), (Some(3.0), Some(4.0)));
    assert_eq!(reloader.step(text(&next), Because::Timer), Step::Same);
}

#[test]
fn a_file_that_is_half_written_when_it_is_looked_at_is_not_taken_for_a_whole_one() {
    let replica = start(ServeArgs::default());
    let mut reloader = replica.reloader();
    assert_eq!(reloader.step(text("[defaults]\n"), Because::Timer), Step::Settling);
    let whole = "[defaults]\nbeta = 3\n";
    assert_eq!(reloader.step(text(whole), Because::Timer), Step::Settling);
    assert_eq!(replica.beta("shop"), Some(2.0));
    let changes = ["defaults.beta 2.0 → 3.0", "shop removed"];
    assert_eq!(
        reloader.step(text(whole), Because::Timer),
        replaced(&changes, &["max_waiters"])
    );
}

#[test]
fn a_signal_needs_no_second_look() {
    let replica = start(ServeArgs::default());
    let next = START.replace("beta = 2", "beta = 3");
    let step = replica.reloader().step(text(&next), Because::Signal);
    assert_eq!(step, replaced(&["defaults.beta 2.0 → 3.0", "shop.beta 2.0 → 3.0"], &[]));
    assert_eq!(replica.beta("shop"), Some(3.0));
}

#[test]
fn a_bad_version_leaves_the_old_policies_in_force_and_is_told_once_and_to_whoever_asks() {
    let replica = start(ServeArgs::default());
    let mut reloader = replica.reloader();
    let bad = START.replace("beta = 2", "beta = 300\nmax_wait = \"1m\"");
    reloader.step(text(&bad), Because::Timer);
    let Step::Refused(error) = reloader.step(text(&bad), Because::Timer) else {
        panic!("a bad file was taken");
    };
    let place = format!(
        "{}:4:1: defaults.beta: 300.0 is out of range; allowed: 0 to 100",
        replica.path.display()
    );
    assert_eq!(error.to_string(), place);
    assert_eq!(*replica.policies.load().defaults, *replica.settings.policies.defaults);
    assert_eq!(reloader.step(text(&bad), Because::Timer), Step::Same);
    assert_eq!(reloader.step(text(&bad), Because::Signal), Step::Refused(error));
    reloader.step(text(START), Because::Timer);
    assert_eq!(reloader.step(text(START), Because::Timer), replaced(&[], &[]));
}

#[test]
fn a_file_that_is_gone_leaves_the_old_policies_in_force_and_is_told_once() {
    let replica = start(ServeArgs::default());
    let mut reloader = replica.reloader();
    let gone = || {
        Err(ConfigError::Unreadable {
            path: replica.path.clone(),
            reason: "gone".to_owned(),
        })
    };
    assert_eq!(reloader.step(gone(), Because::Timer), Step::Settling);
    assert!(matches!(reloader.step(gone(), Because::Timer), Step::Refused(_)));
    assert_eq!(reloader.step(gone(), Because::Timer), Step::Same);
    assert_eq!(replica.beta("shop"), Some(2.0));
}

#[test]
fn a_flag_wins_over_every_later_version_of_the_file() {
    let mut flags = ServeArgs::default();
    flags.policies.defaults = vec!["beta=7".parse().expect("a field")];
    flags.policies.strict_namespaces = Some(true);
    let replica = start(flags);
    let step = replica
        .reloader()
        .step(text("[defaults]\nbeta = 9\n[namespaces.shop]\n"), Because::Signal);
    assert_eq!(step, replaced(&[], &["max_waiters"]));
    assert_eq!((replica.beta("shop"), replica.beta("other")), (Some(7.0), None));
}

#[test]
fn a_server_table_that_changed_asks_for_a_restart_and_changes_nothing() {
    let replica = start(ServeArgs::default());
    let next = START.replace("max_waiters = 5", "max_waiters = 6\nlisten = \"[::1]:1\"");
    let step = replica.reloader().step(text(&next), Because::Signal);
    assert_eq!(step, replaced(&[], &["listen", "max_waiters"]));
}

/// As Kubernetes does it: the folder's link is swapped, the file itself is never written to.
#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn a_file_behind_a_link_that_is_swapped_is_in_force_after_two_looks() {
    use std::os::unix::fs::symlink;

    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    for (version, text) in [("v1", START), ("v2", &START.replace("beta = 2", "beta = 3"))] {
        std::fs::create_dir(at(version)).expect("made");
        std::fs::write(at(version).join("drover.toml"), text).expect("written");
    }
    symlink(at("v1"), at("data")).expect("linked");
    let settings = Settings::resolve(ServeArgs {
        config: Some(at("data").join("drover.toml")),
        ..ServeArgs::default()
    })
    .expect("a good file");
    let policies = Policies::new(settings.policies.clone());
    let shutdown = CancellationToken::new();
    let watching = tokio::spawn(watch(&settings, policies.clone(), shutdown.clone()));

    symlink(at("v2"), at("next")).expect("linked");
    std::fs::rename(at("next"), at("data")).expect("swapped");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(policies.of("shop").map(|policy| policy.beta), Some(3.0));
    shutdown.cancel();
    watching.await.expect("ends with the shutdown");
}

#[tokio::test(start_paused = true)]
async fn without_a_file_the_task_waits_for_the_shutdown() {
    let shutdown = CancellationToken::new();
    let watching = tokio::spawn(watch(&Settings::ephemeral(), Policies::default(), shutdown.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!watching.is_finished());
    shutdown.cancel();
    watching.await.expect("ends with the shutdown");
}
