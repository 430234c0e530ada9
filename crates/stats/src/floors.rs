//! The smallest change of a metric that matters: the second key of a verdict.
//!
//! Sources: the project's design ("Verdict: two keys") for instructions, branches, loads and
//! stores (0.1 %), cycles (1 %), times (2 %), misses and faults (5 %). Where it names no figure
//! the row says why it is what it is.

use std::collections::BTreeMap;

/// A metric's floor, by the words its name is made of.
struct Row {
    /// Names that this row is for, without modifiers.
    names: &'static [&'static str],
    /// Endings that this row is for.
    endings: &'static [&'static str],
    floor: f64,
}

const ROWS: &[Row] = &[
    // Anything called a miss or a fault, whatever it misses: before the counts it may be named after.
    Row {
        names: &["faults"],
        endings: &["-misses", "-miss", "misses", "-faults", "faults"],
        floor: 0.05,
    },
    Row {
        names: &[
            "instructions",
            "instructions-minus-irqs",
            "instructions-minus-exceptions",
            "branches",
            "branch-instructions",
            "loads",
            "stores",
            "mem-loads",
            "mem-stores",
        ],
        endings: &["-loads", "-stores", "-instructions", "-branches"],
        floor: 0.001,
    },
    Row {
        names: &["cycles", "cpu-cycles", "ref-cycles", "slots"],
        endings: &["-cycles"],
        floor: 0.01,
    },
    Row {
        names: &[
            "wall",
            "user",
            "system",
            "sys",
            "time",
            "cpu-clock",
            "task-clock",
        ],
        endings: &["-time", "_time", "-clock", " time"],
        floor: 0.02,
    },
    // Peak memory moves by whole pages and with the allocator's arenas: as noisy as a time.
    Row {
        names: &["max-rss", "rss"],
        endings: &["-rss", "_rss"],
        floor: 0.02,
    },
];

/// An event of unknown nature is taken for the noisiest kind.
const UNKNOWN: f64 = 0.05;

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
        let plain = without_modifiers(metric);
        self.set
            .get(metric)
            .or_else(|| self.set.get(plain))
            .copied()
            .unwrap_or_else(|| default_floor(plain))
    }
}

fn default_floor(plain: &str) -> f64 {
    let name = plain.to_ascii_lowercase();
    ROWS.iter()
        .find(|r| r.names.contains(&name.as_str()) || r.endings.iter().any(|e| name.ends_with(e)))
        .map_or(UNKNOWN, |r| r.floor)
}

/// `instructions:u` → `instructions`.
fn without_modifiers(metric: &str) -> &str {
    metric.split_once(':').map_or(metric, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_follow_the_design() {
        let f = Floors::default();
        for (name, floor) in [
            ("instructions:u", 0.001),
            ("instructions-minus-irqs:u", 0.001),
            ("branches:u", 0.001),
            ("L1-dcache-loads", 0.001),
            ("cycles:u", 0.01),
            ("wall", 0.02),
            ("wall-time", 0.02),
            ("user", 0.02),
            ("task-clock", 0.02),
            ("branch-misses:u", 0.05),
            ("cache-misses", 0.05),
            ("page-faults", 0.05),
            ("max-rss", 0.02),
            ("r01cb:u", 0.05),
        ] {
            assert_eq!(f.of(name), floor, "{name}");
        }
    }

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
