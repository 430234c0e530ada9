//! Comparing one metric of two commands: an effect, its interval, and p.
//!
//! All comparisons are made on log ratios (other / base), so the effect is a factor and does not
//! depend on which command is the base. Measured together (`compare_paired`): one log ratio per
//! round, Hodges–Lehmann estimate, Wilcoxon signed-rank. With a saved baseline
//! (`compare_unpaired`): Hodges–Lehmann shift of the logarithms, Mann–Whitney.
//!
//! **Zeros.** 0 against 0 is not a change; more than 0 against 0 is an infinite factor, and 0 against
//! more than 0 the factor 0. Rank methods take infinite values as they are (they rank outermost),
//! so no constant is invented to keep logarithms finite. An interval that reaches ∞ says that the
//! data do not bound the factor. Opposite infinities average to "no change".

use crate::StatsError;
use crate::mann_whitney::{mann_whitney, shift, shift_interval};
use crate::signed_rank::{signed_rank, walsh_interval, walsh_median};
use crate::value::{Value, check_sample};

/// How a comparison is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Significance level; the interval's confidence is `1 − alpha`. Default 0.05.
    pub alpha: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { alpha: 0.05 }
    }
}

impl Options {
    fn check(self) -> Result<(), StatsError> {
        if self.alpha > 0.0 && self.alpha < 1.0 {
            Ok(())
        } else {
            Err(StatsError::BadAlpha { alpha: self.alpha })
        }
    }
}

/// How the two samples were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Design {
    /// In the same rounds: one value of each side per round.
    Paired,
    /// Apart, as with a saved baseline.
    Unpaired,
}

/// One metric of `other` against `base`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// How the samples were measured.
    pub design: Design,
    /// Values of the base.
    pub n_base: usize,
    /// Values of the other.
    pub n_other: usize,
    /// Estimated factor other / base; `f64::INFINITY` when the base is mostly 0.
    pub ratio: f64,
    /// Interval of the factor; `None` when there are too few values for one.
    pub interval: Option<(f64, f64)>,
    /// Actual confidence of the interval where it is exact, else the nominal one.
    pub confidence: f64,
    /// Two-sided p, not adjusted for the number of metrics.
    pub p: f64,
    /// Whether p and the interval come from exact distributions (else: normal approximation).
    pub exact_p: bool,
    /// Set when every difference (other − base) is this same non-zero value: an exact change.
    pub exact_change: Option<f64>,
    /// Set when no result could reach p < alpha: values needed on each side.
    pub too_small: Option<usize>,
    /// The significance level that the comparison was made for.
    pub alpha: f64,
}

impl Comparison {
    /// Estimated relative change: 0.02 for 2 % more.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.ratio - 1.0
    }

    /// Rounds, or values on each side, that the comparison rests on: the smaller side's.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n_base.min(self.n_other)
    }

    /// The comparison seen from the other side.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            n_base: self.n_other,
            n_other: self.n_base,
            ratio: self.ratio.recip(),
            interval: self.interval.map(|(low, high)| (high.recip(), low.recip())),
            exact_change: self.exact_change.map(|d| -d),
            ..*self
        }
    }
}

/// Compares two commands measured in the same rounds; `base[i]` and `other[i]` are of round `i`.
///
/// # Errors
/// Samples that are empty, of unequal length, or hold NaN, infinite or negative values.
///
/// ```
/// use truecount_stats::{Options, compare_paired};
/// let base = [1000u64, 1001, 1000, 1003, 1000, 1000, 1002];
/// let other = [1020u64, 1021, 1020, 1024, 1020, 1020, 1021];
/// let c = compare_paired(&base, &other, &Options::default())?;
/// assert!((c.ratio - 1.02).abs() < 0.001 && c.p < 0.05);
/// # Ok::<(), truecount_stats::StatsError>(())
/// ```
pub fn compare_paired<T: Value>(
    base: &[T],
    other: &[T],
    options: &Options,
) -> Result<Comparison, StatsError> {
    options.check()?;
    if base.len() != other.len() {
        return Err(StatsError::LengthMismatch {
            base: base.len(),
            other: other.len(),
        });
    }
    check_sample(base)?;
    check_sample(other)?;
    let logs: Vec<f64> = base
        .iter()
        .zip(other)
        .map(|(b, o)| o.log_ratio(*b))
        .collect();
    let test = signed_rank(&logs);
    let interval = walsh_interval(&logs, options.alpha);
    let needed = pairs_needed(options.alpha);
    Ok(Comparison {
        design: Design::Paired,
        n_base: base.len(),
        n_other: other.len(),
        ratio: walsh_median(&logs).exp(),
        interval: interval.map(|(low, high, _)| (low.exp(), high.exp())),
        confidence: interval.map_or(1.0 - options.alpha, |(_, _, c)| c),
        p: test.p,
        exact_p: test.exact,
        exact_change: constant_change(base, other),
        too_small: (base.len() < needed).then_some(needed),
        alpha: options.alpha,
    })
}

