//! Paths of calls in which two runs of a setting differ.

use serde::Serialize;
use truecount_run::calls::diff::{CallDiff, Cost, change};
use truecount_run::calls::{Apart, CallTree, tree_of};
use truecount_run::functions::Names;

use super::measure::Setting;

/// A path of functions in the min and in the max run of a setting.
#[derive(Debug, Serialize)]
pub struct PathDivergence {
    /// The program, then its functions, the outermost first.
    pub path: Vec<String>,
    /// In the min run.
    pub min_run: Cost,
    /// In the max run.
    pub max_run: Cost,
}

impl PathDivergence {
    /// Of what was executed there itself, of the max run against the min.
    #[must_use]
    pub fn difference(&self) -> i64 {
        change(self.min_run.own, self.max_run.own)
    }

    /// The same with all that was called.
    #[must_use]
    pub fn inclusive(&self) -> i64 {
        change(self.min_run.inclusive, self.max_run.inclusive)
    }
}

/// How many paths differ, and the `most` with the largest differences.
pub(super) fn of(
    setting: &Setting,
    names: &mut Names,
    most: usize,
) -> Option<(usize, Vec<PathDivergence>)> {
    let mut tree = |ran| -> Option<CallTree> {
        // (It was checked after the run.)
        tree_of(ran, names, Apart::Programs, false).ok().flatten()
    };
    let [least, largest] = setting.kept()?;
    let diff = CallDiff::of(&tree(least)?, &tree(largest)?);
    let changed = diff.changed();
    let shown = changed.iter().take(most).map(|node| PathDivergence {
        path: diff.path(node).into_iter().map(str::to_owned).collect(),
        min_run: node.old,
        max_run: node.new,
    });
    Some((changed.len(), shown.collect()))
}
