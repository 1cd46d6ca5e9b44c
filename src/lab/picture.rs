//! Findings as pictures: SVG, on white, in the same colours everywhere.
//!
//! *Owns* the look. *Never does* measuring: all numbers come from the finding. The text is left to whoever shows the file; widths are
//! guessed generously, so no font has to be there when it is drawn.
//!
//! *Why a lane a strategy and not one plot with five lines*: one query beside two hundred, five times over, is five lines on the
//! same pixel.

use plotters::style::RGBColor;

use super::scenario::{Finding, Rows};
use super::strategy::Kind;
use canvas::{Canvas, Ink};

mod canvas;
mod fills;
mod herds;
mod races;

/// Text.
const INK: RGBColor = RGBColor(0x1F, 0x29, 0x33);
/// Text that explains.
const MUTED: RGBColor = RGBColor(0x61, 0x6E, 0x7C);
/// Axes.
const LINE: RGBColor = RGBColor(0xCB, 0xD2, 0xD9);
/// Grid lines and empty lanes.
const FAINT: RGBColor = RGBColor(0xEE, 0xF1, 0xF4);
/// What should not have been served.
const BAD: RGBColor = RGBColor(0xC8, 0x2E, 0x1F);
/// Width of every picture.
const WIDTH: i32 = 1000;
/// Left and right of everything.
const MARGIN: i32 = 28;
/// Characters a line of the sentence below the title.
const LINE_OF_TEXT: usize = 132;

/// The colour of a strategy (Okabe and Ito's, which colour-blind people tell apart).
fn colour(kind: Kind) -> RGBColor {
    match kind {
        Kind::None => RGBColor(0xD5, 0x5E, 0x00),
        Kind::Lock => RGBColor(0xE6, 0x9F, 0x00),
        Kind::Xfetch => RGBColor(0x00, 0x9E, 0x73),
        Kind::XfetchLock => RGBColor(0xCC, 0x79, 0xA7),
        Kind::Drover => RGBColor(0x00, 0x72, 0xB2),
    }
}

/// The finding as an SVG document.
pub fn render(finding: &Finding) -> anyhow::Result<String> {
    let title = format!(
        "{}: {}",
        finding.scenario.as_str(),
        finding.scenario.describe(&finding.plan)
    );
    let said = super::table::wrapped(&finding.said, LINE_OF_TEXT);
    let top = 62 + 18 * said.len() as i32;
    let body = match &finding.rows {
        Rows::Herds(herds) => herds::height(herds),
        Rows::Races(races) => races::height(races),
        Rows::Fills(fills) => fills::height(fills),
    };
    let mut svg = String::new();
    {
        let canvas = Canvas::new(&mut svg, WIDTH, top + body)?;
        canvas.text((MARGIN, 32), &title, Ink::new(19, INK).bold())?;
        for (line, text) in said.iter().enumerate() {
            canvas.text((MARGIN, 57 + 18 * line as i32), text, Ink::new(13, MUTED))?;
        }
        match &finding.rows {
            Rows::Herds(herds) => herds::draw(&canvas, top, herds, finding)?,
            Rows::Races(races) => races::draw(&canvas, top, races)?,
            Rows::Fills(fills) => fills::draw(&canvas, top, fills)?,
        }
        canvas.finish()?;
    }
    Ok(svg)
}

/// The name of a strategy and what it is, at the left of its lane.
fn name(canvas: &Canvas<'_>, kind: Kind, explained: &str, middle: i32) -> anyhow::Result<()> {
    canvas.rect((MARGIN, middle - 17), (MARGIN + 4, middle + 17), colour(kind))?;
    canvas.text((MARGIN + 12, middle - 8), kind.as_str(), Ink::new(15, INK).bold())?;
    canvas.text((MARGIN + 12, middle + 10), explained, Ink::new(11, MUTED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::measure::tests::herd;
    use crate::lab::scenario::avalanche::Fill;
    use crate::lab::scenario::{Scenario, tests::plan};
    use std::time::Duration;

    fn drawn(scenario: Scenario, rows: Rows) -> String {
        let said = "What was seen <here> & there.".to_owned();
        render(&Finding {
            scenario,
            plan: plan(scenario),
            rows,
            said,
        })
        .unwrap()
    }

    #[test]
    fn a_picture_names_each_strategy_and_its_figures() {
        let none = herd(Kind::None, &[200, 2_034], &[(0, 0, 200), (0, 200, 400)]);
        let svg = drawn(
            Scenario::Burst,
            Rows::Herds(vec![none, herd(Kind::Drover, &[203], &[(0, 0, 200)])]),
        );
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        for text in [
            "none",
            "drover",
            "2.03 s",
            "203 ms",
            "queries",
            "since the herd was let go",
            "&lt;here&gt; &amp; there",
        ] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn nothing_seen_is_drawn_too() {
        let svg = drawn(Scenario::Steady, Rows::Herds(vec![herd(Kind::Lock, &[], &[])]));
        assert!(svg.contains("lock") && !svg.contains("NaN"));
        let fill = Fill::new(Kind::Drover, Vec::new(), None);
        assert!(!drawn(Scenario::Avalanche, Rows::Fills(vec![fill])).contains("NaN"));
    }

    #[test]
    fn a_bar_is_drawn_for_each_second_in_which_keys_come_due() {
        let lives = [270.0, 270.5, 271.2, 272.99].map(Duration::from_secs_f64).to_vec();
        let svg = drawn(
            Scenario::Avalanche,
            Rows::Fills(vec![Fill::new(Kind::Drover, lives, None)]),
        );
        let RGBColor(red, green, blue) = canvas::tint(colour(Kind::Drover), 0.85);
        let fill = format!("#{red:02X}{green:02X}{blue:02X}");
        let bars = svg
            .lines()
            .filter(|line| line.starts_with("<rect") && line.contains(&fill))
            .count();
        assert_eq!(bars, 3);
    }
}
