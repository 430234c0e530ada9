//! What a commit's records have of each benchmark.

use std::collections::BTreeMap;

use truecount_run::rounds::{Command, Metric};

use super::is_exact;
use crate::record::{Record, parameters};

/// A benchmark of one side, with the record that it is of.
pub(super) struct Side<'r> {
    pub(super) record: &'r Record,
    pub(super) benchmark: &'r Command,
}

/// Suite, benchmark, parameters.
pub(super) type Place<'r> = (&'r str, &'r str, String);

/// What a commit has of each.
pub(super) type Benchmarks<'r> = BTreeMap<Place<'r>, Vec<Side<'r>>>;

/// The benchmarks of a commit's records, in the order in which they were measured.
pub(super) fn benchmarks(records: &[Record]) -> Benchmarks<'_> {
    let mut all: Benchmarks<'_> = BTreeMap::new();
    for record in records {
        for benchmark in &record.benchmarks {
            let place = (
                record.suite.as_str(),
                benchmark.name.as_str(),
                parameters(benchmark),
            );
            all.entry(place)
                .or_default()
                .push(Side { record, benchmark });
        }
    }
    all
}

/// A metric as it was measured last; an exact count goes before others (a single run with a profile, say).
pub(super) fn last<'s, 'r>(
    sides: &'s [Side<'r>],
    name: &str,
) -> Option<(&'s Side<'r>, &'r Metric)> {
    let all = sides.iter().filter_map(|side| {
        let metric = side.benchmark.metrics.get(name)?;
        (!metric.samples.is_empty()).then_some((side, metric))
    });
    all.max_by_key(|(side, metric)| is_exact(metric, &side.record.environment))
}

/// The median, in the metric's unit.
pub(super) fn value(metric: &Metric) -> Option<f64> {
    Some(metric.summary()?.median.to_f64() * metric.scale)
}
