//! Macro noise: how much the self time of each label varies over identical runs, for one or more
//! groups of runs side by side (wall time beside instructions, say).
//!
//! As in the report that introduced instruction counters to rustc's self-profiler: the median over
//! the runs, ± half the range, and that half range relative to the median.

use crate::error::ProfileError;
use crate::metadata::Unit;
use crate::summarize::Summary;
use rustc_hash::FxHashMap;
use serde::Serialize;

/// A value over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Median (mean of the middle two for an even number of runs).
    pub median: f64,
    /// (max − min) / 2.
    pub half_range: f64,
    /// Runs that have the value.
    pub runs: usize,
}

impl Spread {
    /// Of the values of the runs; `None` for none.
    ///
    /// ```
    /// use truecount_profile::noise::Spread;
    /// let spread = Spread::of(&mut [10, 14, 11]).unwrap();
    /// assert_eq!((spread.median, spread.half_range), (11.0, 2.0));
    /// ```
    #[must_use]
    pub fn of(values: &mut [i64]) -> Option<Self> {
        values.sort_unstable();
        let (first, last) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let upper = *values.get(middle)? as f64;
        let lower =
            *values.get(middle.saturating_sub(usize::from(values.len().is_multiple_of(2))))? as f64;
        Some(Self {
            median: lower.midpoint(upper),
            half_range: last.saturating_sub(first) as f64 / 2.0,
            runs: values.len(),
        })
    }

    /// The half range as a share of the median; `None` where the median is 0.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        (self.median != 0.0).then(|| self.half_range / self.median.abs())
    }
}

/// One group of runs of the same counter.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// What was counted.
    pub unit: Unit,
    /// Runs in the group.
    pub runs: usize,
    /// The total over all threads.
    pub total: Option<Spread>,
}

/// One label in all groups.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The label.
    pub label: String,
    /// Its self time in each group; `None` where no run of the group has it.
    pub cells: Vec<Option<Spread>>,
}

/// The macro noise table.
#[derive(Debug, Clone, PartialEq)]
pub struct MacroNoise {
    /// The groups, in the order given.
    pub groups: Vec<Group>,
    /// Labels, largest median self time of the first group first.
    pub rows: Vec<Row>,
}

/// The macro noise of groups of runs.
///
/// # Errors
/// A group whose runs counted different things, or no run at all.
pub fn macro_noise(groups: &[Vec<Summary>]) -> Result<MacroNoise, ProfileError> {
    let mut noise = MacroNoise {
        groups: Vec::new(),
        rows: Vec::new(),
    };
    let mut cells: FxHashMap<&str, Vec<Option<Spread>>> = FxHashMap::default();
    for (number, runs) in groups.iter().enumerate() {
        let Some(first) = runs.first() else {
            return Err(ProfileError::Mismatch(format!(
                "group {} has no profile",
                number + 1
            )));
        };
        if let Some(other) = runs
            .iter()
            .find(|run| run.unit.counter != first.unit.counter)
        {
            return Err(ProfileError::Mismatch(format!(
                "one group of runs counts both {} and {}: give them as two groups",
                first.unit.counter, other.unit.counter
            )));
        }
        let mut totals: Vec<i64> = runs
            .iter()
            .map(|run| i64::try_from(run.total).unwrap_or(i64::MAX))
            .collect();
        noise.groups.push(Group {
            unit: first.unit.clone(),
            runs: runs.len(),
            total: Spread::of(&mut totals),
        });
        let mut values: FxHashMap<&str, Vec<i64>> = FxHashMap::default();
        for row in runs.iter().flat_map(|run| &run.labels) {
            values.entry(&row.label).or_default().push(row.self_time);
        }
        for (label, mut values) in values {
            let row = cells
                .entry(label)
                .or_insert_with(|| vec![None; groups.len()]);
            row[number] = Spread::of(&mut values);
        }
    }
    noise.rows = cells
        .into_iter()
        .map(|(label, cells)| Row {
            label: label.to_owned(),
            cells,
        })
        .collect();
    let key = |row: &Row| {
        row.cells
            .iter()
            .flatten()
            .next()
            .map_or(0.0, |cell| cell.median)
    };
    noise.rows.sort_by(|a, b| {
        key(b)
            .total_cmp(&key(a))
            .then_with(|| a.label.cmp(&b.label))
    });
    Ok(noise)
}
