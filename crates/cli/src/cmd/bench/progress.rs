//! The progress bar: on stderr, only on a terminal, only when it takes longer than a second.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use truecount_run::rounds::Progress;

/// Shorter benches show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears late.
pub(super) struct Bar {
    bar: ProgressBar,
    what: &'static str,
    start: Instant,
    steps: usize,
    total: Option<usize>,
    time: Option<Duration>,
    visible: bool,
}

impl Bar {
    /// A bar of nothing yet.
    pub(super) fn new() -> Self {
        Self {
            bar: ProgressBar::hidden(),
            what: "",
            start: Instant::now(),
            steps: 0,
            total: None,
            time: None,
            visible: false,
        }
    }
}

impl Progress for Bar {
    fn begin(&mut self, what: &'static str, total: Option<usize>, time: Option<Duration>) {
        *self = Self {
            bar: ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::hidden()),
            what,
            total,
            time,
            ..Self::new()
        };
    }

    fn step(&mut self) {
        self.steps += 1;
        if self.start.elapsed() < PATIENCE || !std::io::stderr().is_terminal() {
            return;
        }
        if !self.visible {
            self.visible = true;
            self.bar
                .set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
                self.bar.set_style(style);
            }
        }
        let share = match (self.total, self.time) {
            (Some(total), _) => self.steps as f64 / total.max(1) as f64,
            (None, Some(time)) => self.start.elapsed().as_secs_f64() / time.as_secs_f64(),
            (None, None) => 0.0,
        };
        self.bar.set_position((share.min(1.0) * 1000.0) as u64);
        let left = if share > 0.02 {
            let left = self.start.elapsed().as_secs_f64() * (1.0 / share.min(1.0) - 1.0);
            format!(", about {left:.0} s left")
        } else {
            String::new()
        };
        self.bar.set_message(match self.total {
            Some(total) => format!("{} {} of {total}{left}", self.what, self.steps),
            None => format!("{} {}{left}", self.what, self.steps),
        });
    }

    fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}
