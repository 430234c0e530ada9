//! A bar for work on big recordings.

use std::io::IsTerminal as _;
use std::sync::mpsc::{RecvTimeoutError, channel};

use crate::progress::{Bar, PATIENCE};

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
            let mut bar = Bar::new();
            while ended.recv_timeout(PATIENCE / 5) == Err(RecvTimeoutError::Timeout) {
                let share = share().clamp(0.0, 1.0);
                bar.set(share, || format!("{what}, {:.0} %", 100.0 * share));
            }
        });
        // Also when the work panics: the thread ends with the sender.
        let _done = done;
        work()
    })
}
