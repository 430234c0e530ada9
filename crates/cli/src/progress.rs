//! That something goes on: on stderr, on a terminal a bar where it takes longer than a second, elsewhere a line now and
//! then.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
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

/// Steps of how many are done, told from a thread of its own, since a step may take long.
pub(crate) struct Steps {
    bar: Bar,
    words: Words,
    state: Arc<State>,
    teller: Option<(Sender<()>, JoinHandle<()>)>,
}

#[derive(Default)]
struct State {
    done: AtomicU64,
    all: AtomicU64,
}

/// What a line says.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// Before it, as in `truecount noise`.
    pub(crate) command: &'static str,
    /// Of what there are so many.
    pub(crate) step: &'static str,
    /// Said once where a step does not end.
    pub(crate) slow: Option<&'static str>,
}

/// Between two lines; tests need not wait so long.
fn now_and_then() -> Duration {
    let stated = std::env::var("TRUECOUNT_TEST_PROGRESS_MS").ok();
    stated
        .and_then(|text| text.parse().ok())
        .map_or(Duration::from_secs(20), Duration::from_millis)
}

impl Steps {
    /// Begins to tell. The signals are blocked by then: its thread takes none.
    pub(crate) fn start(words: Words) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let state = Arc::new(State::default());
        let (end, ended) = channel();
        let bar = Bar::new();
        let (seen, shown) = (Arc::clone(&state), bar.bar.clone());
        let teller = std::thread::Builder::new().spawn(move || {
            let (begun, mut before, mut hint) = (Instant::now(), None, words.slow);
            let pause = now_and_then();
            while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let done = seen.done.load(Ordering::Relaxed);
                let mut lines = Vec::new();
                if !terminal {
                    lines.push(line(
                        words,
                        done,
                        seen.all.load(Ordering::Relaxed),
                        begun.elapsed(),
                    ));
                }
                if before.replace(done) == Some(done) {
                    lines.extend(hint.take().map(str::to_owned));
                }
                for text in lines {
                    let text = format!("{}: {text}", words.command);
                    if terminal {
                        shown.println(text);
                    } else {
                        // A stderr that is closed is not missed.
                        let _ = writeln!(std::io::stderr(), "{text}");
                    }
                }
            }
        });
        Self {
            bar,
            words,
            state,
            // Without a thread nothing is told.
            teller: teller.ok().map(|thread| (end, thread)),
        }
    }

    /// So many of how many are done.
    pub(crate) fn are(&mut self, done: u64, all: u64) {
        self.state.done.store(done, Ordering::Relaxed);
        self.state.all.store(all, Ordering::Relaxed);
        let step = self.words.step;
        self.bar.set(done as f64 / all.max(1) as f64, || {
            format!("{step} {done} of {all}")
        });
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.teller.take() {
            drop(end);
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

fn line(words: Words, done: u64, all: u64, since: Duration) -> String {
    let seconds = since.as_secs_f64();
    let left = match done {
        0 => String::new(),
        done => {
            let left = seconds * (all.saturating_sub(done) as f64 / done as f64);
            format!(", about {left:.0} s left")
        }
    };
    format!("{} {done} of {all} after {seconds:.0} s{left}", words.step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let words = Words {
            command: "truecount noise",
            step: "run",
            slow: None,
        };
        let at = Duration::from_secs(20);
        assert_eq!(line(words, 0, 70, at), "run 0 of 70 after 20 s");
        assert_eq!(
            line(words, 20, 60, at),
            "run 20 of 60 after 20 s, about 40 s left"
        );
    }
}
