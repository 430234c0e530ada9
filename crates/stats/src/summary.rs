//! What is printed for one metric: order statistics, never mean ± σ.
//!
//! Counters are near-deterministic integers with additive positive noise, discrete modes and rare
//! large outliers, so the headline is the median, the spread is the median absolute deviation
//! (scaled by 1.4826 so that it estimates σ of a normal sample: Rousseeuw and Croux 1993), and a
//! sample of at least five values without any spread is called exact.

use crate::StatsError;
use crate::modes::{Mode, find_modes};
use crate::order::{MAD_TO_SIGMA, median_sorted, quantile_sorted, sort};
use crate::value::{Number, Value, check_sample};

/// So many equal values are called exact; fewer are "n of n equal". Two equal runs show little: a program that
/// throws one coin gives them half the time, and five equal ones in one case of sixteen.
pub const EXACT_FROM: usize = 5;

/// One metric's sample in order statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// Median; the mean of the two middle values when `n` is even.
    pub median: Number,
    /// Smallest value; a count is kept in full.
    pub min: Number,
    /// Largest value; a count is kept in full.
    pub max: Number,
    /// Scaled median absolute deviation from the median, in the sample's unit.
    pub mad: f64,
    /// First quartile.
    pub q1: f64,
    /// Third quartile.
    pub q3: f64,
    /// Number of distinct values.
    pub distinct: usize,
    /// Whether all values are equal and there are at least [`EXACT_FROM`].
    pub exact: bool,
    /// Positions of outliers in the order measured: values beyond the outer fences
    /// (Q1 − 3·IQR, Q3 + 3·IQR; Tukey 1977) of the mode that they are nearest to.
    pub outliers: Vec<usize>,
    /// Separate modes in ascending order; one when the sample has one body.
    pub modes: Vec<Mode>,
}

impl Summary {
    /// Describes a sample of counts (`u64`) or quantities (`f64`).
    ///
    /// # Errors
    /// The sample is empty, or holds NaN, infinite or negative values.
    ///
    /// ```
    /// use truecount_stats::{Number, Summary};
    /// let s = Summary::of(&[95_533u64, 95_533, 95_540])?;
    /// assert_eq!((s.median, s.distinct, s.exact), (Number::Count(95_533), 2, false));
    /// assert!(Summary::of(&[0.25; 5])?.exact);
    /// # Ok::<(), truecount_stats::StatsError>(())
    /// ```
    pub fn of<T: Value>(values: &[T]) -> Result<Self, StatsError> {
        check_sample(values)?;
        let mut sorted = values.to_vec();
        sorted.sort_by(Value::order);
        let n = sorted.len();
        let (min, max) = (sorted[0], sorted[n - 1]);
        // Offsets from the minimum: spreads of large counts stay exact in f64.
        let offsets: Vec<f64> = sorted.iter().map(|v| v.minus(min)).collect();
        let centre = median_sorted(&offsets);
        let mut away: Vec<f64> = offsets.iter().map(|o| (o - centre).abs()).collect();
        sort(&mut away);
        let distinct = 1 + sorted
            .windows(2)
            .filter(|w| w[0].order(&w[1]).is_ne())
            .count();
        let bodies = find_modes(&offsets);
        let fences: Vec<(f64, f64)> = bodies
            .iter()
            .map(|b| outer_fences(&offsets[b.clone()]))
            .collect();
        let outliers = values
            .iter()
            .enumerate()
            .filter(|(_, v)| {
                let o = v.minus(min);
                !fences.iter().any(|&(low, high)| low <= o && o <= high)
            })
            .map(|(i, _)| i)
            .collect();
        let modes = bodies
            .iter()
            .map(|b| Mode {
                weight: b.len() as f64 / n as f64,
                count: b.len(),
                min: sorted[b.start].number(),
                max: sorted[b.end - 1].number(),
                median: middle(&sorted[b.clone()]),
            })
            .collect();
        Ok(Self {
            n,
            median: middle(&sorted),
            min: min.number(),
            max: max.number(),
            mad: MAD_TO_SIGMA * median_sorted(&away),
            q1: min.to_f64() + quantile_sorted(&offsets, 0.25),
            q3: min.to_f64() + quantile_sorted(&offsets, 0.75),
            distinct,
            exact: n >= EXACT_FROM && distinct == 1,
            outliers,
            modes,
        })
    }

