//! How what a selector counted goes with a reference that was counted in the same runs: equal, a multiple, correlated;
//! and sums of two.
//!
//! A point is one phase of one run. All counters of a batch are read together, so equality is asked at every point, not
//! of medians.

use serde::{Deserialize, Serialize};
use truecount_stats::correlation;

/// Pearson's coefficient from which two series are called correlated.
pub const CORRELATED: f64 = 0.95;

/// Points from which a correlation says something: with 8, chance reaches [`CORRELATED`] less than once in a thousand.
pub const MIN_POINTS: usize = 8;

/// Part of the points at which a sum must hold to be told of.
pub const MOSTLY: f64 = 0.9;

/// The counts of one event: for each run, those of its phases.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Series(pub Vec<Vec<u64>>);

impl Series {
    /// The count of each whole run.
    #[must_use]
    pub fn totals(&self) -> Vec<u64> {
        let total = |run: &Vec<u64>| run.iter().fold(0u64, |sum, &n| sum.saturating_add(n));
        self.0.iter().map(total).collect()
    }

    /// All points, run by run.
    #[must_use]
    pub fn points(&self) -> Vec<u64> {
        self.0.iter().flatten().copied().collect()
    }

    /// The counts of one phase, run by run.
    #[must_use]
    pub fn phase(&self, index: usize) -> Vec<u64> {
        let at = |run: &Vec<u64>| run.get(index).copied();
        self.0.iter().filter_map(at).collect()
    }

    /// Whether it has counted anything.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.0.iter().flatten().any(|&count| count > 0)
    }

    /// `self − other` at every point; `None` where it would be negative, or the shapes differ.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Option<Self> {
        if self.0.len() != other.0.len() {
            return None;
        }
        let runs = self.0.iter().zip(&other.0).map(|(a, b)| {
            if a.len() != b.len() {
                return None;
            }
            a.iter().zip(b).map(|(a, b)| a.checked_sub(*b)).collect()
        });
        runs.collect::<Option<_>>().map(Self)
    }
}

/// In a word how two series go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The same count at every point.
    Equal,
    /// A whole multiple of the reference at every point.
    Multiple,
    /// Pearson's coefficient is [`CORRELATED`] or more.
    Correlated,
}

/// How a series goes with a reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relation {
    /// The reference's name.
    pub reference: String,
    /// In a word.
    pub relation: Kind,
    /// Points at which both counted the same.
    pub equal_points: usize,
    /// All points.
    pub points: usize,
    /// All that the selector counted for each that the reference counted.
    pub ratio: Option<f64>,
    /// Pearson's coefficient; `None` where one of the two never varied.
    pub pearson: Option<f64>,
    /// Spearman's.
    pub spearman: Option<f64>,
}

/// How `own` goes with a reference of the same runs; `None` where it does not, or there is nothing to compare.
#[must_use]
pub fn relate(own: &Series, name: &str, reference: &Series) -> Option<Relation> {
    let (x, y) = (own.points(), reference.points());
    if x.len() != y.len() || !own.counts() || !reference.counts() {
        return None;
    }
    let equal_points = x.iter().zip(&y).filter(|(x, y)| x == y).count();
    let coefficients = correlation(&x, &y);
    let sum = |values: &[u64]| values.iter().map(|&n| u128::from(n)).sum::<u128>();
    let (all_x, all_y) = (sum(&x), sum(&y));
    let times = all_x / all_y.max(1);
    let multiple = times >= 2
        && x.iter()
            .zip(&y)
            .all(|(&x, &y)| u128::from(x) == u128::from(y) * times);
    let relation = if equal_points == x.len() {
        Kind::Equal
    } else if multiple {
        Kind::Multiple
    } else if x.len() >= MIN_POINTS && coefficients.is_some_and(|c| c.pearson >= CORRELATED) {
        Kind::Correlated
    } else {
        return None;
    };
    Some(Relation {
        reference: name.to_owned(),
        relation,
        equal_points,
        points: x.len(),
        ratio: Some(all_x as f64 / all_y as f64),
        pearson: coefficients.map(|c| c.pearson),
        spearman: coefficients.map(|c| c.spearman),
    })
}

/// Whether a sum of two is a third.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// What is the sum.
    pub event: String,
    /// Of which two.
    pub of: [String; 2],
    /// Points at which it is, all counted in the same runs.
    pub equal_points: usize,
    /// All points.
    pub points: usize,
    /// The largest difference.
    pub max_off: u64,
}

impl Sum {
    /// Whether it holds at (nearly) all points.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.points > 0 && self.equal_points as f64 >= MOSTLY * self.points as f64
    }
}

/// Holds `whole` against `first + second`, which were counted in the same runs; `None` where one of the two adds
/// nothing (then it is not a sum), or the shapes differ.
#[must_use]
pub fn sum(whole: (&str, &Series), first: (&str, &Series), second: (&str, &Series)) -> Option<Sum> {
    let (t, a, b) = (whole.1.points(), first.1.points(), second.1.points());
    if t.len() != a.len() || t.len() != b.len() || !first.1.counts() || !second.1.counts() {
        return None;
    }
    let off: Vec<u64> = t
        .iter()
        .zip(a.iter().zip(&b))
        .map(|(&t, (&a, &b))| u128::from(t).abs_diff(u128::from(a) + u128::from(b)))
        .map(|off| u64::try_from(off).unwrap_or(u64::MAX))
        .collect();
    Some(Sum {
        event: whole.0.to_owned(),
        of: [first.0.to_owned(), second.0.to_owned()],
        equal_points: off.iter().filter(|&&off| off == 0).count(),
        points: off.len(),
        max_off: off.into_iter().max().unwrap_or(0),
    })
}

