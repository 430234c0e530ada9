//! Which functions a change is made of.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::Profile;

/// So many functions are told.
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

impl Moved {
    fn distance(&self) -> u64 {
        self.base.abs_diff(self.other)
    }
}

/// The functions that moved, the largest difference first.
#[must_use]
pub fn moved(base: &Profile, other: &Profile) -> Vec<Moved> {
    let mut both: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for function in &base.functions {
        let place = (function.module.as_str(), function.function.as_str());
        both.entry(place).or_default().0 += function.value;
    }
    for function in &other.functions {
        let place = (function.module.as_str(), function.function.as_str());
        both.entry(place).or_default().1 += function.value;
    }
    let all = both
        .into_iter()
        .map(|((module, function), (base, other))| Moved {
            module: module.to_owned(),
            function: function.to_owned(),
            base,
            other,
        });
    let mut all: Vec<Moved> = all.filter(|moved| moved.base != moved.other).collect();
    all.sort_by_key(|moved| std::cmp::Reverse(moved.distance()));
    all.truncate(MOST);
    all
}
