//! Herds: for each strategy a lane with the queries at the origin over time, and how long its callers waited.

use std::time::Duration;

use super::canvas::{Canvas, Ink, Scale, round_step, seconds, tint};
use super::{BAD, FAINT, INK, LINE, MARGIN, MUTED, WIDTH, colour, name};
use crate::lab::human::{count, time};
use crate::lab::measure::{Herd, SLOW};
use crate::lab::scenario::{Finding, Scenario, outage};

const LANE: i32 = 70;
/// Of a lane, what queries may fill.
const FILL: i32 = 54;
const HEAD: i32 = 40;
const FOOT: i32 = 74;
/// Where queries over time lie.
const QUERIES: (i32, i32) = (196, 600);
/// Where latencies lie; their labels follow.
const WAITS: (i32, i32) = (716, 908);
/// How strong the parts of a latency bar are: up to p50, up to p99, up to the slowest.
const PARTS: [(f64, &str); 3] = [(1.0, "half"), (0.55, "99 of 100"), (0.22, "all")];

/// How high the drawing is.
pub fn height(herds: &[Herd]) -> i32 {
    HEAD + LANE * herds.len() as i32 + FOOT
}

/// Draws from `top` on.
pub fn draw(canvas: &Canvas<'_>, top: i32, herds: &[Herd], finding: &Finding) -> anyhow::Result<()> {
    let (lanes, bottom) = (top + HEAD, top + HEAD + LANE * herds.len() as i32);
    let most = herds.iter().map(Herd::most_at_once).max().unwrap_or_default().max(1);
    let times = Scale::linear(0.0, length(herds, finding).as_secs_f64(), QUERIES);
    let waits = waits(herds);

    canvas.text(
        (QUERIES.0, top + 18),
        "Queries at the origin, running or waiting for a connection",
        Ink::new(13, INK).bold(),
    )?;
    canvas.text((WAITS.0, top + 18), "How long callers waited", Ink::new(13, INK).bold())?;
    if finding.scenario == Scenario::Outage {
        failing(canvas, &times, (lanes, bottom))?;
    }
    axis(canvas, &times, (lanes, bottom), 7, "since the herd was let go")?;
    axis(canvas, &waits, (lanes, bottom), 3, "")?;
    let slow = waits.at(SLOW.as_secs_f64());
    canvas.dashed((slow, lanes), (slow, bottom), MUTED)?;
    for (at, herd) in herds.iter().enumerate() {
        let lane = lanes + LANE * at as i32;
        let explained = if herd.variant.is_empty() {
            herd.kind.explained()
        } else {
            herd.variant
        };
        name(canvas, herd.kind, explained, lane + LANE / 2)?;
        queries(canvas, lane + LANE, herd, &times, most)?;
        latency(canvas, lane + LANE / 2, herd, &waits)?;
    }
    legend(canvas, bottom + 52)
}

/// The ground of the time in which the origin fails.
fn failing(canvas: &Canvas<'_>, times: &Scale, (from, to): (i32, i32)) -> anyhow::Result<()> {
    let ends = [outage::BEFORE, outage::BEFORE + outage::OUTAGE].map(|at| times.at(at.as_secs_f64()));
    canvas.rect((ends[0], from - 7), (ends[1], to), tint(BAD, 0.09))?;
    let middle = ((ends[0] + ends[1]) / 2, from - 1);
    canvas.text(middle, "the origin fails", Ink::new(11, BAD).bold().centred())
}

fn length(herds: &[Herd], finding: &Finding) -> Duration {
    let ends = herds
        .iter()
        .flat_map(|herd| herd.queries.iter().filter_map(|query| query.ended));
    let least = match finding.scenario {
        Scenario::Steady => finding.plan.duration,
        _ => herds.iter().map(Herd::slowest).max().unwrap_or_default(),
    };
    ends.max().unwrap_or_default().max(least)
}

/// Powers of ten where the typical and the worst lie far apart.
fn waits(herds: &[Herd]) -> Scale {
    let longest = herds.iter().map(Herd::slowest).max().unwrap_or_default().as_secs_f64();
    let typical = herds
        .iter()
        .map(|herd| herd.quantile(0.5))
        .min()
        .unwrap_or_default()
        .as_secs_f64();
    match typical * 30.0 < longest {
        true => Scale::logarithmic(
            1e-4_f64.max(10_f64.powf((typical / 2.0).max(1e-4).log10().floor())),
            longest,
            WAITS,
        ),
        false => Scale::linear(0.0, longest, WAITS),
    }
}

