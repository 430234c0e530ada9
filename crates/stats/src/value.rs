//! What a sample may be made of: event counts (`u64`) or measured quantities (`f64`).
//!
//! Counts stay integers until a ratio is formed, so values beyond 2^53 that differ by one stay
//! different: `f64` could not tell them apart.

use crate::StatsError;
use std::cmp::Ordering;
use std::fmt;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u64 {}
    impl Sealed for f64 {}
}

/// A sample's element: `u64` for counts, `f64` for times and other measured quantities.
/// Values are never negative (counts, durations and sizes are not).
pub trait Value: Copy + fmt::Debug + sealed::Sealed {
    /// The exact value as a [`Number`].
    fn number(self) -> Number;
    /// The value as `f64`, rounded when it is a count beyond 2^53.
    fn to_f64(self) -> f64;
    /// Order of two checked values.
    fn order(&self, other: &Self) -> Ordering;
    /// `self − other`, formed before any rounding.
    fn minus(self, other: Self) -> f64;
    /// Whether `self − base` and `other.0 − other.1` are the same, without rounding counts.
    fn differs_as(self, base: Self, other: (Self, Self)) -> bool;
    /// Refuses NaN, infinities and negative values; `index` is for the message.
    ///
    /// # Errors
    /// [`StatsError::NotFinite`] or [`StatsError::Negative`].
    fn check(self, index: usize) -> Result<(), StatsError>;
    /// The middle of two values, exact where it can be told exactly.
    fn middle(self, other: Self) -> Number;
    /// `ln(self / base)`, precise near 1 and exactly antisymmetric. `0/0` counts as no change
    /// (0), `x/0` as +∞ and `0/x` as −∞: rank methods take these as they are.
    fn log_ratio(self, base: Self) -> f64 {
        match self.order(&base) {
            Ordering::Equal => 0.0,
            Ordering::Greater => (self.minus(base) / base.to_f64()).ln_1p(),
            Ordering::Less => -(base.minus(self) / self.to_f64()).ln_1p(),
        }
    }
}

impl Value for u64 {
    fn number(self) -> Number {
        Number::Count(self)
    }
    fn to_f64(self) -> f64 {
        self as f64
    }
    fn order(&self, other: &Self) -> Ordering {
        self.cmp(other)
    }
    fn minus(self, other: Self) -> f64 {
        if self >= other {
            self.abs_diff(other) as f64
        } else {
            -(self.abs_diff(other) as f64)
        }
    }
    fn differs_as(self, base: Self, other: (Self, Self)) -> bool {
        i128::from(self) - i128::from(base) == i128::from(other.0) - i128::from(other.1)
    }
    fn check(self, _index: usize) -> Result<(), StatsError> {
        Ok(())
    }
    fn middle(self, other: Self) -> Number {
        let (low, gap) = (self.min(other), self.abs_diff(other));
        if gap % 2 == 0 {
            Number::Count(low + gap / 2)
        } else {
            Number::Real((low + gap / 2) as f64 + 0.5)
        }
    }
}

impl Value for f64 {
    fn number(self) -> Number {
        Number::Real(self)
    }
    fn to_f64(self) -> f64 {
        self
    }
    fn order(&self, other: &Self) -> Ordering {
        // Checked values are finite and not negative; −0 and +0 are the same value.
        self.partial_cmp(other).unwrap_or(Ordering::Equal)
    }
    fn minus(self, other: Self) -> f64 {
        self - other
    }
    fn differs_as(self, base: Self, other: (Self, Self)) -> bool {
        self - base == other.0 - other.1
    }
    fn check(self, index: usize) -> Result<(), StatsError> {
        if !self.is_finite() {
            Err(StatsError::NotFinite { index })
        } else if self < 0.0 {
            Err(StatsError::Negative { index })
        } else {
            Ok(())
        }
    }
    fn middle(self, other: Self) -> Number {
        Number::Real(self / 2.0 + other / 2.0)
    }
}

/// Checks a whole sample: at least one value, all finite and not negative.
pub(crate) fn check_sample<T: Value>(values: &[T]) -> Result<(), StatsError> {
    if values.is_empty() {
        return Err(StatsError::Empty);
    }
    values.iter().enumerate().try_for_each(|(i, v)| v.check(i))
}

/// A value that is printed: a count in full, or a real number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An event count, exact over the whole `u64` range.
    Count(u64),
    /// A measured quantity, or a median that lies between two counts.
    Real(f64),
}

impl Number {
    /// The value as `f64`, rounded when it is a count beyond 2^53.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Number::Count(c) => c as f64,
            Number::Real(r) => r,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Count(c) => fmt::Display::fmt(c, f),
            Number::Real(r) => fmt::Display::fmt(r, f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_ratio_is_antisymmetric_and_precise() {
        assert_eq!(3u64.log_ratio(7), -7u64.log_ratio(3));
        let big = 1u64 << 60;
        assert_eq!((big + 1).log_ratio(big), (1.0 / big as f64).ln_1p());
        assert!(
            (big + 1).log_ratio(big) > 0.0,
            "f64 subtraction would give 0"
        );
        assert!((2.0f64.log_ratio(1.0) - 2f64.ln()).abs() < 1e-16);
        assert_eq!((1e-300f64).log_ratio(1e300), -(1e300f64).log_ratio(1e-300));
    }

    #[test]
    fn zeros_follow_the_documented_rule() {
        assert_eq!(0u64.log_ratio(0), 0.0);
        assert_eq!(5u64.log_ratio(0), f64::INFINITY);
        assert_eq!(0u64.log_ratio(5), f64::NEG_INFINITY);
        assert_eq!(0.0f64.log_ratio(0.25), f64::NEG_INFINITY);
        assert_eq!(0.0f64.log_ratio(-0.0), 0.0);
    }

    #[test]
    fn middles_of_counts_are_exact() {
        assert_eq!(u64::MAX.middle(u64::MAX - 2), Number::Count(u64::MAX - 1));
        assert_eq!(3u64.middle(4), Number::Real(3.5));
        assert_eq!(f64::MAX.middle(f64::MAX), Number::Real(f64::MAX));
    }
}
