//! Wilcoxon's signed-rank test and the interval that inverts it.
//!
//! Wilcoxon 1945; Hollander, Wolfe and Chicken, "Nonparametric Statistical Methods", 3rd edition,
//! sections 3.1 to 3.3. Zero differences are dropped before ranking (Wilcoxon's own way,
//! `zero_method="wilcox"` in SciPy). Up to [`EXACT_UP_TO`] pairs the null distribution is counted
//! exactly, given the ties there are (what SciPy computes with an exhaustive `PermutationMethod`,
//! and with `method="exact"` where nothing ties); above, the normal approximation with tie
//! correction and without continuity correction (SciPy's `method="asymptotic"`).

use crate::normal;
use crate::order::{doubled_midranks, kth_walsh, median_of, sort};

/// Up to this many pairs the distribution is counted exactly.
pub const EXACT_UP_TO: usize = 25;

/// The outcome of a signed-rank test of "the differences are symmetric about zero".
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// Differences that are not zero.
    pub used: usize,
    /// Sum of the ranks of the positive differences.
    pub w_plus: f64,
    /// Sum of the ranks of the negative differences.
    pub w_minus: f64,
    /// Two-sided p; 1 when every difference is zero.
    pub p: f64,
    /// Whether p comes from the exact distribution.
    pub exact: bool,
}

/// Tests whether differences centre on zero. Infinite differences rank above all finite ones;
/// NaN is taken as zero.
///
/// ```
/// // scipy.stats.wilcoxon([1.1, 2.3, -0.4, 3.1, 2.2, 4.0]).pvalue
/// let t = truecount_stats::signed_rank(&[1.1, 2.3, -0.4, 3.1, 2.2, 4.0]);
/// assert_eq!((t.w_minus, t.p), (1.0, 0.0625));
/// ```
#[must_use]
pub fn signed_rank(differences: &[f64]) -> SignedRank {
    let d: Vec<f64> = differences
        .iter()
        .copied()
        .filter(|&d| d != 0.0 && !d.is_nan())
        .collect();
    let n = d.len();
    let sizes: Vec<f64> = d.iter().map(|d| d.abs()).collect();
    let (ranks, ties) = doubled_midranks(&sizes);
    let total: u64 = ranks.iter().sum();
    let plus: u64 = ranks
        .iter()
        .zip(&d)
        .filter(|&(_, &d)| d > 0.0)
        .map(|(&r, _)| r)
        .sum();
    let exact = n <= EXACT_UP_TO;
    let p = if n == 0 {
        1.0
    } else if exact {
        // Symmetric null distribution: the smaller side's tail, twice.
        let tail = lower_tail(&ranks, plus.min(total - plus));
        (2.0 * tail).min(1.0)
    } else {
        let nf = n as f64;
        let spread = (nf * (nf + 1.0) * (2.0 * nf + 1.0) - ties / 2.0) / 24.0;
        let z = (plus as f64 - total as f64 / 2.0) / 2.0 / spread.sqrt();
        (2.0 * normal::upper_tail(z.abs())).min(1.0)
    };
    SignedRank {
        used: n,
        w_plus: plus as f64 / 2.0,
        w_minus: (total - plus) as f64 / 2.0,
        p,
        exact,
    }
}

/// P(sum of the ranks with a positive sign ≤ `limit`) when every sign is a fair coin.
fn lower_tail(ranks: &[u64], limit: u64) -> f64 {
    sign_sums(ranks, limit).iter().sum::<f64>() / 2f64.powi(ranks.len() as i32)
}

/// In how many of the 2^n sign patterns the positive ranks sum to 0, 1, …, `limit`. At most 2^25:
/// exact in f64.
fn sign_sums(ranks: &[u64], limit: u64) -> Vec<f64> {
    let limit = limit as usize;
    let mut ways = vec![0.0f64; limit + 1];
    ways[0] = 1.0;
    for &r in ranks {
        let r = r as usize;
        for s in (r..=limit).rev() {
            ways[s] += ways[s - r];
        }
    }
    ways
}

/// The Hodges–Lehmann estimate of the centre: the median of all Walsh averages
/// (d_i + d_j)/2, i ≤ j. NaN for no differences.
#[must_use]
pub fn walsh_median(differences: &[f64]) -> f64 {
    if differences.is_empty() {
        return f64::NAN;
    }
    let mut sorted = differences.to_vec();
    sort(&mut sorted);
    median_of(pairs(sorted.len()), |k| kth_walsh(&sorted, k))
}

/// The interval for the centre from the order statistics of the Walsh averages, with its actual
/// confidence: at least `1 − alpha` where the distribution is counted exactly. `None` when so few
/// differences allow none (fewer than 6 at alpha = 0.05).
#[must_use]
pub fn walsh_interval(differences: &[f64], alpha: f64) -> Option<(f64, f64, f64)> {
    let n = differences.len();
    let m = pairs(n);
    let (k, confidence) = if n <= EXACT_UP_TO {
        let ranks: Vec<u64> = (1..=n as u64).collect();
        // The largest k whose two excluded tails, P(W ≤ k − 1) each, stay within alpha.
        let mut best = None;
        let mut tail = 0.0;
        for (ways, k) in sign_sums(&ranks, m / 2).into_iter().zip(1..=m / 2) {
            tail += ways / 2f64.powi(n as i32);
            if 2.0 * tail > alpha {
                break;
            }
            best = Some((k, 1.0 - 2.0 * tail));
        }
        best?
    } else {
        let nf = n as f64;
        let z = normal::upper_quantile(alpha / 2.0);
        let half = z * (nf * (nf + 1.0) * (2.0 * nf + 1.0) / 24.0).sqrt();
        (
            ((nf * (nf + 1.0) / 4.0 - half).floor() as u64).max(1),
            1.0 - alpha,
        )
    };
    let mut sorted = differences.to_vec();
    sort(&mut sorted);
    Some((
        kth_walsh(&sorted, k),
        kth_walsh(&sorted, m + 1 - k),
        confidence,
    ))
}

fn pairs(n: usize) -> u64 {
    let n = n as u64;
    n * (n + 1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_p_by_hand() {
        assert_eq!(signed_rank(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).p, 2.0 / 64.0);
        assert_eq!(signed_rank(&[0.0, 0.0]).p, 1.0);
        assert_eq!(signed_rank(&[]).p, 1.0);
        // All tied: only the two extreme sign patterns are as extreme.
        assert_eq!(signed_rank(&[2.0; 6]).p, 2.0 / 64.0);
        assert_eq!(signed_rank(&[f64::INFINITY; 6]).p, 2.0 / 64.0);
    }

    #[test]
    fn table_values_of_the_interval() {
        // Published table of the signed-rank test, two-sided 5 %: critical W is 0 at n = 6,
        // 8 at n = 10, 52 at n = 20, 89 at n = 25; k is one more.
        for (n, k) in [(6, 1u64), (10, 9), (20, 53), (25, 90)] {
            let d: Vec<f64> = (0..n).map(|i| 2f64.powi(i)).collect();
            let (low, high, c) = walsh_interval(&d, 0.05).unwrap();
            assert_eq!(low, kth_walsh(&d, k), "n = {n}");
            assert_eq!(high, kth_walsh(&d, pairs(n as usize) + 1 - k));
            assert!((0.95..0.97).contains(&c), "{c}");
        }
        assert!(walsh_interval(&[1.0; 5], 0.05).is_none());
        assert!(walsh_interval(&[], 0.05).is_none());
    }
}
