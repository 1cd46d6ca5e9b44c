//! The text of a file while it is read: turns places in it into lines and columns, and collects the mistakes.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::mistake::{At, Mistake};

/// A key and its value in a TOML table.
pub(super) type Pair<'d, 't> = (&'d Spanned<DeString<'t>>, &'d Spanned<DeValue<'t>>);

/// The text, and what is wrong with it so far.
pub(super) struct Sheet<'t> {
    text: &'t str,
    mistakes: Vec<Mistake>,
}

impl<'t> Sheet<'t> {
    pub fn new(text: &'t str) -> Sheet<'t> {
        Sheet {
            text,
            mistakes: Vec::new(),
        }
    }

    /// The document; `None` if it is no TOML. Then only that is told: what a broken text would have meant is a guess.
    pub fn parse(&mut self) -> Option<DeTable<'t>> {
        let (document, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            let text = match (error.message(), self.text.get(span.clone())) {
                ("duplicate key", Some(key)) => format!("{key} is given twice; allowed: once"),
                (message, _) => message.to_owned(),
            };
            self.add(self.at(&span), String::new(), text);
        }
        // One slip makes the parser stumble several times on the same line.
        self.mistakes.sort_by_key(|mistake| order(&mistake.at));
        self.mistakes.dedup_by_key(|mistake| order(&mistake.at).0);
        errors.is_empty().then(|| document.into_inner())
    }

    /// Line and column of the start of a span.
    pub fn at(&self, span: &Range<usize>) -> At {
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        At::Line {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    pub fn add(&mut self, at: At, field: String, text: String) {
        self.mistakes.push(Mistake { at, field, text });
    }

    /// A name that nothing has: the nearest one that exists, or all of them.
    pub fn unknown(&mut self, key: &Spanned<DeString<'_>>, path: &str, allowed: &[&str]) {
        let text = match nearest(key.get_ref(), allowed) {
            Some(near) => format!("unknown field; did you mean {near}?"),
            None => format!("unknown field; allowed: {}", allowed.join(", ")),
        };
        self.add(self.at(&key.span()), join(path, key.get_ref()), text);
    }

    /// The table that a value should be.
    pub fn table<'d>(&mut self, (key, value): Pair<'d, 't>, path: &str, allowed: &str) -> Option<&'d DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let given = super::given::Given::of(value.get_ref());
            let text = format!("{given} is not a table; allowed: {allowed}");
            self.add(self.at(&key.span()), path.to_owned(), text);
        }
        table
    }

    /// All that is wrong, in the order of the lines; options last.
    pub fn finish(mut self) -> Vec<Mistake> {
        self.mistakes.sort_by_key(|mistake| order(&mistake.at));
        self.mistakes
    }
}

/// A name in its table; names that need quotes in TOML have them.
pub(super) fn join(path: &str, name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = if !name.is_empty() && name.chars().all(bare) {
        name.to_owned()
    } else {
        format!("{name:?}")
    };
    if path.is_empty() {
        name
    } else {
        format!("{path}.{name}")
    }
}

fn order(at: &At) -> (usize, usize) {
    match at {
        At::Line { line, column } => (*line, *column),
        At::Option(_) => (usize::MAX, 0),
    }
}

/// The name that was probably meant.
pub(super) fn nearest<'a>(name: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let name = name.to_ascii_lowercase().replace('-', "_");
    allowed
        .iter()
        .map(|candidate| (strsim::jaro_winkler(&name, candidate), *candidate))
        .filter(|(likeness, _)| *likeness > 0.85)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
