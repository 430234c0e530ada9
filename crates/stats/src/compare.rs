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
use crate::summary::EXACT_FROM;
use crate::value::{Value, check_sample};

/// How a comparison is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// The interval's confidence is `1 − alpha`. Default 0.05.
    pub alpha: f64,
    /// A change is significant when its adjusted p is below this. Default [`SIGNIFICANCE`].
    pub significance: f64,
}

/// Of a hundred comparisons of a thing with itself at most one is called a change.
pub const SIGNIFICANCE: f64 = 0.01;

impl Default for Options {
    fn default() -> Self {
        Self {
            alpha: 0.05,
            significance: SIGNIFICANCE,
        }
    }
}

impl Options {
    fn check(self) -> Result<(), StatsError> {
        let wrong = [self.alpha, self.significance]
            .into_iter()
            .find(|level| !(*level > 0.0 && *level < 1.0));
        wrong.map_or(Ok(()), |alpha| Err(StatsError::BadAlpha { alpha }))
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
    /// Set when every value of each side equals the others of its side. A sample of one value is not constant.
    pub constant: bool,
    /// The significance level that the comparison was made for.
    pub significance: f64,
    /// How often the comparison may have been looked at, with the measurement ending because it was decided: every
    /// look is a chance of a false verdict, so p is multiplied by their number (Bonferroni) before it is judged. 1 for
    /// a measurement that ended for another reason.
    pub looks: usize,
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

    /// Equal values on each side, and too few on one to be called exact: they look surer than they are.
    #[must_use]
    pub fn few_equal(&self) -> bool {
        self.constant && self.n() < EXACT_FROM
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
        constant: constant(base) && constant(other),
        significance: options.significance,
        looks: 1,
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
        constant: constant(base) && constant(other),
        significance: options.significance,
        looks: 1,
    })
}

/// Rounds (or values on each side) without which no result reaches significance when `tests` results are judged
/// together: the smallest p that exists is 2^(1 − n) of pairs and 2/C(2n, n) of two samples, and Holm's method
/// multiplies the smallest p by the number of tests.
///
/// ```
/// use truecount_stats::{Design, smallest_n};
/// assert_eq!(smallest_n(Design::Unpaired, 0.01, 1), 5); // 2/C(10, 5) = 0.0079
/// assert_eq!(smallest_n(Design::Paired, 0.01, 2), 9); // 2 · 2^(−8) = 0.0078
/// ```
#[must_use]
pub fn smallest_n(design: Design, significance: f64, tests: usize) -> usize {
    const MAX: usize = 2000;
    let tests = tests.max(1) as f64;
    (1..MAX)
        .find(|&n| {
            let p = match design {
                Design::Paired => 0.5f64.powf(n as f64 - 1.0),
                Design::Unpaired => 2.0 / choose(2 * n, n),
            };
            p * tests < significance
        })
        .unwrap_or(MAX)
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

fn constant<T: Value>(values: &[T]) -> bool {
    values.len() > 1 && all_equal(values).is_some()
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

    const O: Options = Options {
        alpha: 0.05,
        significance: SIGNIFICANCE,
    };

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
    fn the_smallest_n_is_where_the_smallest_p_suffices() {
        for (significance, tests) in [(0.05, 1), (0.05, 7), (0.01, 1), (0.01, 2), (0.01, 16)] {
            for design in [Design::Paired, Design::Unpaired] {
                let smallest_p = |n: usize| {
                    let (a, b) = (vec![1u64; n], vec![2; n]);
                    let c = match design {
                        Design::Paired => compare_paired(&a, &b, &O),
                        Design::Unpaired => compare_unpaired(&a, &b, &O),
                    };
                    c.unwrap().p * tests as f64
                };
                let n = smallest_n(design, significance, tests);
                assert!(smallest_p(n) < significance && smallest_p(n - 1) >= significance);
            }
        }
        // The figures of the design: 4 + 4 reach .029, 5 + 5 reach .008.
        assert_eq!(smallest_n(Design::Unpaired, 0.03, 1), 4);
        assert_eq!(smallest_n(Design::Unpaired, 0.008, 1), 5);
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
                compare_paired(&[1u64], &[1], &Options { alpha, ..O }),
                Err(StatsError::BadAlpha { .. })
            ));
        }
    }
}