/// Least and largest count of each phase, and the middle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope(Vec<(u64, u64)>);

impl Envelope {
    /// Of a series.
    #[must_use]
    pub fn of(series: &Series) -> Self {
        let phases = series.0.iter().map(Vec::len).min().unwrap_or(0);
        let range = |index| {
            let counts = series.phase(index);
            let (least, most) = (counts.iter().min(), counts.iter().max());
            (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
        };
        Self((0..phases).map(range).collect())
    }

    /// Whether the ranges of `first + second` and of this one touch in every phase: worth a run in which all three are
    /// counted together.
    #[must_use]
    pub fn may_be_sum_of(&self, first: &Self, second: &Self) -> bool {
        self.0.len() == first.0.len()
            && self.0.len() == second.0.len()
            && self.0.iter().zip(first.0.iter().zip(&second.0)).all(
                |(&(least, most), (first, second))| {
                    least <= first.1.saturating_add(second.1)
                        && most >= first.0.saturating_add(second.0)
                },
            )
    }

    /// By how much the ranges leave it open, relative to the counts: the smaller, the more telling is a sum.
    #[must_use]
    pub fn vagueness(&self) -> f64 {
        let all: f64 = self.0.iter().map(|&(_, most)| most as f64).sum();
        let open: f64 = self
            .0
            .iter()
            .map(|&(least, most)| (most - least.min(most)) as f64)
            .sum();
        if all > 0.0 { open / all } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(runs: &[&[u64]]) -> Series {
        Series(runs.iter().map(|run| run.to_vec()).collect())
    }

    #[test]
    fn equal_multiple_correlated_or_nothing() {
        let faults = series(&[&[0, 3, 0, 128], &[1, 3, 0, 128]]);
        let relation = |own: &Series| relate(own, "page-faults", &faults);
        let found = relation(&faults).unwrap();
        assert_eq!(
            (found.relation, found.equal_points, found.points),
            (Kind::Equal, 8, 8)
        );
        assert_eq!(found.ratio, Some(1.0));
        let double = series(&[&[0, 6, 0, 256], &[2, 6, 0, 256]]);
        let found = relation(&double).unwrap();
        assert_eq!((found.relation, found.ratio), (Kind::Multiple, Some(2.0)));
        let near = series(&[&[0, 3, 1, 128], &[1, 3, 0, 129]]);
        let found = relation(&near).unwrap();
        assert_eq!((found.relation, found.equal_points), (Kind::Correlated, 6));
        assert!(found.pearson.unwrap() > 0.99);
        assert_eq!(relation(&series(&[&[500, 2, 9, 1], &[500, 2, 9, 1]])), None);
        // Few points say nothing of a correlation.
        let few = |runs: &[u64]| series(&[runs]);
        assert_eq!(relate(&few(&[1, 2, 9]), "x", &few(&[2, 4, 19])), None);
        // Nothing is equal to nothing.
        assert_eq!(relation(&series(&[&[0, 0, 0, 0], &[0, 0, 0, 0]])), None);
        let silent = series(&[&[0, 0], &[0, 0]]);
        assert_eq!(relate(&series(&[&[0, 1], &[0, 0]]), "x", &silent), None);
        // Other shapes are other runs.
        assert_eq!(relation(&series(&[&[0, 3, 0, 128]])), None);
    }

    #[test]
    fn a_constant_has_no_correlation_but_may_be_equal() {
        let seven = series(&[&[7], &[7], &[7]]);
        let found = relate(&seven, "x", &seven).unwrap();
        assert_eq!((found.relation, found.pearson), (Kind::Equal, None));
    }

    #[test]
    fn sums_are_asked_at_every_point() {
        let a = series(&[&[10, 20], &[10, 21]]);
        let b = series(&[&[1, 0], &[0, 2]]);
        let whole = series(&[&[11, 20], &[10, 23]]);
        let found = sum(("w", &whole), ("a", &a), ("b", &b)).unwrap();
        assert_eq!((found.equal_points, found.points, found.max_off), (4, 4, 0));
        assert!(found.holds());
        let off = series(&[&[11, 20], &[10, 30]]);
        let found = sum(("w", &off), ("a", &a), ("b", &b)).unwrap();
        assert_eq!((found.equal_points, found.max_off), (3, 7));
        assert!(!found.holds());
        let nothing = series(&[&[0, 0], &[0, 0]]);
        assert_eq!(sum(("w", &a), ("a", &a), ("n", &nothing)), None);
    }

    #[test]
    fn ranges_say_which_sums_are_worth_a_run() {
        let envelope = |runs: &[&[u64]]| Envelope::of(&series(runs));
        let a = envelope(&[&[10, 20], &[12, 20]]);
        let b = envelope(&[&[1, 5], &[1, 5]]);
        assert!(envelope(&[&[13, 25], &[13, 25]]).may_be_sum_of(&a, &b));
        assert!(!envelope(&[&[13, 26], &[13, 26]]).may_be_sum_of(&a, &b));
        assert!(!envelope(&[&[13], &[13]]).may_be_sum_of(&a, &b));
        assert_eq!(b.vagueness(), 0.0);
        assert!(a.vagueness() > 0.0);
    }

    #[test]
    fn differences_are_never_negative() {
        let (a, b) = (series(&[&[5, 6]]), series(&[&[5, 2]]));
        assert_eq!(a.minus(&b), Some(series(&[&[0, 4]])));
        assert_eq!(b.minus(&a), None);
        assert_eq!(a.minus(&series(&[&[1]])), None);
    }
}
