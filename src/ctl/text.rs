//! *Owns* what a person sees: the page of a headline and aligned facts, the colours, and the escaping of foreign text.
//!
//! *Never does*: decide whether colours are wanted. Pages always carry them; the stream strips them where nobody looks.
//!
//! *Invariants*: no text that a server or another caller chose reaches a page except through [`safe`], [`name`] or
//! [`bytes()`], so nothing can steer the terminal.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};

use super::units;

pub const GOOD: Style = AnsiColor::Green.on_default().bold();
pub const CARE: Style = AnsiColor::Yellow.on_default().bold();
pub const BAD: Style = AnsiColor::Red.on_default().bold();
pub const DIM: Style = Style::new().dimmed();
pub const BOLD: Style = Style::new().bold();

/// How much of a value a page shows; `--json` shows all.
const SHOWN_CHARACTERS: usize = 2_000;
const SHOWN_BYTES: usize = 32;
const SHOWN_NAMES: usize = 10;

pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Control characters (C0, DEL, C1), line separators and marks that reorder what stands around them.
pub fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{feff}' | '\u{200e}'..='\u{200f}')
        || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Foreign text on one line, with whatever could steer a terminal spelled out. Not reversible: a backslash stays one.
pub fn safe(text: &str) -> String {
    text.chars()
        .fold(String::with_capacity(text.len()), |mut safe, character| {
            match character {
                '\n' => safe.push_str("\\n"),
                '\r' => safe.push_str("\\r"),
                '\t' => safe.push_str("\\t"),
                character if steers(character) => safe.extend(character.escape_unicode()),
                character => safe.push(character),
            }
            safe
        })
}

/// Foreign text that would be invisible when empty.
pub fn name(text: &str) -> String {
    if text.is_empty() { "(empty)".into() } else { safe(text) }
}

/// A key with its namespace.
pub fn subject(namespace: &str, key: &str) -> String {
    format!("{}/{}", safe(namespace), safe(key))
}

/// Names in a row, with the tail of a long row only counted.
pub fn names(all: &[String]) -> String {
    let mut text = all
        .iter()
        .take(SHOWN_NAMES)
        .map(|one| name(one))
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(more) = all.len().checked_sub(SHOWN_NAMES).filter(|more| *more > 0) {
        let _ = write!(text, " and {} more", units::count(more as i64));
    }
    text
}

/// A value: as text if it is text, else its first bytes in hexadecimal.
pub fn bytes(value: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(value) else {
        let head = value
            .iter()
            .take(SHOWN_BYTES)
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(" ");
        let more = if value.len() > SHOWN_BYTES { " …" } else { "" };
        return format!("{head}{more} (binary, {})", units::size(value.len()));
    };
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!(
            "{}… ({} in all, --json prints it)",
            safe(&text[..end]),
            units::size(value.len())
        ),
        None => name(text),
    }
}

/// A word for a POSIX shell; `None` if it cannot be shown safely.
pub fn shell_word(word: &str) -> Option<String> {
    if word.chars().any(steers) {
        return None;
    }
    let plain = |character: char| character.is_alphanumeric() || "._-/:@%+,=".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return Some(word.into());
    }
    Some(format!("'{}'", word.replace('\'', r"'\''")))
}

/// One answer: a coloured word, a sentence, facts below each other, and what to do next.
pub struct Page {
    headline: String,
    facts: Vec<(&'static str, String)>,
    hint: Option<String>,
}

impl Page {
    pub fn new(style: Style, word: &str, sentence: &str) -> Self {
        Self {
            headline: format!("{}  {sentence}", paint(style, word)),
            facts: Vec::new(),
            hint: None,
        }
    }

    pub fn fact(&mut self, label: &'static str, text: impl Into<String>) {
        self.facts.push((label, text.into()));
    }

    pub fn fact_if(&mut self, label: &'static str, text: Option<impl Into<String>>) {
        if let Some(text) = text {
            self.fact(label, text);
        }
    }

    pub fn hint(&mut self, text: impl Into<String>) {
        self.hint = Some(text.into());
    }

    pub fn render(self) -> String {
        let mut text = format!("{}\n", self.headline);
        let width = self.facts.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        for (label, fact) in &self.facts {
            let _ = writeln!(text, "  {}  {fact}", paint(DIM, &format!("{label:<width$}")));
        }
        if let Some(hint) = self.hint {
            let _ = writeln!(text, "\n  {}", paint(DIM, &hint));
        }
        text
    }
}

/// What a person sees where colours are not wanted.
#[cfg(test)]
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_cannot_steer_the_terminal() {
        let table = [
            ("plain, größer, 日本, é", "plain, größer, 日本, é"),
            ("\x1b[2J\x1b]0;title\x07", "\\u{1b}[2J\\u{1b}]0;title\\u{7}"),
            ("a\nb\r\tc\x7f", "a\\nb\\r\\tc\\u{7f}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("abc\u{202e}def\u{2028}", "abc\\u{202e}def\\u{2028}"),
            (r"C:\new", r"C:\new"),
        ];
        for (foreign, shown) in table {
            assert_eq!(safe(foreign), shown);
            assert!(!safe(foreign).chars().any(steers));
        }
    }

    #[test]
    fn a_value_is_shown_as_text_or_as_its_first_bytes_and_long_ones_are_cut() {
        assert_eq!(bytes(b"{\"id\": 42}"), "{\"id\": 42}");
        assert_eq!(bytes(b""), "(empty)");
        assert_eq!(bytes(b"\xff\x00\x1b"), "ff 00 1b (binary, 3 bytes)");
        assert_eq!(
            bytes(&[0xfe; 40]),
            format!("{} … (binary, 40 bytes)", ["fe"; 32].join(" "))
        );
        assert_eq!(
            bytes("é".repeat(2_001).as_bytes()),
            format!("{}… (3.9 KiB in all, --json prints it)", "é".repeat(2_000))
        );
        assert_eq!(bytes("é".repeat(2_000).as_bytes()), "é".repeat(2_000));
    }

    #[test]
    fn a_long_row_of_names_is_counted_at_its_end() {
        let all: Vec<String> = (1..=12).map(|number| format!("k{number}")).collect();
        assert_eq!(names(&all), "k1, k2, k3, k4, k5, k6, k7, k8, k9, k10 and 2 more");
        assert_eq!(names(&all[..2]), "k1, k2");
        assert_eq!(names(&[]), "");
    }

    #[test]
    fn a_word_is_quoted_for_the_shell_only_where_it_must_be() {
        assert_eq!(shell_word("user:42").as_deref(), Some("user:42"));
        assert_eq!(shell_word("two words").as_deref(), Some("'two words'"));
        assert_eq!(shell_word("it's $HOME").as_deref(), Some(r"'it'\''s $HOME'"));
        assert_eq!(shell_word("").as_deref(), Some("''"));
        assert_eq!(shell_word("\x1b[2J"), None);
    }

    #[test]
    fn a_page_aligns_its_facts_and_colours_only_the_word_and_the_labels() {
        let mut page = Page::new(GOOD, "hit", "orders/a is fresh");
        page.fact("age", "1s");
        page.fact_if("version", Some("7"));
        page.fact_if("tags", None::<String>);
        page.hint("next");
        let text = page.render();
        assert_eq!(
            plain(&text),
            "hit  orders/a is fresh\n  age      1s\n  version  7\n\n  next\n"
        );
        assert!(
            text.starts_with("\x1b[1m\x1b[32mhit\x1b[0m  orders/a is fresh\n"),
            "{text:?}"
        );
    }
}