/// Compares a command with a baseline that was measured apart.
///
/// # Errors
/// Samples that are empty, or hold NaN, infinite or negative values.
///
/// ```
/// use truecount_stats::{Options, compare_unpaired};
/// let base = [5.1, 5.0, 5.2, 5.05, 5.15];
/// let other = [5.6, 5.5, 5.7, 5.65, 5.75];
/// let c = compare_unpaired(&base, &other, &Options::default())?;
/// assert!((c.ratio - 1.108).abs() < 0.01);
/// # Ok::<(), truecount_stats::StatsError>(())
/// ```
pub fn compare_unpaired<T: Value>(
    base: &[T],
    other: &[T],
    options: &Options,
) -> Result<Comparison, StatsError> {
    options.check()?;
    check_sample(base)?;
    check_sample(other)?;
    // Logarithms against one reference value keep neighbouring large counts apart.
    let reference = reference(base, other);
    let log =
        |values: &[T]| -> Vec<f64> { values.iter().map(|v| v.log_ratio(reference)).collect() };
    let (a, b) = (log(base), log(other));
    let test = mann_whitney(&a, &b);
    let interval = shift_interval(&a, &b, options.alpha);
    let smallest_p = 2.0 / choose(base.len() + other.len(), base.len());
    let exact_change = match (all_equal(base), all_equal(other)) {
        (Some(b), Some(o)) if o.order(&b).is_ne() => Some(o.minus(b)),
        _ => None,
    };
    Ok(Comparison {
        design: Design::Unpaired,
        n_base: base.len(),
        n_other: other.len(),
        ratio: shift(&a, &b).exp(),
        interval: interval.map(|(low, high, _)| (low.exp(), high.exp())),
        confidence: interval.map_or(1.0 - options.alpha, |(_, _, c)| c),
        p: test.p,
        exact_p: test.exact,
        exact_change,
        too_small: (smallest_p >= options.alpha || interval.is_none())
            .then(|| each_needed(options.alpha)),
        alpha: options.alpha,
    })
}

/// Pairs without which no signed-rank p is below `alpha`: the smallest p is 2^(1 − n).
fn pairs_needed(alpha: f64) -> usize {
    (1..2000)
        .find(|&n| 2f64.powi(1 - n) < alpha)
        .unwrap_or(2000) as usize
}

/// Values on each side without which no Mann–Whitney p is below `alpha`.
fn each_needed(alpha: f64) -> usize {
    (1..500)
        .find(|&n| 2.0 / choose(2 * n, n) < alpha)
        .unwrap_or(500)
}

fn choose(n: usize, k: usize) -> f64 {
    (1..=k.min(n - k)).fold(1.0, |c, i| c * (n - i + 1) as f64 / i as f64)
}

/// The smallest value above zero of either side; any value when all are zero.
fn reference<T: Value>(base: &[T], other: &[T]) -> T {
    base.iter()
        .chain(other)
        .copied()
        .filter(|v| v.to_f64() > 0.0)
        .min_by(Value::order)
        .unwrap_or(base[0])
}

/// The one non-zero difference of all rounds, if there is one.
fn constant_change<T: Value>(base: &[T], other: &[T]) -> Option<f64> {
    let (b, o) = (*base.first()?, *other.first()?);
    let constant = base
        .iter()
        .zip(other)
        .all(|(x, y)| y.differs_as(*x, (o, b)));
    (constant && o.order(&b).is_ne()).then(|| o.minus(b))
}

