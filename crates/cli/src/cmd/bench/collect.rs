//! Samples of one command, gathered run by run.

use truecount_events::metrics::Worse;
use truecount_stats::Differ;

use super::document::{Map, Metric};
use truecount_model::{Measured, Precision, Reading, Reason, SourceKind};
use truecount_run::request::EventRequest;

/// One metric while it grows.
#[derive(Clone)]
struct Growing {
    name: String,
    unit: String,
    scale: f64,
    source: Option<SourceKind>,
    precision: Option<Precision>,
    samples: Vec<u64>,
    rounds: Vec<usize>,
    reason: Option<Reason>,
    worse: Option<Worse>,
}

/// The samples of one command.
#[derive(Clone, Default)]
pub(super) struct Collected {
    metrics: Vec<Growing>,
    /// Measured native runs.
    pub(super) runs: usize,
    /// Failures that were ignored.
    pub(super) failures: usize,
}

impl Collected {
    /// Room for these metrics, in the order in which they are shown.
    pub(super) fn new<'w>(wanted: impl IntoIterator<Item = &'w EventRequest>) -> Self {
        let mut all = Self::default();
        for wanted in wanted {
            all.room_for(&wanted.name, &wanted.unit, wanted.scale, None);
        }
        all
    }

    /// Room for a metric; one that is computed says which direction is worse.
    pub(super) fn room_for(&mut self, name: &str, unit: &str, scale: f64, worse: Option<Worse>) {
        if self.metrics.iter().any(|metric| metric.name == name) {
            return;
        }
        self.metrics.push(Growing {
            name: name.to_owned(),
            unit: unit.to_owned(),
            scale,
            source: None,
            precision: None,
            samples: Vec::new(),
            rounds: Vec::new(),
            reason: None,
            worse,
        });
    }

    /// Adds what one run told. A reading without value is not a sample.
    pub(super) fn add(&mut self, round: usize, readings: &[Reading]) {
        for reading in readings {
            let Some(metric) = self
                .metrics
                .iter_mut()
                .find(|metric| metric.name == reading.event)
            else {
                continue;
            };
            match &reading.result {
                Measured::Value {
                    value,
                    source,
                    precision,
                } => {
                    metric.samples.push(*value);
                    metric.rounds.push(round);
                    metric.source = Some(*source);
                    metric.precision = metric.precision.max(Some(*precision));
                }
                Measured::Missing(reason) => {
                    metric.reason.get_or_insert_with(|| reason.clone());
                }
            }
        }
    }

    /// How counts of the engine or of single steps, which nothing from outside changes, differ between runs.
    pub(super) fn differ(all: &[Self]) -> Differ {
        let counts =
            |one: &'_ Growing| matches!(one.source, Some(SourceKind::Virtual | SourceKind::Step));
        let names = all.iter().flat_map(|one| &one.metrics);
        let names = names.filter(|one| counts(one)).map(|one| &one.name);
        let mut found = Differ::Nowhere;
        for name in names {
            let metrics = all.iter().flat_map(|one| &one.metrics);
            let same = metrics.filter(|metric| metric.name == *name);
            let samples: Vec<&[u64]> = same.map(|metric| metric.samples.as_slice()).collect();
            match Differ::of(&samples) {
                Differ::Nowhere => {}
                Differ::BetweenCommands => found = Differ::BetweenCommands,
                Differ::WithinCommand => return Differ::WithinCommand,
            }
        }
        found
    }

    /// The samples of a metric, by its name with or without filter.
    pub(super) fn samples(&self, name: &str) -> Option<&[u64]> {
        let plain = |full: &str| full.split(':').next() == Some(name);
        self.metrics
            .iter()
            .find(|metric| metric.name == name || plain(&metric.name))
            .map(|metric| metric.samples.as_slice())
            .filter(|samples| !samples.is_empty())
    }

    /// The metrics with their statistics.
    pub(super) fn finish(self, rounds: usize) -> Map<Metric> {
        Map(self
            .metrics
            .into_iter()
            .map(|growing| {
                let whole = growing.rounds.len() == rounds
                    && growing
                        .rounds
                        .iter()
                        .enumerate()
                        .all(|(at, &round)| at == round);
                let missing = growing.reason.filter(|_| growing.samples.is_empty());
                let mut metric = Metric {
                    unit: growing.unit,
                    scale: growing.scale,
                    source: growing.source,
                    precision: growing.precision,
                    reason: missing.as_ref().map(|reason| reason.cause.clone()),
                    hint: missing.and_then(|reason| reason.hint),
                    worse: growing.worse,
                    samples: growing.samples,
                    rounds: if whole { Vec::new() } else { growing.rounds },
                    min: None,
                    median: None,
                    max: None,
                    mad: None,
                    distinct: 0,
                    exact: false,
                };
                metric.summarize();
                (growing.name, metric)
            })
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use truecount_run::request::Resource;

    #[test]
    fn a_missing_value_is_no_sample() {
        let wanted = [
            EventRequest::resource(Resource::Wall),
            EventRequest::resource(Resource::MaxRss),
        ];
        let mut collected = Collected::new(&wanted);
        collected.add(0, &[Reading::software("wall-time", "ns", 5)]);
        collected.add(1, &[Reading::missing("wall-time", "ns", "why")]);
        collected.add(2, &[Reading::software("wall-time", "ns", 7)]);
        let map = collected.finish(3);
        let wall = map.get("wall-time").unwrap();
        assert_eq!(wall.samples, [5, 7]);
        assert_eq!(wall.rounds, [0, 2]);
        assert_eq!(wall.reason, None);
        let rss = map.get("max-rss").unwrap();
        assert!(rss.samples.is_empty() && rss.median.is_none() && rss.source.is_none());
    }
}
