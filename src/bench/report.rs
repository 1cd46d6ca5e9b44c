//! Figures, their targets, and how they are shown: aligned tables for people, one JSON document for programs. Pure.
//!
//! *Invariants:* a figure without a pair cannot be made; a target that compares with the bare server is neither met nor missed
//! where there was none.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::stats::{Pair, Spread, spread};
use super::unit::Unit;
use super::wire::Exchange;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const MET: Style = AnsiColor::Green.on_default();
const MISSED: Style = AnsiColor::Red.on_default().bold();
/// Pairs of one figure that are shown side by side.
const PAIRS_A_LINE: usize = 3;

/// What must be reached.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// drover ÷ bare, at most.
    RatioAtMost(f64),
    /// drover ÷ bare, at least.
    RatioAtLeast(f64),
    /// The figure itself, at most.
    AtMost(f64),
    /// The figure itself, in every run.
    Exactly(f64),
}

/// One measured thing over all pairs.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Of `drover` and `bare`.
    pub unit: Unit,
    /// Of drover's runs.
    pub drover: Spread,
    /// Of the bare server's; absent where there was none.
    pub bare: Option<Spread>,
    /// Of the pairs' ratios.
    pub ratio: Option<Spread>,
    /// What must be reached; absent: only told.
    pub target: Option<Target>,
    /// Whether it is; absent without a target, or without what it compares with.
    pub met: Option<bool>,
    /// What the spreads are made of.
    pub pairs: Vec<Pair>,
}

impl Figure {
    /// From what was measured, one pair at least.
    ///
    /// # Errors
    /// No pairs.
    pub fn new(name: &str, unit: Unit, pairs: Vec<Pair>, target: Option<Target>) -> anyhow::Result<Self> {
        let drover =
            spread(pairs.iter().map(|pair| pair.drover)).with_context(|| format!("nothing measured: {name}"))?;
        let bare = spread(pairs.iter().filter_map(|pair| pair.bare));
        let ratio = spread(pairs.iter().filter_map(Pair::ratio));
        let met = target.and_then(|target| target.met(drover, ratio));
        Ok(Self {
            name: name.to_owned(),
            unit,
            drover,
            bare,
            ratio,
            target,
            met,
            pairs,
        })
    }

    fn row(&self) -> [String; 7] {
        let of = |spread: Option<Spread>| spread.map_or_else(String::new, |spread| self.unit.shown(spread.median));
        let range = match self.ratio {
            _ if self.pairs.len() < 2 => String::new(),
            Some(ratio) => format!("{:.2} … {:.2}", ratio.min, ratio.max),
            None => {
                format!(
                    "{} … {}",
                    self.unit.shown(self.drover.min),
                    self.unit.shown(self.drover.max)
                )
            }
        };
        [
            self.name.clone(),
            of(Some(self.drover)),
            of(self.bare),
            self.ratio
                .map_or_else(String::new, |ratio| format!("{:.2}", ratio.median)),
            range,
            self.decided()
                .map_or_else(String::new, |target| target.shown(self.unit)),
            match self.met {
                Some(true) => "✓".to_owned(),
                Some(false) => "✗".to_owned(),
                None => String::new(),
            },
        ]
    }

    /// The target, where there is something to compare with.
    fn decided(&self) -> Option<Target> {
        self.target.filter(|_| self.met.is_some())
    }

    /// Every pair, in the order in which they were run, some to a line.
    fn pairs(&self) -> String {
        let shown = self.pairs.iter().map(|pair| {
            let drover = self.unit.shown(pair.drover);
            match pair.bare.zip(pair.ratio()) {
                Some((bare, ratio)) => format!("{drover} : {} = {ratio:.2}", self.unit.shown(bare)),
                None => drover,
            }
        });
        let shown: Vec<String> = shown.collect();
        let lines = shown.chunks(PAIRS_A_LINE).map(|line| line.join("   "));
        lines.collect::<Vec<_>>().join("\n      ")
    }
}

impl Target {
    fn met(self, drover: Spread, ratio: Option<Spread>) -> Option<bool> {
        match self {
            Self::RatioAtMost(limit) => ratio.map(|ratio| ratio.median <= limit),
            Self::RatioAtLeast(limit) => ratio.map(|ratio| ratio.median >= limit),
            Self::AtMost(limit) => Some(drover.median <= limit),
            Self::Exactly(number) => {
                let equal = |found: f64| (found - number).abs() < 1e-9;
                Some(equal(drover.min) && equal(drover.max))
            }
        }
    }

    fn shown(self, unit: Unit) -> String {
        match self {
            Self::RatioAtMost(limit) => format!("≤ {limit:.2} ×"),
            Self::RatioAtLeast(limit) => format!("≥ {limit:.2} ×"),
            Self::AtMost(limit) => format!("≤ {}", unit.shown(limit)),
            Self::Exactly(number) => format!("= {}", unit.shown(number)),
        }
    }
}

