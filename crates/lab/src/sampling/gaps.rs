//! Time that is stolen from a program, as the program sees it: it looks at the clock all the time, and where two looks
//! lie further apart than they should, something else ran. Needs no privilege.
//!
//! The clock is `CLOCK_MONOTONIC` as the vdso computes it from the TSC (x86) or the virtual counter (Arm): the same clock
//! that stamps the samples, so that a gap and the sample taken inside it are found by their times alone.

use serde::{Deserialize, Serialize};

/// From the look before to the look after, ns of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The look before.
    pub from: u64,
    /// The look after.
    pub to: u64,
}

/// Now, ns.
#[inline]
#[must_use]
pub fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a place for the answer; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// A watch under way. Its state is in memory and each look a call of its own: a loop that kept all of it in registers
/// would take the frame pointer's, and samples taken in it would have no call chain.
struct Watch<'g> {
    end: u64,
    threshold: u64,
    last: u64,
    left_out: u64,
    gaps: &'g mut Vec<Gap>,
}

impl Watch<'_> {
    /// Looks once; whether it is not over.
    #[inline(never)]
    fn look(&mut self) -> bool {
        let time = now();
        if time.wrapping_sub(self.last) > self.threshold {
            self.gap(time);
        }
        self.last = time;
        time < self.end
    }

    #[cold]
    #[inline(never)]
    fn gap(&mut self, time: u64) {
        if self.gaps.len() < self.gaps.capacity() {
            self.gaps.push(Gap {
                from: self.last,
                to: time,
            });
        } else {
            self.left_out += 1;
        }
    }

    #[inline(never)]
    fn until_end(&mut self) {
        while self.look() {}
    }
}

/// Looks until `end`, below `depth` frames; gaps longer than `threshold` ns go into `gaps`, which never grows beyond its
/// capacity. Says how many found no room.
pub fn watch(end: u64, threshold: u64, gaps: &mut Vec<Gap>, depth: u32) -> u64 {
    let mut watch = Watch {
        end,
        threshold,
        last: now(),
        left_out: 0,
        gaps,
    };
    crate::loops::framed(depth, &mut || watch.until_end());
    watch.left_out
}

/// The time between two looks when nothing happens: the median of many.
#[must_use]
pub fn step() -> u64 {
    let mut steps: Vec<u64> = (0..2001)
        .map(|_| {
            let start = now();
            now().wrapping_sub(start)
        })
        .collect();
    steps.sort_unstable();
    steps.get(steps.len() / 2).copied().unwrap_or(0)
}

/// What counts as a gap, given the time of a step.
#[must_use]
pub fn threshold(step: u64) -> u64 {
    step.saturating_mul(3).saturating_add(60)
}

/// What one visit's gaps say, beside its samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// Length of each gap in which exactly one sample was taken, less a step.
    pub with_sample: Vec<u64>,
    /// Sum of all other gaps: the machine's own interruptions.
    pub other_ns: u64,
    /// Samples in no gap: the gap was below the threshold, or the clocks disagree.
    pub unmatched: u64,
    /// Gaps left out: more than one sample in them, or the thread was off the CPU meanwhile.
    pub left_out: u64,
}

/// Brings gaps and samples together by their times. `switches` are the times at which the thread left the CPU. All in
/// order of time.
#[must_use]
pub fn match_up(gaps: &[Gap], samples: &[u64], switches: &[u64], step: u64) -> Matched {
    let mut found = Matched::default();
    let inside = |times: &[u64], gap: &Gap| -> (usize, usize) {
        let start = times.partition_point(|&time| time < gap.from);
        let end = times.partition_point(|&time| time <= gap.to);
        (start, end.saturating_sub(start))
    };
    let mut in_gaps = 0u64;
    for gap in gaps {
        let length = gap.to.saturating_sub(gap.from).saturating_sub(step);
        let (_, samples) = inside(samples, gap);
        let (_, switches) = inside(switches, gap);
        in_gaps += samples as u64;
        match (samples, switches) {
            (0, _) => found.other_ns = found.other_ns.saturating_add(length),
            (1, 0) => found.with_sample.push(length),
            _ => found.left_out += 1,
        }
    }
    let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else {
        return found;
    };
    // Outside the time watched no gap could be seen.
    let watched = Gap {
        from: first.from,
        to: last.to,
    };
    found.unmatched = (inside(samples, &watched).1 as u64).saturating_sub(in_gaps);
    found
}

/// A distribution of times, ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Values.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile (nearest rank).
    pub p99: u64,
    /// Largest.
    pub max: u64,
}

impl Spread {
    /// Of these values; `None` where there are none.
    #[must_use]
    pub fn of(values: &[u64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let n = sorted.len();
        // Nearest rank: the smallest value that at least this share of the values does not exceed.
        let rank = |share: usize| {
            let rank = (n * share).div_ceil(100).max(1);
            sorted.get(rank - 1).copied()
        };
        let sum: u128 = sorted.iter().map(|&v| u128::from(v)).sum();
        Some(Self {
            n: n as u64,
            mean: sum as f64 / n as f64,
            p50: rank(50)?,
            p99: rank(99)?,
            max: *sorted.last()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_find_their_gaps() {
        let gap = |from, to| Gap { from, to };
        let gaps = [
            gap(100, 1100),
            gap(2000, 2500),
            gap(3000, 9000),
            gap(10_000, 10_400),
        ];
        // One in the first, none in the second, a switch in the third, two in the fourth, one in none.
        let samples = [600, 1500, 3500, 10_100, 10_200];
        let found = match_up(&gaps, &samples, &[4000], 20);
        assert_eq!(found.with_sample, [980]);
        assert_eq!(
            (found.other_ns, found.unmatched, found.left_out),
            (480, 1, 2)
        );
        assert_eq!(match_up(&[], &samples, &[], 20), Matched::default());
    }

    #[test]
    fn percentiles_by_hand() {
        let values: Vec<u64> = (1..=200).rev().collect();
        let s = Spread::of(&values).unwrap();
        assert_eq!((s.n, s.p50, s.p99, s.max), (200, 100, 198, 200));
        assert!((s.mean - 100.5).abs() < 1e-9);
        let one = Spread::of(&[7]).unwrap();
        assert_eq!((one.p50, one.p99, one.max), (7, 7, 7));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_sleep_is_a_gap() {
        let step = step();
        let mut gaps = Vec::with_capacity(1 << 16);
        let begin = now();
        let left_out = watch(begin + 3_000_000, threshold(step), &mut gaps, 0);
        println!("step {step} ns, {} gaps, {left_out} left out", gaps.len());
        assert!(now() >= begin + 3_000_000);
        assert!(
            gaps.iter()
                .all(|g| g.to > g.from + threshold(step) && g.from >= begin)
        );
        // No room: counted, not stored.
        let mut none = Vec::new();
        watch(now() + 100_000, 0, &mut none, 0);
        assert!(none.is_empty());
    }
}