    /// Spread relative to the median; `None` when the median is 0.
    #[must_use]
    pub fn relative_spread(&self) -> Option<f64> {
        let median = self.median.to_f64();
        (median > 0.0).then(|| self.mad / median)
    }
}

fn middle<T: Value>(sorted: &[T]) -> Number {
    let n = sorted.len();
    sorted[(n - 1) / 2].middle(sorted[n / 2])
}

fn outer_fences(sorted: &[f64]) -> (f64, f64) {
    let (q1, q3) = (quantile_sorted(sorted, 0.25), quantile_sorted(sorted, 0.75));
    (q1 - 3.0 * (q3 - q1), q3 + 3.0 * (q3 - q1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn values_by_hand() {
        let s = Summary::of(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap();
        assert_eq!(s.median, Number::Real(3.0));
        assert!((s.mad - 1.4826).abs() < 1e-12);
        assert_eq!((s.q1, s.q3), (2.0, 4.0));
        assert_eq!(s.outliers, [4]);
        assert_eq!(s.distinct, 5);
        let s = Summary::of(&[3u64, 4]).unwrap();
        assert_eq!(s.median, Number::Real(3.5));
    }

    #[test]
    fn large_counts_stay_exact() {
        let top = u64::MAX;
        let s = Summary::of(&[top, top - 1, top - 2]).unwrap();
        assert_eq!((s.min, s.max), (Number::Count(top - 2), Number::Count(top)));
        assert_eq!((s.median, s.distinct), (Number::Count(top - 1), 3));
        assert!((s.mad - 1.4826).abs() < 1e-12 && !s.exact);
        assert!(Summary::of(&[top; 5]).unwrap().exact);
    }

    #[test]
    fn a_few_equal_values_are_not_called_exact() {
        for n in 1..EXACT_FROM {
            let s = Summary::of(&vec![7u64; n]).unwrap();
            assert!(!s.exact && s.distinct == 1, "{n}");
        }
        let s = Summary::of(&[7u64]).unwrap();
        assert!(!s.exact && s.mad == 0.0 && s.modes.len() == 1 && s.outliers.is_empty());
        assert_eq!(Summary::of::<u64>(&[]), Err(StatsError::Empty));
    }

    #[test]
    fn modes_carry_weights_and_outliers_are_found_beside_them() {
        let mut v = vec![1_000u64; 12];
        v.extend([1_017; 8]);
        v.push(9_000);
        let s = Summary::of(&v).unwrap();
        assert_eq!(s.modes.len(), 2, "{:?}", s.modes);
        assert_eq!(
            (s.modes[0].count, s.modes[1].median),
            (12, Number::Count(1_017))
        );
        assert_eq!(s.outliers, [20]);
    }

    #[test]
    fn order_of_measuring_does_not_matter() {
        let mut rng = Rng::new(1);
        for _ in 0..200 {
            let mut v: Vec<u64> = (0..=rng.below(40)).map(|_| rng.below(1 << 40)).collect();
            let mut a = Summary::of(&v).unwrap();
            rng.shuffle(&mut v);
            let mut b = Summary::of(&v).unwrap();
            assert_eq!(a.outliers.len(), b.outliers.len());
            a.outliers.clear();
            b.outliers.clear();
            assert_eq!(a, b);
            assert!(a.min.to_f64() <= a.median.to_f64() && a.median.to_f64() <= a.max.to_f64());
            assert_eq!(a.modes.iter().map(|m| m.count).sum::<usize>(), v.len());
        }
    }
}
