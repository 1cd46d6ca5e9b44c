//! *Owns* lists: their table, and which pages of them.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::failure::Failure;
use super::text::{BOLD, DIM, paint};

/// The most that a server gives at once.
const LARGEST_PAGE: i32 = 1_000;

#[derive(Clone, Debug, clap::Args)]
pub struct Pages {
    /// Every page, not only the first
    #[arg(long)]
    all: bool,
    /// How many a page [default: what the server says; with --all 1,000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=LARGEST_PAGE as i64))]
    page_size: Option<i32>,
    /// Go on from an earlier answer
    #[arg(long, value_name = "TOKEN")]
    page_token: Option<String>,
}

impl Pages {
    pub fn size(&self) -> i32 {
        self.page_size.unwrap_or(if self.all { LARGEST_PAGE } else { 0 })
    }

    /// Asks for a page after the other. `ask` gets a token and gives the next one, empty after the last page.
    ///
    /// # Errors
    /// Those of `ask`; and a server that gives the same token twice, which would go on for ever.
    pub async fn walk(&self, mut ask: impl AsyncFnMut(String) -> Result<String, Failure>) -> Result<(), Failure> {
        let mut token = self.page_token.clone().unwrap_or_default();
        loop {
            let next = ask(token.clone()).await?;
            if !self.all || next.is_empty() {
                return Ok(());
            }
            if next == token {
                return Err(Failure::nonsense("the server gave the same page twice"));
            }
            token = next;
        }
    }

    /// The line below a list that goes on.
    pub fn more(&self, next_page_token: &str) -> String {
        if next_page_token.is_empty() {
            return String::new();
        }
        let token = super::text::shell_word(next_page_token).unwrap_or_else(|| "TOKEN".into());
        format!(
            "\n  {}\n",
            paint(DIM, &format!("There are more: --all, or --page-token {token}"))
        )
    }
}

/// Columns that stand below each other; a header that starts with '<' has numbers, which end below each other.
pub fn table<const COLUMNS: usize>(header: [&str; COLUMNS], rows: impl Iterator<Item = [String; COLUMNS]>) -> String {
    let alignment = header.map(|name| match name.starts_with('<') {
        true => CellAlignment::Right,
        false => CellAlignment::Left,
    });
    let aligned = |row: [String; COLUMNS]| {
        row.into_iter()
            .zip(alignment)
            .map(|(text, alignment)| Cell::new(text).set_alignment(alignment))
            .collect::<Vec<_>>()
    };
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(aligned(header.map(|name| name.trim_start_matches('<').to_uppercase())));
    for row in rows {
        table.add_row(aligned(row));
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((if index == 0 { 0 } else { 1 }, 1));
    }
    let mut lines = table.lines();
    let mut text = paint(BOLD, lines.next().unwrap_or_default().trim_end());
    text.push('\n');
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctl::text::plain;

    fn pages(all: bool) -> Pages {
        Pages {
            all,
            page_size: None,
            page_token: None,
        }
    }

    #[test]
    fn a_table_aligns_words_left_and_numbers_right() {
        let rows = [
            ["a".to_string(), "1".into(), "x".into()],
            ["größer".into(), "1,000".into(), "y".into()],
        ];
        assert_eq!(
            plain(&table(["name", "<count", "note"], rows.into_iter())),
            "NAME    COUNT  NOTE\na           1  x\ngrößer  1,000  y\n"
        );
    }

    #[tokio::test]
    async fn all_pages_are_asked_for_one_after_the_other() {
        for (all, expected) in [(true, vec!["", "b", "c"]), (false, vec![""])] {
            let mut asked = Vec::new();
            let ask = async |token: String| {
                let next = match token.as_str() {
                    "" => "b",
                    "b" => "c",
                    _ => "",
                };
                asked.push(token);
                Ok(next.to_owned())
            };
            assert!(pages(all).walk(ask).await.is_ok());
            assert_eq!(asked, expected);
        }
    }

    #[tokio::test]
    async fn a_server_that_gives_the_same_page_for_ever_is_left() {
        let result = pages(true).walk(async |_| Ok("b".to_owned())).await;
        assert_eq!(
            result.map_err(|failure| failure.sentence()),
            Err("the server gave the same page twice".into())
        );
    }
}
