//! Races: for each strategy what its two readers did, and what the cache held meanwhile.

use std::time::Duration;

use plotters::style::{RGBColor, WHITE};

use super::canvas::{Canvas, Ink, Scale, seconds, tint};
use super::{BAD, FAINT, INK, LINE, MUTED, WIDTH, colour, name};
use crate::lab::human::time;
use crate::lab::scenario::race::Race;

const LANE: i32 = 94;
const HEAD: i32 = 34;
const FOOT: i32 = 48;
const TIMES: (i32, i32) = (216, 850);
const BAR: i32 = 20;

/// What the cache holds when it is right.
const RIGHT: RGBColor = RGBColor(0x48, 0x65, 0x81);
/// A bar that is narrower has its text beside it.
const ROOM_FOR_TEXT: i32 = 260;

/// How high the drawing is.
pub fn height(races: &[Race]) -> i32 {
    HEAD + LANE * races.len() as i32 + FOOT
}

/// Draws from `top` on.
pub fn draw(canvas: &Canvas<'_>, top: i32, races: &[Race]) -> anyhow::Result<()> {
    let (lanes, bottom) = (top + HEAD, top + HEAD + LANE * races.len() as i32);
    let end = races
        .iter()
        .map(|race| race.last.answered.max(written(race)))
        .max()
        .unwrap_or_default();
    let times = Scale::linear(0.0, end.as_secs_f64() * 1.02, TIMES);
    for tick in times.ticks(5) {
        let at = times.at(tick);
        canvas.line((at, lanes), (at, bottom), FAINT, 1)?;
        canvas.text((at, bottom + 13), &seconds(tick), Ink::new(11, MUTED).centred())?;
    }
    canvas.text(
        ((TIMES.0 + TIMES.1) / 2, bottom + 31),
        "since the slow reader asked",
        Ink::new(11, MUTED).centred(),
    )?;
    canvas.text(
        ((TIMES.1 + WIDTH) / 2, top + 18),
        "Readers get",
        Ink::new(13, INK).bold().centred(),
    )?;
    for (at, race) in races.iter().enumerate() {
        lane(canvas, lanes + LANE * at as i32, race, &times)?;
    }
    let invalidated = races.iter().map(|race| race.invalidated).min().unwrap_or_default();
    let at = times.at(invalidated.as_secs_f64());
    canvas.dashed((at, lanes - 6), (at, bottom), INK)?;
    canvas.text(
        (at + 6, top + 18),
        "the data changes, the key is invalidated",
        Ink::new(12, INK).bold(),
    )
}

/// When the slow reader came back.
fn written(race: &Race) -> Duration {
    race.queries.first().and_then(|query| query.ended).unwrap_or_default()
}

fn lane(canvas: &Canvas<'_>, top: i32, race: &Race, times: &Scale) -> anyhow::Result<()> {
    let colour = colour(race.kind);
    let x = |at: Duration| times.at(at.as_secs_f64());
    name(canvas, race.kind, race.kind.explained(), top + LANE / 2)?;
    canvas.line((TIMES.0, top + LANE), (WIDTH - 28, top + LANE), FAINT, 1)?;

    let slow = (top + 8, top + 8 + BAR);
    let back = written(race);
    canvas.rect((x(Duration::ZERO), slow.0), (x(back), slow.1), tint(colour, 0.35))?;
    let after = x(race.invalidated) + 8;
    canvas.text(
        (after, slow.0 + BAR / 2 - 1),
        "slow reader, asked before the change",
        Ink::new(11, INK),
    )?;
    let (verdict, ink) = match race.late_write_refused {
        true => ("its late write is refused", INK),
        false => ("writes the old value", BAD),
    };
    canvas.text(
        (x(back) - 8, slow.0 + BAR / 2 - 1),
        verdict,
        Ink::new(11, ink).bold().ending(),
    )?;

    let second = (slow.1 + 4, slow.1 + 4 + BAR);
    let (asked, answered) = (x(race.second.asked), x(race.second.answered));
    canvas.rect((asked, second.0), (answered, second.1), tint(colour, 0.7))?;
    let got = if race.second.data == race.newest { "new" } else { "old" };
    let text = format!(
        "second reader gets the {got} value after {}",
        time(race.second.answered - race.second.asked)
    );
    let from = if answered - asked < ROOM_FOR_TEXT {
        answered
    } else {
        asked
    };
    canvas.text((from + 8, second.0 + BAR / 2 - 1), &text, Ink::new(11, INK))?;

    let cache = (second.1 + 6, second.1 + 22);
    for (from, to, new) in held(race, TIMES.1, x) {
        let (fill, text, ink) = match new {
            None => (FAINT, "nothing", MUTED),
            Some(true) => (RIGHT, "new", WHITE),
            Some(false) => (BAD, "old", WHITE),
        };
        canvas.rect((from, cache.0), (to, cache.1), fill)?;
        canvas.text((from + 8, (cache.0 + cache.1) / 2 - 1), text, Ink::new(10, ink))?;
    }
    canvas.text(
        (TIMES.0 - 8, (cache.0 + cache.1) / 2 - 1),
        "cache",
        Ink::new(10, MUTED).ending(),
    )?;

    let (verdict, ink) = if race.new_stays() {
        ("new", colour)
    } else {
        ("old", BAD)
    };
    let middle = ((TIMES.1 + WIDTH) / 2, top + LANE / 2 - 4);
    canvas.text(middle, verdict, Ink::new(22, ink).bold().centred())?;
    canvas.line((TIMES.1, top), (TIMES.1, top + LANE), LINE, 1)
}

/// What the cache holds over time: nothing, the new value, the old one.
fn held(race: &Race, end: i32, x: impl Fn(Duration) -> i32) -> Vec<(i32, i32, Option<bool>)> {
    let mut writes = Vec::new();
    if race.second.data == race.newest {
        writes.push((race.second.answered, true));
    }
    if !race.late_write_refused {
        writes.push((written(race), false));
    }
    writes.sort_unstable();
    let mut stretches = vec![(x(Duration::ZERO), None)];
    stretches.extend(writes.iter().map(|&(at, new)| (x(at), Some(new))));
    let ends = stretches
        .iter()
        .skip(1)
        .map(|&(from, _)| from)
        .chain([end])
        .collect::<Vec<_>>();
    stretches
        .into_iter()
        .zip(ends)
        .map(|((from, what), to)| (from, to, what))
        .collect()
}