fn axis(canvas: &Canvas<'_>, scale: &Scale, (from, to): (i32, i32), wanted: u32, title: &str) -> anyhow::Result<()> {
    for tick in scale.ticks(wanted) {
        let at = scale.at(tick);
        canvas.line((at, from), (at, to), FAINT, 1)?;
        canvas.text((at, to + 13), &seconds(tick), Ink::new(11, MUTED).centred())?;
    }
    canvas.text(
        ((QUERIES.0 + QUERIES.1) / 2, to + 31),
        title,
        Ink::new(11, MUTED).centred(),
    )
}

fn queries(canvas: &Canvas<'_>, floor: i32, herd: &Herd, times: &Scale, most: u64) -> anyhow::Result<()> {
    let colour = colour(herd.kind);
    canvas.line((QUERIES.0, floor), (QUERIES.1, floor), LINE, 1)?;
    let tallest = Scale::linear(0.0, most as f64, (0, FILL));
    for columns in columns(herd, times) {
        let mut outline = vec![(columns.first, floor)];
        for (at, open) in (columns.first..).zip(columns.open) {
            // What happened is seen, however little it was.
            let height = floor - tallest.at(open as f64).max(4);
            outline.extend([(at, height), (at + 1, height)]);
        }
        outline.push((outline.last().map_or(columns.first, |last| last.0), floor));
        canvas.shape(outline, colour)?;
    }
    let top = round_step(most as f64 / 2.0).min(most as f64);
    canvas.text(
        (QUERIES.0 - 5, floor - tallest.at(top)),
        &count(top as u64),
        Ink::new(10, MUTED).ending(),
    )?;
    canvas.line(
        (QUERIES.0 - 3, floor - tallest.at(top)),
        (QUERIES.0, floor - tallest.at(top)),
        LINE,
        1,
    )?;
    let queries = herd.queried();
    canvas.text(
        (QUERIES.1 + 14, floor - LANE / 2 - 8),
        &count(queries),
        Ink::new(20, colour).bold(),
    )?;
    let unit = if queries == 1 { "query" } else { "queries" };
    canvas.text((QUERIES.1 + 14, floor - LANE / 2 + 11), unit, Ink::new(11, MUTED))
}

/// A stretch of pixels without a gap, and the most queries that were open in each.
struct Columns {
    first: i32,
    open: Vec<u64>,
}

fn columns(herd: &Herd, times: &Scale) -> Vec<Columns> {
    let mut most = vec![0_u64; (QUERIES.1 - QUERIES.0) as usize];
    let steps = herd.at_origin();
    for (at, &(from, open)) in steps.iter().enumerate() {
        let until = steps.get(at + 1).map_or(from, |next| next.0);
        let pixel = |at: Duration| ((times.at(at.as_secs_f64()) - QUERIES.0) as usize).min(most.len() - 1);
        let (first, last) = (pixel(from), pixel(until));
        most[first..=last]
            .iter_mut()
            .for_each(|pixel| *pixel = (*pixel).max(open));
    }
    let mut stretches: Vec<Columns> = Vec::new();
    let mut gap = true;
    for (at, open) in (QUERIES.0..).zip(most) {
        match stretches.last_mut() {
            _ if open == 0 => {}
            Some(stretch) if !gap => stretch.open.push(open),
            _ => stretches.push(Columns {
                first: at,
                open: vec![open],
            }),
        }
        gap = open == 0;
    }
    stretches
}

fn latency(canvas: &Canvas<'_>, middle: i32, herd: &Herd, waits: &Scale) -> anyhow::Result<()> {
    let colour = colour(herd.kind);
    let ends = [herd.quantile(0.5), herd.quantile(0.99), herd.slowest()].map(|wait| waits.at(wait.as_secs_f64()));
    let mut from = WAITS.0;
    for (end, (strength, _)) in ends.into_iter().zip(PARTS) {
        canvas.rect((from, middle - 9), (end.max(from), middle + 9), tint(colour, strength))?;
        from = end.max(from);
    }
    canvas.text_on_white((from + 7, middle - 1), &time(herd.slowest()), Ink::new(12, INK).bold())
}

fn legend(canvas: &Canvas<'_>, middle: i32) -> anyhow::Result<()> {
    canvas.line((MARGIN, middle - 14), (WIDTH - MARGIN, middle - 14), FAINT, 1)?;
    let mut x = WAITS.0 - 96;
    canvas.text((x, middle + 5), "Answered by then:", Ink::new(11, MUTED))?;
    x += 112;
    for ((strength, text), wide) in PARTS.into_iter().zip([52, 82, 44]) {
        canvas.rect((x, middle + 1), (x + 10, middle + 11), tint(MUTED, strength))?;
        canvas.text((x + 15, middle + 5), text, Ink::new(11, MUTED))?;
        x += wide;
    }
    canvas.dashed((x + 5, middle), (x + 5, middle + 13), MUTED)?;
    canvas.text(
        (x + 12, middle + 5),
        &format!("{}: slow", time(SLOW)),
        Ink::new(11, MUTED),
    )
}
