//! A bar for work on big recordings: on stderr, only on a terminal, only when it takes longer than a second.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does the work; `share` (0 to 1) says from another thread how far it is.
pub(crate) fn watched<T>(
    what: &str,
    share: impl Fn() -> f64 + Sync,
    work: impl FnOnce() -> T,
) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, ended) = channel::<()>();
        let share = &share;
        scope.spawn(move || {
            if ended.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
                bar.set_style(style);
            }
            loop {
                let share = share().clamp(0.0, 1.0);
                bar.set_position((share * 1000.0) as u64);
                bar.set_message(format!("{what}, {:.0} %", 100.0 * share));
                if ended.recv_timeout(PATIENCE / 5) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            bar.finish_and_clear();
        });
        // Also when the work panics: the thread ends with the sender.
        let _done = done;
        work()
    })
}
