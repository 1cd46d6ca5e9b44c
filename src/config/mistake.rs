//! What is wrong with a configuration, so that who wrote it can mend it.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where it is.
    pub at: At,
    /// Where in the file's structure, such as `namespaces.shop.lease_ttl`; empty for a mistake of syntax.
    pub field: String,
    /// What is wrong, and what is allowed.
    pub text: String,
}

/// Where something was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// In the file.
    Line {
        /// From 1.
        line: usize,
        /// In characters, from 1.
        column: usize,
    },
    /// In an option, such as `--default lease_ttl=1h`.
    Option(String),
}

impl Mistake {
    /// The mistake with its place, one line: `drover.toml:12:1: namespaces.shop.lease_ttl: …`.
    pub fn located(&self, path: &Path) -> String {
        format!("{}: {self}", self.place(path))
    }

    /// The place alone, such as `drover.toml:12:1`.
    pub fn place(&self, path: &Path) -> String {
        match &self.at {
            At::Line { line, column } => format!("{}:{line}:{column}", path.display()),
            At::Option(option) => option.clone(),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.text)
    }
}

/// Why there is no configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// What is said is not allowed. Shown as one line a mistake, like a compiler's.
    #[error("{}", located(path, mistakes))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All that is wrong, in the order of the lines.
        mistakes: Vec<Mistake>,
    },
}

fn located(path: &Path, mistakes: &[Mistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(|mistake| mistake.located(path)).collect();
    lines.join("\n")
}
