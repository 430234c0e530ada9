//! `-M` in a bench: every run gives a value of each metric, computed from that run's own counts.
//!
//! Samples are whole numbers, so a value is kept in millionths of its unit (the metric's `scale`).

use std::collections::BTreeMap;

use truecount_events::metrics::Worse;
use truecount_model::{Measured, Reading, Reason};

use super::result::{Map, Metric};
use crate::metrics::{Asked, MetricRow};
use crate::request::RequestGroup;

/// A sample is the value times this.
const PARTS: f64 = 1e6;

/// The metrics that were asked for, and what cannot be counted of them.
#[derive(Default)]
pub(super) struct Metrics {
    pub(super) asked: Asked,
    /// Readings of groups that the source refuses: all missing, with the reason.
    pub(super) refused: BTreeMap<usize, Vec<Reading>>,
}

impl Metrics {
    pub(super) fn refuse(&mut self, number: usize, readings: Vec<Reading>) {
        self.refused.insert(number, readings);
    }

    /// Makes room for every metric; those whose groups are never counted in one run say so.
    pub(super) fn announce(&self, collected: &mut Map<Metric>, runs: &[&[RequestGroup]]) {
        for (name, metric, groups) in self.asked.metrics() {
            let unit = metric.map_or("", |metric| metric.unit.as_str());
            // Without a word in its row a direction would be a guess.
            let worse = metric
                .and_then(|metric| metric.worse)
                .unwrap_or(Worse::Neither);
            collected.room_for(&name, unit, 1.0 / PARTS, Some(worse));
            let has = |run: &[RequestGroup]| {
                groups.iter().all(|&number| {
                    self.refused.contains_key(&number)
                        || run.iter().any(|group| group.metric == Some(number))
                })
            };
            if !runs.iter().any(|run| has(run)) {
                let reason = Reason::new("its events do not fit the counters of one run")
                    .hint("add --multiplex, which scales them");
                collected.add(0, &[reason.missing(&name, unit)]);
            }
        }
    }

    /// The readings of a run, with values of metrics in place of the counts behind them.
    pub(super) fn of_run(&self, groups: &[RequestGroup], readings: Vec<Reading>) -> Vec<Reading> {
        if self.asked.is_empty() {
            return readings;
        }
        let mut own = Vec::new();
        let mut behind: BTreeMap<usize, Vec<Reading>> = self.refused.clone();
        let mut left = readings.into_iter();
        for group in groups {
            let members = left.by_ref().take(group.members.len());
            match group.metric {
                Some(number) => {
                    behind.insert(number, members.collect());
                }
                None => own.extend(members),
            }
        }
        own.extend(left);
        let wall = own.iter().find(|reading| reading.event == "wall-time");
        let wall_ns = wall.and_then(Reading::value).unwrap_or(0);
        let readings = |number: usize| behind.get(&number).map(Vec::as_slice);
        let values = self.asked.values(&readings, wall_ns);
        own.extend(values.metrics.iter().map(sample));
        own
    }
}

fn sample(row: &MetricRow) -> Reading {
    let missing = |reason: String| Measured::Missing(reason.into());
    let result = match &row.result {
        Measured::Missing(reason) => Measured::Missing(reason.clone()),
        // A part of a sum may come out a little below nothing; a sample cannot.
        Measured::Value { value, .. } if *value < 0.0 => {
            missing(format!("below 0 in a run: {value}"))
        }
        Measured::Value { value, .. } if value * PARTS >= 1.8e19 => {
            missing("too large for a sample".to_owned())
        }
        &Measured::Value {
            value,
            source,
            precision,
        } => Measured::Value {
            // Not negative and below 2^64, as the arms above see to.
            value: (value * PARTS).round() as u64,
            source,
            precision,
        },
    };
    Reading {
        scale: 1.0 / PARTS,
        ..Reading::new(&row.metric, &row.unit, result)
    }
}
