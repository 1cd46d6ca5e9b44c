mod checking;
mod mistakes;
mod precedence;
mod reloading;
mod round_trip;
mod stores;

use std::path::Path;

use super::file::{self, File};
use super::{ConfigError, Overrides};

/// A file as it is read without flags and environment.
fn read(text: &str) -> Result<File, ConfigError> {
    file::parse(Path::new("drover.toml"), text, &Overrides::default())
}

/// All that is wrong with it, a line each; empty if nothing is.
fn complaints(text: &str) -> String {
    read(text).err().map(|error| error.to_string()).unwrap_or_default()
}
