//! Deviations from the truth, sample by sample, and what they say: a histogram, what each interrupt adds, what each
//! turn adds.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Distinct pairs of deviation and interrupts kept; a counter that needs more is not a counter of this quantity.
const MAX_PAIRS: usize = 4096;

/// Counts per interrupt that are looked for.
const PER_INTERRUPT: std::ops::RangeInclusive<i64> = -4..=4;

/// Interrupts that must have been seen before anything is said about one.
pub const MIN_INTERRUPTS: u64 = 5;

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// What was counted minus the truth.
    pub deviation: i64,
    /// Interrupts taken in user mode meanwhile, where they can be counted.
    pub interrupts: Option<u64>,
    /// How long it took.
    pub ns: u64,
}

/// The measurements of one counter on one loop.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Samples by deviation and interrupts.
    joint: BTreeMap<(i64, Option<u64>), u64>,
    /// Samples that found no room.
    left_out: u64,
    ns: u64,
}

/// A line of the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// What was counted minus the truth.
    pub deviation: i64,
    /// Measurements that deviated by this.
    pub samples: u64,
}

/// What the samples say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summed {
    /// Measurements.
    pub samples: u64,
    /// Of them below, at, and above the truth.
    pub under: u64,
    /// At the truth.
    pub exact: u64,
    /// Above it.
    pub over: u64,
    /// Smallest deviation.
    pub min: i64,
    /// Largest deviation.
    pub max: i64,
    /// Sum of all deviations.
    pub total: i64,
    /// Samples by deviation, the most frequent ones, in the order of deviation.
    pub histogram: Vec<Bar>,
    /// Samples that the histogram leaves out.
    pub left_out: u64,
    /// Seconds measured.
    pub seconds: f64,
    /// Interrupts taken in user mode meanwhile; `None` where nobody counted them.
    pub interrupts: Option<u64>,
    /// What one interrupt adds: the whole number that explains most samples, of this loop or (with few
    /// interrupts on it) of the others; `None` where too few were seen.
    pub per_interrupt: Option<i64>,
    /// What remains in most samples when that is subtracted.
    pub base: i64,
    /// Share of samples that `base + per_interrupt × interrupts` explains to the count.
    pub explained: f64,
}

impl Tally {
    /// Adds a measurement.
    pub fn add(&mut self, sample: Sample) {
        let key = (sample.deviation, sample.interrupts);
        self.ns = self.ns.saturating_add(sample.ns);
        if self.joint.len() < MAX_PAIRS || self.joint.contains_key(&key) {
            *self.joint.entry(key).or_insert(0) += 1;
        } else {
            self.left_out += 1;
        }
    }

    /// The most frequent value of `deviation − k × interrupts`, and how many samples have it. Of two as frequent, the
    /// one nearer to 0.
    fn mode(&self, k: i64) -> (i64, u64) {
        let mut rest: BTreeMap<i64, u64> = BTreeMap::new();
        for (&(deviation, interrupts), &samples) in &self.joint {
            let interrupts = i64::try_from(interrupts.unwrap_or(0)).unwrap_or(i64::MAX);
            let value = deviation.saturating_sub(k.saturating_mul(interrupts));
            *rest.entry(value).or_insert(0) += samples;
        }
        rest.into_iter()
            .max_by_key(|&(value, samples)| (samples, std::cmp::Reverse(value.unsigned_abs())))
            .unwrap_or((0, 0))
    }

