//! What the rounds gave: every command with its metrics, and each metric with its samples and their order statistics.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use truecount_events::Machine;
use truecount_events::metrics::Worse;
use truecount_model::{Measured, Precision, Reading, SourceKind};
use truecount_stats::{Differ, Number, Summary};

use crate::closed::{Closed, named};
use crate::exactness::Verdicts;
use crate::request::EventRequest;

/// One command and its metrics.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Command {
    /// The words that were executed.
    pub command: Vec<String>,
    /// How it is called in tables.
    pub name: String,
    /// Parameters and their values, in the order given.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String>,
    /// Measured runs.
    pub runs: usize,
    /// Runs that ended with a failure that was to be ignored.
    #[serde(default)]
    pub failures: usize,
    /// Whether exact counts will repeat, from the runs that counted them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Closed>,
    /// What was measured, in the order in which it is shown.
    pub metrics: Map<Metric>,
}

/// One metric of one command.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Metric {
    /// What `sample * scale` is in.
    pub unit: String,
    /// Factor from a sample to the unit.
    #[serde(default = "one", skip_serializing_if = "truecount_model::is_one")]
    pub scale: f64,
    /// Who counted; null when nobody did.
    pub source: Option<SourceKind>,
    /// The least sure of the samples.
    #[serde(default)]
    pub precision: Option<Precision>,
    /// In the order measured.
    pub samples: Vec<u64>,
    /// The round of each sample; left out when every round gave one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<usize>,
    /// The smallest sample.
    pub min: Option<u64>,
    /// The median of the samples.
    pub median: Option<serde_json::Number>,
    /// The largest sample.
    pub max: Option<u64>,
    /// 1.4826 · median absolute deviation.
    pub mad: Option<f64>,
    /// How many different samples there are.
    pub distinct: usize,
    /// An exact count: all samples are equal (and there are at least five, or nothing came in from outside), the counter
    /// is not known to deviate, and it is a count at all ([`Self::is_count`]).
    pub exact: bool,
    /// How its counter deviates from the truth on this machine, as `exactness` found; `None` where nothing is known
    /// against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation: Option<String>,
    /// Why there are no samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do to get some, where something can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Of a computed metric: which direction is worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worse: Option<Worse>,
}

fn one() -> f64 {
    1.0
}

impl Metric {
    /// The order statistics of the samples; `None` without any.
    pub fn summary(&self) -> Option<Summary> {
        Summary::of(&self.samples).ok()
    }

    /// Whether its counts come from the virtual PMU or from single steps, which nothing from outside changes.
    pub fn undisturbed(&self) -> bool {
        matches!(self.source, Some(SourceKind::Virtual | SourceKind::Step))
    }

    /// Whether its values are counts of what happened: by the CPU's counters, the virtual PMU, single steps. The kernel's
    /// accounts (`max-rss`, faults, context switches) and clocks, what is extrapolated or computed from counts and what a
    /// model says are none: they may be equal, and are never exact.
    pub fn is_count(&self) -> bool {
        self.worse.is_none()
            && !matches!(
                self.precision,
                Some(Precision::Scaled | Precision::Modelled)
            )
            && matches!(
                self.source,
                Some(SourceKind::Hardware | SourceKind::Virtual | SourceKind::Step)
            )
    }

    /// Whether it is an exact count, whoever wrote the document: earlier ones called equal values of anything exact.
    pub fn is_exact(&self) -> bool {
        self.exact && self.deviation.is_none() && self.is_count()
    }

    /// Takes a reading; one without value is not a sample.
    fn add(&mut self, round: usize, reading: &Reading) {
        match &reading.result {
            Measured::Value {
                value,
                source,
                precision,
            } => {
                self.samples.push(*value);
                self.rounds.push(round);
                self.source = Some(*source);
                self.precision = self.precision.max(Some(*precision));
            }
            Measured::Missing(reason) if self.reason.is_none() => {
                self.reason = Some(reason.cause.clone());
                self.hint.clone_from(&reason.hint);
            }
            Measured::Missing(_) => {}
        }
    }

    /// Fills the statistics; `rounds` were measured.
    fn finish(&mut self, rounds: usize) {
        if self.rounds.iter().copied().eq(0..rounds) {
            self.rounds.clear();
        }
        let Some(summary) = self.summary() else {
            return;
        };
        (self.reason, self.hint) = (None, None);
        self.min = self.samples.iter().min().copied();
        self.max = self.samples.iter().max().copied();
        self.median = match summary.median {
            Number::Count(count) => Some(count.into()),
            Number::Real(real) => serde_json::Number::from_f64(real),
        };
        self.mad = Some(summary.mad);
        self.distinct = summary.distinct;
        self.exact = summary.exact && self.deviation.is_none() && self.is_count();
    }

