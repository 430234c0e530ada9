//! The smallest change of a metric that matters: the second key of a verdict.

use std::collections::BTreeMap;

use crate::kinds::{kind, without_modifiers};

/// Floors per metric: the defaults, and what the user set.
///
/// ```
/// use truecount_stats::Floors;
/// let floors = Floors::default().with("cycles", 0.03);
/// assert_eq!(floors.of("instructions:u"), 0.001);
/// assert_eq!(floors.of("cycles:u"), 0.03);
/// assert_eq!(floors.of("LLC-load-misses"), 0.05);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Floors {
    set: BTreeMap<String, f64>,
}

impl Floors {
    /// Sets the floor of a metric, as a share (0.02 is 2 %). A name with a modifier
    /// (`cycles:u`) is for that one only; without, for all.
    #[must_use]
    pub fn with(mut self, metric: impl Into<String>, floor: f64) -> Self {
        // A floor is a distance: its sign says nothing, and NaN is not a floor at all.
        let floor = if floor.is_nan() { 0.0 } else { floor.abs() };
        self.set.insert(metric.into(), floor);
        self
    }

    /// The floor of a metric, as a share.
    #[must_use]
    pub fn of(&self, metric: &str) -> f64 {
        self.set
            .get(metric)
            .or_else(|| self.set.get(without_modifiers(metric)))
            .copied()
            .unwrap_or_else(|| kind(metric).floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrower_setting_wins() {
        let f = Floors::default().with("cycles", 0.2).with("cycles:u", 0.1);
        assert_eq!(
            (f.of("cycles:u"), f.of("cycles:k"), f.of("cycles")),
            (0.1, 0.2, 0.2)
        );
        assert_eq!(Floors::default().with("x", f64::NAN).of("x"), 0.0);
    }
}