/// How the bench was run.
#[derive(Debug, Clone, Serialize)]
pub struct Settings {
    /// The server that ran already; absent: own processes.
    pub server: Option<String>,
    /// Of this machine.
    pub cores: usize,
    /// Threads of each server.
    pub workers: usize,
    /// In (a), (b), (g).
    pub connections: usize,
    /// Calls in flight on each.
    pub concurrency: usize,
    /// Calls a run.
    pub calls: u64,
    /// Interleaved pairs of runs.
    pub pairs: u32,
    /// Of each value.
    pub value_bytes: u32,
}

/// Messages of a case.
#[derive(Debug, Clone, Serialize)]
pub struct Messages {
    /// Which call or event.
    pub name: String,
    /// How long they are, encoded.
    #[serde(flatten)]
    pub exchange: Exchange,
}

/// One case.
#[derive(Debug, Clone, Serialize)]
pub struct CaseReport {
    /// `a` to `m`.
    pub case: char,
    /// What is measured.
    pub title: String,
    /// Sizes that both servers carry.
    pub messages: Vec<Messages>,
    /// The figures; the first is the one that matters most.
    pub figures: Vec<Figure>,
    /// What a reader must know to judge the figures.
    pub notes: Vec<String>,
}

/// Everything.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How it was run.
    pub settings: Settings,
    /// In order.
    pub cases: Vec<CaseReport>,
}

impl CaseReport {
    /// A case without figures yet.
    pub fn new(case: char, title: &str) -> Self {
        Self {
            case,
            title: title.to_owned(),
            messages: Vec::new(),
            figures: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// What a call or an event of both servers weighs.
    pub fn carries(&mut self, name: &str, exchange: Exchange) {
        self.messages.push(Messages {
            name: name.to_owned(),
            exchange,
        });
    }

    /// What a reader must know to judge the figures.
    pub fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// For people: title, sizes, the table, and the pairs of every figure with a target.
    pub fn text(&self) -> String {
        let mut text = format!("\n{BOLD}({}) {}{BOLD:#}\n", self.case, self.title);
        for messages in &self.messages {
            let Messages {
                name,
                exchange: Exchange { request, answer },
            } = messages;
            let _ = writeln!(text, "    {DIM}{name}: {request} B → {answer} B{DIM:#}");
        }
        let compared = self.figures.iter().any(|figure| figure.bare.is_some());
        let header = if compared {
            ["", "drover", "bare", "ratio", "min … max", "target", ""]
        } else {
            SOLITARY
        };
        let rows: Vec<_> = self.figures.iter().map(Figure::row).collect();
        text.push_str(&aligned(&header, &rows));
        for figure in self
            .figures
            .iter()
            .filter(|figure| figure.decided().is_some() && figure.pairs.len() > 1)
        {
            let _ = writeln!(
                text,
                "    {DIM}each pair, {}:\n      {}{DIM:#}",
                figure.name,
                figure.pairs()
            );
        }
        for note in &self.notes {
            let _ = writeln!(text, "    {DIM}{note}{DIM:#}");
        }
        text
    }
}

/// Head of a table that compares with nothing.
const SOLITARY: [&str; 7] = ["", "drover", "", "", "min … max", "target", ""];

impl Report {
    /// Nothing measured yet.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            cases: Vec::new(),
        }
    }

    /// One line: how it is run.
    pub fn heading(&self) -> String {
        let Settings {
            server,
            cores,
            workers,
            connections,
            concurrency,
            calls,
            pairs,
            value_bytes,
        } = &self.settings;
        let against = match server {
            Some(address) => format!("the server on {address}"),
            None => format!("drover against a bare tonic server, {workers} worker threads each"),
        };
        let (calls, value_bytes) = (
            Unit::Count.shown(*calls as f64),
            Unit::Count.shown(f64::from(*value_bytes)),
        );
        let rounds = match (server, pairs) {
            (None, 1) => "one pair of runs".to_owned(),
            (None, pairs) => format!("{pairs} interleaved pairs of runs"),
            (Some(_), 1) => "one run".to_owned(),
            (Some(_), pairs) => format!("{pairs} runs"),
        };
        format!(
            "{BOLD}drover bench{BOLD:#}: {against}, {cores} cores shared with the load generator\n{DIM}{rounds} of {calls} \
             calls over {connections} connections × {concurrency} in flight, values of {value_bytes} \
             bytes{DIM:#}\n"
        )
    }

    /// Every target in one table.
    pub fn summary(&self) -> String {
        let mut rows = Vec::new();
        for case in &self.cases {
            for figure in case.figures.iter().filter(|figure| figure.met.is_some()) {
                let [name, drover, bare, ratio, _, target, met] = figure.row();
                rows.push([format!("({}) {name}", case.case), drover, bare, ratio, target, met]);
            }
        }
        if rows.is_empty() {
            return String::new();
        }
        let verdict = match self.missed() {
            0 => format!("{MET}every target is met{MET:#}"),
            missed => format!("{MISSED}{missed} of {} missed{MISSED:#}", rows.len()),
        };
        let table = aligned(&["", "drover", "bare", "ratio", "target", ""], &rows);
        format!("\n{BOLD}Targets{BOLD:#}\n{table}\n{verdict}\n")
    }

