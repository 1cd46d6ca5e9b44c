//! What is wrong with a configuration, so that who wrote it can mend it.

use std::fmt;
use std::path::PathBuf;

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Where in the file's structure, such as `namespaces.shop.lease_ttl`; empty for a mistake of syntax.
    pub field: String,
    /// What is wrong, and what is allowed.
    pub text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.text)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{}: {}", .path.display(), .reason)]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The file can be read and says something that is not allowed. Shown as one line a mistake, like a compiler's.
    #[error("{}", lines(.path, .mistakes))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All that is wrong, in the order of the lines.
        mistakes: Vec<Mistake>,
    },
}

fn lines(path: &std::path::Path, mistakes: &[Mistake]) -> String {
    let lines: Vec<String> = mistakes
        .iter()
        .map(|mistake| format!("{}:{mistake}", path.display()))
        .collect();
    lines.join("\n")
}
