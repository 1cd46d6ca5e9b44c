//! Policies follow their file without a restart.
//!
//! *Owns* when the file is looked at and what becomes of what it says: good → in force at once and as a whole; not good
//! → the old policies stay, and the log says why, once for each version of the file.
//!
//! *Never does*: takes over `[server]`. It is read at the start; the log says when a restart is needed.
//!
//! *Why look again and again* instead of file-system events: Kubernetes swaps a symbolic link two directories up when a
//! ConfigMap changes, editors put a new file in the old one's place, and network file systems tell nothing; watches on
//! the file miss all of these. Reading a small file each second is cheap and sees every one. What was read counts once
//! it is read the same twice, so a file that is half written is not taken for a whole one. SIGHUP needs no second look.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::server::Server;
use super::settings::{Source, read_file};
use super::text::changes;
use super::{ConfigError, Overrides, Policies, Settings, file};

/// Time between two looks; a change is in force after two of them.
const LOOK: Duration = Duration::from_secs(1);
/// The changes that one line of the log names.
const NAMED: usize = 20;

/// Why the file was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It was time to.
    Timer,
    /// Somebody asked for it by SIGHUP.
    Signal,
}

/// What a look brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing new; also for a version of the file that was refused before.
    Same,
    /// Something new, which counts if the next look finds it again.
    Settling,
    /// New policies are in force.
    Replaced {
        /// What is different, a phrase each; empty if only comments or `[server]` are.
        changes: Vec<String>,
        /// The options of `[server]` that differ from those the process started with.
        restart_for: Vec<&'static str>,
    },
    /// The old policies stay.
    Refused(ConfigError),
}

/// The file, as far as it has been followed.
pub struct Reloader {
    path: PathBuf,
    policies: Policies,
    overrides: Overrides,
    /// `[server]` as the process started with it.
    server: Server,
    /// What was read last and has been dealt with.
    done: Result<String, ConfigError>,
    /// What was read last and has not.
    settling: Option<Result<String, ConfigError>>,
}

/// Without the text: it may hold a password.
impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Reloader {
    /// Follows the file that the settings came from; `None` if there is none.
    pub fn new(settings: &Settings, policies: Policies) -> Option<Reloader> {
        let Source {
            path,
            text,
            overrides,
            server,
        } = settings.source.clone()?;
        Some(Reloader {
            path,
            policies,
            overrides,
            server,
            done: Ok(text),
            settling: None,
        })
    }

    /// The file that is followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One step: deals with what the file was just found to be.
    pub fn step(&mut self, read: Result<String, ConfigError>, because: Because) -> Step {
        if read == self.done {
            self.settling = None;
            return match because {
                Because::Timer => Step::Same,
                // Whoever asks is told again what is wrong with it.
                Because::Signal => match read.and_then(|text| file::parse(&self.path, &text, &self.overrides)) {
                    Ok(_) => Step::Same,
                    Err(error) => Step::Refused(error),
                },
            };
        }
        if because == Because::Timer && self.settling.as_ref() != Some(&read) {
            self.settling = Some(read);
            return Step::Settling;
        }
        self.settling = None;
        self.done = read.clone();
        let parsed = read.and_then(|text| file::parse(&self.path, &text, &self.overrides));
        match parsed {
            Ok(file) => {
                let changes = changes(&self.policies.load(), &file.policies);
                if !changes.is_empty() {
                    self.policies.replace(file.policies);
                }
                Step::Replaced {
                    changes,
                    restart_for: self.server.differences(&file.server),
                }
            }
            Err(error) => Step::Refused(error),
        }
    }
}

/// Follows the settings' file until the shutdown: looks at it each second and at SIGHUP.
///
/// Spawn it also without a file: it then only keeps a SIGHUP from ending the process, as it would by default.
pub fn watch(
    settings: &Settings,
    policies: Policies,
    shutdown: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let mut reloader = Reloader::new(settings, policies);
    async move {
        let mut signals = Signals::new();
        let mut timer = tokio::time::interval(LOOK);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let because = tokio::select! {
                () = shutdown.cancelled() => return,
                () = signals.next() => Because::Signal,
                _ = timer.tick(), if reloader.is_some() => Because::Timer,
            };
            let Some(reloader) = &mut reloader else {
                tracing::info!("SIGHUP: there is no file to reload, drover runs without --config");
                continue;
            };
            let path = reloader.path.clone();
            // A file system that hangs holds up a thread that is there for it, and no caller.
            let read = tokio::task::spawn_blocking(move || read_file(&path));
            let read = tokio::select! {
                () = shutdown.cancelled() => return,
                read = read => read,
            };
            if let Ok(read) = read {
                log(&reloader.step(read, because), &reloader.path, because);
            }
        }
    }
}

fn log(step: &Step, path: &Path, because: Because) {
    let file = path.display();
    match step {
        Step::Settling => {}
        Step::Same if because == Because::Timer => {}
        Step::Same => tracing::info!(%file, "SIGHUP: the file has not changed"),
        Step::Replaced { changes, restart_for } => {
            if changes.is_empty() {
                tracing::info!(%file, "file reloaded, the policies are the same");
            } else {
                tracing::info!(%file, "policies reloaded: {}", shorten(changes));
            }
            if !restart_for.is_empty() {
                let options = restart_for.join(", ");
                tracing::warn!(%file, "[server] is read only at the start; restart drover for: {options}");
            }
        }
        Step::Refused(ConfigError::Invalid { path, mistakes }) => {
            for mistake in mistakes {
                tracing::error!("{}", mistake.located(path));
            }
            tracing::error!(%file, mistakes = mistakes.len(), "not reloaded, the old policies stay in force");
        }
        Step::Refused(error) => tracing::error!("{error}; the old policies stay in force"),
    }
}

fn shorten(changes: &[String]) -> String {
    let mut text = changes.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    if changes.len() > NAMED {
        text.push_str(&format!("; and {} more", changes.len() - NAMED));
    }
    text
}

/// SIGHUP, where there is such a thing.
struct Signals {
    #[cfg(unix)]
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    fn new() -> Signals {
        Signals {
            #[cfg(unix)]
            hangup: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup())
                .inspect_err(|error| tracing::warn!("SIGHUP will not reload the file: {error}"))
                .ok(),
        }
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(hangup) = &mut self.hangup
            && hangup.recv().await.is_some()
        {
            return;
        }
        std::future::pending().await
    }
}
