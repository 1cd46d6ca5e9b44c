//! *Owns* the mechanism of `--json`: how a message, a length of time, an enum value and bytes become JSON. Which fields
//! a message has is said in [`super::messages`].
//!
//! *Invariants*: fields stand in the order of the proto, under its names. Scalars and lists are always there, so that a
//! script may read them without a test; messages that are absent are left out. A document is one line, and no character
//! in it can steer a terminal.
//!
//! *Why* not `serde_json::json!`: it sorts the fields by name. Why not derived twins of the messages: every field would
//! be said twice.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_types::Duration;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::{text, units};

/// The fields of a message, in order.
pub trait Fields {
    fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// A message as a JSON object.
pub struct Json<'a, T>(pub &'a T);

impl<T: Fields> Serialize for Json<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.fields(&mut map)?;
        map.end()
    }
}

/// Messages as a JSON array.
pub struct List<'a, T>(pub &'a [T]);

impl<T: Fields> Serialize for List<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Json))
    }
}

/// A field that holds a message; left out when absent.
pub fn message<M: SerializeMap, T: Fields>(map: &mut M, name: &str, value: &Option<T>) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, &Json(value)),
        None => Ok(()),
    }
}

/// A field that holds a length of time, as "1.5s"; left out when absent.
pub fn time<M: SerializeMap>(map: &mut M, name: &str, value: &Option<Duration>) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(name, &units::exact(value)),
        None => Ok(()),
    }
}

/// A field that holds bytes: as text if they are UTF-8, else in base64; `NAME_encoding` beside it says which.
pub fn bytes<M: SerializeMap>(map: &mut M, name: &str, value: &[u8]) -> Result<(), M::Error> {
    let (value, encoding) = match std::str::from_utf8(value) {
        Ok(text) => (text.to_owned(), "utf8"),
        Err(_) => (STANDARD.encode(value), "base64"),
    };
    map.serialize_entry(name, &value)?;
    map.serialize_entry(&format!("{name}_encoding"), encoding)
}

/// A field that holds an enum value: its name, or its number when this client does not know it.
pub fn value_of<M: SerializeMap, E>(
    map: &mut M,
    name: &str,
    number: i32,
    name_of: impl Fn(&E) -> &'static str,
) -> Result<(), M::Error>
where
    E: TryFrom<i32>,
{
    match E::try_from(number) {
        Ok(value) => map.serialize_entry(name, name_of(&value)),
        Err(_) => map.serialize_entry(name, &number),
    }
}

/// The document, without its end of line.
pub fn document(value: &impl Serialize) -> String {
    // Serialising to a string fails only on maps whose keys are not strings; there are none.
    let json = serde_json::to_string(value).unwrap_or_default();
    // Such characters stand only inside strings, where JSON allows the escaped form. `serde_json` itself escapes only
    // C0.
    json.chars()
        .fold(String::with_capacity(json.len()), |mut document, character| {
            if text::steers(character) {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let _ = write!(document, "\\u{unit:04x}");
                }
            } else {
                document.push(character);
            }
            document
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Value(&'static [u8]);

    impl Fields for Value {
        fn fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
            bytes(map, "value", self.0)
        }
    }

    #[test]
    fn bytes_are_text_when_they_can_be_and_base64_when_not() {
        assert_eq!(
            document(&Json(&Value("größer".as_bytes()))),
            r#"{"value":"größer","value_encoding":"utf8"}"#
        );
        assert_eq!(
            document(&Json(&Value(b"\xff\x00"))),
            r#"{"value":"/wA=","value_encoding":"base64"}"#
        );
        assert_eq!(document(&Json(&Value(b""))), r#"{"value":"","value_encoding":"utf8"}"#);
    }

    #[test]
    fn a_document_cannot_steer_a_terminal_and_still_says_the_same() {
        let foreign = "\x1b[2J\u{9b}31m\x7f\u{202e}\n";
        let document = document(&foreign);
        assert_eq!(document, r#""\u001b[2J\u009b31m\u007f\u202e\n""#);
        assert_eq!(serde_json::from_str::<String>(&document).ok().as_deref(), Some(foreign));
    }
}