    /// What the samples say; `None` where there are none. At most `bars` lines of histogram.
    ///
    /// `others` is what an interrupt adds to this counter on other loops: where too few interrupts were seen on this
    /// one to tell, it is taken from there.
    #[must_use]
    pub fn summed(&self, bars: usize, others: Option<i64>) -> Option<Summed> {
        let (&(least, _), &(most, _)) = (self.joint.keys().next()?, self.joint.keys().last()?);
        let mut histogram: BTreeMap<i64, u64> = BTreeMap::new();
        let mut total = 0i64;
        let mut interrupts = Some(0u64);
        for (&(deviation, taken), &samples) in &self.joint {
            *histogram.entry(deviation).or_insert(0) += samples;
            let many = i64::try_from(samples).unwrap_or(i64::MAX);
            total = total.saturating_add(deviation.saturating_mul(many));
            interrupts = interrupts
                .zip(taken)
                .map(|(sum, taken)| sum.saturating_add(taken.saturating_mul(samples)));
        }
        let count = |test: fn(i64) -> bool| -> u64 {
            let chosen = histogram.iter().filter(|&(&d, _)| test(d));
            chosen.map(|(_, samples)| samples).sum()
        };
        let kept: u64 = histogram.values().sum();
        let (under, exact, over) = (count(|d| d < 0), count(|d| d == 0), count(|d| d > 0));
        let enough = interrupts.is_some_and(|taken| taken >= MIN_INTERRUPTS);
        // Of two as good, the one that leaves nothing over; then the one nearer to 0: an interrupt that nothing speaks
        // for adds nothing.
        let best = PER_INTERRUPT
            .map(|k| (k, self.mode(k)))
            .max_by_key(|&(k, (base, samples))| {
                (
                    samples,
                    std::cmp::Reverse(base.unsigned_abs()),
                    std::cmp::Reverse(k.unsigned_abs()),
                )
            });
        let (k, (base, explained)) = match best {
            Some(best) if enough => (Some(best.0), best.1),
            _ => match others.filter(|_| interrupts.is_some_and(|taken| taken > 0)) {
                Some(k) => (Some(k), self.mode(k)),
                None => (None, self.mode(0)),
            },
        };
        let mut lines: Vec<Bar> = histogram
            .into_iter()
            .map(|(deviation, samples)| Bar { deviation, samples })
            .collect();
        lines.sort_by_key(|bar| (std::cmp::Reverse(bar.samples), bar.deviation.unsigned_abs()));
        let cut: u64 = lines.iter().skip(bars).map(|bar| bar.samples).sum();
        lines.truncate(bars);
        lines.sort_by_key(|bar| bar.deviation);
        Some(Summed {
            samples: kept.saturating_add(self.left_out),
            under,
            exact,
            over,
            min: least,
            max: most,
            total,
            histogram: lines,
            left_out: cut.saturating_add(self.left_out),
            seconds: self.ns as f64 / 1e9,
            interrupts,
            per_interrupt: k,
            base,
            explained: explained as f64 / (kept.saturating_add(self.left_out)).max(1) as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(samples: &[(i64, Option<u64>)]) -> Summed {
        let mut tally = Tally::default();
        for &(deviation, interrupts) in samples {
            tally.add(Sample {
                deviation,
                interrupts,
                ns: 1000,
            });
        }
        tally.summed(8, None).unwrap()
    }

    #[test]
    fn one_more_an_interrupt_is_found_among_interrupts() {
        let s = tally(&[
            (0, Some(0)),
            (1, Some(1)),
            (3, Some(3)),
            (0, Some(0)),
            (2, Some(2)),
            (1, Some(1)),
        ]);
        assert_eq!((s.per_interrupt, s.base, s.explained), (Some(1), 0, 1.0));
        assert_eq!((s.under, s.exact, s.over, s.total), (0, 2, 4, 7));
        assert_eq!((s.min, s.max, s.interrupts), (0, 3, Some(7)));
        assert!((s.seconds - 6e-6).abs() < 1e-12);
    }

    #[test]
    fn interrupts_that_add_nothing_add_nothing() {
        let s = tally(&[(0, Some(3)), (0, Some(0)), (0, Some(4))]);
        assert_eq!((s.per_interrupt, s.base, s.explained), (Some(0), 0, 1.0));
    }

    #[test]
    fn with_few_interrupts_nothing_is_said_about_one() {
        let s = tally(&[(0, Some(0)), (1, Some(1))]);
        assert_eq!((s.per_interrupt, s.interrupts), (None, Some(1)));
        let s = tally(&[(1, None), (0, None), (0, None)]);
        assert_eq!((s.per_interrupt, s.interrupts, s.base), (None, None, 0));
    }

    #[test]
    fn other_loops_tell_what_a_single_interrupt_adds() {
        let mut tally = Tally::default();
        for (deviation, interrupts) in [(0, 0), (1, 1), (0, 0)] {
            tally.add(Sample {
                deviation,
                interrupts: Some(interrupts),
                ns: 1,
            });
        }
        let s = tally.summed(8, Some(1)).unwrap();
        assert_eq!((s.per_interrupt, s.base, s.explained), (Some(1), 0, 1.0));
        let s = tally.summed(8, None).unwrap();
        assert!(s.per_interrupt.is_none() && s.explained < 1.0);
    }

    #[test]
    fn what_every_turn_adds_remains_as_the_base() {
        let s = tally(&[(128, Some(0)), (133, Some(5)), (128, Some(0))]);
        assert_eq!((s.per_interrupt, s.base, s.explained), (Some(1), 128, 1.0));
    }

    #[test]
    fn histograms_are_bounded_and_say_what_they_leave_out() {
        let mut tally = Tally::default();
        for i in 0..10_000i64 {
            tally.add(Sample {
                deviation: i % 5000,
                interrupts: None,
                ns: 0,
            });
        }
        let s = tally.summed(8, None).unwrap();
        assert_eq!((s.samples, s.histogram.len()), (10_000, 8));
        assert_eq!(
            s.left_out + s.histogram.iter().map(|b| b.samples).sum::<u64>(),
            10_000
        );
        assert!(Tally::default().summed(8, None).is_none());
    }
}
