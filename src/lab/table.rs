//! Findings as people read them: a heading, an aligned table, a sentence.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ContentArrangement, Table};

use super::human::{count, time};
use super::measure::{Herd, SLOW};
use super::scenario::avalanche::Fill;
use super::scenario::race::Race;
use super::scenario::{Finding, Rows, Scenario, outage};

const HEADING: Style = Style::new()
    .bold()
    .fg_color(Some(anstyle::Color::Ansi(AnsiColor::Cyan)));
const WARNING: Style = Style::new().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Yellow)));
/// A comfy-table preset: nothing but one line below the header.
const RULE_BELOW_HEADER: &str = "     ──            ";
/// The sentence is broken before this column.
const WIDTH: usize = 88;

/// The finding as text with ANSI styles; whoever prints it strips them where there is no terminal.
pub fn render(finding: &Finding) -> String {
    let (name, about) = (finding.scenario.as_str(), finding.scenario.describe(&finding.plan));
    let mut text = format!("{HEADING}{name}{HEADING:#}  {about}\n\n");
    let (table, notes) = match &finding.rows {
        Rows::Herds(herds) => (herds_table(finding.scenario, herds), herds_notes(herds)),
        Rows::Races(races) => (races_table(races), Vec::new()),
        Rows::Fills(fills) => (fills_table(fills), Vec::new()),
    };
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push('\n');
    for note in notes {
        let _ = writeln!(text, "{WARNING}{note}{WARNING:#}");
    }
    for line in wrapped(&finding.said, WIDTH) {
        let _ = writeln!(text, "{line}");
    }
    text
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(RULE_BELOW_HEADER)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_cell_alignment(if at == 0 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        });
    }
    table
}

/// A column: its header, and what is below it.
type Column = (String, fn(&Herd) -> String);

fn herds_table(scenario: Scenario, herds: &[Herd]) -> Table {
    let mut columns: Vec<Column> = vec![
        ("strategy".to_owned(), Herd::name),
        ("requests".to_owned(), |herd| count(herd.requests())),
        ("queries".to_owned(), |herd| count(herd.queried())),
    ];
    match scenario {
        Scenario::Coldstart => columns.extend::<[Column; 2]>([
            ("most at once".to_owned(), |herd| count(herd.most_at_once())),
            ("last one after".to_owned(), |herd| time(herd.last_query())),
        ]),
        Scenario::Outage => columns.extend::<[Column; 2]>([
            ("while it failed".to_owned(), |herd| count(outage::during(herd).0)),
            (format!("after {} of that", time(outage::SETTLED)), |herd| {
                count(outage::during(herd).1)
            }),
        ]),
        _ => {}
    }
    columns.extend::<[Column; 4]>([
        ("p50".to_owned(), |herd| time(herd.quantile(0.5))),
        ("p99".to_owned(), |herd| time(herd.quantile(0.99))),
        ("max".to_owned(), |herd| time(herd.slowest())),
        (format!("slower than {}", time(SLOW)), |herd| count(herd.slow())),
    ]);
    if herds.iter().any(|herd| herd.failed > 0) {
        columns.push(("failed".to_owned(), |herd| count(herd.failed)));
    }
    let mut table = table(&columns.iter().map(|(header, _)| header.as_str()).collect::<Vec<_>>());
    for herd in herds {
        table.add_row(columns.iter().map(|(_, cell)| cell(herd)));
    }
    table
}

fn herds_notes(herds: &[Herd]) -> Vec<String> {
    let note = |herd: &Herd| Some(format!("{}: {}", herd.name(), herd.trouble.as_ref()?));
    herds.iter().filter_map(note).collect()
}

fn races_table(races: &[Race]) -> Table {
    let mut table = table(&[
        "strategy",
        "queries",
        "second reader got",
        "after",
        "the late write is",
        "what stays",
    ]);
    for race in races {
        let which = |data: u64| if data == race.newest { "new" } else { "OLD" };
        table.add_row([
            race.kind.as_str().to_owned(),
            count(race.queries.len() as u64),
            which(race.second.data).to_owned(),
            time(race.second.answered - race.second.asked),
            if race.late_write_refused { "refused" } else { "taken" }.to_owned(),
            which(race.last.data).to_owned(),
        ]);
    }
    table
}

fn fills_table(fills: &[Fill]) -> Table {
    let mut table = table(&[
        "jitter",
        "keys",
        "filled in",
        "due from",
        "due to",
        "busiest second",
        "mean second",
        "busiest / mean",
    ]);
    for fill in fills {
        table.add_row([
            fill.name(),
            count(fill.keys as u64),
            time(fill.took),
            time(fill.first),
            time(fill.first + fill.range()),
            count(fill.busiest()),
            count(fill.mean.round() as u64),
            format!("{:.2}", fill.ratio()),
        ]);
    }
    table
}

/// Broken between words into lines of at most `width` characters; a number stays with its unit.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = matches!(
            word.trim_end_matches(['.', ',', ';', ':', ')']),
            "ms" | "s" | "min" | "query" | "queries"
        );
        match words.last_mut() {
            Some(number) if unit && number.ends_with(|last: char| last.is_ascii_digit()) => {
                number.push(' ');
                number.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::measure::tests::herd;
    use crate::lab::strategy::Kind;

    #[test]
    fn the_herds_table_is_aligned_and_complete() {
        let herds = [
            herd(Kind::None, &[200, 2_034], &[(0, 0, 200), (0, 0, 200)]),
            herd(Kind::XfetchLock, &[1, 100], &[(0, 0, 200)]),
        ];
        let lines: Vec<_> = herds_table(Scenario::Burst, &herds)
            .to_string()
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        assert_eq!(
            lines,
            [
                " strategy      requests   queries      p50      p99      max   slower than 100 ms",
                "──────────────────────────────────────────────────────────────────────────────────",
                " none                 2         2   200 ms   2.03 s   2.03 s                    2",
                " xfetch+lock          2         1     1 ms   100 ms   100 ms                    0",
            ]
        );
    }

    #[test]
    fn sentences_break_between_words() {
        let text = "word ".repeat(40);
        let lines = wrapped(text.trim(), WIDTH);
        assert!(lines.len() == 3 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert_eq!(lines.join(" "), text.trim());
        assert_eq!(
            wrapped("it took 204 ms, not 2 s", 10),
            ["it took", "204 ms,", "not 2 s"]
        );
    }
}
