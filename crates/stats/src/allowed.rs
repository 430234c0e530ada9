//! By how much a metric may get worse: a share of what it was, or so many counts.

use crate::kinds::Worse;

/// By how much a metric may get worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// A share of the base: 0.02 is 2 %.
    Share(f64),
    /// So many counts, or units of the metric's value.
    Counts(f64),
}

impl From<f64> for Allowed {
    fn from(share: f64) -> Self {
        Self::Share(share)
    }
}

impl Allowed {
    /// The limit as ratios are judged: other / base may be so much more than 1, or base / other where a fall is worse.
    /// `None` where no ratio says it: counts more than a base of 0.
    ///
    /// ```
    /// use truecount_stats::{Allowed, Worse};
    /// assert_eq!(Allowed::Counts(10.0).share(1000.0, Worse::Higher), Some(0.01));
    /// assert_eq!(Allowed::Counts(500.0).share(1000.0, Worse::Lower), Some(1.0));
    /// assert_eq!(Allowed::Counts(10.0).share(0.0, Worse::Higher), None);
    /// ```
    #[must_use]
    pub fn share(self, base: f64, worse: Worse) -> Option<f64> {
        match (self, worse) {
            (Self::Share(share), _) => Some(share),
            (Self::Counts(0.0), _) => Some(0.0),
            (Self::Counts(_), _) if base.is_nan() || base <= 0.0 => None,
            (Self::Counts(counts), Worse::Higher) => Some(counts / base),
            // It cannot fall below nothing.
            (Self::Counts(counts), Worse::Lower) if counts >= base => Some(f64::INFINITY),
            (Self::Counts(counts), Worse::Lower) => Some(counts / (base - counts)),
        }
    }

    /// Whether `other` is worse than `base` by more than this.
    #[must_use]
    pub fn exceeded(self, base: f64, other: f64, worse: Worse) -> bool {
        // The same limit as of intervals: of a metric whose fall is worse, base / other may not exceed it.
        let (worse_by, of) = match worse {
            Worse::Higher => (other - base, base),
            Worse::Lower => (base - other, other),
        };
        let most = match self {
            Self::Share(share) => of.abs() * share,
            Self::Counts(counts) => counts,
        };
        worse_by > 0.0 && worse_by > most
    }
}