fn all_equal<T: Value>(values: &[T]) -> Option<T> {
    let first = *values.first()?;
    values
        .iter()
        .all(|v| v.order(&first).is_eq())
        .then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const O: Options = Options { alpha: 0.05 };

    #[test]
    fn exact_changes_are_named() {
        let c = compare_paired(&[100u64; 7], &[117; 7], &O).unwrap();
        assert_eq!(c.exact_change, Some(17.0));
        assert!((c.ratio - 1.17).abs() < 1e-12);
        let (low, high) = c.interval.unwrap();
        assert!((low - 1.17).abs() < 1e-12 && (high - 1.17).abs() < 1e-12);
        let same = compare_paired(&[100u64; 7], &[100; 7], &O).unwrap();
        assert_eq!((same.exact_change, same.p, same.ratio), (None, 1.0, 1.0));
        let apart = compare_unpaired(&[100u64; 7], &[99; 7], &O).unwrap();
        assert_eq!(apart.exact_change, Some(-1.0));
    }

    #[test]
    fn five_pairs_are_too_small_and_six_are_not() {
        let five = compare_paired(&[1u64; 5], &[2; 5], &O).unwrap();
        assert_eq!((five.too_small, five.interval), (Some(6), None));
        let six = compare_paired(&[1u64; 6], &[2; 6], &O).unwrap();
        assert_eq!((six.too_small, six.p), (None, 0.03125));
        assert_eq!(
            compare_unpaired(&[1u64; 3], &[2; 3], &O).unwrap().too_small,
            Some(4)
        );
        assert_eq!(
            compare_unpaired(&[1u64; 4], &[2; 4], &O).unwrap().too_small,
            None
        );
    }

    #[test]
    fn zeros_give_bounded_answers_only_where_the_data_do() {
        let c = compare_paired(&[0u64; 6], &[0; 6], &O).unwrap();
        assert_eq!((c.ratio, c.interval, c.p), (1.0, Some((1.0, 1.0)), 1.0));
        let c = compare_paired(&[0u64; 8], &[5; 8], &O).unwrap();
        assert_eq!(c.ratio, f64::INFINITY);
        let c = compare_unpaired(&[5u64; 8], &[0; 8], &O).unwrap();
        assert_eq!((c.ratio, c.interval), (0.0, Some((0.0, 0.0))));
        let c =
            compare_paired(&[0u64, 1, 0, 2, 0, 1, 0, 1], &[1, 0, 2, 0, 1, 0, 1, 0], &O).unwrap();
        assert_eq!(c.interval, Some((0.0, f64::INFINITY)));
        assert_eq!(c.ratio, 1.0);
    }

    #[test]
    fn counts_beyond_2_53_are_told_apart() {
        let b = 1u64 << 60;
        let c = compare_paired(&[b; 6], &[b + 1; 6], &O).unwrap();
        assert_eq!(c.exact_change, Some(1.0));
        assert_eq!(c.p, 0.03125);
        let c = compare_paired(&[0, 0], &[b, b + 1], &O).unwrap();
        assert_eq!(c.exact_change, None);
        let c = compare_unpaired(&[b; 6], &[b + 1; 6], &O).unwrap();
        assert_eq!(c.exact_change, Some(1.0));
        assert!(c.p < 0.01);
    }

    #[test]
    fn bad_input_is_refused() {
        assert_eq!(
            compare_paired(&[1u64], &[1, 2], &O),
            Err(StatsError::LengthMismatch { base: 1, other: 2 })
        );
        assert_eq!(compare_paired::<u64>(&[], &[], &O), Err(StatsError::Empty));
        assert_eq!(
            compare_unpaired(&[1.0, f64::NAN], &[1.0], &O),
            Err(StatsError::NotFinite { index: 1 })
        );
        assert_eq!(
            compare_unpaired(&[1.0], &[-1.0], &O),
            Err(StatsError::Negative { index: 0 })
        );
        for alpha in [0.0, 1.0, f64::NAN] {
            assert!(matches!(
                compare_paired(&[1u64], &[1], &Options { alpha }),
                Err(StatsError::BadAlpha { .. })
            ));
        }
    }
}
