//! Why a sample cannot be described or compared.

use std::fmt;

/// Why a sample cannot be described or compared.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum StatsError {
    /// The sample holds no value.
    Empty,
    /// The value at this position is NaN or infinite.
    NotFinite {
        /// Position in the sample, from 0.
        index: usize,
    },
    /// The value at this position is negative: counts, times and sizes are not.
    Negative {
        /// Position in the sample, from 0.
        index: usize,
    },
    /// A paired comparison needs one value of each side per round.
    LengthMismatch {
        /// Values of the base.
        base: usize,
        /// Values of the other.
        other: usize,
    },
    /// The significance level must lie strictly between 0 and 1.
    BadAlpha {
        /// The level that was asked for.
        alpha: f64,
    },
}

impl fmt::Display for StatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StatsError::Empty => f.write_str("the sample is empty"),
            StatsError::NotFinite { index } => {
                write!(f, "value {index} of the sample is not a finite number")
            }
            StatsError::Negative { index } => {
                write!(
                    f,
                    "value {index} of the sample is negative; counts and times are not"
                )
            }
            StatsError::LengthMismatch { base, other } => write!(
                f,
                "a comparison round by round needs samples of one length, not {base} and {other}"
            ),
            StatsError::BadAlpha { alpha } => {
                write!(
                    f,
                    "the significance level must lie between 0 and 1, not {alpha}"
                )
            }
        }
    }
}

impl std::error::Error for StatsError {}
