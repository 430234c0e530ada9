//! What changed between two sides, each of one or several runs.
//!
//! With several runs on each side every label gets an estimate, an interval and a verdict from
//! `truecount-stats` (Mann–Whitney, unpaired, Holm-adjusted over the labels shown; floors of the
//! counter). With one run there is a change and no verdict.

use crate::error::ProfileError;
use crate::metadata::Unit;
use crate::noise::Spread;
use crate::summarize::Summary;
use rustc_hash::FxHashMap;
use truecount_stats::{
    Comparison, Floors, Gate, Judged, Options, Outcome, compare_unpaired, verdicts,
};

/// Name of the row of the whole profile.
pub const TOTAL: &str = "(total)";

/// One label on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The label.
    pub label: String,
    /// Self time of the base; `None` for a new label.
    pub base: Option<Spread>,
    /// Self time of the change; `None` for a label that vanished.
    pub change: Option<Spread>,
    /// Median count of the base.
    pub base_count: f64,
    /// Median count of the change.
    pub change_count: f64,
    /// The comparison and its verdict, where both sides have the label in several runs.
    pub judged: Option<Judged>,
    /// What a gate says, where one was asked for.
    pub gate: Option<Outcome>,
}

impl Row {
    /// Change − base of the medians, absent as 0.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.change.map_or(0.0, |s| s.median) - self.base.map_or(0.0, |s| s.median)
    }

    /// Relative change of the medians; `None` for a new label.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        let base = self.base.filter(|base| base.median != 0.0)?;
        Some(self.difference() / base.median.abs())
    }
}

/// The comparison of two sides.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// What both sides counted.
    pub unit: Unit,
    /// Runs of the base and of the change.
    pub runs: (usize, usize),
    /// The total.
    pub total: Row,
    /// Labels by size of their difference, largest first.
    pub rows: Vec<Row>,
    /// Labels left out because their share is below the limit on both sides.
    pub hidden: usize,
}

/// How to compare.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiffOptions {
    /// Labels below this share of the total on both sides are left out (and out of the adjustment).
    pub share_above: f64,
    /// A gate on the growth of each row, as a share (0.02 is 2 %).
    pub fail_above: Option<f64>,
    /// Significance level.
    pub alpha: f64,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            share_above: 0.001,
            fail_above: None,
            alpha: 0.05,
        }
    }
}

#[derive(Default, Clone)]
struct Values {
    times: Vec<i64>,
    counts: Vec<i64>,
}

fn collect(runs: &[Summary]) -> FxHashMap<&str, Values> {
    let mut values: FxHashMap<&str, Values> = FxHashMap::default();
    for row in runs.iter().flat_map(|run| &run.labels) {
        let entry = values.entry(&row.label).or_default();
        entry.times.push(row.self_time);
        entry
            .counts
            .push(i64::try_from(row.count).unwrap_or(i64::MAX));
    }
    values
}

/// Compares two sides label by label, by self time.
///
/// # Errors
/// A side without a run, sides or runs of different counters, or an `alpha` outside (0, 1).
pub fn diff(
    base: &[Summary],
    change: &[Summary],
    options: &DiffOptions,
) -> Result<Diff, ProfileError> {
    let (Some(first), Some(_)) = (base.first(), change.first()) else {
        return Err(ProfileError::Mismatch(
            "a side of the comparison has no profile".into(),
        ));
    };
    if let Some(other) = base
        .iter()
        .chain(change)
        .find(|run| run.unit.counter != first.unit.counter)
    {
        return Err(ProfileError::Mismatch(format!(
            "profiles of {} and of {} cannot be compared",
            first.unit.counter, other.unit.counter
        )));
    }
    let (base_values, change_values) = (collect(base), collect(change));
    let mut names: Vec<&str> = base_values
        .keys()
        .chain(change_values.keys())
        .copied()
        .collect();
    names.sort_unstable();
    names.dedup();
    let total = Values::default();
    let totals = |runs: &[Summary]| Values {
        times: runs
            .iter()
            .map(|run| i64::try_from(run.total).unwrap_or(i64::MAX))
            .collect(),
        counts: vec![1; runs.len()],
    };
    let (base_total, change_total) = (totals(base), totals(change));
    let limit = |values: &Values| {
        Spread::of(&mut values.times.clone()).map_or(0.0, |spread| spread.median)
            * options.share_above
    };
    let (base_limit, change_limit) = (limit(&base_total), limit(&change_total));
    let mut rows = vec![(TOTAL, base_total, change_total)];
    let mut hidden = 0;
    for name in names {
        let of = |side: &FxHashMap<&str, Values>| side.get(name).unwrap_or(&total).clone();
        let (mut before, mut after) = (of(&base_values), of(&change_values));
        let large = |values: &mut Values, limit: f64| {
            Spread::of(&mut values.times).is_some_and(|spread| spread.median >= limit)
        };
        if large(&mut before, base_limit) || large(&mut after, change_limit) {
            rows.push((name, before, after));
        } else {
            hidden += 1;
        }
    }
    let mut rows = judge(rows, &first.unit, options)?;
    let total = rows.remove(0);
    rows.sort_by(|a, b| {
        b.difference()
            .abs()
            .total_cmp(&a.difference().abs())
            .then_with(|| a.label.cmp(&b.label))
    });
    Ok(Diff {
        unit: first.unit.clone(),
        runs: (base.len(), change.len()),
        total,
        rows,
        hidden,
    })
}

fn judge(
    rows: Vec<(&str, Values, Values)>,
    unit: &Unit,
    options: &DiffOptions,
) -> Result<Vec<Row>, ProfileError> {
    let counts = |values: &Values| {
        Spread::of(&mut values.counts.clone()).map_or(0.0, |spread| spread.median)
    };
    let floor = Floors::default().of(&unit.counter);
    let mut floors = Floors::default();
    let mut compared: Vec<(String, Comparison)> = Vec::new();
    for (name, before, after) in &rows {
        if before.times.len() < 2 || after.times.len() < 2 {
            continue;
        }
        // A self time below zero comes from crossing intervals only; there is nothing to compare then.
        let counted = |values: &Values| {
            values
                .times
                .iter()
                .map(|&t| u64::try_from(t).ok())
                .collect::<Option<Vec<_>>>()
        };
        let (Some(before), Some(after)) = (counted(before), counted(after)) else {
            continue;
        };
        let comparison = compare_unpaired(
            &before,
            &after,
            &Options {
                alpha: options.alpha,
                significance: options.alpha,
            },
        )
        .map_err(|error| ProfileError::Mismatch(error.to_string()))?;
        floors = floors.with(*name, floor);
        compared.push(((*name).to_owned(), comparison));
    }
    let mut judged: FxHashMap<String, Judged> = verdicts(compared, &floors)
        .into_iter()
        .map(|judged| (judged.metric.clone(), judged))
        .collect();
    Ok(rows
        .into_iter()
        .map(|(name, mut before, mut after)| {
            let judged = judged.remove(name);
            let gate = options.fail_above.map(|limit| match &judged {
                Some(judged) => Gate::above(name, limit).judge(judged, Vec::new()),
                // A label that vanished did not grow; anything else was seen in too few runs.
                None if after.times.is_empty() => Outcome::Pass,
                None => Outcome::Undecided,
            });
            Row {
                label: name.to_owned(),
                base_count: counts(&before),
                change_count: counts(&after),
                base: Spread::of(&mut before.times),
                change: Spread::of(&mut after.times),
                judged,
                gate,
            }
        })
        .collect())
}
