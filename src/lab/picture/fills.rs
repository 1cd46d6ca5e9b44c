//! Fills: how many keys come due in each second, a panel with its own scale for each.

use super::canvas::{Canvas, Ink, Scale, tint};
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
        "Keys that come due in each second",
        Ink::new(13, INK).bold(),
    )?;
    for tick in times.ticks(7) {
        canvas.text(
            (times.at(tick), bottom + 13),
            &format!("{tick}"),
            Ink::new(11, MUTED).centred(),
        )?;
    }
    canvas.text(
        ((TIMES.0 + TIMES.1) / 2, bottom + 32),
        "seconds since the keys were filled",
        Ink::new(11, MUTED).centred(),
    )?;
    for (at, fill) in fills.iter().enumerate() {
        panel(canvas, top + HEAD + PANEL * (at as i32 + 1), fill, &times)?;
    }
    Ok(())
}

fn panel(canvas: &Canvas<'_>, floor: i32, fill: &Fill, times: &Scale) -> anyhow::Result<()> {
    let colour = colour(fill.kind);
    let counts = Scale::linear(0.0, fill.busiest().max(1) as f64, (floor, floor - FILL));
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
        "busiest second {}, {:.2} × the mean of {}",
        count(fill.busiest()),
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
