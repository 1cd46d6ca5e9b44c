//! What the runs showed, a line each.

use std::fmt::Write as _;
use std::time::Duration;

use crate::round::Round;

const WIDTH: usize = 45;

/// The head of the table.
pub fn head() -> String {
    format!(
        "{:<WIDTH$} {:>10} {:>9} {:>8} {:>9} {:>10} {:>14} {:>11}",
        "fault", "operations", "refreshes", "unknown", "degraded", "violations", "without grant", "back after"
    )
}

pub fn line(round: &Round) -> String {
    let figures = &round.figures;
    format!(
        "{:<WIDTH$} {:>10} {:>9} {:>8} {:>9} {:>10} {:>14} {:>11}",
        round.fault.as_str(),
        grouped(figures.operations),
        grouped(figures.tasks),
        grouped(figures.unknown),
        grouped(figures.degraded),
        round.found.count,
        millis(figures.without_grant),
        figures.back_after.map_or_else(|| "-".to_owned(), millis),
    )
}

/// The sums, and what the columns mean.
pub fn foot(rounds: &[Round]) -> String {
    let operations: usize = rounds.iter().map(|round| round.figures.operations).sum();
    let tasks: usize = rounds.iter().map(|round| round.figures.tasks).sum();
    let unknown: usize = rounds.iter().map(|round| round.figures.unknown).sum();
    let degraded: usize = rounds.iter().map(|round| round.figures.degraded).sum();
    let violations: usize = rounds.iter().map(|round| round.found.count).sum();
    let mut text = format!(
        "{:<WIDTH$} {:>10} {:>9} {:>8} {:>9} {:>10}\n\n",
        "altogether",
        grouped(operations),
        grouped(tasks),
        grouped(unknown),
        grouped(degraded),
        violations,
    );
    text.push_str(
        "refreshes      tasks that workers were given\n\
         unknown        calls of which nobody knows whether they were done\n\
         degraded       answers of a replica that decided alone\n\
         without grant  the longest that nobody was granted a key that three clients always want; the fault itself is in it\n\
         back after     from when something was whole again to the next grant, at most\n",
    );
    text
}

/// What else a round showed, and what it broke.
pub fn details(round: &Round, seed: u64) -> String {
    let figures = &round.figures;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}: calls that failed {:?}; resets of watchers {:?}; looked at {:?}",
        round.fault.as_str(),
        figures.failures,
        figures.resets,
        round.found.looked,
    );
    for violation in &round.found.violations {
        let _ = writeln!(text, "  {violation}");
    }
    if round.found.count > 0 {
        let _ = writeln!(
            text,
            "  {} violations with seed {seed}; the replicas said last:\n{}",
            round.found.count, round.said
        );
    }
    text
}

/// The same with all that happened to the keys of the violations' calls.
pub fn story(round: &Round, seed: u64) -> String {
    let mut text = details(round, seed);
    let _ = writeln!(text, "lapses {:#?}", round.history.lapses);
    for op in &round.history.ops {
        let _ = writeln!(text, "{op:?}");
    }
    for watcher in &round.history.watchers {
        for told in &watcher.told {
            let _ = writeln!(text, "{}: {told:?}", watcher.name);
        }
    }
    text
}

pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn millis(length: Duration) -> String {
    format!("{} ms", grouped(length.as_millis() as usize))
}
