//! How often a step of a noisy series is found, and how often one is found where there is none: change points against the
//! rules of rustc-perf and of github-action-benchmark. The table of docs/history.md.
//!
//! usage: power [SERIES]
//!
//! Each series has 100 values around 100 with a standard deviation of 1, and a step of so many standard deviations
//! somewhere in its middle that lasts to its end. The step is found where the rule alarms within five commits of it; any
//! other alarm is false. `outliers`: one value in twenty is up to ten standard deviations larger.

#![allow(clippy::print_stdout, reason = "an example")]

use truecount_stats::{ChangeOptions, Rng, change_points};

const LENGTH: usize = 100;
/// An alarm so near to the step is of the step.
const NEAR: usize = 5;

/// A rule and its name: where it alarms.
type Rule = (&'static str, fn(&[f64]) -> Vec<usize>);

/// A normal deviate (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.next_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.next_f64()).cos()
}

fn points(series: &[f64]) -> Vec<usize> {
    let found = change_points(series, &ChangeOptions::default());
    found.iter().map(|point| point.index).collect()
}

/// rustc-perf: a step to the next value beyond Q3 + 3·IQR of the 30 steps before it; 0.2 % where there are too few.
fn quartiles(series: &[f64]) -> Vec<usize> {
    let steps: Vec<f64> = series
        .windows(2)
        .map(|pair| match pair {
            [a, b] => (b / a - 1.0).abs(),
            _ => 0.0,
        })
        .collect();
    let limit = |before: &[f64]| {
        let mut past = before.iter().rev().take(30).copied().collect::<Vec<f64>>();
        if past.len() < 4 {
            return 0.002;
        }
        past.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (past.len() - 1) as f64;
            let (low, part) = (place.floor(), place.fract());
            let of = |index: f64| past.get(index as usize).copied().unwrap_or_default();
            of(low) * (1.0 - part) + of(place.ceil()) * part
        };
        at(0.75) + 3.0 * (at(0.75) - at(0.25))
    };
    let judged = steps.iter().enumerate().filter(|(index, step)| {
        let before = steps.get(..*index).unwrap_or_default();
        **step >= limit(before)
    });
    // The first commits have nothing before them to be judged by.
    let alarms = judged.map(|(index, _)| index + 1);
    alarms.filter(|index| *index > 4).collect()
}

/// github-action-benchmark: more than so much of the value before (smaller is better).
fn ratio(series: &[f64], threshold: f64) -> Vec<usize> {
    let pairs = series.windows(2).zip(1..);
    pairs
        .filter_map(|(pair, index)| match pair {
            [a, b] if b / a > threshold => Some(index),
            _ => None,
        })
        .collect()
}

fn main() {
    let wanted = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let trials: usize = wanted.unwrap_or(500);
    let rules: [Rule; 5] = [
        ("change points", points),
        ("rustc-perf: Q3 + 3 IQR", quartiles),
        ("github-action-benchmark: 200 %", |s| ratio(s, 2.0)),
        ("the same, 105 %", |s| ratio(s, 1.05)),
        ("the same, 102 %", |s| ratio(s, 1.02)),
    ];
    for outliers in [false, true] {
        println!(
            "{}: found of {trials} steps in % (false alarms in 1,000 commits)",
            if outliers { "outliers" } else { "normal" }
        );
        for (name, rule) in rules {
            let mut line = format!("{name:32}");
            for sigmas in [0.0, 0.5, 1.0, 2.0, 5.0] {
                // The same series for every rule.
                let mut rng = Rng::new(20);
                let (mut found, mut false_ones) = (0, 0);
                for _ in 0..trials {
                    let at = 30 + rng.below(41) as usize;
                    let value = |index: usize, rng: &mut Rng| {
                        let step = if index >= at { sigmas } else { 0.0 };
                        let spike = outliers && rng.below(20) == 0;
                        let spike = if spike { 10.0 * rng.next_f64() } else { 0.0 };
                        100.0 + step + normal(rng) + spike
                    };
                    let series: Vec<f64> = (0..LENGTH).map(|i| value(i, &mut rng)).collect();
                    let alarms = rule(&series);
                    let near = |alarm: &&usize| sigmas > 0.0 && alarm.abs_diff(at) <= NEAR;
                    found += usize::from(alarms.iter().any(|alarm| near(&alarm)));
                    false_ones += alarms.iter().filter(|alarm| !near(alarm)).count();
                }
                let false_ones = false_ones as f64 * 1000.0 / (trials * LENGTH) as f64;
                let share = found as f64 * 100.0 / trials as f64;
                let share = match sigmas > 0.0 {
                    true => format!("{share:.0}"),
                    false => "-".to_owned(),
                };
                line += &format!("  {sigmas}σ: {share} ({false_ones:.1})");
            }
            println!("{line}");
        }
    }
}
