//! The prefetch window: how much time a prefetch must win, and how many iterations ahead that is.

use super::{Histogram, Mode};

/// What the histogram of a block with a load that misses says about a prefetch.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefetchWindow {
    /// All modes; the first is the block without the miss.
    pub modes: Vec<Mode>,
    /// Cycles without the miss.
    pub base: f64,
    /// Cycles with the miss: of the later modes the one that costs most, by weight × (cycles − base).
    pub miss: f64,
    /// `miss − base`: what the prefetch must run ahead.
    pub window: f64,
    /// Iterations ahead, `ceil(window / base)`, when the block is a loop's body.
    pub distance: Option<u64>,
}

/// Cycles that a load which misses costs more than one that hits: from the second level's (12 to 17 against 4 to 5) to
/// memory behind another socket with its page walks. A slower mode is that of page faults, interrupts, other threads.
const EXPLAINED: std::ops::RangeInclusive<f64> = 6.0..=3000.0;

impl PrefetchWindow {
    /// From the cycles of a block (or of a loop's iteration, with `is_loop`); `None` when no later mode is one that a load can
    /// explain (6 to 3,000 cycles more than the first).
    ///
    /// ```
    /// use truecount_sample::blocks::{Histogram, PrefetchWindow};
    /// let h = Histogram::new(vec![(20, 900), (300, 400)]);
    /// let w = PrefetchWindow::of(&h, true).unwrap();
    /// assert_eq!((w.base, w.miss, w.distance), (20.0, 300.0, Some(14)));
    /// ```
    #[must_use]
    pub fn of(cycles: &Histogram, is_loop: bool) -> Option<Self> {
        let modes = cycles.modes();
        let (first, later) = modes.split_first()?;
        let base = first.cycles;
        let cost = |m: &Mode| m.weight * (m.cycles - base);
        let miss = later
            .iter()
            .filter(|mode| EXPLAINED.contains(&(mode.cycles - base)))
            .max_by(|a, b| cost(a).total_cmp(&cost(b)))?
            .cycles;
        let window = miss - base;
        let distance = (is_loop && base > 0.0).then(|| (window / base).ceil() as u64);
        Some(Self {
            modes,
            base,
            miss,
            window,
            distance,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(modes: &[(u16, u64)]) -> Option<f64> {
        PrefetchWindow::of(&Histogram::new(modes.to_vec()), false).map(|w| w.window)
    }

    #[test]
    fn only_what_a_load_can_cost_is_a_miss() {
        assert_eq!(window(&[(20, 900), (338, 400)]), Some(318.0));
        // A store that forwards late, a branch that is not fused; a page fault, an interrupt.
        assert_eq!(window(&[(20, 900), (24, 400)]), None);
        assert_eq!(window(&[(20, 900), (9000, 400)]), None);
        assert_eq!(window(&[(20, 900), (338, 400), (9000, 400)]), Some(318.0));
    }
}
