//! A value as somebody wrote it, whether in the file or behind `--default`.

use std::borrow::Cow;
use std::fmt;

use toml::de::DeValue;

/// What was written, before anybody asks whether it fits.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given<'a> {
    /// A string.
    Text(&'a str),
    /// An integer. Larger ones than TOML's 64 bits are cut to the ends of the range: they are refused as too large all
    /// the same.
    Whole(i64),
    /// A float.
    Real(f64),
    /// A boolean.
    Bool(bool),
    /// What no field takes; its TOML type with an article.
    Other(&'static str),
}

impl<'a> Given<'a> {
    /// What stands in a TOML document.
    pub fn of(value: &'a DeValue<'_>) -> Given<'a> {
        match value {
            DeValue::String(text) => Given::Text(text),
            DeValue::Integer(number) => {
                let cut = if number.as_str().starts_with('-') {
                    i64::MIN
                } else {
                    i64::MAX
                };
                Given::Whole(i64::from_str_radix(number.as_str(), number.radix()).unwrap_or(cut))
            }
            DeValue::Float(number) => Given::Real(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(switch) => Given::Bool(*switch),
            DeValue::Datetime(_) => Given::Other("a date"),
            DeValue::Array(_) => Given::Other("a list"),
            DeValue::Table(_) => Given::Other("a table"),
        }
    }

    /// The value without quotes, for rules that take text from flags, too.
    pub fn plain(&self) -> Cow<'a, str> {
        match self {
            Given::Text(text) => Cow::Borrowed(text),
            other => Cow::Owned(other.to_string()),
        }
    }
}

/// The longest part of a value that is repeated in a message, in characters.
const SHOWN: usize = 60;

impl fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Given::Text(text) if text.chars().count() > SHOWN => {
                let start: String = text.chars().take(SHOWN).collect();
                write!(f, "{:?}", format!("{start}…"))
            }
            Given::Text(text) => write!(f, "{text:?}"),
            Given::Whole(number) => write!(f, "{number}"),
            Given::Real(number) => f.write_str(&format!("{number:?}").to_ascii_lowercase()),
            Given::Bool(switch) => write!(f, "{switch}"),
            Given::Other(kind) => f.write_str(kind),
        }
    }
}
