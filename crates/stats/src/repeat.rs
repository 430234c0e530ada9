//! How often a measurement is repeated before it is judged, so that the repeating itself makes no false verdicts.
//!
//! Counts that should not differ are repeated while they do ([`Repeats`]): whether to go on depends on whether the runs
//! of *one* command differ; what looks like an exact change is repeated, never what looks like none, so the test
//! afterwards keeps its level. A measurement
//! that goes on until the comparison is decided looks at it only at a few points ([`Looks`]), and every look is paid
//! for ([`Comparison::looks`](crate::Comparison)).

use crate::compare::{Design, SIGNIFICANCE, smallest_n};
use crate::summary::EXACT_FROM;

/// Runs at most of a command whose counts differ.
pub const MAX_REPEATS: usize = 40;
/// Runs of commands whose counts are equal each and differ between them, before that is called exact: a program that
/// throws one coin gives such a result by chance once in 2000 comparisons of six runs each, and of ten once in half a
/// million. Going on where there is something to call cannot make a false verdict more likely.
pub const CONFIRMED: usize = 10;

/// How the counts of commands differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differ {
    /// All are equal.
    Nowhere,
    /// Those of each command are equal, and not the same as another's.
    BetweenCommands,
    /// Those of one command.
    WithinCommand,
}

impl Differ {
    /// How one count differs, from its values in the runs of each command.
    #[must_use]
    pub fn of(commands: &[&[u64]]) -> Self {
        let mut found = Self::Nowhere;
        let first = commands.iter().find_map(|values| values.first());
        for values in commands {
            if values.iter().any(|value| Some(value) != values.first()) {
                return Self::WithinCommand;
            }
            if values.first().is_some_and(|value| Some(value) != first) {
                found = Self::BetweenCommands;
            }
        }
        found
    }
}

/// How often runs are repeated whose counts should not differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeats {
    /// Runs of each command at least.
    pub min: usize,
    /// Runs of each command at most.
    pub max: usize,
}

impl Repeats {
    /// So many that equal runs are exact, and that as many different ones can decide when `tests` comparisons are
    /// judged together.
    ///
    /// ```
    /// use truecount_stats::Repeats;
    /// assert_eq!(Repeats::for_family(1).min, 5); // 2/C(10, 5) = 0.0079
    /// assert_eq!(Repeats::for_family(2).min, 6); // 2 · 2/C(12, 6) = 0.0043
    /// ```
    #[must_use]
    pub fn for_family(tests: usize) -> Self {
        let min = smallest_n(Design::Unpaired, SIGNIFICANCE, tests).max(EXACT_FROM);
        Self {
            min,
            max: MAX_REPEATS.max(min),
        }
    }

    /// Exactly so many.
    #[must_use]
    pub fn exactly(runs: usize) -> Self {
        Self {
            min: runs,
            max: runs,
        }
    }

    /// Whether to stop after so many runs of each command: it is the bound, or there are enough, and either the time is
    /// over, or the counts of each command are all equal, and confirmed where they differ between commands.
    #[must_use]
    pub fn enough(&self, runs: usize, differ: Differ, in_time: bool) -> bool {
        let wanted = match differ {
            Differ::Nowhere => false,
            Differ::BetweenCommands => runs < CONFIRMED,
            Differ::WithinCommand => true,
        };
        runs >= self.max || runs >= self.min && !(wanted && in_time)
    }
}

/// The numbers of rounds at which a measurement that ends when it is decided is looked at: few, each more than half as
/// far again as the one before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looks {
    at: Vec<usize>,
}

impl Looks {
    /// Looks from `first` to `last` rounds.
    ///
    /// ```
    /// let looks = truecount_stats::Looks::new(10, 100);
    /// assert!(looks.is_at(10) && looks.is_at(16) && !looks.is_at(17) && looks.is_at(100));
    /// assert_eq!(looks.count(), 6); // 10, 16, 26, 42, 68, 100
    /// ```
    #[must_use]
    pub fn new(first: usize, last: usize) -> Self {
        let first = first.max(1);
        let mut at = vec![first];
        let mut next = first;
        while next < last {
            next = (next * 8).div_ceil(5).min(last);
            at.push(next);
        }
        Self { at }
    }

    /// Whether to look after so many rounds.
    #[must_use]
    pub fn is_at(&self, rounds: usize) -> bool {
        self.at.contains(&rounds)
    }

    /// How many looks there are at most.
    #[must_use]
    pub fn count(&self) -> usize {
        self.at.len()
    }

    /// The last one.
    #[must_use]
    pub fn last(&self) -> usize {
        self.at.last().copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_runs_are_repeated_within_time_and_bound() {
        let repeats = Repeats::for_family(2);
        use Differ::{BetweenCommands, Nowhere, WithinCommand};
        assert!(!repeats.enough(5, Nowhere, true));
        assert!(repeats.enough(6, Nowhere, true));
        assert!(!repeats.enough(6, BetweenCommands, true));
        assert!(repeats.enough(CONFIRMED, BetweenCommands, true));
        assert!(!repeats.enough(CONFIRMED, WithinCommand, true));
        assert!(repeats.enough(6, WithinCommand, false));
        assert!(repeats.enough(MAX_REPEATS, WithinCommand, true));
        assert!(Repeats::exactly(2).enough(2, WithinCommand, true));
    }

    #[test]
    fn how_counts_differ() {
        assert_eq!(Differ::of(&[&[1, 1], &[1, 1]]), Differ::Nowhere);
        assert_eq!(Differ::of(&[&[], &[]]), Differ::Nowhere);
        assert_eq!(Differ::of(&[&[1, 1], &[2, 2]]), Differ::BetweenCommands);
        assert_eq!(Differ::of(&[&[1, 1], &[2, 1]]), Differ::WithinCommand);
    }

    #[test]
    fn looks_grow_and_end() {
        for (first, last) in [(10, 1000), (1, 1), (0, 3), (50, 20)] {
            let looks = Looks::new(first, last);
            assert!(looks.at.windows(2).all(|w| w[0] < w[1]), "{looks:?}");
            assert_eq!(looks.last(), last.max(first.max(1)));
        }
    }
}
