//! Change points against those that Apache Otava 0.8 finds in the same series (`tests/history/change_points.py` wrote them).

#![allow(clippy::unwrap_used, reason = "tests")]

use truecount_stats::{ChangeOptions, change_points};

/// A change that both find may lie so far apart.
const NEAR: usize = 2;

#[test]
fn clear_steps_are_found_where_otava_finds_them() {
    let mut seen = 0;
    for line in include_str!("otava_fixtures.txt").lines() {
        let Some((expected, values)) = line.split_once(" : ").filter(|_| !line.starts_with('#'))
        else {
            continue;
        };
        let expected: Vec<usize> = expected
            .split_whitespace()
            .map(|index| index.parse().unwrap())
            .collect();
        let values: Vec<f64> = values
            .split_whitespace()
            .map(|value| value.parse().unwrap())
            .collect();
        let found = change_points(&values, &ChangeOptions::default());
        let found: Vec<usize> = found.iter().map(|point| point.index).collect();
        let near = found
            .iter()
            .zip(&expected)
            .all(|(one, other)| one.abs_diff(*other) <= NEAR);
        assert!(
            near && found.len() == expected.len(),
            "{found:?}, Otava {expected:?}"
        );
        seen += 1;
    }
    assert!(seen >= 20, "{seen} series");
}
