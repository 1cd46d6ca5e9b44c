//! A sheet to draw on in pixels, and scales that put numbers on it.

use std::time::Duration;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, IntoDrawingArea, PathElement, Polygon, Rectangle, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle, WHITE};

/// What most machines read well.
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";
/// The backend divides font sizes by this.
const BACKEND_FONT_FACTOR: f64 = 1.24;

/// A point in pixels, from the upper left.
pub type Point = (i32, i32);

/// How a text looks. It is anchored at its vertical middle.
#[derive(Clone, Copy)]
pub struct Ink {
    size: i32,
    colour: RGBColor,
    bold: bool,
    anchor: HPos,
}

impl Ink {
    /// `size` in pixels; starts at its point.
    pub fn new(size: i32, colour: RGBColor) -> Self {
        Self {
            size,
            colour,
            bold: false,
            anchor: HPos::Left,
        }
    }

    /// Heavier.
    pub fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Around its point.
    pub fn centred(self) -> Self {
        Self {
            anchor: HPos::Center,
            ..self
        }
    }

    /// Ends at its point.
    pub fn ending(self) -> Self {
        Self {
            anchor: HPos::Right,
            ..self
        }
    }
}

/// The sheet.
pub struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl<'a> Canvas<'a> {
    /// A white sheet.
    pub fn new(svg: &'a mut String, width: i32, height: i32) -> anyhow::Result<Self> {
        let area = SVGBackend::with_string(svg, (width.unsigned_abs(), height.unsigned_abs())).into_drawing_area();
        area.fill(&WHITE).map_err(|wrong| anyhow!("{wrong}"))?;
        Ok(Self(area))
    }

    /// Closes the document.
    pub fn finish(&self) -> anyhow::Result<()> {
        self.0.present().map_err(|wrong| anyhow!("{wrong}"))
    }

    /// Writes.
    pub fn text(&self, at: Point, text: &str, ink: Ink) -> anyhow::Result<()> {
        let weight = if ink.bold { FontStyle::Bold } else { FontStyle::Normal };
        let font = (FONT, f64::from(ink.size) * BACKEND_FONT_FACTOR, weight).into_font();
        let style = TextStyle::from(font)
            .color(&ink.colour)
            .pos(Pos::new(ink.anchor, VPos::Center));
        self.0.draw_text(text, &style, at).map_err(|wrong| anyhow!("{wrong}"))
    }

    /// A filled rectangle.
    pub fn rect(&self, from: Point, to: Point, colour: RGBColor) -> anyhow::Result<()> {
        self.0
            .draw(&Rectangle::new([from, to], colour.filled()))
            .map_err(|wrong| anyhow!("{wrong}"))
    }

    /// A filled shape.
    pub fn shape(&self, points: Vec<Point>, colour: RGBColor) -> anyhow::Result<()> {
        self.0
            .draw(&Polygon::new(points, colour.filled()))
            .map_err(|wrong| anyhow!("{wrong}"))
    }

    /// Writes over a white ground, so that no line runs through the text. Only for text that starts at its point.
    pub fn text_on_white(&self, at: Point, text: &str, ink: Ink) -> anyhow::Result<()> {
        // Generous for most fonts; how wide it really is only the viewer knows.
        let width = text.chars().count() as i32 * (ink.size * 2 / 3);
        self.rect(
            (at.0 - 3, at.1 - ink.size / 2 - 2),
            (at.0 + width + 3, at.1 + ink.size / 2 + 4),
            WHITE,
        )?;
        self.text(at, text, ink)
    }

    /// A line.
    pub fn line(&self, from: Point, to: Point, colour: RGBColor, width: u32) -> anyhow::Result<()> {
        let style = ShapeStyle::from(&colour).stroke_width(width);
        self.0
            .draw(&PathElement::new([from, to], style))
            .map_err(|wrong| anyhow!("{wrong}"))
    }

    /// A dashed line, straight down or across.
    pub fn dashed(&self, from: Point, to: Point, colour: RGBColor) -> anyhow::Result<()> {
        let (length, dash, gap) = ((to.0 - from.0).max(to.1 - from.1), 4, 3);
        let along = |done: i32| {
            if to.0 > from.0 {
                (from.0 + done, from.1)
            } else {
                (from.0, from.1 + done)
            }
        };
        for start in (0..length).step_by((dash + gap) as usize) {
            self.line(along(start), along((start + dash).min(length)), colour, 1)?;
        }
        Ok(())
    }
}

