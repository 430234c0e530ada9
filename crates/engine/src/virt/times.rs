//! The time of chosen blocks: the histograms that a run leaves.

use super::shared::Shared;
use crate::layout::{MAX_WATCHES, TIME_BINS, TIME_HISTOGRAM_BYTES, TIME_HISTOGRAMS, TIME_STATE};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// One interval's histogram, as read: the stamps' own time is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    /// (TSC cycles, how often), in the order of cycles.
    pub cycles: Vec<(u16, u64)>,
    /// Times that it took 65535 cycles or more.
    pub longer: u64,
}

/// What a run with [`super::Options::times`] measured, all threads together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// In the order of the intervals asked for.
    pub intervals: Vec<Timed>,
    /// Two adjacent stamps with nothing between, measured at the start of each process: what the
    /// stamps themselves take.
    pub empty: Timed,
    /// Processes that executed the program.
    pub processes: u32,
}

impl Timed {
    /// Median of the cycles; `None` without any.
    pub fn median(&self) -> Option<u16> {
        let half = self.cycles.iter().map(|bin| bin.1).sum::<u64>().div_ceil(2);
        let mut seen = 0;
        self.cycles.iter().find_map(|&(cycles, n)| {
            seen += n;
            (seen >= half).then_some(cycles)
        })
    }
}

pub(super) fn read(shared: &Shared) -> Option<Times> {
    let watched = shared.watched.as_ref()?;
    let numbers = (0..watched.intervals.len()).chain([MAX_WATCHES]);
    let mut sums = vec![BTreeMap::<u16, u64>::new(); MAX_WATCHES + 1];
    let mut times = Times::default();
    let end = shared
        .header()
        .next_slot
        .load(Ordering::Acquire)
        .min(crate::layout::MAX_SLOTS);
    for slot in 1..end {
        for number in numbers.clone() {
            // Its histogram is empty as long as no start was noted.
            let at = u64::from(TIME_STATE) + 16 * number as u64 + 8;
            if !shared.words(slot, at, 1).is_ok_and(|w| w != [0]) {
                continue;
            }
            times.processes += u32::from(number == MAX_WATCHES);
            let at = u64::from(TIME_HISTOGRAMS) + u64::from(TIME_HISTOGRAM_BYTES) * number as u64;
            let Ok(bins) = shared.words(slot, at, TIME_BINS as usize) else {
                continue;
            };
            for (cycles, n) in (0..=u16::MAX).zip(bins) {
                if n > 0
                    && let Some(sum) = sums.get_mut(number)
                {
                    *sum.entry(cycles).or_default() += n;
                }
            }
        }
    }
    let mut sums = sums.into_iter().map(|mut sum| Timed {
        longer: sum.remove(&u16::MAX).unwrap_or(0),
        cycles: sum.into_iter().collect(),
    });
    times.intervals = sums.by_ref().take(watched.intervals.len()).collect();
    times.empty = sums.next_back().unwrap_or_default();
    Some(times)
}
