//! That something goes on: on stderr, only on a terminal, only when it takes longer than a second.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears late, and goes when it is dropped.
pub(crate) struct Bar {
    bar: ProgressBar,
    begun: Instant,
    visible: bool,
}

impl Bar {
    /// A bar of work that begins now.
    pub(crate) fn new() -> Self {
        Self {
            bar: ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::hidden()),
            begun: Instant::now(),
            visible: false,
        }
    }

    /// Such a `share` (0 to 1) of the work is done; `text` says it in words.
    pub(crate) fn set(&mut self, share: f64, text: impl FnOnce() -> String) {
        if self.begun.elapsed() < PATIENCE || !std::io::stderr().is_terminal() {
            return;
        }
        if !self.visible {
            self.visible = true;
            let target = ProgressDrawTarget::stderr_with_hz(10);
            self.bar.set_draw_target(target);
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
                self.bar.set_style(style);
            }
        }
        self.bar
            .set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
        self.bar.set_message(text());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// For a measurement that takes this long; nothing where it is short or stderr is not a terminal.
pub(crate) fn spinner(time: Duration) -> ProgressBar {
    if time < PATIENCE || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    bar.set_message(format!(
        "measuring for {:.0} s (Ctrl-C ends it early)",
        time.as_secs_f64()
    ));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
