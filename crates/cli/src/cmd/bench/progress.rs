//! How far the rounds are.

use std::time::{Duration, Instant};

use truecount_run::rounds::Progress;

use crate::progress::Bar;

/// The bar of the runs under way.
pub(super) struct Shown {
    bar: Option<Bar>,
    what: &'static str,
    start: Instant,
    steps: usize,
    total: Option<usize>,
    time: Option<Duration>,
}

impl Shown {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            bar: None,
            what: "",
            start: Instant::now(),
            steps: 0,
            total: None,
            time: None,
        }
    }
}

impl Progress for Shown {
    fn begin(&mut self, what: &'static str, total: Option<usize>, time: Option<Duration>) {
        *self = Self {
            bar: Some(Bar::new()),
            what,
            total,
            time,
            ..Self::new()
        };
    }

    fn step(&mut self) {
        self.steps += 1;
        let (what, steps, elapsed) = (self.what, self.steps, self.start.elapsed().as_secs_f64());
        let share = match (self.total, self.time) {
            (Some(total), _) => steps as f64 / total.max(1) as f64,
            (None, Some(time)) => elapsed / time.as_secs_f64(),
            (None, None) => 0.0,
        };
        let Some(bar) = &mut self.bar else { return };
        bar.set(share, || {
            let left = match share > 0.02 {
                true => format!(
                    ", about {:.0} s left",
                    elapsed * (1.0 / share.min(1.0) - 1.0)
                ),
                false => String::new(),
            };
            let of = self
                .total
                .map_or(String::new(), |total| format!(" of {total}"));
            format!("{what} {steps}{of}{left}")
        });
    }

    fn finish(&mut self) {
        self.bar = None;
    }
}
