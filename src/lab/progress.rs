//! Progress bars on standard error; nothing at all where that is no terminal.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::strategy::Kind;

/// A bar a strategy.
#[derive(Debug)]
pub struct Bars(MultiProgress);

impl Bars {
    /// On the terminal, if there is one.
    pub fn on_terminal() -> Self {
        Self(MultiProgress::with_draw_target(ProgressDrawTarget::stderr()))
    }

    /// Shown to nobody.
    pub fn hidden() -> Self {
        Self(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()))
    }

    /// A bar of so many steps.
    pub fn add(&self, kind: Kind, steps: u64) -> ProgressBar {
        let bar = self.0.add(ProgressBar::new(steps));
        if let Ok(style) = ProgressStyle::with_template("  {prefix:<11} {bar:36.cyan/dim} {percent:>3} %  {msg}") {
            bar.set_style(style.progress_chars("━╸─"));
        }
        bar.set_prefix(kind.as_str());
        bar
    }

    /// Takes the bars away: the table says it all.
    pub fn clear(&self) {
        // A terminal that cannot be written to has shown nothing that could stay.
        let _ = self.0.clear();
    }
}
