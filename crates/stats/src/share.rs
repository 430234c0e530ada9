//! Shares (proportions) of independent samples, and how two of them differ.
//!
//! A share's interval is Wilson's score interval (Journal of the American Statistical Association 22, 1927); the
//! interval of the difference of two shares is Newcombe's hybrid score interval (Statistics in Medicine 17, 1998,
//! 873–890, method 10). Both keep their level for small counts and for shares near 0 and 1, where the usual normal
//! interval does not.

use crate::error::StatsError;
use crate::normal::upper_quantile;

/// `hits` of `total` independent samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    hits: u64,
    total: u64,
}

impl Share {
    /// A share of `hits` in `total` samples; `None` where there are more hits than samples.
    #[must_use]
    pub fn new(hits: u64, total: u64) -> Option<Self> {
        (hits <= total).then_some(Self { hits, total })
    }

    /// `hits / total`; 0 of no samples.
    #[must_use]
    pub fn value(self) -> f64 {
        self.hits as f64 / self.total.max(1) as f64
    }

    /// Wilson's interval of level 1 − `alpha`; all of 0 to 1 where there are no samples.
    ///
    /// # Errors
    /// [`StatsError::BadAlpha`] unless 0 < `alpha` < 1.
    ///
    /// ```
    /// use truecount_stats::Share;
    ///
    /// let (low, high) = Share::new(81, 263).unwrap().interval(0.05)?; // Newcombe 1998, table I: 0.2553 to 0.3662
    /// assert!((low - 0.2553).abs() < 5e-5 && (high - 0.3662).abs() < 5e-5);
    /// # Ok::<(), truecount_stats::StatsError>(())
    /// ```
    pub fn interval(self, alpha: f64) -> Result<(f64, f64), StatsError> {
        Ok(self.wilson(quantile(alpha)?))
    }

    /// Newcombe's interval, of level 1 − `alpha`, of what the share rose by since `before`.
    ///
    /// # Errors
    /// [`StatsError::BadAlpha`] unless 0 < `alpha` < 1.
    ///
    /// ```
    /// use truecount_stats::Share;
    ///
    /// let (before, after) = (Share::new(48, 80).unwrap(), Share::new(56, 70).unwrap());
    /// let (low, high) = after.rise_since(before, 0.05)?; // Newcombe 1998, table II: 0.0524 to 0.3339
    /// assert!((low - 0.0524).abs() < 5e-5 && (high - 0.3339).abs() < 5e-5);
    /// # Ok::<(), truecount_stats::StatsError>(())
    /// ```
    pub fn rise_since(self, before: Self, alpha: f64) -> Result<(f64, f64), StatsError> {
        let z = quantile(alpha)?;
        if self.total == 0 || before.total == 0 {
            return Ok((-1.0, 1.0));
        }
        let (p1, p2) = (before.value(), self.value());
        let ((l1, u1), (l2, u2)) = (before.wilson(z), self.wilson(z));
        let rise = p2 - p1;
        Ok((
            (rise - (p2 - l2).hypot(u1 - p1)).max(-1.0),
            (rise + (u2 - p2).hypot(p1 - l1)).min(1.0),
        ))
    }

    fn wilson(self, z: f64) -> (f64, f64) {
        if self.total == 0 {
            return (0.0, 1.0);
        }
        let (n, p, z2) = (self.total as f64, self.value(), z * z);
        let middle = (p + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = z / (1.0 + z2 / n) * (p * (1.0 - p) / n + z2 / (4.0 * n * n)).sqrt();
        // At the ends the bound is the share itself, but for rounding.
        let low = if self.hits == 0 { 0.0 } else { middle - half };
        let high = if self.hits == self.total {
            1.0
        } else {
            middle + half
        };
        (low.max(0.0), high.min(1.0))
    }
}

fn quantile(alpha: f64) -> Result<f64, StatsError> {
    if alpha > 0.0 && alpha < 1.0 {
        Ok(upper_quantile(alpha / 2.0))
    } else {
        Err(StatsError::BadAlpha { alpha })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    fn share(hits: u64, total: u64) -> Share {
        Share::new(hits, total).unwrap()
    }

    #[test]
    fn differences_are_newcombes() {
        // Newcombe 1998, table II, method 10: the second share against the first.
        for (after, before, low, high) in [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((6, 7), (2, 7), 0.0582, 0.8062),
            ((5, 56), (0, 29), -0.0381, 0.1926),
            ((0, 10), (0, 20), -0.1611, 0.2775),
            ((0, 10), (0, 10), -0.2775, 0.2775),
            ((10, 10), (0, 20), 0.6791, 1.0),
            ((10, 10), (0, 10), 0.6075, 1.0),
        ] {
            let (before, after) = (share(before.0, before.1), share(after.0, after.1));
            let (l, h) = after.rise_since(before, 0.05).unwrap();
            assert!(
                (l - low).abs() < 5.1e-5 && (h - high).abs() < 5.1e-5,
                "{after:?} {before:?}: {l} {h}"
            );
            // The other way round it is the same interval, mirrored.
            let (l2, h2) = before.rise_since(after, 0.05).unwrap();
            assert!((l2 + h).abs() < 1e-12 && (h2 + l).abs() < 1e-12);
        }
    }

    #[test]
    fn single_shares_are_wilsons() {
        // Newcombe 1998 (pages 857–872), table I, method 3.
        for (hits, total, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let (l, h) = share(hits, total).interval(0.05).unwrap();
            assert!(
                (l - low).abs() < 5.1e-5 && (h - high).abs() < 5.1e-5,
                "{hits}/{total}: {l} {h}"
            );
        }
    }

    #[test]
    fn the_level_is_kept_on_random_samples() {
        let mut rng = Rng::new(7);
        for (p1, p2, n1, n2) in [
            (0.02, 0.03, 300, 500),
            (0.5, 0.4, 40, 60),
            (0.9, 0.9, 100, 30),
        ] {
            let mut draw = |p: f64, n: u64| (0..n).filter(|_| rng.next_f64() < p).count() as u64;
            let (rounds, mut covered) = (2_000, 0);
            for _ in 0..rounds {
                let (before, after) = (share(draw(p1, n1), n1), share(draw(p2, n2), n2));
                let (low, high) = after.rise_since(before, 0.05).unwrap();
                assert!(low <= after.value() - before.value() + 1e-12 && -1.0 <= low);
                assert!(high >= after.value() - before.value() - 1e-12 && high <= 1.0);
                covered += i32::from(low <= p2 - p1 && p2 - p1 <= high);
            }
            let share = f64::from(covered) / f64::from(rounds);
            // 0.95 with a standard error of 0.005; the interval is a little wide near 0 and 1.
            assert!((0.935..0.985).contains(&share), "{p1} {p2}: {share}");
        }
    }

    #[test]
    fn ends() {
        assert_eq!(Share::new(2, 1), None);
        let none = share(0, 0);
        assert_eq!(none.interval(0.05), Ok((0.0, 1.0)));
        assert_eq!(share(1, 10).rise_since(none, 0.05), Ok((-1.0, 1.0)));
        for alpha in [0.0, 1.0, -1.0, f64::NAN] {
            assert!(share(1, 2).interval(alpha).is_err());
            assert!(share(1, 2).rise_since(share(1, 2), alpha).is_err());
        }
        let (low, high) = share(u64::MAX, u64::MAX)
            .rise_since(share(0, u64::MAX), 1e-9)
            .unwrap();
        assert!(low > 0.999 && high == 1.0);
    }
}
