//! The result of `bench` as a document: schema `truecount.bench/2` (`docs/schemas/bench.json`).
//! The same document is what `--save` writes and `--baseline` reads.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use truecount_events::metrics::Worse;
use truecount_stats::{Number, Summary};

use truecount_model::{Precision, SourceKind};
use truecount_run::env_record::Environment;

/// The schema's name.
pub(super) const SCHEMA: &str = "truecount.bench/2";

/// Everything that a bench told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) schema: String,
    pub(crate) commands: Vec<Command>,
    #[serde(default)]
    pub(crate) comparisons: Vec<Compared>,
    /// What the gates said, in the order asked for.
    #[serde(default)]
    pub(crate) gates: Vec<GateRow>,
    /// Seed of the order of runs.
    pub(crate) seed: u64,
    /// Measured rounds.
    pub(crate) rounds: usize,
    /// Rounds before them that were dropped.
    #[serde(default)]
    pub(crate) warmup: usize,
    /// The bench was stopped before its end: by what.
    #[serde(default)]
    pub(crate) stopped: Option<String>,
    /// What the reader should know, one sentence each.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    pub(crate) environment: Environment,
}

/// One command and its metrics.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Command {
    /// The words that were executed.
    pub(crate) command: Vec<String>,
    /// How it is called in tables.
    pub(crate) name: String,
    /// Parameters and their values, in the order given.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) parameters: Map<String>,
    /// Measured runs.
    pub(crate) runs: usize,
    /// Runs that ended with a failure that was to be ignored.
    #[serde(default)]
    pub(crate) failures: usize,
    pub(crate) metrics: Map<Metric>,
}

/// One metric of one command.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Metric {
    /// What `sample * scale` is in.
    pub(crate) unit: String,
    #[serde(default = "one", skip_serializing_if = "truecount_model::is_one")]
    pub(crate) scale: f64,
    /// Who counted; null when nobody did.
    pub(crate) source: Option<SourceKind>,
    /// The least sure of the samples.
    #[serde(default)]
    pub(crate) precision: Option<Precision>,
    /// In the order measured.
    pub(crate) samples: Vec<u64>,
    /// The round of each sample; left out when every round gave one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rounds: Vec<usize>,
    pub(crate) min: Option<u64>,
    pub(crate) median: Option<serde_json::Number>,
    pub(crate) max: Option<u64>,
    /// 1.4826 · median absolute deviation.
    pub(crate) mad: Option<f64>,
    pub(crate) distinct: usize,
    /// All samples are equal (and there are at least five).
    pub(crate) exact: bool,
    /// Why there are no samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// What to do to get some, where something can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
    /// Of a computed metric: which direction is worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) worse: Option<Worse>,
}

fn one() -> f64 {
    1.0
}

impl Metric {
    /// The order statistics of the samples; `None` without any.
    pub(crate) fn summary(&self) -> Option<Summary> {
        Summary::of(&self.samples).ok()
    }

    /// Fills the statistics from the samples.
    pub(super) fn summarize(&mut self) {
        if let Some(summary) = self.summary() {
            self.min = self.samples.iter().min().copied();
            self.max = self.samples.iter().max().copied();
            self.median = match summary.median {
                Number::Count(count) => Some(count.into()),
                Number::Real(real) => serde_json::Number::from_f64(real),
            };
            self.mad = Some(summary.mad);
            self.distinct = summary.distinct;
            self.exact = summary.exact;
        }
    }

    /// The samples with their rounds.
    pub(super) fn by_round(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.samples
            .iter()
            .enumerate()
            .map(|(index, &sample)| (self.rounds.get(index).copied().unwrap_or(index), sample))
    }
}

/// One metric of one command against another's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Compared {
    /// Name of the command compared with, or `baseline: NAME`.
    pub(crate) base: String,
    /// Name of the command that is judged.
    pub(crate) other: String,
    pub(crate) metric: String,
    /// other / base; null when it is infinite.
    pub(crate) ratio: Option<f64>,
    /// Ratio of the medians; null when it is infinite. `ratio` is the middle of the ratios round by round (of all pairs
    /// of runs, with a baseline), which is what is compared.
    #[serde(default)]
    pub(crate) median_ratio: Option<f64>,
    /// Of the ratio; null without enough values, an infinite end is null.
    pub(crate) interval: Option<(Option<f64>, Option<f64>)>,
    pub(crate) confidence: f64,
    /// Two-sided; null when no test was needed (exact counts) or possible.
    pub(crate) p: Option<f64>,
    /// The same, adjusted for what is judged together (Holm); null where the metric is only described.
    pub(crate) p_adjusted: Option<f64>,
    /// `faster`, `slower`, `fewer`, `more`, `smaller`, `larger`, `same`, `undecided`,
    /// `lower`, `higher`, `n too small`, `incomparable`, `described` (no verdict was asked for).
    pub(crate) verdict: String,
    /// The verdict in full.
    pub(crate) explanation: String,
    /// Which direction is worse: `higher`, `lower`; null where neither is.
    #[serde(default)]
    pub(crate) worse: Option<String>,
    /// Changes within ± this share are called the same.
    pub(crate) floor: f64,
    /// Both sides are exact counts: all samples of each side (at least five) are equal.
    pub(crate) exact: bool,
}

/// What one gate says about one comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GateRow {
    pub(crate) metric: String,
    /// The largest change that passes, as a share.
    pub(crate) limit: f64,
    /// Name of the command compared with.
    pub(crate) base: Option<String>,
    /// Name of the command that is judged.
    pub(crate) other: Option<String>,
    /// `passed`, `regressed`, `undecided`, `incomparable`.
    pub(crate) outcome: String,
    /// Why, in full.
    pub(crate) explanation: String,
}

/// A map that keeps its order, as an object in JSON.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Map<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Map<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.0
            .iter()
            .find_map(|(key, value)| (key == name).then_some(value))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
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

    #[test]
    fn maps_keep_their_order() {
        let map: Map<u32> = serde_json::from_str(r#"{"b":1,"a":2}"#).unwrap();
        assert_eq!(map.get("a"), Some(&2));
        assert_eq!(serde_json::to_string(&map).unwrap(), r#"{"b":1,"a":2}"#);
    }
}