/// A colour mixed with white: 1 is the colour, 0 is white.
pub fn tint(colour: RGBColor, strength: f64) -> RGBColor {
    let mix = |part: u8| (255.0 - (255.0 - f64::from(part)) * strength).round() as u8;
    RGBColor(mix(colour.0), mix(colour.1), mix(colour.2))
}

/// Where numbers lie between two pixels.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    pixels: (i32, i32),
    logarithmic: bool,
}

impl Scale {
    /// From `low` at the first pixel to `high` at the second.
    pub fn linear(low: f64, high: f64, pixels: (i32, i32)) -> Self {
        Self {
            low,
            high: high.max(low + f64::EPSILON),
            pixels,
            logarithmic: false,
        }
    }

    /// The same with equal room for each power of ten; `low` is above 0.
    pub fn logarithmic(low: f64, high: f64, pixels: (i32, i32)) -> Self {
        Self {
            low,
            high: high.max(low * 10.0),
            pixels,
            logarithmic: true,
        }
    }

    /// The pixel of a number; numbers beyond the ends lie at the ends.
    pub fn at(&self, number: f64) -> i32 {
        let number = number.clamp(self.low, self.high);
        let share = match self.logarithmic {
            true => (number / self.low).ln() / (self.high / self.low).ln(),
            false => (number - self.low) / (self.high - self.low),
        };
        self.pixels.0 + (share * f64::from(self.pixels.1 - self.pixels.0)).round() as i32
    }

    /// Round numbers on it, about `wanted` of them; on a logarithmic scale the powers of ten.
    pub fn ticks(&self, wanted: u32) -> Vec<f64> {
        if self.logarithmic {
            let (first, last) = (
                self.low.log10().ceil() as i32,
                (self.high.log10() + 1e-9).floor() as i32,
            );
            return (first..=last).map(|power| 10_f64.powi(power)).collect();
        }
        let step = round_step((self.high - self.low) / f64::from(wanted));
        let (first, last) = (
            (self.low / step - 1e-9).ceil() as i64,
            (self.high / step + 1e-9).floor() as i64,
        );
        (first..=last).map(|count| count as f64 * step).collect()
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
pub fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(f64::MIN_POSITIVE).log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(power)
}

/// The labels of a time axis in seconds.
pub fn seconds(at: f64) -> String {
    if at == 0.0 {
        "0".to_owned()
    } else {
        super::super::human::time(Duration::from_secs_f64(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_scale() {
        assert_eq!(Scale::linear(0.0, 2.03, (0, 400)).ticks(4), [0.0, 1.0, 2.0]);
        assert_eq!(Scale::linear(0.0, 12.2, (0, 400)).ticks(6), [0.0, 5.0, 10.0]);
        assert_eq!(
            Scale::linear(270.0, 330.0, (0, 400)).ticks(6),
            [270.0, 280.0, 290.0, 300.0, 310.0, 320.0, 330.0]
        );
        assert_eq!(
            Scale::logarithmic(0.001, 1.0, (0, 300)).ticks(4),
            [0.001, 0.01, 0.1, 1.0]
        );
    }

    #[test]
    fn numbers_lie_where_they_belong() {
        let linear = Scale::linear(0.0, 2.0, (100, 300));
        assert_eq!(
            [0.0, 1.0, 2.0, 5.0].map(|number| linear.at(number)),
            [100, 200, 300, 300]
        );
        let logarithmic = Scale::logarithmic(0.001, 1.0, (0, 300));
        assert_eq!(
            [0.0, 0.001, 0.01, 1.0].map(|number| logarithmic.at(number)),
            [0, 0, 100, 300]
        );
    }
}
