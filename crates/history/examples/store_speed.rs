//! Fills a store with records of commits and times the last of them (`tests/history/store.py`).
//!
//! usage: store_speed STORE SUITE BENCHMARKS METRICS exact|noisy < COMMITS
//!
//! COMMITS: hashes, the oldest first. Every metric has a step of 1 % every 500 commits; noisy ones have noise of 0.5 %.

#![allow(clippy::print_stdout, reason = "an example")]

use std::time::Instant;

use truecount_history::record::{Commit, Measurements, Record, metric};
use truecount_history::store::Store;
use truecount_model::{Precision, SourceKind};
use truecount_run::rounds::{Command, Map};
use truecount_stats::Rng;

/// What is measured of the store's: the last so many.
const LAST: usize = 200;

struct Shape {
    suite: String,
    benchmarks: u64,
    metrics: u64,
    exact: bool,
}

fn record(shape: &Shape, hash: &str, number: u64, rng: &mut Rng) -> Record {
    let mut value = |series: u64| {
        let level = 1_000_000 + 1000 * series;
        let step = if (number / 500) % 2 == 1 {
            level / 100
        } else {
            0
        };
        let noise = (0..12).map(|_| rng.below(level / 400)).sum::<u64>();
        level + step + if shape.exact { 0 } else { noise / 2 }
    };
    let benchmark = |index: u64| Command {
        name: format!("benchmark-{index}"),
        runs: 5,
        metrics: Map((0..shape.metrics)
            .map(|which| {
                let value = value(index * shape.metrics + which);
                let (source, precision) = match shape.exact {
                    true => (Some(SourceKind::Virtual), Some(Precision::Exact)),
                    false => (None, None),
                };
                let samples = vec![value; 5];
                (
                    format!("metric-{which}:u"),
                    metric("count", 1.0, source, precision, samples),
                )
            })
            .collect()),
        ..Command::default()
    };
    let found = Measurements {
        suite: shape.suite.clone(),
        benchmarks: (0..shape.benchmarks).map(benchmark).collect(),
        ..Measurements::default()
    };
    let commit = Commit {
        hash: hash.to_owned(),
        time: 1_600_000_000 + 60 * number as i64,
        ..Commit::default()
    };
    found.of_commit(commit, 1_700_000_000 + number as i64)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, store, suite, benchmarks, metrics, kind] = words.as_slice() else {
        return Err("store_speed STORE SUITE BENCHMARKS METRICS exact|noisy".into());
    };
    let shape = Shape {
        suite: suite.clone(),
        benchmarks: benchmarks.parse()?,
        metrics: metrics.parse()?,
        exact: kind == "exact",
    };
    let mut rng = Rng::new(3);
    let mut store = Store::open(store, true)?;
    let mut times = Vec::new();
    for (line, number) in std::io::stdin().lines().zip(0..) {
        let record = record(&shape, &line?, number, &mut rng);
        let start = Instant::now();
        store.add(&record)?;
        times.push(start.elapsed());
    }
    let records = times.len();
    let mut last = times.split_off(records.saturating_sub(LAST));
    last.sort_unstable();
    let points = records as u64 * shape.benchmarks * shape.metrics;
    println!(
        "{points} points in {records} records; add of {}: median {:?}, largest {:?} (of the last {})",
        shape.benchmarks * shape.metrics,
        last.get(last.len() / 2).copied().unwrap_or_default(),
        last.last().copied().unwrap_or_default(),
        last.len()
    );
    Ok(())
}
