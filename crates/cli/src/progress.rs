//! That something goes on, on a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

/// For a measurement that takes this long; nothing where it is short or stderr is not a terminal.
pub(crate) fn spinner(time: Duration) -> indicatif::ProgressBar {
    if time < Duration::from_secs(1) || !std::io::stderr().is_terminal() {
        return indicatif::ProgressBar::hidden();
    }
    let bar = indicatif::ProgressBar::new_spinner();
    bar.set_message(format!(
        "measuring for {:.0} s (Ctrl-C ends it early)",
        time.as_secs_f64()
    ));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
