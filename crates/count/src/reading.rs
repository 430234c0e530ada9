//! A number with its provenance: what was counted, by whom, and how much of it.

use truecount_model::{Precision, SourceKind};
use truecount_perf::{Count, Times};

/// A count since the counter was opened (or between two readings, see [`since`](Self::since)), with its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What was really counted, in the event's unit before scaling by a PMU's factor.
    pub raw: u64,
    /// Nanoseconds the event was enabled.
    pub enabled_ns: u64,
    /// Nanoseconds it was on a counter.
    pub running_ns: u64,
    /// Who counted.
    pub source: SourceKind,
    /// Whether the event is exact when counted all the time.
    pub(crate) exact: bool,
}

impl Reading {
    /// The count, extrapolated where the event shared its counter; `None` where it was never on a counter.
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        self.count().value()
    }

    /// How the value came about; `None` where there is none.
    #[must_use]
    pub fn precision(&self) -> Option<Precision> {
        match self.count() {
            Count::None => None,
            Count::Counted(_) if self.exact => Some(Precision::Exact),
            Count::Counted(_) => Some(Precision::Counted),
            Count::Scaled { .. } => Some(Precision::Scaled),
        }
    }

    /// What happened between `earlier` and this reading of the same counter.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            raw: self.raw.wrapping_sub(earlier.raw),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
            ..*self
        }
    }

    fn count(&self) -> Count {
        Count::new(
            self.raw,
            Times {
                enabled: self.enabled_ns,
                running: self.running_ns,
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(raw: u64, enabled_ns: u64, running_ns: u64, exact: bool) -> Reading {
        Reading {
            raw,
            enabled_ns,
            running_ns,
            source: SourceKind::Hardware,
            exact,
        }
    }

    #[test]
    fn labels() {
        let exact = reading(7, 10, 10, true);
        assert_eq!(
            (exact.value(), exact.precision()),
            (Some(7), Some(Precision::Exact))
        );
        let counted = reading(7, 10, 10, false);
        assert_eq!(counted.precision(), Some(Precision::Counted));
        let scaled = reading(7, 10, 5, true);
        assert_eq!(
            (scaled.value(), scaled.precision()),
            (Some(14), Some(Precision::Scaled))
        );
        let never = reading(0, 10, 0, true);
        assert_eq!((never.value(), never.precision()), (None, None));
    }

    #[test]
    fn a_region_is_scaled_by_its_own_times() {
        // On a counter for all of the first 10 ns and for 5 of the next 10.
        let (first, second) = (reading(100, 10, 10, true), reading(150, 20, 15, true));
        let region = second.since(&first);
        assert_eq!(
            (region.value(), region.precision()),
            (Some(100), Some(Precision::Scaled))
        );
    }
}
