//! Fills: how many keys come due in each second, a panel with its own scale for each.

use super::canvas::{Canvas, Ink, Scale, seconds, tint};
use super::{FAINT, INK, LINE, MUTED, colour, name};
use crate::lab::human::{count, time};
use crate::lab::scenario::avalanche::Fill;
use crate::lab::strategy::Kind;

const PANEL: i32 = 168;
/// Of a panel, what bars may fill.
const FILL: i32 = 120;
const HEAD: i32 = 34;
const FOOT: i32 = 52;
const TIMES: (i32, i32) = (236, 962);

/// How high the drawing is.
pub fn height(fills: &[Fill]) -> i32 {
    HEAD + PANEL * fills.len() as i32 + FOOT
}

/// Draws from `top` on.
pub fn draw(canvas: &Canvas<'_>, top: i32, fills: &[Fill]) -> anyhow::Result<()> {
    let bottom = top + HEAD + PANEL * fills.len() as i32;
    let first = fills
        .iter()
        .map(|fill| fill.first.as_secs_f64())
        .fold(f64::INFINITY, f64::min)
        .round();
    let last = fills
        .iter()
        .map(|fill| (fill.first + fill.range()).as_secs_f64())
        .fold(0.0, f64::max)
        .round();
    let times = Scale::linear(first - 5.0, last + 5.0, TIMES);
    canvas.text(
        (TIMES.0, top + 16),
        "Rebuilds that come due in each second",
        Ink::new(13, INK).bold(),
    )?;
    canvas.dashed((TIMES.1 - 250, top + 17), (TIMES.1 - 226, top + 17), INK)?;
    canvas.text(
        (TIMES.1, top + 16),
        "the mean over the width of the jitter",
        Ink::new(11, MUTED).ending(),
    )?;
    for tick in times.ticks(12) {
        canvas.text(
            (times.at(tick), bottom + 13),
            &seconds(tick),
            Ink::new(11, MUTED).centred(),
        )?;
    }
    canvas.text(
        ((TIMES.0 + TIMES.1) / 2, bottom + 32),
        "since the first key was filled",
        Ink::new(11, MUTED).centred(),
    )?;
    for (at, fill) in fills.iter().enumerate() {
        panel(
            canvas,
            top + HEAD + PANEL * (at as i32 + 1),
            fill,
            &times,
            highest(fill, fills),
        )?;
    }
    Ok(())
}

/// Panels of one strategy with as many keys are drawn to one scale, which has room for the mean: they are there to be compared.
fn highest(fill: &Fill, fills: &[Fill]) -> u64 {
    let alike = fills
        .iter()
        .filter(|other| (other.kind, other.keys) == (fill.kind, fill.keys));
    let busiest = alike.map(Fill::busiest).max().unwrap_or_default();
    busiest.max(fill.mean.ceil() as u64).max(1)
}

fn panel(canvas: &Canvas<'_>, floor: i32, fill: &Fill, times: &Scale, highest: u64) -> anyhow::Result<()> {
    let colour = colour(fill.kind);
    let counts = Scale::linear(0.0, highest as f64, (floor, floor - FILL));
    let explained = match fill.kind {
        Kind::Drover if !fill.variant.is_empty() => fill.variant.to_owned(),
        Kind::Drover => format!("over {}", time(fill.range())),
        _ => format!("all live {}", time(fill.first)),
    };
    name(canvas, fill.kind, &explained, floor - FILL / 2)?;
    for tick in counts.ticks(4) {
        let y = counts.at(tick);
        canvas.line((TIMES.0, y), (TIMES.1, y), if tick == 0.0 { LINE } else { FAINT }, 1)?;
        canvas.text((TIMES.0 - 8, y - 1), &count(tick as u64), Ink::new(11, MUTED).ending())?;
    }
    let start = fill.first.as_secs_f64().round();
    for (second, &due) in fill.due.iter().enumerate().filter(|(_, due)| **due > 0) {
        let from = times.at(start + second as f64);
        let to = times.at(start + second as f64 + 1.0).max(from + 3) - 1;
        canvas.rect((from, counts.at(due as f64)), (to, floor), tint(colour, 0.85))?;
    }
    let busiest = format!(
        "busiest second {}{}, {:.2} × the mean of {}",
        count(fill.busiest()),
        if fill.uneven { " mean rebuilds" } else { "" },
        fill.ratio(),
        count(fill.mean.round() as u64)
    );
    canvas.text(
        (TIMES.1, floor - FILL - 12),
        &busiest,
        Ink::new(12, INK).bold().ending(),
    )?;
    if fill.due.len() > 1 {
        let y = counts.at(fill.mean);
        canvas.dashed((TIMES.0, y), (TIMES.1, y), INK)?;
    }
    Ok(())
}
