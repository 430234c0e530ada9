//! How two series of counts go together: Pearson's product-moment and Spearman's rank coefficient.
//!
//! Pearson (1896) tells how well one series is a line of the other; Spearman (1904) is Pearson's of the
//! ranks (ties share the mean rank), which neither a few large values nor a bent relation moves. A series
//! that never varies has no correlation: that is `None`, not 0.

use crate::order::doubled_midranks;
use crate::value::Value;

/// Both coefficients, −1 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Correlation {
    /// Pearson's r.
    pub pearson: f64,
    /// Spearman's ρ.
    pub spearman: f64,
}

/// How `a` and `b` go together, value by value; `None` with fewer than 3 pairs, with unequal lengths, with
/// values that are not finite, or where one of the two never varies.
///
/// ```
/// let r = truecount_stats::correlation(&[1u64, 2, 3, 4], &[10u64, 20, 30, 40]).unwrap();
/// assert_eq!((r.pearson, r.spearman), (1.0, 1.0));
/// assert!(truecount_stats::correlation(&[1u64, 2, 3], &[7u64, 7, 7]).is_none());
/// ```
#[must_use]
pub fn correlation<A: Value, B: Value>(a: &[A], b: &[B]) -> Option<Correlation> {
    if a.len() != b.len() || a.len() < 3 {
        return None;
    }
    let (x, y) = (offsets(a)?, offsets(b)?);
    let ranks = |values: &[f64]| -> Vec<f64> {
        let (ranks, _) = doubled_midranks(values);
        ranks.into_iter().map(|rank| rank as f64).collect()
    };
    Some(Correlation {
        pearson: pearson(&x, &y)?,
        spearman: pearson(&ranks(&x), &ranks(&y))?,
    })
}

/// Distances from the first value, formed before any rounding: large counts that differ little keep their
/// differences.
fn offsets<T: Value>(values: &[T]) -> Option<Vec<f64>> {
    let &first = values.first()?;
    let finite = |offset: &f64| offset.is_finite();
    let offsets: Vec<f64> = values.iter().map(|v| v.minus(first)).collect();
    offsets.iter().all(finite).then_some(offsets)
}

fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let n = x.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
    let (mx, my) = (mean(x), mean(y));
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in x.iter().zip(y) {
        let (dx, dy) = (x - mx, y - my);
        xy += dx * dy;
        xx += dx * dx;
        yy += dy * dy;
    }
    let scale = (xx * yy).sqrt();
    (scale > 0.0 && scale.is_finite()).then(|| (xy / scale).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_hand() {
        // 12 / sqrt(10 × 21.2); ranks 2 1 4 3 5: 1 − 6 × 4 / (5 × 24).
        let r = correlation(&[1u64, 2, 3, 4, 5], &[2u64, 1, 4, 3, 7]).unwrap();
        assert!((r.pearson - 12.0 / 212f64.sqrt()).abs() < 1e-12, "{r:?}");
        assert!((r.spearman - 0.8).abs() < 1e-12, "{r:?}");
        let r = correlation(&[1u64, 2, 3], &[9u64, 5, 1]).unwrap();
        assert_eq!((r.pearson, r.spearman), (-1.0, -1.0));
    }

    #[test]
    fn ranks_are_not_moved_by_one_large_value() {
        let r = correlation(&[1u64, 2, 3, 4, 5], &[1u64, 2, 3, 4, 1_000_000]).unwrap();
        assert!(r.pearson < 0.8 && r.spearman == 1.0, "{r:?}");
    }

    #[test]
    fn nothing_is_said_without_variation() {
        assert_eq!(correlation(&[1u64, 2], &[1u64, 2]), None);
        assert_eq!(correlation(&[1u64, 2, 3], &[1u64, 2]), None);
        assert_eq!(correlation(&[5u64, 5, 5], &[1u64, 2, 3]), None);
        assert_eq!(correlation(&[1.0, f64::INFINITY, 3.0], &[1u64, 2, 3]), None);
    }

    #[test]
    fn large_counts_keep_their_differences() {
        let top = u64::MAX - 10;
        let a = [top, top + 1, top + 2, top + 3];
        let r = correlation(&a, &[1u64, 2, 3, 4]).unwrap();
        assert_eq!(r.pearson, 1.0);
    }
}
