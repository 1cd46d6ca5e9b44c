//! What flags and the environment say about policies. It outlives reloads: a flag wins over the file, also over its
//! next version.

use std::fmt;
use std::str::FromStr;

use clap::Args;

use super::fields::{FIELDS, Field, find};
use super::layer::loosely;
use super::sheet::nearest;
use super::units::Refusal;
use crate::decision::Policy;

/// Options of `drover serve` about policies.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    /// Refuse namespaces that the file does not list [default: false]
    #[arg(
        long,
        env = "DROVER_STRICT_NAMESPACES",
        hide_env_values = true,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = yes_or_no,
        help_heading = "Policies"
    )]
    pub strict_namespaces: Option<bool>,

    /// A field of `[defaults]`, such as fresh_ttl=30s or backoff.max=5m; may be repeated
    ///
    /// It wins over `[defaults]` of the file; what a namespace says for itself stays. In the environment the fields are
    /// parted by commas; flags take the place of all of them.
    #[arg(
        long = "default",
        env = "DROVER_DEFAULTS",
        hide_env_values = true,
        value_name = "FIELD=VALUE",
        value_delimiter = ',',
        help_heading = "Policies"
    )]
    pub defaults: Vec<Override>,
}

/// One field of the defaults.
#[derive(Clone)]
pub struct Override {
    field: &'static Field,
    value: String,
}

impl Override {
    /// Its name, such as `backoff.max`.
    pub fn field(&self) -> &'static str {
        self.field.name
    }

    pub(super) fn apply(&self, policy: &mut Policy) -> Result<(), Refusal> {
        loosely(&self.value, |given| self.field.read(policy, given))
    }
}

impl FromStr for Override {
    type Err = String;

    fn from_str(text: &str) -> Result<Override, String> {
        let (name, value) = text
            .split_once('=')
            .ok_or("not of the form FIELD=VALUE, such as fresh_ttl=30s")?;
        let (name, value) = (name.trim(), value.trim());
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        let field = find(name).ok_or_else(|| match nearest(name, &names) {
            Some(near) => format!("unknown field {name:?}; did you mean {near}?"),
            None => format!("unknown field {name:?}; allowed: {}", names.join(", ")),
        })?;
        let this = Override {
            field,
            value: value.to_owned(),
        };
        match this.apply(&mut Policy::default()) {
            Ok(()) => Ok(this),
            Err(refusal) => Err(format!("{value:?} is {refusal}")),
        }
    }
}

/// As it is given: `--default fresh_ttl=30s`.
impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--default {}={}", self.field.name, self.value)
    }
}

impl fmt::Debug for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq for Override {
    fn eq(&self, other: &Override) -> bool {
        self.field.name == other.field.name && self.value == other.value
    }
}

fn yes_or_no(text: &str) -> Result<bool, Refusal> {
    text.parse()
        .map_err(|_| Refusal::new("neither true nor false", "true or false"))
}