    /// Targets that were missed.
    pub fn missed(&self) -> usize {
        let figures = self.cases.iter().flat_map(|case| &case.figures);
        figures.filter(|figure| figure.met == Some(false)).count()
    }
}

/// Columns side by side: the first to the left, the others to the right; columns that hold nothing are left out.
fn aligned<const N: usize>(header: &[&str; N], rows: &[[String; N]]) -> String {
    let used: Vec<usize> = (0..N)
        .filter(|&column| rows.iter().any(|row| !row[column].is_empty()))
        .collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(used.iter().map(|&column| header[column]));
    table.add_rows(
        rows.iter()
            .map(|row| used.iter().map(|&column| row[column].as_str()).collect::<Vec<_>>()),
    );
    for (place, column) in table.column_iter_mut().enumerate() {
        let alignment = if place == 0 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        column.set_cell_alignment(alignment);
    }
    let mut text = String::new();
    for line in table.lines() {
        // Colour comes after the layout: the table counts escape sequences as width.
        let line = line
            .trim_end()
            .replace('✓', &format!("{MET}✓{MET:#}"))
            .replace('✗', &format!("{MISSED}✗{MISSED:#}"));
        let _ = writeln!(text, "   {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(pairs: &[(f64, f64)], target: Target) -> anyhow::Result<Figure> {
        let pairs = pairs
            .iter()
            .map(|&(drover, bare)| Pair {
                drover,
                bare: Some(bare),
            })
            .collect();
        Figure::new("server CPU a call", Unit::Nanoseconds, pairs, Some(target))
    }

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_decides() -> anyhow::Result<()> {
        // The ratio of the medians would be 12 ÷ 10.
        let pairs = [(12.0, 6.0), (10.0, 10.0), (14.0, 11.2)];
        let found = figure(&pairs, Target::RatioAtMost(1.25))?;
        assert_eq!(
            found.ratio,
            Some(Spread {
                min: 1.0,
                median: 1.25,
                max: 2.0
            })
        );
        assert_eq!(found.met, Some(true));
        assert_eq!(figure(&pairs, Target::RatioAtMost(1.24))?.met, Some(false));
        assert_eq!(figure(&pairs, Target::RatioAtLeast(1.26))?.met, Some(false));
        Ok(())
    }

    #[test]
    fn a_target_that_compares_is_undecided_without_a_bare_server() -> anyhow::Result<()> {
        let alone = vec![Pair::alone(12.0)];
        let found = Figure::new("x", Unit::Bytes, alone.clone(), Some(Target::RatioAtMost(1.0)))?;
        assert_eq!((found.ratio, found.met), (None, None));
        assert_eq!(
            Figure::new("x", Unit::Bytes, alone, Some(Target::AtMost(12.0)))?.met,
            Some(true)
        );
        Ok(())
    }

    #[test]
    fn exactly_means_in_every_run() -> anyhow::Result<()> {
        let runs = |counts: &[f64]| counts.iter().map(|&drover| Pair::alone(drover)).collect::<Vec<_>>();
        let one = Some(Target::Exactly(1.0));
        assert_eq!(
            Figure::new("rebuilds", Unit::Count, runs(&[1.0, 1.0, 1.0]), one)?.met,
            Some(true)
        );
        assert_eq!(
            Figure::new("rebuilds", Unit::Count, runs(&[1.0, 2.0, 1.0]), one)?.met,
            Some(false)
        );
        Ok(())
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert!(Figure::new("x", Unit::Bytes, Vec::new(), None).is_err());
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let rows = [["CPU", "14.2 µs", "", "✓"], ["calls a second", "9 /s", "", ""]].map(|row| row.map(str::to_owned));
        let plain = anstream::adapter::strip_str(&aligned(&["", "drover", "bare", ""], &rows)).to_string();
        let lines: Vec<&str> = plain.lines().collect();
        let expected = [
            "                     drover",
            "    CPU             14.2 µs  ✓",
            "    calls a second     9 /s",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn the_summary_counts_what_was_missed() -> anyhow::Result<()> {
        let settings = Settings {
            server: None,
            cores: 2,
            workers: 2,
            connections: 4,
            concurrency: 16,
            calls: 100,
            pairs: 1,
            value_bytes: 32,
        };
        let mut report = Report::new(settings);
        assert_eq!(report.summary(), "");
        let mut case = CaseReport::new('a', "AcquireRebuild of a fresh key");
        case.figures.push(figure(&[(1.0, 1.0)], Target::RatioAtMost(1.25))?);
        case.figures.push(figure(&[(2.0, 1.0)], Target::RatioAtMost(1.25))?);
        report.cases.push(case);
        assert_eq!(report.missed(), 1);
        assert!(report.summary().contains("1 of 2 missed"));
        Ok(())
    }
}
