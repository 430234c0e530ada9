//! The result of `bench` as a document: schema `truecount.bench/2` (`docs/schemas/bench.json`).
//! The same document is what `--save` writes and `--baseline` reads.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use truecount_run::calls::CallTree;
use truecount_run::calls::diff::CallDiff;
use truecount_run::compare::{GateRow, Pair};
use truecount_run::env_record::Environment;
use truecount_run::rounds::{Command, Profile};
use truecount_stats::Worse;

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
    /// The suite that was measured; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) suite: String,
    /// What the suite declares: `machine`, `compiler`, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) declared: BTreeMap<String, String>,
    /// Where the counts of commands were spent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) profiles: Vec<Profile>,
    /// What paths of calls cost in each command, against the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<PathsCompared>,
}

/// The paths of calls that differ in two commands.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PathsCompared {
    /// Name of the command compared with.
    pub(crate) base: String,
    /// Name of the other.
    pub(crate) other: String,
    pub(crate) calls_diff: CallDiff,
}

impl PathsCompared {
    /// Every command against the first; `trees` in the order of the commands.
    pub(super) fn of(commands: &[Command], trees: &[CallTree]) -> Vec<Self> {
        let mut all = commands.iter().zip(trees);
        let Some((base, first)) = all.next() else {
            return Vec::new();
        };
        all.map(|(other, tree)| Self {
            base: base.name.clone(),
            other: other.name.clone(),
            calls_diff: CallDiff::of(first, tree).reduced(),
        })
        .collect()
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
    /// Both sides are exact counts: counts (no times, no accounts of the kernel), and all samples of each side (at
    /// least five) are equal.
    pub(crate) exact: bool,
}

impl From<&Pair> for Compared {
    fn from(pair: &Pair) -> Self {
        let finite = |value: f64| value.is_finite().then_some(value);
        let comparison = pair.comparison;
        let judged = pair.judged.as_ref();
        let verdict = match judged {
            Some(judged) if pair.reasons.is_empty() => judged.verdict.word(pair.wording),
            _ => "incomparable",
        };
        Self {
            base: pair.base.clone(),
            other: pair.other.clone(),
            metric: pair.metric.clone(),
            ratio: comparison.and_then(|c| finite(c.ratio)),
            median_ratio: comparison.and(pair.median_ratio),
            interval: comparison
                .and_then(|c| c.interval)
                .map(|(low, high)| (finite(low), finite(high))),
            confidence: comparison.map_or(0.95, |c| c.confidence),
            p: comparison.and_then(|c| finite(c.p)),
            p_adjusted: judged
                .filter(|_| !matches!(verdict, "described" | "incomparable"))
                .map(|judged| judged.p_adjusted),
            verdict: verdict.to_owned(),
            explanation: pair.explanation.clone(),
            worse: pair.worse.map(|worse| match worse {
                Worse::Higher => "higher".to_owned(),
                Worse::Lower => "lower".to_owned(),
            }),
            floor: judged.map_or(0.0, |judged| judged.floor),
            exact: pair.is_exact(),
        }
    }
}