    /// The samples with their rounds.
    pub fn by_round(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.samples
            .iter()
            .enumerate()
            .map(|(index, &sample)| (self.rounds.get(index).copied().unwrap_or(index), sample))
    }
}

impl Command {
    /// Adds what one run told.
    pub(super) fn add(&mut self, round: usize, readings: &[Reading]) {
        self.metrics.add(round, readings);
    }

    /// Adds what came into one run from outside.
    pub(super) fn came_in(&mut self, closed: Option<Closed>) {
        match (&mut self.outside, closed) {
            (Some(all), Some(closed)) => all.merge(closed),
            (all @ None, closed) => *all = closed,
            (Some(_), None) => {}
        }
    }

    /// Whether its exact counts are known to repeat.
    pub(super) fn is_closed(&self) -> bool {
        self.outside.as_ref().is_some_and(|outside| outside.closed)
    }

    /// Where counts of the virtual PMU may vary: what came into its runs from outside, in words.
    #[must_use]
    pub fn open(&self, metric: &Metric) -> Option<String> {
        let outside = self.outside.as_ref().filter(|_| metric.undisturbed())?;
        (!outside.closed)
            .then(|| format!("this count of {} may vary: {}", self.name, outside.what()))
    }

    /// Fills the statistics of what is measured.
    pub(super) fn finish(&mut self, rounds: usize) {
        self.finish_knowing(rounds, Verdicts::of_this_machine());
    }

    fn finish_knowing(&mut self, rounds: usize, known: &Verdicts) {
        self.outside = named(self.outside.take());
        let varies = self.metrics.iter().any(|(_, metric)| {
            let mut samples = metric.samples.iter();
            let first = samples.next();
            metric.undisturbed() && metric.is_count() && samples.any(|each| Some(each) != first)
        });
        if let Some(outside) = self.outside.as_mut().filter(|_| varies) {
            outside.contradicted();
        }
        let closed = self.is_closed();
        for (name, metric) in &mut self.metrics.0 {
            metric.deviation = metric.source.and_then(|source| {
                let kept = known.deviation(name, source, &Machine::this())?;
                Some(kept.verdict.text.clone())
            });
            metric.finish(rounds);
            // By proof, not by repetition.
            metric.exact |= closed
                && metric.undisturbed()
                && metric.is_count()
                && metric.distinct == 1
                && metric.deviation.is_none();
        }
    }

    /// How counts of the virtual PMU or of single steps differ between runs.
    pub(super) fn differ(all: &[Self]) -> Differ {
        let metrics = || all.iter().flat_map(|one| &one.metrics.0);
        let mut found = Differ::Nowhere;
        for (name, _) in metrics().filter(|(_, metric)| metric.undisturbed()) {
            let same = metrics().filter(|(other, _)| other == name);
            let samples: Vec<&[u64]> = same.map(|(_, metric)| metric.samples.as_slice()).collect();
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
        let (_, metric) = self
            .metrics
            .iter()
            .find(|(full, _)| *full == name || plain(full))?;
        Some(metric.samples.as_slice()).filter(|samples| !samples.is_empty())
    }
}

impl Map<Metric> {
    /// Room for these metrics, in the order in which they are shown.
    pub(super) fn room<'w>(wanted: impl IntoIterator<Item = &'w EventRequest>) -> Self {
        let mut all = Self::default();
        for wanted in wanted {
            all.room_for(&wanted.name, &wanted.unit, wanted.scale, None);
        }
        all
    }

    /// Room for a metric; one that is computed says which direction is worse.
    pub(super) fn room_for(&mut self, name: &str, unit: &str, scale: f64, worse: Option<Worse>) {
        if self.get(name).is_none() {
            let metric = Metric {
                unit: unit.to_owned(),
                scale,
                worse,
                ..Metric::default()
            };
            self.0.push((name.to_owned(), metric));
        }
    }

    /// Adds readings to the metrics of their names.
    pub(super) fn add(&mut self, round: usize, readings: &[Reading]) {
        for reading in readings {
            let mut metrics = self.0.iter_mut();
            if let Some((_, metric)) = metrics.find(|(name, _)| *name == reading.event) {
                metric.add(round, reading);
            }
        }
    }
}

