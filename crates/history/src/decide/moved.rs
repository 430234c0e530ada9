//! Which functions a change is made of, and by which paths of calls.

use std::collections::BTreeMap;

use serde::Serialize;
use truecount_run::calls::diff::{CallDiff, DiffNode};

use crate::record::Profile;

/// So many functions, and so many paths, are told.
const MOST: usize = 10;

/// A function that spends more or less than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// File name of what it is in.
    pub module: String,
    /// Its name.
    pub function: String,
    /// What it spent itself; 0 where it was not there.
    pub base: u64,
    /// What it spends itself.
    pub other: u64,
}

/// A path of calls that is taken more or less often than before, or costs another amount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MovedPath {
    /// The functions, the outermost first; before them the program.
    pub path: Vec<String>,
    /// What the last of them spent itself on this path.
    pub base: u64,
    /// What it spends.
    pub other: u64,
    /// How often it was called on this path.
    pub base_calls: u64,
    /// How often it is called.
    pub other_calls: u64,
}

/// What a change is made of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Explanation {
    /// Functions, the largest difference first.
    pub moved: Vec<Moved>,
    /// Paths of calls, the largest difference first; none where no tree of calls was kept.
    pub paths: Vec<MovedPath>,
}

/// What moved between two profiles of one benchmark.
#[must_use]
pub fn explanation(base: &Profile, other: &Profile) -> Explanation {
    let mut explained = Explanation {
        moved: functions(base, other),
        paths: Vec::new(),
    };
    let (Some(before), Some(after)) = (&base.calls, &other.calls) else {
        return explained;
    };
    let diff = CallDiff::of(before, after);
    let path = |node: &DiffNode| MovedPath {
        path: diff.path(node).into_iter().map(str::to_owned).collect(),
        base: node.old.own,
        other: node.new.own,
        base_calls: node.old.calls,
        other_calls: node.new.calls,
    };
    explained.paths = diff.changed().into_iter().take(MOST).map(path).collect();
    if base.functions.is_empty() || other.functions.is_empty() {
        // The tree has them, too.
        let moved = diff.sums.iter().filter_map(|sum| {
            let called = diff.functions.get(sum.function)?;
            Some(Moved {
                module: called.module.clone(),
                function: called.name.clone(),
                base: sum.old.own,
                other: sum.new.own,
            })
        });
        explained.moved = largest(moved);
    }
    explained
}

fn functions(base: &Profile, other: &Profile) -> Vec<Moved> {
    let mut both: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for function in &base.functions {
        let place = (function.module.as_str(), function.function.as_str());
        let sum = &mut both.entry(place).or_default().0;
        *sum = sum.saturating_add(function.value);
    }
    for function in &other.functions {
        let place = (function.module.as_str(), function.function.as_str());
        let sum = &mut both.entry(place).or_default().1;
        *sum = sum.saturating_add(function.value);
    }
    largest(
        both.into_iter()
            .map(|((module, function), (base, other))| Moved {
                module: module.to_owned(),
                function: function.to_owned(),
                base,
                other,
            }),
    )
}

/// Those that moved, the largest difference first.
fn largest(all: impl Iterator<Item = Moved>) -> Vec<Moved> {
    let mut all: Vec<Moved> = all.filter(|moved| moved.base != moved.other).collect();
    all.sort_by_key(|moved| std::cmp::Reverse(moved.base.abs_diff(moved.other)));
    all.truncate(MOST);
    all
}
