//! Where series changed, over all commits.

use std::collections::BTreeMap;

use serde::Serialize;
use truecount_stats::{ChangeOptions, Floors, Worse, change_points};

use crate::store::{Key, Point, Series};

/// Where a series changed.
#[derive(Debug, Clone, Serialize)]
pub struct Change {
    /// The suite; empty without one.
    pub suite: String,
    /// The benchmark.
    pub benchmark: String,
    /// Its parameters.
    pub parameters: String,
    /// The metric.
    pub metric: String,
    /// The machine, as declared.
    pub machine: String,
    /// The unit of the values.
    pub unit: String,
    /// The last commit with a record before the change.
    pub before: String,
    /// The first commit with a record after it.
    pub commit: String,
    /// Index of `commit` among the commits that were looked at.
    pub index: usize,
    /// Commits between the two that have no record.
    pub unmeasured: usize,
    /// The value before: the count, or the mean since the last change.
    pub base: f64,
    /// The value after.
    pub other: f64,
    /// other / base.
    pub ratio: Option<f64>,
    /// Both are exact counts.
    pub exact: bool,
    /// p of the change; `None` of exact counts.
    pub p: Option<f64>,
    /// Whether it is worse; `None` where neither direction is.
    pub regression: Option<bool>,
    /// Why it was accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blessed: Option<String>,
}

/// The points of a series in the order of commits, of each the exact one, else the last measured one.
#[must_use]
pub fn in_order<'s>(series: &'s Series, places: &BTreeMap<&str, usize>) -> Vec<(usize, &'s Point)> {
    let mut by_place: BTreeMap<usize, &Point> = BTreeMap::new();
    for point in &series.points {
        let Some(&place) = places.get(&*point.commit) else {
            continue;
        };
        // An exact count goes before others.
        let rank = |point: &Point| (point.exact, point.taken);
        let newer = by_place
            .get(&place)
            .is_none_or(|before| rank(before) <= rank(point));
        if newer {
            by_place.insert(place, point);
        }
    }
    by_place.into_iter().collect()
}

/// Which direction of a series is worse.
#[must_use]
pub fn worse(series: &Series) -> Option<Worse> {
    match series.worse.as_deref() {
        Some("higher") => Some(Worse::Higher),
        Some("lower") => Some(Worse::Lower),
        Some(_) => None,
        None => Worse::of(&series.key.metric),
    }
}

/// The changes of a series. `places` gives each commit its place, the oldest 0; commits that it does not name are left
/// out.
#[must_use]
pub fn changes(series: &Series, places: &BTreeMap<&str, usize>) -> Vec<Change> {
    let points = in_order(series, places);
    let worse = worse(series);
    let change = |at: usize, base: f64, other: f64, p: Option<f64>| {
        let (before, after) = (points.get(at.checked_sub(1)?)?, points.get(at)?);
        let Key {
            suite,
            benchmark,
            parameters,
            metric,
            machine,
            ..
        } = series.key.clone();
        Some(Change {
            suite,
            benchmark,
            parameters,
            metric,
            machine,
            unit: series.unit.clone(),
            before: before.1.commit.to_string(),
            commit: after.1.commit.to_string(),
            index: after.0,
            unmeasured: after.0.saturating_sub(before.0 + 1),
            base,
            other,
            ratio: Some(other / base).filter(|ratio| ratio.is_finite()),
            exact: p.is_none(),
            p,
            regression: worse.map(|worse| (other > base) == (worse == Worse::Higher)),
            blessed: None,
        })
    };
    if points.iter().all(|(_, point)| point.exact) {
        let pairs = points.windows(2).zip(1..);
        return pairs
            .filter_map(|(pair, at)| match pair {
                [(_, a), (_, b)] if a.value != b.value => change(at, a.value, b.value, None),
                _ => None,
            })
            .collect();
    }
    let values: Vec<f64> = points.iter().map(|(_, point)| point.value).collect();
    let options = ChangeOptions {
        floor: Floors::default().of(&series.key.metric),
        ..ChangeOptions::default()
    };
    change_points(&values, &options)
        .into_iter()
        .filter_map(|found| change(found.index, found.before, found.after, Some(found.p)))
        .collect()
}

/// How far a series moves from one commit to the next when nothing happens, as a share: three robust standard deviations
/// of its relative steps. `None` with fewer than ten points.
#[must_use]
pub fn noise(points: &[f64]) -> Option<f64> {
    if points.len() < 10 {
        return None;
    }
    let steps = points.windows(2).filter_map(|pair| match pair {
        [a, b] if *a > 0.0 && *b > 0.0 => Some((b / a).ln().abs()),
        _ => None,
    });
    let mut steps: Vec<f64> = steps.collect();
    steps.sort_unstable_by(f64::total_cmp);
    // The median of absolute normal deviates is 0.6745 of their standard deviation.
    let middle = steps.get(steps.len() / 2)?;
    Some(3.0 * middle / 0.6745)
}