/// A map that keeps its order, as an object in JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Map<T>(pub Vec<(String, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Map<T> {
    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0
            .iter()
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The entries in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl<T: Serialize> Serialize for Map<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Map<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Map<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut access: A,
            ) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = access.next_entry()? {
                    entries.push(entry);
                }
                Ok(Map(entries))
            }
        }
        deserializer.deserialize_map(Visitor(std::marker::PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Resource;

    #[test]
    fn maps_keep_their_order() {
        let map: Map<u32> = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
        assert_eq!(map.get("a"), Some(&2));
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"b":1,"a":2}"#);
    }

    #[test]
    fn a_missing_value_is_no_sample() {
        let wanted = [
            EventRequest::resource(Resource::Wall),
            EventRequest::resource(Resource::MaxRss),
        ];
        let mut command = Command {
            metrics: Map::room(&wanted),
            ..Command::default()
        };
        command.add(0, &[Reading::software("wall-time", "ns", 5)]);
        command.add(1, &[Reading::missing("wall-time", "ns", "why")]);
        command.add(2, &[Reading::software("wall-time", "ns", 7)]);
        command.finish(3);
        let wall = command.metrics.get("wall-time").unwrap();
        assert_eq!((&*wall.samples, &*wall.rounds), (&[5, 7][..], &[0, 2][..]));
        assert_eq!(wall.reason, None);
        let rss = command.metrics.get("max-rss").unwrap();
        assert!(rss.samples.is_empty() && rss.median.is_none() && rss.source.is_none());
    }

    #[test]
    fn what_is_no_count_is_never_exact() {
        use Precision::{Counted, Exact, Modelled, Scaled};
        use SourceKind::{Hardware, Model, Software, Step, Virtual};
        for (name, unit, source, precision, worse, exact) in [
            ("instructions:u", "count", Virtual, Exact, None, true),
            ("instructions:u", "count", Step, Exact, None, true),
            ("instructions:u", "count", Hardware, Counted, None, true),
            ("instructions:u", "count", Hardware, Scaled, None, false),
            ("max-rss", "bytes", Software, Counted, None, false),
            ("page-faults", "count", Software, Counted, None, false),
            ("context-switches", "count", Software, Counted, None, false),
            ("cpu-time", "ns", Software, Counted, None, false),
            ("l1d-misses", "count", Model, Modelled, None, false),
            ("ipc", "ratio", Virtual, Exact, Some(Worse::Lower), false),
        ] {
            let mut command = Command {
                outside: Some(Closed {
                    closed: true,
                    ..Closed::default()
                }),
                ..Command::default()
            };
            command.metrics.room_for(name, unit, 1.0, worse);
            for round in 0..6 {
                let counted = Measured::Value {
                    value: 7,
                    source,
                    precision,
                };
                command.add(round, &[Reading::new(name, unit, counted)]);
            }
            command.finish_knowing(6, &Verdicts::default());
            let metric = command.metrics.get(name).unwrap();
            assert_eq!(
                (metric.exact, metric.distinct),
                (exact, 1),
                "{name} {source}"
            );
            // As an earlier version wrote it.
            let earlier = Metric {
                exact: true,
                ..metric.clone()
            };
            assert_eq!(earlier.is_exact(), exact, "{name} {source}");
        }
    }

    #[test]
    fn counts_of_a_counter_that_deviates_are_equal_and_not_exact() {
        let text = format!(
            r#"{{"schema":"{}","counters":[{{"event":"instructions:u","source":"hardware","measured":1,
                "verdict":{{"kind":"per-turn","text":"+1 per page fault"}}}}]}}"#,
            crate::exactness::SCHEMA
        );
        let known = Verdicts::parse(&text).unwrap();
        for (source, exact) in [(SourceKind::Hardware, false), (SourceKind::Virtual, true)] {
            let mut command = Command::default();
            command
                .metrics
                .room_for("instructions:u", "count", 1.0, None);
            for round in 0..6 {
                let counted = Measured::Value {
                    value: 7,
                    source,
                    precision: Precision::Counted,
                };
                command.add(round, &[Reading::new("instructions:u", "count", counted)]);
            }
            command.finish_knowing(6, &known);
            let metric = command.metrics.get("instructions:u").unwrap();
            assert_eq!((metric.exact, metric.distinct), (exact, 1), "{source}");
            assert_eq!(metric.deviation.is_some(), !exact, "{source}");
        }
    }
}
