//! Series: what keys them, their points, and how they are written and read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sql::Value;
use crate::identity;
use crate::record::{Record, parameters};

/// What a series is keyed by.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The suite; empty without one.
    pub suite: String,
    /// The benchmark.
    pub benchmark: String,
    /// Its parameters, `level=9`.
    pub parameters: String,
    /// The metric.
    pub metric: String,
    /// Who counted.
    pub source: String,
    /// On which machine, as declared.
    pub machine: String,
}

/// A series and its points.
#[derive(Debug, Clone)]
pub struct Series {
    /// What it is.
    pub key: Key,
    /// The unit of its values.
    pub unit: String,
    /// Which direction is worse, where the metric brings that along.
    pub worse: Option<String>,
    /// In the order of their commits' times.
    pub points: Vec<Point>,
}

/// One commit's value.
#[derive(Debug, Clone)]
pub struct Point {
    /// The commit.
    pub commit: Arc<str>,
    /// When it was committed.
    pub time: i64,
    /// When it was measured.
    pub taken: i64,
    /// The median of the samples, in the unit.
    pub value: f64,
    /// The smallest sample.
    pub low: f64,
    /// The largest sample.
    pub high: f64,
    /// How many samples.
    pub samples: i64,
    /// An exact count.
    pub exact: bool,
}

/// Series as they are read.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) series: BTreeMap<i64, Series>,
    records: BTreeMap<i64, (Arc<str>, i64, i64)>,
}

impl Reading {
    pub(super) fn record(&mut self, row: &[Value]) {
        if let [id, hash, time, taken] = row {
            let record = (hash.text().into(), time.integer(), taken.integer());
            self.records.insert(id.integer(), record);
        }
    }

    pub(super) fn add(&mut self, row: &[Value]) {
        let [series, record, value, low, high, samples, exact] = row else {
            return;
        };
        let (Some(series), Some((hash, time, taken))) = (
            self.series.get_mut(&series.integer()),
            self.records.get(&record.integer()),
        ) else {
            return;
        };
        series.points.push(Point {
            commit: Arc::clone(hash),
            time: *time,
            taken: *taken,
            value: value.real(),
            low: low.real(),
            high: high.real(),
            samples: samples.integer(),
            exact: exact.integer() != 0,
        });
    }

    pub(super) fn finish(self) -> Vec<Series> {
        let all = self.series.into_values();
        let mut all: Vec<Series> = all.filter(|series| !series.points.is_empty()).collect();
        for series in &mut all {
            series.points.sort_by_key(|point| (point.time, point.taken));
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        all
    }
}

/// A point as it is written.
pub(super) struct Row {
    pub(super) unit: String,
    pub(super) worse: Option<String>,
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) samples: i64,
    pub(super) exact: bool,
}

/// The points of a record, by their series.
pub(super) fn points(record: &Record) -> BTreeMap<Key, Row> {
    let mut points = BTreeMap::new();
    for benchmark in &record.benchmarks {
        for (name, metric) in benchmark.metrics.iter() {
            let Some(summary) = metric.summary() else {
                continue;
            };
            let ends = (metric.samples.iter().min(), metric.samples.iter().max());
            let (Some(&low), Some(&high)) = ends else {
                continue;
            };
            let key = Key {
                suite: record.suite.clone(),
                benchmark: benchmark.name.clone(),
                parameters: parameters(benchmark),
                metric: name.to_owned(),
                source: identity::source(record, metric),
                machine: identity::machine(record, metric),
            };
            let row = Row {
                unit: metric.unit.clone(),
                worse: metric.worse.map(|worse| worse.name().to_owned()),
                value: summary.median.to_f64() * metric.scale,
                low: low as f64 * metric.scale,
                high: high as f64 * metric.scale,
                samples: i64::try_from(metric.samples.len()).unwrap_or(i64::MAX),
                exact: crate::decide::is_exact(metric, &record.environment),
            };
            points.insert(key, row);
        }
    }
    points
}
